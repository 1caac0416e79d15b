"""``segue serve``: the daemon, in the foreground or in the background."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import click

from segue.cli.options import Amount
from segue.cli.render.output import say
from segue.core.errors import Broken, InUse, Misuse, SegueError, StoreAway

START_S = 15.0
"""How long a daemon may take to start."""
POLL_S = 0.02
KINDS: dict[int, type[SegueError]] = {2: Misuse, 75: InUse}


@click.command("serve", short_help="Start the daemon.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="The port on 127.0.0.1 (default: a free one)."
)
@click.option("--background", is_flag=True, help="Return when it listens; log to daemon.log in SEGUE_HOME.")
@click.option("--log-json", is_flag=True, help="Log one JSON object per line.")
@click.option(
    "--idle-exit", type=Amount(min=0, min_open=True), metavar="SECONDS", help="End when unused for this long."
)
@click.option("--detached", is_flag=True, hidden=True)
def command(port: int, background: bool, log_json: bool, idle_exit: float | None, detached: bool) -> None:
    """Start the daemon: the HTTP API on 127.0.0.1, and the queue of runs.

    There is one daemon per SEGUE_HOME. Its address is in daemon.json there, its token in the file token. The
    link that is printed logs a browser in, once; segue status --link prints a new one.

    Ctrl-C or segue stop ends it when running turns have finished, at most 30 seconds later.
    """
    if background:
        _start_in_background(port, log_json, idle_exit)
        return
    from segue.server.daemon import Options, serve

    options = Options(port=port, log_json=log_json, log_file=detached, idle_exit_s=idle_exit)
    serve(os.environ, Path.cwd(), options, _leave_terminal if detached else _announce)


def _announce(url: str, link: str) -> None:
    say(f"Listening on {url} (pid {os.getpid()}). Ctrl-C ends it.")
    say(f"Open in a browser: {link}")


def _leave_terminal(url: str, link: str) -> None:
    """The parent has read what went wrong while it started; from now on the log file says it."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _start_in_background(port: int, log_json: bool, idle_exit: float | None) -> None:
    """Start the daemon in a session of its own, and wait until it answers."""
    from segue.config.home import home_of
    from segue.server import presence

    home = home_of(os.environ, Path.cwd())
    words = ["--detached", "--port", str(port)]
    words += ["--log-json"] if log_json else []
    words += ["--idle-exit", str(idle_exit)] if idle_exit is not None else []
    started = subprocess.Popen(
        [sys.executable, "-m", "segue", "serve", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    until = time.monotonic() + START_S
    while True:
        told, health = presence.look(home)
        if told is not None and health is not None and told.pid == started.pid:
            say(f"Listening on {told.url} (pid {told.pid}). segue stop ends it.")
            say("segue status --link prints a link for the browser.")
            return
        if started.poll() is not None:
            _, errors = started.communicate()
            raise _reason(errors.decode("utf-8", "replace"), started.returncode)
        if time.monotonic() > until:
            started.terminate()
            raise StoreAway(f"the daemon did not start within {START_S:.0f} s; see {presence.log_of(home)}")
        time.sleep(POLL_S)


def _reason(errors: str, code: int) -> SegueError:
    """What the daemon said before it ended."""
    said = [line.removeprefix("segue: ") for line in errors.splitlines() if line.startswith("segue: ")]
    return KINDS.get(code, Broken)(said[-1] if said else f"the daemon ended at once, with exit code {code}")
