"""A decision in words: the ladder with each rung's reason and cost, then the checks, and what to do about
those that failed. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from segue.cli.render import words
from segue.cli.render.output import BOLD, DIM, PLAIN
from segue.cli.render.table import columns, joined, padded, wrapped
from segue.core.checks import FAILED_PROMPT, OTHER_ACCOUNT
from segue.core.turn import Check
from segue.core.usage import count_in_words, tokens_in_words

if TYPE_CHECKING:
    from segue import RungShown, Why

MARKS = {"chosen": "✓", "open": "·", "barred": "✗", "impossible": "–"}
VERDICTS = {"pass": "✓", "fail": "✗", "skip": "–"}
WAYS = {
    "resume": "its own session, plus what is new",
    "branch": "its own session up to the last valid point, the rest as text",
    "graft": "a session written from the conversation",
    "replay": "the whole conversation as text",
    "recap": "a part of the conversation as text",
    "fresh": "would forget everything",
}
ALSO = {
    "branch": "also possible",
    "replay": "also possible: the whole conversation as text",
    "recap": "also possible: a part of the conversation as text",
}
SHORT = frozenset({"pressure", "size"})
"""Checks whose detail is a figure, which is shown right after their name."""
WIDEST, NARROWEST = 100, 50
RUNG_INDENT = 12
CHECKS = "checks  "


def why_lines(plan: Why, *, width: int = WIDEST, home: str = "", colour: bool = False) -> Iterator[str]:
    """``home``: shown as ``~`` in paths."""
    width = min(max(width, NARROWEST), WIDEST)
    for line in _plain(_at_home(plan, home), width):
        chosen = line.startswith(("▸", plan.conversation))
        listed = line.startswith(("checks", " " * 8))
        yield f"{BOLD if chosen else DIM}{line}{PLAIN}" if colour and (chosen or listed) else line


def _plain(plan: Why, width: int) -> Iterator[str]:
    who = plan.agent + (f", {plan.role}" if plan.role else "")
    who += f" ({plan.account})" if plan.account else ""
    yield from _heading((plan.conversation, who, f"next turn: {plan.mode}"), _sends(plan), width)
    for each in plan.refused:
        yield from wrapped(each, width, 2, "  would not begin: ")
    yield from _terms(plan, width)
    yield ""
    shown: set[str] = set()
    for rung in plan.rungs:
        if rung.mode == "graft" and rung.state not in ("chosen", "open"):
            continue  # nothing can be grafted
        lead = f"{'▸' if rung.state == 'chosen' else ' '} {rung.mode:<7} {MARKS[rung.state]} "
        yield from _row(lead, _reason(rung, plan, shown), _cost(rung), width)
        shown.add(rung.why)
    yield ""
    yield from _marks(plan.checks, width)
    for check in plan.checks:
        if check.detail and not (check.check in SHORT and check.verdict == "pass"):
            lead = f"  {VERDICTS[check.verdict]} {_name(check)}: "
            yield from wrapped(check.detail, width, 4, lead)
        if check.verdict == "fail":
            yield from wrapped(advice(check, plan), width, 6, "    → ")


def _terms(plan: Why, width: int) -> Iterator[str]:
    """What is done first; what the agent is allowed to do; whether it can ask questions; notices."""
    may, asks = words.terms(plan.terms), plan.terms.questions
    parts = [f"may: {may}"] if may else []
    if asks is not None:
        kept = plan.mode in ("resume", "branch")
        how = (
            "as when its session started; --fresh-session can change it"
            if kept
            else "for as long as its session lasts"
        )
        parts.append(f"questions: {'on' if asks else 'off'}, {how}")
    first = (f"first {each}" for each in plan.first)
    for line in (*first, *([" · ".join(parts)] if parts else []), *plan.notices):
        yield from wrapped(line, width, 4, "  ")


def _sends(plan: Why) -> str:
    """What the next turn sends, in a few words."""
    sends, earlier = plan.sends, plan.sends.text_messages - 1
    what = "the new message" if earlier <= 0 else count_in_words(earlier, "earlier message")
    if plan.mode == "recap":
        what = f"a part of {what}"
    if sends.corrections:
        what += f" and {count_in_words(sends.corrections, 'correction')}"
    cost = next((rung.usd for rung in plan.rungs if rung.state == "chosen"), None)
    parts = [f"sends {what}", f"~{tokens_in_words(sends.tokens)} tokens" if sends.tokens else ""]
    parts.append(words.money(cost, True) if cost is not None else "")
    return ", ".join(part for part in parts if part)


def _reason(rung: RungShown, plan: Why, shown: set[str]) -> str:
    if rung.why and rung.why in shown and rung.state == "barred":
        return "the same"
    if rung.mode == "fresh" and all(each.state != "open" for each in plan.rungs):
        return "a new session, with the new message only"
    also = ALSO.get(rung.mode, "") if rung.state == "open" else ""
    return rung.why or also or WAYS[rung.mode]


def _cost(rung: RungShown) -> str:
    """What the rung would cost; for a barred rung, what it would have cost."""
    if rung.state == "impossible" or (rung.new_tokens is None and rung.usd is None):
        return ""
    new = f"~{tokens_in_words(rung.new_tokens)} new" if rung.new_tokens is not None else ""
    cached = f"{tokens_in_words(rung.cached_tokens)} cached" if rung.cached_tokens else ""
    money = words.money(rung.usd, True) if rung.usd is not None else ""
    took = ", ".join(part for part in (new, cached, money) if part)
    return f"would have been {money or took}" if rung.state == "barred" else took


def _marks(checks: tuple[Check, ...], width: int) -> Iterator[str]:
    """All checks on a few lines."""
    marked = [
        " ".join(filter(None, (VERDICTS[c.verdict], _name(c), c.detail if c.check in SHORT else "")))
        for c in checks
    ]
    for at, line in enumerate(joined(marked, width - len(CHECKS), 0, "  ")):
        yield (" " * len(CHECKS) if at else CHECKS) + line


def _heading(parts: tuple[str, ...], right: str, width: int) -> Iterator[str]:
    """Who and how, and what is sent: at the right edge, or below if there is no room."""
    left = " · ".join(parts)
    if columns(left) + columns(right) + 2 <= width:
        yield f"{left}{' ' * (width - columns(left) - columns(right))}{right}"
        return
    yield from joined(parts, width, 2)
    yield from wrapped(right, width, 2, "  ")


def _row(lead: str, left: str, right: str, width: int) -> Iterator[str]:
    """The left part, wrapped if necessary, and the right part at the right edge."""
    room = width - columns(right) - 2 if right else width
    first, *rest = wrapped(left, room, RUNG_INDENT, lead)
    if right and (room < NARROWEST // 2 + RUNG_INDENT or columns(first) > room):
        yield from wrapped(left, width, RUNG_INDENT, lead)
        yield padded(right, width, right=True)
        return
    yield padded(first, width - columns(right)) + right if right else first
    yield from rest


def _name(check: Check) -> str:
    return check.check.replace("_", "-")


def _at_home(plan: Why, home: str) -> Why:
    """The plan with paths below the user's home written with ``~``."""
    if not home.strip("/"):
        return plan
    change, long = msgspec.structs.replace, f"{home.rstrip('/')}/"
    return change(
        plan,
        session_cwd=plan.session_cwd and plan.session_cwd.replace(long, "~/"),
        rungs=tuple(change(rung, why=rung.why.replace(long, "~/")) for rung in plan.rungs),
        checks=tuple(change(check, detail=check.detail.replace(long, "~/")) for check in plan.checks),
    )


