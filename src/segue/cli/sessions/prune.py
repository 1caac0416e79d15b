"""``segue sessions prune``: show sessions that are no longer needed, or delete them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from segue.cli.options import Amount
from segue.cli.render.output import agreed, say, say_json, width_of
from segue.cli.render.table import positions
from segue.core.usage import count_in_words
from segue.system import clock

if TYPE_CHECKING:
    from segue.app.upkeep import PrunePlan, PruneResult, PruneRow


class Row(NamedTuple):
    """The columns, in this order."""

    agent: str
    session: str
    size: str
    last_used: str
    conversation: str
    title: str


HEAD = Row(*(name.replace("_", " ") for name in Row._fields))
RIGHT = positions(Row._fields, "size", "last_used")
LEAST = positions(Row._fields, "conversation")
"""The column that is left out on a narrow terminal."""


@click.command("prune", short_help="Delete sessions that are no longer needed.")
@click.option(
    "--days",
    metavar="N",
    type=Amount(min=0),
    help="Only sessions not used for N days (default: [retention] days, 7).",
)
@click.option(
    "--larger-than", "larger", metavar="MB", type=Amount(min=0), help="Only sessions larger than this."
)
@click.option(
    "--agent", "agents", metavar="A", multiple=True, help="Only sessions of this agent. Repeatable."
)
@click.option("--cwd", metavar="D", type=click.Path(), help="Only sessions of this project directory.")
@click.option(
    "--keep-last",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    help="Keep the newest N sessions of each conversation.",
)
@click.option("--all-sessions", is_flag=True, help="Include sessions that Segue did not make.")
@click.option(
    "--confirm",
    metavar="CODE",
    help="Confirm --all-sessions without a terminal, with the code from the error message.",
)
@click.option("--yes", is_flag=True, help="Delete the sessions instead of only showing them.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def command(
    days: float | None,
    larger: float | None,
    agents: tuple[str, ...],
    cwd: str | None,
    keep_last: int,
    all_sessions: bool,
    confirm: str | None,
    yes: bool,
    as_json: bool,
) -> int:
    """Show the sessions that are no longer needed, and the space they take; --yes deletes them.

    These are sessions that Segue made, that no conversation would continue, and that were not used for a week
    ([retention] days), and the private homes of runs that are over. A session that a conversation would
    continue, that is running, or that you named is never deleted.
    """
    import msgspec

    from segue.app import upkeep
    from segue.cli.caller import open_here
    from segue.cli.change import change

    rules: dict[str, Any] = {
        "days": days,
        "larger_than": larger,
        "agents": agents,
        "cwd": cwd,
        "keep_last": keep_last,
        "all_sessions": all_sessions,
    }
    with open_here() as workspace:
        plan = upkeep.plan_prune(workspace, **rules)
    if not yes:
        _show(plan, as_json)
        return 0
    _confirm(plan, confirm)
    done = msgspec.convert(change("sessions prune", rules=rules, confirm=plan.code), upkeep.PruneResult)
    _print(done, plan.names, as_json)
    return 1 if done.report.failed else 0


def _confirm(plan: PrunePlan, confirm: str | None) -> None:
    """Show the sessions that Segue did not make, and ask before they are deleted."""
    foreign = plan.foreign
    if not foreign or confirm == plan.code:
        return
    for line in lines(foreign, width_of(sys.stderr), plan.names):
        say(line, err=True)
    if confirm is None and sys.stdin.isatty():
        these = "this session" if len(foreign) == 1 else f"these {len(foreign):,} sessions"
        if agreed(f"Delete {these}, which Segue did not make?"):
            return
        raise click.Abort
    plan.refuse_unconfirmed(confirm)


def _show(plan: PrunePlan, as_json: bool) -> None:
    from segue.cli.render import words

    report = plan.report()
    if as_json:
        say_json(report)
        return
    for line in lines(plan.rows, width_of(sys.stdout), plan.names):
        say(line)
    for home in report.homes:
        say(f"{home}: the private home of a run that is over")
    kept = f"; {count_in_words(plan.kept, 'session')} kept" if plan.kept else ""
    if not report.sessions and not report.homes:
        say(f"Nothing to delete{kept}.", err=True)
        return
    count = count_in_words(len(report.sessions), "session")
    say(f"{count}, {words.size(report.freed)} would be freed{kept}.", err=True)
    say("To delete, run the same command with --yes.", err=True)


def _print(done: PruneResult, names: Mapping[str, str], as_json: bool) -> None:
    from segue.cli.render import words

    if as_json:
        say_json(done.report)
    for session, why in done.stays:
        say(f"segue: {session} stays: {why}", err=True)
    if not as_json:
        for line in lines(done.rows, width_of(sys.stdout), names):
            say(line)
        say(f"{count_in_words(len(done.rows), 'session')} deleted, {words.size(done.report.freed)} freed.")


def lines(
    rows: Sequence[PruneRow], width: int, names: Mapping[str, str], now_ms: int | None = None
) -> Iterator[str]:
    """A table of the sessions; nothing if there are none."""
    from segue.cli.render import table

    now = clock.now_ms() if now_ms is None else now_ms
    shown = [HEAD, *(_row(row, now, names) for row in rows)]
    yield from table.table_lines(shown, width, right=RIGHT, least=LEAST) if rows else ()


def _row(row: PruneRow, now: int, names: Mapping[str, str]) -> Row:
    from segue.cli.render import words
    from segue.cli.render.dialogue import age

    session = row.shown
    return Row(
        agent=session.agent,
        session=names.get(session.id, session.id[:8]),
        size=words.size(session.size),
        last_used=age(row.used_ms, now),
        conversation=session.conversation or "–" if session.ours else "not Segue's",
        title=words.one_line(row.title),
    )
