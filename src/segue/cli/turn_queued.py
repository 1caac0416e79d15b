"""``segue run --queue``: stores a run for the daemon, and returns."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from segue.cli.change import change
from segue.cli.render.output import answer, say, say_json

if TYPE_CHECKING:
    from segue.app.ready_turn import Options


def queue_turn(
    key: str, text: str, options: Options, at: str | None, *, as_json: bool, events: bool, quiet: bool
) -> int:
    """Queue the run and print its id. ``at``: do not start it before."""
    from segue.cli.moments import parse_moment
    from segue.client import Daemon, find_daemon, inherited, may_start

    not_before = parse_moment(at) if at is not None else None
    given: dict[str, Any] = {"key": key, "message": text, "options": options, "not_before": not_before}
    run = change("queue", quiet=quiet, **given, inherited=inherited())
    if as_json or events:
        say_json(run)
    else:
        answer(run["run"] + "\n")
    daemon = find_daemon(os.environ)
    if daemon is None and may_start(os.environ):
        from segue.cli.daemon_start import daemon_if_wanted

        daemon = daemon_if_wanted(quiet=quiet, otherwise="")
    if quiet:
        return 0
    if not isinstance(daemon, Daemon):
        say(f"segue: no daemon runs; start one with segue serve, or use: segue queue run {key}", err=True)
    return 0
