"""A decision in words: the ladder with each rung's reason and price, then the checks. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from segue.cli import words
from segue.core.turn import Check
from segue.turns.why import RungShown, Why

MARKS = {"chosen": "✓", "open": "·", "barred": "✗", "impossible": "–"}
VERDICTS = {"pass": "✓", "fail": "✗", "skip": "–"}
WAYS = {
    "resume": "its own session, and what is new",
    "branch": "its own session up to the last point that holds, the rest as text",
    "replay": "the whole conversation as text",
    "recap": "a bounded part of the conversation as text",
    "fresh": "the new message only: would forget everything",
}
TO_DO = {
    "workdir": "run it where the session lives",
    "file": "nothing can be done: the session will be replaced by a new one",
    "busy": "wait, or go on in a fork with --fork",
    "account": "go back to the account it was said under with --account",
    "host": "run it on that machine",
    "size": "raise [continuity] max_session_mb",
    "enabled": "change [continuity] in config.toml",
    "ttl": "raise [continuity] ttl_minutes",
    "runtime": "run it with the program that made it",
    "model": 'use the model from before, or set [continuity] on_model_change = "resume"',
}
WIDTH = 100


def lines(found: Why, label: str, *, colour: bool = False) -> Iterator[str]:
    who = found.agent + (f" ({found.account})" if found.account else "")
    cost = next((rung.usd for rung in found.rungs if rung.state == "chosen"), None)
    price = f", {words.money(cost, True)}" if cost is not None else ""
    earlier = found.sends.text_messages - 1
    sends = f"sends {_count(earlier)} and the new one, ~{words.tokens(found.sends.tokens)} tokens{price}"
    yield f"{found.conversation} · {who} · next turn: {found.mode}    {sends}"
    yield ""
    for rung in found.rungs:
        yield _rung(rung, found)
    yield ""
    yield from _checks(found.checks)
    advice = next((TO_DO[c.check] for c in found.checks if c.verdict == "fail" and c.check in TO_DO), None)
    if advice is not None and found.mode not in ("resume",):
        yield f"To keep the session: {advice}."


def _rung(rung: RungShown, found: Why) -> str:
    pointer = "▸" if rung.state == "chosen" else " "
    reason = rung.why or WAYS.get(rung.mode, "")
    if rung.mode == "graft" and rung.state == "impossible":
        reason = "off"
    if rung.mode == "fresh" and found.sends.native_messages == 0 and found.mode == "fresh":
        reason = "a new session with the new message"
    cost = f"~{words.tokens(rung.new_tokens)} new" if rung.new_tokens is not None else ""
    if rung.cached_tokens:
        cost += f", {words.tokens(rung.cached_tokens)} cached"
    if rung.usd is not None:
        cost += f", {words.money(rung.usd, True)}"
    text = f"{pointer} {rung.mode:<7} {MARKS[rung.state]} {reason}"
    return f"{text:<74} {cost}".rstrip()


def _checks(checks: tuple[Check, ...]) -> Iterator[str]:
    """All of them on a few lines, then those that failed or have something to say, one line each."""
    marks = " ".join(f"{VERDICTS[check.verdict]}_{check.check.replace('_', '-')}" for check in checks)
    for at, line in enumerate(textwrap.wrap(marks, WIDTH - 8, break_on_hyphens=False)):
        yield ("checks  " if at == 0 else "        ") + line.replace(" ", "  ").replace("_", " ")
    for check in checks:
        if check.detail:
            yield f"  {VERDICTS[check.verdict]} {check.check}: {check.detail}"


def _count(number: int) -> str:
    return {0: "nothing", 1: "1 earlier message"}.get(number, f"{number} earlier messages")
