"""``segue stop``: ends the daemon."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import click

from segue.cli.options import Amount
from segue.cli.render.output import say
from segue.core.errors import InUse

POLL_S = 0.02
DEFAULT_S = 45.0
"""Running turns may take 30 seconds to finish."""


@click.command("stop", short_help="End the daemon.")
@click.option(
    "--timeout",
    type=Amount(min=0),
    default=DEFAULT_S,
    metavar="SECONDS",
    help=f"How long to wait until it has ended (default: {DEFAULT_S:.0f}).",
)
def command(timeout: float) -> None:
    """End the daemon of this SEGUE_HOME when its running turns have finished, at most 30 seconds later.

    Turns that are not finished by then are recovered by the next turn. The exit code is 75 if the daemon
    still runs after --timeout.
    """
    from segue.app.daemon_file import lives
    from segue.config.home import home_of
    from segue.server import presence

    home = home_of(os.environ, Path.cwd())
    told, _ = presence.look(home)
    if told is None:
        say("No daemon is running.", err=True)
        return
    if not told.stopping:  # a second signal would end it at once
        with suppress(ProcessLookupError):
            os.kill(told.pid, signal.SIGTERM)
    until = time.monotonic() + timeout
    while lives(home, told):
        if time.monotonic() > until:
            raise InUse(f"the daemon (pid {told.pid}) is still finishing its turns; try again later")
        time.sleep(POLL_S)
    say(f"The daemon (pid {told.pid}) has ended.", err=True)
