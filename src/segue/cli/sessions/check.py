"""``segue sessions check``: what is wrong with a session, before it costs money."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from segue.cli.render.output import prose_width, say, say_json
from segue.cli.render.table import wrapped

if TYPE_CHECKING:
    from segue.sessions.check import Finding

MARKS = {"ok": "✓", "warning": "!", "error": "✗"}


@click.command("check", short_help="Check whether a resume would fail or cost too much.")
@click.argument("session", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def command(session: str, as_json: bool) -> int:
    """Check a session for anything that would make a resume fail, go wrong or cost too much.

    Each finding says what it means and what to do. Nothing is changed. Exit code 1: a resume would fail, or
    the agent would be sent something broken.
    """
    from segue.app.segue import store_at_home
    from segue.cli.options import find_session
    from segue.cli.render.output import progress
    from segue.sessions.catalog import SessionCatalog
    from segue.sessions.check import Seen, check, facts_of, torn

    with store_at_home(os.environ) as store:
        shelf = SessionCatalog(os.environ, store, Path.cwd())
        found = find_session(shelf, store, session)
        seen, reader = Seen(), found.place.reader
        with progress("reading", found.stored.size) as went:
            for record in reader.read(found.stored):
                seen.look(record.entries)
                went(record.next)
        seen.look(torn(reader, found.stored))
        facts = facts_of(shelf, found)
        findings = check(facts, seen)
    sick = any(each.level == "error" for each in findings)
    if as_json:
        told = {
            "schema": 1,
            "session": found.id,
            "agent": found.place.agent,
            "sound": not sick,
            "load": facts.load,
            "findings": findings,
        }
        say_json(told)
    else:
        _print(found.id, found.place.agent, findings)
    return 1 if sick else 0


def _print(session: str, agent: str, findings: list[Finding]) -> None:
    say(f"{agent} · {session}")
    for line in lines(findings, prose_width(sys.stdout)):
        say(line)


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
