"""``segue sessions check``: what is wrong with a session, before resuming it costs money."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from segue.cli.render.output import prose_width, say, say_json
from segue.cli.render.table import wrapped

if TYPE_CHECKING:
    from segue import Finding

MARKS = {"ok": "✓", "warning": "!", "error": "✗"}


@click.command("check", short_help="Check whether a resume would fail or cost too much.")
@click.argument("session", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def command(session: str, as_json: bool) -> int:
    """Check a session for anything that would make a resume fail, go wrong or cost too much.

    Each finding says what it means and what to do. Nothing is changed. The exit code is 1 if a resume would
    fail or would send broken data to the model.
    """
    from segue.app import native, upkeep
    from segue.cli.caller import open_here
    from segue.cli.render.output import progress

    with open_here() as workspace:
        found = native.find(workspace, session)
        with progress("reading", found.size) as on_progress:
            report = upkeep.check(found, on_progress)
    if as_json:
        say_json(report)
    else:
        say(f"{report.agent} · {report.session}")
        for line in lines(report.findings, prose_width(sys.stdout)):
            say(line)
    return 0 if report.sound else 1


def lines(findings: Sequence[Finding], width: int) -> Iterator[str]:
    """Each problem with what to do; then the checks that passed."""
    for each in findings:
        if each.level == "ok":
            continue
        where = f" (at {', '.join(each.where)})" if each.where else ""
        yield from wrapped(each.means + where, width, 2, f"{MARKS[each.level]} {each.check}: ")
        if each.do:
            yield from wrapped(each.do, width, 6, "    → ")
    fine = [each.check for each in findings if each.level == "ok"]
    if fine:
        yield from wrapped(", ".join(fine), width, 2, f"{MARKS['ok']} ")
