"""``segue review``: a coder works, a reviewer judges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast, get_args

import click

from segue.cli.flow_options import FLOW_OPTIONS, with_options
from segue.cli.render.output import say, say_json
from segue.core.errors import Misuse
from segue.core.request import Posture

if TYPE_CHECKING:
    from segue.app.flow_shapes import FlowShown
    from segue.app.reviews import ReviewOptions, ReviewOrder, ReviewResult
    from segue.app.segue import Segue

POSTURES = click.Choice(get_args(Posture))
MEMORIES = ("resume", "fresh")
ROLES = ("coder", "reviewer", "coordinator")
WHO = (
    click.option("--coder", required=True, metavar="AGENT", help="The agent that works on the task."),
    click.option("--reviewer", required=True, metavar="AGENT", help="The agent that judges the changes."),
    click.option("--coordinator", metavar="AGENT", help="Gives guidance after two rejections in a row."),
    *(click.option(f"--{role}-model", metavar="MODEL", help=f"The {role}'s model.") for role in ROLES),
    *(click.option(f"--{role}-account", metavar="ACCOUNT", help=f"The {role}'s account.") for role in ROLES),
    click.option(
        "--permission", "coder_permission", type=POSTURES, help="What the coder may do.  [default: edit]"
    ),
    click.option("--reviewer-permission", type=POSTURES, help="What the reviewer may do.  [default: read]"),
)
HOW = (
    click.option(
        "--rounds", type=click.IntRange(1, 100), default=5, show_default=True, help="The most rounds."
    ),
    click.option(
        "--stalemate",
        type=click.IntRange(1, 100),
        default=2,
        show_default=True,
        help="End after this many rounds in a row that change nothing.",
    ),
    click.option(
        "--check",
        "checks",
        multiple=True,
        metavar="COMMAND",
        help="Run this after each turn of the coder, and show the reviewer its output. Repeatable.",
    ),
    click.option(
        "--check-timeout",
        "check_timeout_s",
        type=click.FloatRange(min=0, min_open=True),
        default=600.0,
        metavar="SECONDS",
        help="End a check that takes longer.  [default: 600]",
    ),
    click.option(
        "--fork-coder",
        is_flag=True,
        help="Let the reviewer begin with a fork of the coder's session, if both are the same agent.",
    ),
    click.option(
        "--memory",
        multiple=True,
        metavar="[ROLE=]HOW",
        help="resume: a role continues its session (default); fresh: each turn begins a new one."
        " For one role: reviewer=fresh.",
    ),
)


COMPARE = click.option(
    "--compare",
    is_flag=True,
    help="Run it twice in two new worktrees, with full prompts and with what is new, and compare the costs.",
)


@click.command("review", short_help="Let a coder work until a reviewer approves.")
@click.argument("task", metavar="TASK.md")
@with_options(*WHO, *HOW, COMPARE, *FLOW_OPTIONS)
def command(
    task: str,
    coder: str,
    reviewer: str,
    cwd: str | None,
    key: str | None,
    label: str,
    budget: float | None,
    no_daemon: bool,
    as_json: bool,
    quiet: bool,
    compare: bool,
    **options: Any,
) -> int:
    """Let one agent do the task in the file TASK.md, and another one review it, until it approves.

    The reviewer gets the changes since its last look, as git sees them, and the output of the checks. Each
    agent continues its own session, so later rounds send only what is new. TASK.md is read again before each
    round, unless it is a link. Nothing is committed.

    It ends as approved (exit code 0), capped (no approval within --rounds), stalemate or failed (1; 75 if it
    is worth trying again later), or cancelled (130). Ctrl-C pauses it; segue flow resume continues it. With
    --compare, the exit code is 0 if both came to an end other than failed.

    \b
      segue review TASK.md --coder claude --reviewer codex --check "make test"
      segue review TASK.md --coder claude --reviewer codex --rounds 3 --json
      segue review TASK.md --coder claude --reviewer codex --compare
    """
    from segue.app.reviews import order_of
    from segue.cli.comparison import run_comparison

    text, file = _task(task)
    options |= {"memory": _memory(options["memory"]), "task_file": file}
    order = order_of(text, coder, reviewer, cast("ReviewOptions", options))

    where = {"cwd": cwd, "key": key, "label": label, "budget": budget}
    run = run_comparison if compare else _run
    return run(order, no_daemon=no_daemon, as_json=as_json, quiet=quiet, **where)


def _run(order: ReviewOrder, *, no_daemon: bool, as_json: bool, quiet: bool, **where: Any) -> int:
    from segue.app.reviews import start_review
    from segue.cli.flow_run import daemon_runs, run_flow

    async def work(segue: Segue) -> str:
        elsewhere = not no_daemon and daemon_runs()
        return (await start_review(segue, order, elsewhere=elsewhere, **where)).flow

    return run_flow(work, as_json=as_json, quiet=quiet, told=tell)


def tell(shown: FlowShown, as_json: bool, interrupted: bool = False) -> int:
    """Print how the review is now. Returns the exit code."""
    import msgspec

    from segue.app.flow_report import report
    from segue.app.reviews import ReviewResult
    from segue.cli.flow_run import tell as tell_flow

    if shown.result is None:
        tell_flow(shown, as_json)
        return exit_code(shown, None, interrupted)
    result = msgspec.json.decode(shown.result, type=ReviewResult)
    if as_json:
        say_json(report(shown))
    else:
        _say(shown, result)
    return exit_code(shown, result, interrupted)


def exit_code(shown: FlowShown, result: ReviewResult | None, interrupted: bool = False) -> int:
    """0: approved; 1: not approved, or it needs somebody; 75: worth trying again later; 130: cancelled."""
    if interrupted or shown.state in ("cancelled", "paused") or shown.end == "cancelled":
        return 130
    if shown.end == "approved":
        return 0
    return 75 if shown.state == "parked" or (result is not None and result.retryable) else 1


def _say(shown: FlowShown, result: ReviewResult) -> None:
    """The end on stdout, what led to it on stderr."""
    from segue.cli.render.flow_view import summary

    say(f"segue: {shown.flow} {summary(shown)}", err=True)
    say(f"{shown.end}: {result.reason}")
    for each in result.findings:
        say(f"  {each.id} ({each.severity}, {each.state}): {each.text}")
    for each in result.outside:
        say(f"  outside the task: {each.text}")
    for check in result.checks:
        if not check.passed:
            say(f"  {check.command}: {'took too long' if check.code is None else f'exit code {check.code}'}")
    if result.notes:
        say(result.notes)
    if shown.next is not None:
        say(f"segue: next: {shown.next}", err=True)


def _task(name: str) -> tuple[str, str | None]:
    """The task, and the file from which it may be read again. ``-``: from stdin."""
    import os
    import sys
    from pathlib import Path

    from segue.app.reviews import LARGEST, read_task

    if name != "-":
        return read_task(name, os.environ, Path.cwd())
    raw = sys.stdin.buffer.read(LARGEST + 1)
    if len(raw) > LARGEST:
        raise Misuse(f"the task has more than {LARGEST >> 20} MB")
    return raw.decode(errors="replace"), None


def _memory(given: tuple[str, ...]) -> dict[str, str]:
    """How each role remembers, from ``fresh`` and ``reviewer=fresh``."""
    found: dict[str, str] = {}
    for each in given:
        role, _, how = each.rpartition("=")
        if how not in MEMORIES or role not in ("", *ROLES):
            raise Misuse(
                f"--memory takes resume, fresh, or one of them for a role (reviewer=fresh), not {each}"
            )
        found |= {role: how} if role else dict.fromkeys(ROLES, how)
    return found
