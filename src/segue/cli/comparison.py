"""``segue review --compare``: the same review with full prompts and with what is new."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.cli.render import words
from segue.cli.render.output import say, say_json
from segue.cli.render.table import table_lines
from segue.core.usage import tokens_in_words

if TYPE_CHECKING:
    from segue.app.comparisons import ComparedReview, Comparison
    from segue.app.reviews import ReviewOrder
    from segue.app.segue import Segue


def run_comparison(order: ReviewOrder, *, no_daemon: bool, as_json: bool, quiet: bool, **where: Any) -> int:
    """Run both, and print how they compare. Returns the exit code: 0 if neither has failed or was stopped."""
    from segue.app.comparisons import compare, start_comparison
    from segue.cli.caller import open_here
    from segue.cli.flow_run import daemon_runs, follow_flows
    from segue.cli.render.flow_view import FlowView

    names: list[str] = []

    async def work(segue: Segue) -> dict[str, FlowView]:
        elsewhere = not no_daemon and daemon_runs()
        started = await start_comparison(segue, order, elsewhere=elsewhere, **where)
        names.append(started.comparison)
        return {each.flow: FlowView(quiet=quiet, name=each.prompts) for each in started.reviews}

    shown, interrupted = follow_flows(work)
    with open_here() as workspace:
        found = compare(workspace, names[0])
    if as_json:
        say_json(found)
    else:
        _say(found)
        for each in shown:
            if each.next is not None:
                say(f"segue: next: {each.next}", err=True)
    if interrupted:
        return 130
    return 0 if all(each.end in ("approved", "capped", "stalemate") for each in found.reviews) else 1


def _say(found: Comparison) -> None:
    rows = [
        ("end", *(each.end or each.state for each in found.reviews), ""),
        ("rounds", *(str(each.rounds) for each in found.reviews), ""),
        ("tokens sent", *(_tokens(each.input_tokens) for each in found.reviews), _less(found.saved_input)),
        ("of them new", *(_tokens(each.new_tokens) for each in found.reviews), _less(found.saved_new)),
        ("tokens received", *(_tokens(each.usage.output or 0) for each in found.reviews), ""),
        ("cost", *(_cost(each) for each in found.reviews), _less(found.saved_cost)),
        ("time", *(words.seconds(each.duration_ms) for each in found.reviews), ""),
    ]
    for line in table_lines([("", "full prompts", "delta prompts", ""), *rows], 100, right=(1, 2)):
        say(line)
    for each in found.reviews:
        say(f"{each.prompts} prompts: {each.cwd}", err=True)
    say("Remove a worktree with: git worktree remove --force DIRECTORY", err=True)


def _tokens(count: int) -> str:
    return tokens_in_words(count)


def _cost(each: ComparedReview) -> str:
    return words.money(each.cost_usd) if each.cost_usd is not None else "not known"


def _less(saved: float | None) -> str:
    if saved is None:
        return ""
    return f"{saved:.0%} less" if saved >= 0 else f"{-saved:.0%} more"
