"""``segue sessions repair``: write a repaired copy of a session beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from segue import RepairReport


@click.command("repair", short_help="Write a repaired copy of a session beside it.")
@click.argument("session", metavar="ID")
@click.option("--trim", is_flag=True, help="Drop tool output and images; keep the dialogue.")
@click.option("--since", metavar="EVENT", help="Begin at this event (segue sessions show lists the ids).")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def command(session: str, trim: bool, since: str | None, as_json: bool) -> None:
    """Write a new session beside the old one, without the problems that segue sessions check reports.

    The original is not changed. The copy is read back and, if the agent's CLI is installed, resumed in a
    rehearsal that costs nothing. A conversation that used the session continues with the copy if it contains
    exactly the same messages.
    """
    import msgspec

    from segue.app.session_shapes import RepairReport
    from segue.cli.change import change
    from segue.cli.render.output import say, say_json

    repaired, told = change("sessions repair", session=session, trim=trim, since=since)
    report = msgspec.convert(told, RepairReport)
    if as_json:
        say_json(report)
        return
    if report.session == repaired:
        say("Nothing to repair; the session is unchanged.", err=True)
        return
    say(report.session)
    for line in _words(report):
        say(line, err=True)


def _words(report: RepairReport) -> list[str]:
    from segue.cli.render import words

    lines = [f"  {done}" for done in report.done] or ["  the agent's own notes were left out"]
    lines.append(f"  {words.size(report.size_before)} before, {words.size(report.size)} now")
    if report.rehearsed:
        lines.append("  verified: read back, and resumed in a rehearsal")
    else:
        lines.append(f"  verified: read back; not rehearsed ({report.why_not})")
    lines += [f"  still: {each.means}" for each in report.findings]
    if report.stays is not None:
        lines.append(f"  its conversation does not continue with the copy: {report.stays}")
    if report.conversation is not None:
        lines.append(f"  {report.conversation} continues with it: segue run {report.conversation}")
    else:
        lines.append(f"  continue with it: segue sessions continue {report.session[:8]}")
    return lines
