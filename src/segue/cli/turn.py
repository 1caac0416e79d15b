"""Runs a turn for the command line: through the daemon if one can be used, else in this process.

Both print the same and end with the same exit code.
"""

from __future__ import annotations

import os

from segue.cli.caller import gather_prompt
from segue.cli.render.output import say
from segue.cli.turn_options import turn_options
from segue.client import DaemonLost, find_daemon, may_start
from segue.core.ids import conversation_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from segue.app.ready_turn import Options
    from segue.cli.render.screen import Screen


class Lost:
    """A turn whose daemon went away."""

    def __init__(self, run: str, screen: Screen | None, events: int, signals: Callable[[], int]) -> None:
        self.run = run
        self.screen = screen
        """Where it was shown."""
        self.events = events
        """How many of its events were shown."""
        self.signals = signals
        """How often it was cancelled here until now."""


def run_turn(key: str, text: str | None, given: dict[str, Any], native: tuple[str, ...]) -> int:
    """``segue run``: send a message, which is ``text`` and what was piped in. Returns the exit code."""
    key = conversation_key(key)
    shown = {name: given.pop(name) for name in ("as_json", "events", "quiet")}
    use_stdin, daemon = not given.pop("no_stdin"), not given.pop("no_daemon")
    queue, at = given.pop("queue"), given.pop("at")
    options = turn_options(given, native)
    prompt = gather_prompt(text, use_stdin=use_stdin)
    if queue or at is not None:
        from segue.cli.turn_queued import queue_turn

        return queue_turn(key, prompt, options, at, **shown)
    return run_live(key, prompt, options, use_stdin=use_stdin, daemon=daemon, **shown)


def run_live(
    key: str,
    text: str | None,
    options: Options,
    *,
    message: str | None = None,
    as_json: bool,
    events: bool,
    quiet: bool,
    use_stdin: bool = True,
    daemon: bool = True,
    continues: bool = False,
) -> int:
    """Run the turn and print it. Returns the exit code.

    ``text`` None: retry the user message ``message`` (None: the last one). ``continues``: the user has named
    the native session that the conversation continues.
    """
    shown = {"as_json": as_json, "events": events, "quiet": quiet}
    code, lost = (
        _remote(key, text, options, message, use_stdin, continues, **shown) if daemon else (None, None)
    )
    if code is not None:
        return code
    from segue.cli.quick_start import load_msgspec

    load_msgspec()
    from segue.cli.turn_live import run_here

    return run_here(
        key, text, options, message=message, use_stdin=use_stdin, continues=continues, lost=lost, **shown
    )


def _remote(
    key: str,
    text: str | None,
    options: Options,
    message: str | None,
    use_stdin: bool,
    continues: bool,
    **shown: bool,
) -> tuple[int | None, Lost | None]:
    """The exit code, if a daemon ran the turn; and what is known of it, if a daemon went away that may have
    begun it."""
    daemon = find_daemon(os.environ)
    if daemon is None and may_start(os.environ):
        from segue.cli.daemon_start import daemon_if_wanted

        daemon = daemon_if_wanted(quiet=shown["quiet"])
    if daemon is None:
        return None, None
    if isinstance(daemon, str):
        if not shown["quiet"]:
            say(f"segue: {daemon}", err=True)
        return None, None
    if not shown["quiet"] and (outdated := daemon.outdated):
        say(f"segue: {outdated}", err=True)
    from segue.cli.turn_remote import RemoteTurn, remote_call

    events, quiet = shown["events"], shown["quiet"]
    call = remote_call(key, text, options, message=message, events=events, quiet=quiet, stdin=use_stdin)
    turn = RemoteTurn(daemon, {**call, "continues": True} if continues else call, **shown)
    try:
        return turn.run(), None
    except DaemonLost:
        return None, Lost(str(call["run"]), turn.screen, turn.shown, lambda: turn.signals)