REPLACED = "nothing to do: a new session replaces it"
SIMPLE: dict[str, str] = {
    "blank": "leave out --blank to carry the conversation over",
    "enabled": "change [continuity] in config.toml",
    "fresh_session": "leave out --fresh-session and --no-save to keep the session",
    "runtime": "use the program that made the session ([agents] command), or continue as shown",
    "model": 'choose the previous model with --model, or set [continuity] on_model_change = "resume"',
    "tools": "to keep the cache, run it with the same tools as before; the session continues either way",
    "host": "run it on that machine to keep the session ([keep] copies sessions for other machines)",
    "ttl": "raise [continuity] ttl_minutes to keep sessions longer",
    "poisoned": "nothing to do: the turn continues from before that, or as text",
    "retired": REPLACED,
    "file": REPLACED,
    "limits": "nothing to do: it rules nothing out; --account chooses another account",
    "budget": "raise it when you are asked, or change [budgets] in config.toml",
    "busy": "wait, or continue in a fork: segue run --fork",
}


def advice(check: Check, plan: Why) -> str:
    special = SPECIAL.get(check.check)
    return special(check, plan) if special is not None else SIMPLE.get(check.check, "nothing to do")


def _capability(check: Check, plan: Why) -> str:
    if "resume" in check.bars:
        return f"update {plan.agent}, or continue as shown; segue agents says what it can do"
    return "nothing to do: what changed is sent as text"


def _pin(check: Check, plan: Why) -> str:
    return (
        "nothing to do: this turn creates one"
        if plan.session_id is None
        else "nothing to do: it branches off"
    )


def _history(check: Check, plan: Why) -> str:
    if "branch" in check.bars:
        return "nothing to do: a new session replaces it, with the conversation as it is now"
    return "nothing to do: the unchanged part is kept, the rest is sent as it is now"


def _end(check: Check, plan: Why) -> str:
    if FAILED_PROMPT in check.detail:
        return "nothing to do: the turn continues from before it, and sends the message again"
    adopt = f"segue run {plan.conversation} TEXT --adopt {(plan.session_id or 'ID')[:8]}"
    left = "the turn continues from where Segue left it, without what was added since"
    return f"{left}; to include that: {adopt}"


def _outcome(check: Check, plan: Why) -> str:
    return "nothing to do: the turn continues from before it, and sends the message again"


def _size(check: Check, plan: Why) -> str:
    name = (plan.session_id or "ID")[:8]
    return f"make a smaller one with segue sessions repair {name} --trim (or --since), or continue as shown"


def _workdir(check: Check, plan: Why) -> str:
    return f"run it in {plan.session_cwd} (--cwd) to keep the session"


def _account(check: Check, plan: Why) -> str:
    if OTHER_ACCOUNT in check.detail:
        return "use --account to return to the account they belong to, or log in as before"
    return "log in as before to keep the session"


def _pressure(check: Check, plan: Why) -> str:
    return "nothing to do" if not check.bars else "nothing to do: the conversation continues in a new session"


def _fits(check: Check, plan: Why) -> str:
    if "recap" in check.bars:
        return "put the long text into a file in the working directory, and ask the agent to read it"
    return "nothing to do: a part of the conversation is sent; [recap] max_bytes says how much"


SPECIAL: dict[str, Callable[[Check, Why], str]] = {
    "capability": _capability,
    "pin": _pin,
    "history": _history,
    "end": _end,
    "outcome": _outcome,
    "size": _size,
    "workdir": _workdir,
    "account": _account,
    "pressure": _pressure,
    "fits": _fits,
}
