"""``segue serve``: the daemon, in the foreground or in the background."""

from __future__ import annotations

import os
from pathlib import Path

import click

from segue.cli.options import Amount
from segue.cli.render.output import say


@click.command("serve", short_help="Start the daemon.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="The port on 127.0.0.1 (default: [daemon] port, else a free one).",
)
@click.option("--background", is_flag=True, help="Return when it listens; log to daemon.log in SEGUE_HOME.")
@click.option("--log-json", is_flag=True, help="Log one JSON object per line.")
@click.option(
    "--idle-exit",
    type=Amount(min=0, min_open=True),
    metavar="SECONDS",
    help="End when unused for this long (default: [daemon] idle_exit, else never).",
)
@click.option("--detached", is_flag=True, hidden=True)
def command(
    port: int | None, background: bool, log_json: bool, idle_exit: float | None, detached: bool
) -> None:
    """Start the daemon: the HTTP API on 127.0.0.1, and the queue of runs.

    There is one daemon per SEGUE_HOME. Its address is in daemon.json there, its token in the file token. The
    link that is printed logs a browser in, once; segue status --link prints a new one.

    Ctrl-C or segue stop ends it when running turns have finished, at most 30 seconds later.
    """
    if background:
        _start_in_background(port, log_json, idle_exit)
        return
    from segue.config.load import own_config
    from segue.server.daemon import Options, serve

    own = own_config(os.environ).daemon
    options = Options(
        port=own.port if port is None else port,
        log_json=log_json,
        log_file=detached,
        idle_exit_s=own.idle_exit if idle_exit is None else idle_exit,
    )
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


def _start_in_background(port: int | None, log_json: bool, idle_exit: float | None) -> None:
    """Start the daemon in a session of its own, and wait until it answers."""
    from segue.cli.daemon_start import start_detached
    from segue.config.home import home_of

    words = ["--port", str(port)] if port is not None else []
    words += ["--log-json"] if log_json else []
    words += ["--idle-exit", str(idle_exit)] if idle_exit is not None else []
    told = start_detached(home_of(os.environ, Path.cwd()), os.environ, Path.cwd(), words)
    say(f"Listening on {told.url} (pid {told.pid}). segue stop ends it.")
    say("segue status --link prints a link for the browser.")
