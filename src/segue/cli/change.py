"""Makes a change for the command line: through the daemon if one can be used, else in this process.

Both print the same and end with the same exit code.
"""

from __future__ import annotations

import json
import os
import time

from segue.cli.refusal import Elsewhere, refusal
from segue.cli.render.output import say
from segue.client import CHANGES, Daemon, DaemonLost, find_daemon
from segue.core.errors import DaemonUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BEGIN_S = 10.0
"""How long the daemon may take to begin."""
SILENT = "the daemon (pid {}) does not answer; try again after segue stop, or do without it: SEGUE_DAEMON=off"
UNSURE = "the daemon ended before it answered; this may have been done: look before you repeat it"


def change(name: str, /, *, quiet: bool = False, mentions: bool = False, **given: Any) -> Any:
    """Make the change of that name (see ``app/caller_changes.py``). Returns its result, in JSON's types.

    ``quiet``: without notices about the daemon. ``mentions``: also print which parts of the configuration
    have no effect; otherwise that was done before.
    """
    notice = daemon = find_daemon(os.environ)
    if isinstance(daemon, Daemon):
        notice = daemon.outdated
        if notice is not None and not quiet:
            say(f"segue: {notice}", err=True)
        try:
            return _remote(daemon, {"change": name, **given}, mentions)
        except Elsewhere as elsewhere:
            notice = f"{elsewhere}; running this without it"
        except DaemonLost as lost:
            if lost.begun:
                raise DaemonUnavailable(UNSURE) from None
            notice = None
    if notice is not None and not quiet:
        say(f"segue: {notice}", err=True)
    return _here(name, given, mentions)


def _remote(daemon: Daemon, change: dict[str, Any], mentions: bool) -> Any:
    """Let the daemon do it. Raises ``DaemonLost``; unless it had begun, nothing was done."""
    call = {"change": change, "cwd": os.getcwd(), "env": dict(os.environ)}
    begun, until = False, time.monotonic() + BEGIN_S

    def tick() -> None:
        if not begun and time.monotonic() > until:
            raise DaemonUnavailable(SILENT.format(daemon.told["pid"]))

    for line in daemon.call(CHANGES, call, tick):
        frame, begun = json.loads(line), True
        match frame["frame"]:
            case "begun":
                for mention in frame.get("mentions", ()) if mentions else ():
                    say(f"segue: {mention}", err=True)
            case "changed":
                return frame.get("result")
            case "failed":
                raise OSError(frame["errno"], frame["strerror"], frame.get("filename"))
            case "refused":
                raise refusal(frame)
    raise DaemonLost(begun)


def _here(name: str, given: dict[str, Any], mentions: bool) -> Any:
    from segue.cli.quick_start import load_msgspec

    load_msgspec()
    import anyio

    from segue.app.caller_changes import make_named
    from segue.cli.caller import open_here, say_mentions

    if mentions:
        say_mentions()
    with open_here() as workspace:
        return anyio.run(make_named, workspace, name, given)
