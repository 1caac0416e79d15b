"""Shows a turn that the daemon runs. Loaded while the agent works, if anything is shown at all."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from segue.app.foreground import Happened
from segue.cli.render import screen as screens
from segue.cli.render.output import escaped_json, say_json
from segue.cli.render.result import Facts, print_result, written
from segue.client import Daemon
from segue.core import events as ev
from segue.core.turn import Turn


class RemoteScreen:
    """The screen of a turn, fed by the daemon. Questions are asked in a thread, one at a time."""

    def __init__(
        self, daemon: Daemon, ready: Mapping[str, Any], call: Mapping[str, Any], *, quiet: bool, as_json: bool
    ) -> None:
        self._daemon, self._run, key = daemon, ready["run"], call["key"]
        self._answers = bool(call["answers"])
        self._title = f"{ready['agent']} · {key}"
        self._screen = screens.open_screen(self._title, quiet=quiet, answer_on_stdout=not as_json)
        self.behind = self._screen
        self._full = False

    @property
    def shown(self) -> bool:
        """Whether the answer stands on stdout already."""
        return self._screen.shown

    def event(self, line: bytes, *, printed: bool) -> None:
        event = msgspec.json.decode(line, type=Happened).event
        self._screen.set_title(self._title)
        if self._answers and isinstance(event, ev.Question | ev.Permission):
            threading.Thread(target=self._ask, args=(event,), daemon=True).start()
        else:
            self._screen.event(event)
        if printed and not self._full:
            self._full = written(partial(say_json, event)) is not None

    def _ask(self, event: ev.Question | ev.Permission) -> None:
        import anyio

        from segue.cli.question import QuestionForm

        given = anyio.run(QuestionForm(self._screen), event)
        body: dict[str, Any] = {"tool_use_id": event.id}
        if isinstance(event, ev.Permission):
            body |= {"allow": given.allow, "content": given.message}
        else:
            body |= {"answers": given.answers} if given.allow else {"allow": False, "content": given.message}
        self._daemon.post(f"/api/v1/runs/{self._run}/tool-result", body)

    def notice(self, text: str) -> None:
        screens.show_notice(self._screen, self._title, text)

    def note(self, text: str) -> None:
        self._screen.note(text)

    def tick(self) -> None:
        self._screen.tick()

    def close(self) -> None:
        self._screen.close()


def print_remote(
    line: bytes,
    ready: Mapping[str, Any],
    number: int | None,
    screen: RemoteScreen | None,
    code: int,
    *,
    as_json: bool,
) -> int:
    """Print the result and the closing line. ``line``: the turn as JSON. Returns the exit code."""
    turn = msgspec.json.decode(line, type=Turn)
    if screen is not None:
        screen.close()
    facts = Facts(ready["label"], ready.get("model_from"), ready.get("directory"), number)
    quiet = screens.open_screen("", quiet=True, answer_on_stdout=not as_json)
    return print_result(turn, facts, screen or quiet, code, as_json=as_json, line=escaped_json(line))
