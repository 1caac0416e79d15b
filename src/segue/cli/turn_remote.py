"""Lets the daemon run a turn, and shows it as if this process ran it."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping

from segue.cli.caller import can_answer
from segue.cli.refusal import Elsewhere, refusal
from segue.cli.render.output import escaped_json, print_line, say
from segue.client import TURNS, Daemon, DaemonLost, RemoteCancel, find_daemon, inherited
from segue.system import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from segue.cli.render.remote_screen import RemoteScreen
    from segue.cli.render.screen import Screen

CANCELLED = 130
ANOTHER_S = 5.0
"""How long is waited for another daemon after one went away."""
POLL_S = 0.05
SOON_S = 0.1
"""How long a signal waits for the daemon's answer."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class RemoteTurn:
    """A turn that the daemon runs. The first Ctrl-C (or TERM, or HUP) cancels it, the second kills it."""

    def __init__(
        self, daemon: Daemon, call: dict[str, Any], *, as_json: bool, events: bool, quiet: bool
    ) -> None:
        self._daemon, self._call = daemon, call
        self._as_json, self._quiet = as_json or events, quiet
        self._events = events
        self._screen: RemoteScreen | None = None
        self.signals = 0
        """How often it was cancelled here."""
        self.shown = 0
        """How many of its events were shown."""
        self._cancelling = RemoteCancel(daemon, str(call["run"]))
        self._noted = False
        self._exit, self._number = 1, None
        self._ready: dict[str, Any] = {}

    def run(self) -> int | None:
        """The exit code; None: the daemon cannot do it, and has not begun it."""
        handlers = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        try:
            for line in self._daemon.call(TURNS, self._call, self._tick):
                if (code := self._take(line)) is not None:
                    return code
            raise DaemonLost(bool(self._ready))
        except Elsewhere as elsewhere:
            if not self._quiet:
                say(f"segue: {elsewhere}; running this without it", err=True)
            return None
        except DaemonLost as lost:
            if lost.begun:
                self._await_another()
            raise
        except BrokenPipeError:  # the reader has gone: nobody wants the rest
            self._on_signal()
            self._insist()
            raise
        finally:
            if not isinstance(sys.exception(), DaemonLost):  # then this process goes on with it
                if self._screen is not None:
                    self._screen.close()
                for number, handler in handlers.items():
                    signal.signal(number, handler)

    @property
    def screen(self) -> Screen | None:
        """Where it was shown, for whoever goes on showing it."""
        return self._screen.behind if self._screen is not None else None

    def _await_another(self) -> None:
        """The daemon went away: give another one a moment to follow the turn. If there is none, or the turn
        is cancelled, this process does."""
        until, mine = time.monotonic() + ANOTHER_S, self._daemon.told["pid"]
        while time.monotonic() < until and not self.signals:
            found = find_daemon(os.environ)
            if isinstance(found, Daemon) and (found.told["pid"] != mine or found.answers()):
                return
            self._tick()
            time.sleep(POLL_S)

    def _take(self, line: bytes) -> int | None:
        self._cancelling.pass_on()
        if line.startswith(b'{"schema"'):
            return self._end(line)
        frame = json.loads(line)
        match frame["frame"]:
            case "ready":
                self._ready = frame
                self._open_screen()
            case "notice":
                self._tell(frame["text"])
            case "event":
                self.shown += 1
                self._show(line)
            case "ended":
                self._exit, self._number = frame["exit"], frame.get("number")
            case "refused":
                raise refusal(frame)
        return None

    def _open_screen(self) -> None:
        if self._quiet and not self._events:
            return
        from segue.cli.quick_start import load_msgspec

        load_msgspec()
        from segue.cli.render.remote_screen import RemoteScreen

        self._screen = RemoteScreen(
            self._daemon, self._ready, self._call, quiet=self._quiet, as_json=self._as_json
        )
        for mention in self._ready.get("mentions", ()):
            self._note(f"segue: {mention}")

    def _show(self, line: bytes) -> None:
        if self._screen is not None:
            self._screen.event(line, printed=self._events)

    def _note(self, text: str) -> None:
        if self._screen is not None:
            self._screen.note(text)

    def _tell(self, notice: str) -> None:
        if self._screen is not None:
            self._screen.notice(notice)

    def _note_cancelling(self) -> None:
        if self.signals and not self._noted:
            self._noted = True
            self._note("Cancelling… (press Ctrl-C again to kill it)")

    def _tick(self) -> None:
        self._cancelling.pass_on()
        self._note_cancelling()
        if self._screen is not None:
            self._screen.tick()

    def _on_signal(self, *_: object) -> None:
        self.signals += 1
        self._cancelling.asked = self.signals
        self._cancelling.pass_on(SOON_S)

    def _insist(self) -> None:
        """Wait until the daemon has heard it: this process ends."""
        until = time.monotonic() + ANOTHER_S
        while not self._cancelling.accepted and time.monotonic() < until:
            self._cancelling.pass_on(SOON_S)
            time.sleep(POLL_S)

    def _end(self, line: bytes) -> int:
        """Print the result, as ``turn_live`` does."""
        self._note_cancelling()
        code = CANCELLED if self.signals and self._exit == 75 else self._exit
        if self._as_json and self._quiet and code == 0:
            print_line(escaped_json(line))
        else:
            from segue.cli.render.remote_screen import print_remote

            ready, screen = self._ready, self._screen
            code = print_remote(line, ready, self._number, screen, code, as_json=self._as_json)
        if sys.stdout.isatty():
            self._mark_read(line)
        return code

    def _mark_read(self, line: bytes) -> None:
        """The user has seen the answer."""
        from urllib.parse import quote

        key = quote(json.loads(line)["conversation"], safe="")
        self._daemon.post(f"/api/v1/conversations/{key}/read")


def remote_call(
    key: str,
    text: str | None,
    options: Mapping[str, Any],
    *,
    message: str | None,
    events: bool,
    quiet: bool,
    stdin: bool,
) -> dict[str, Any]:
    """The call for the daemon. The run's id is drawn here, so that the run can be found whatever happens."""
    return {
        "run": clock.new_id(),
        "key": key,
        "text": text,
        "message": message,
        "options": {name: value for name, value in options.items() if value is not None},
        "cwd": os.getcwd(),
        "env": dict(os.environ),
        "inherited": inherited(),
        "answers": stdin and not quiet and can_answer(),
        "events": events or not quiet,
    }
