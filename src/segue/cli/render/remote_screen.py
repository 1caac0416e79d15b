"""Shows a turn that the daemon runs. Loaded while the agent works, if anything is shown at all."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import msgspec

from segue.app.frames import Happened
from segue.cli.render import screen as screens
from segue.cli.render.output import escaped_json, say_json
from segue.cli.render.result import Facts, print_result, written
from segue.client import Daemon
from segue.core import events as ev
from segue.core.turn import Turn

if TYPE_CHECKING:
    from segue.app.ready_turn import Answer
    from segue.cli.question import QuestionForm

LOOK_S = 1.0
"""How often to look whether somebody else has answered."""


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
        self._asked: SimpleQueue[ev.Question | ev.Permission] = SimpleQueue()
        self._asker: threading.Thread | None = None

    @property
    def shown(self) -> bool:
        """Whether the answer stands on stdout already."""
        return self._screen.shown

    def event(self, line: bytes, *, printed: bool) -> None:
        event = msgspec.json.decode(line, type=Happened).event
        self._screen.set_title(self._title)
        if self._answers and isinstance(event, ev.Question | ev.Permission):
            self._asked.put(event)
            if self._asker is None:
                self._asker = threading.Thread(target=self._ask_all, daemon=True)
                self._asker.start()
        else:
            self._screen.event(event)
        if printed and not self._full:
            self._full = written(partial(say_json, event)) is not None

    def _ask_all(self) -> None:
        """Ask one question after the other."""
        import anyio

        from segue.cli.question import QuestionForm

        form = QuestionForm(self._screen)
        while True:
            event = self._asked.get()
            if (given := anyio.run(self._given, form, event)) is not None:
                self._daemon.post(f"/api/v1/runs/{self._run}/tool-result", _body(event, given))

    async def _given(self, form: QuestionForm, event: ev.Question | ev.Permission) -> Answer | None:
        """What the user answers; None if somebody else was first, or the run has ended."""
        import anyio

        found: list[Answer] = []
        async with anyio.create_task_group() as tasks:

            async def ask() -> None:
                found.append(await form(event))
                tasks.cancel_scope.cancel()

            tasks.start_soon(ask)
            seen = False
            while True:
                await anyio.sleep(LOOK_S)
                told = await anyio.to_thread.run_sync(self._daemon.get, f"/api/v1/runs/{self._run}")
                run = msgspec.json.decode(told) if told else {}
                stands = any(each["id"] == event.id for each in run.get("questions", ()))
                if (seen and run and not stands) or run.get("turn") is not None:
                    break
                seen = seen or stands
            tasks.cancel_scope.cancel()
        return found[0] if found else None

    def notice(self, text: str) -> None:
        screens.show_notice(self._screen, self._title, text)

    def note(self, text: str) -> None:
        self._screen.note(text)

    def tick(self) -> None:
        self._screen.tick()

    def close(self) -> None:
        self._screen.close()


def _body(event: ev.Question | ev.Permission, given: Answer) -> dict[str, Any]:
    body: dict[str, Any] = {"tool_use_id": event.id}
    if isinstance(event, ev.Question) and given.allow:
        return body | {"answers": given.answers}
    if given.always:
        return body | {"always": True}
    return body | {"allow": given.allow, "content": given.message}


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
