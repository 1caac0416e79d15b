"""``segue sessions check``: what is wrong with a session, before it costs money."""

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

    Each finding says what it means and what to do. Nothing is changed. Exit code 1: a resume would fail, or
    the agent would be sent something broken.
    """
    from segue.app import native, upkeep
    from segue.cli.options import open_here
    from segue.cli.render.output import progress

    with open_here() as workspace:
        found = native.find(workspace, session)
        with progress("reading", found.size) as went:
            report = upkeep.check(found, went)
    if as_json:
        say_json(report)
    else:
        say(f"{report.agent} · {report.session}")
        for line in lines(report.findings, prose_width(sys.stdout)):
            say(line)
    return 0 if report.sound else 1


def lines(findings: Sequence[Finding], width: int) -> Iterator[str]:
    """What is wrong, each with what to do; then all that is well."""
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
