"""``segue status``: whether the daemon runs, and what it does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from segue.cli.render.output import answer, say, say_json
from segue.system import clock

if TYPE_CHECKING:
    from segue.app.daemon_file import DaemonFile
    from segue.server.presence import DaemonStatus

MB = 1024 * 1024


@click.command("status", short_help="Show whether the daemon runs.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object; null if no daemon runs.")
@click.option("--link", is_flag=True, help="Print only a link that logs a browser in, once.")
def command(as_json: bool, link: bool) -> int:
    """Show whether the daemon of this SEGUE_HOME runs: its address, its memory, its runs.

    The exit code is 1 if no daemon runs.
    """
    from segue.config.home import home_of
    from segue.server import presence

    home = home_of(os.environ, Path.cwd())
    told, health = presence.look(home)
    if told is None or health is None:
        if as_json:
            say_json(None)
        busy = f"The daemon (pid {told.pid}) {_why(told)}." if told is not None else None
        say(busy or "No daemon is running; segue serve starts one.", err=True)
        return 1
    if link:
        answer(f"{presence.login_link(home).url}\n")
        return 0
    status = presence.status(home)
    if as_json:
        say_json(status)
        return 0
    for line in lines(status, clock.now_ms()):
        say(line)
    return 0


def _why(told: DaemonFile) -> str:
    return "is ending: it finishes its runs" if told.stopping else "does not answer"


def lines(status: DaemonStatus, now_ms: int) -> Iterator[str]:
    from segue import __version__

    yield f"{status.url}  pid {status.pid}  version {status.version}"
    memory = f", {status.memory / MB:.0f} MB of memory" if status.memory is not None else ""
    yield f"running for {duration(now_ms - status.started)}{memory}"
    runs = ", ".join(
        f"{count} {state.replace('_', ' ')}" for state, count in sorted(status.runs.items()) if count
    )
    yield f"runs: {runs or 'none'}"
    if status.questions:
        yield f"questions: {status.questions} (segue answer lists them)"
    if status.version != __version__:
        yield f"This is segue {__version__}: restart the daemon with segue stop and segue serve --background."


def duration(ms: int) -> str:
    """``3 h 20 min``: the two largest units."""
    minutes, seconds = divmod(max(ms, 0) // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    units = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")]
    first = next((at for at, (count, _) in enumerate(units) if count), 3)
    return " ".join(f"{count} {unit}" for count, unit in units[first : first + 2] if count) or "0 s"
