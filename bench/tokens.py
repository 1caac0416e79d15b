"""The input tokens of each turn over HTTP: resumed, and with the whole conversation as text each time.

The agents are the real ones. The tokens are those of the turn's own ``usage``: what is new to the model, and
the whole prompt, most of which a cache may serve. The table is printed per agent and turn.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from tests import isolation
from tests.clis import CLIS, install
from tests.live.api import Api, serving
from tests.live.talk import talking

from bench.continuity import message
from bench.measure import Row

GOALS = {"claude": 10.0, "codex": None}
"""How many times fewer new tokens the last resumed turn must have. OpenAI caches the text that a longer
transcript begins with, so a transcript costs Codex hardly more than a session."""
TURNS = 12
APART = 100
"""The transcript's messages have other numbers, so that no cache has them from the resumed conversation."""


class Tokens(NamedTuple):
    new: int
    """What no cache had: it is paid for in full."""
    prompt: int


def measure() -> list[Row]:
    obstacle = isolation.enter()
    if obstacle:
        raise RuntimeError(f"no isolation: {obstacle}")
    rows = []
    for agent in GOALS:
        if reason := install(CLIS[agent], CLIS[agent].newest):
            raise RuntimeError(reason)
        rows += _agent(agent)
    return rows


def _agent(agent: str) -> list[Row]:
    newest = {agent: CLIS[agent].newest}
    with tempfile.TemporaryDirectory() as folder, talking(Path(folder), newest) as talk, serving(talk) as api:
        resumed = [_turn(api, agent, number, "resume") for number in range(1, TURNS + 1)]
        as_text = [_turn(api, agent, number, "replay") for number in range(1, TURNS + 1)]
    _show(agent, resumed, as_text)
    what = f"{agent} over HTTP: new input tokens, transcript / resume"
    text, ours = (sum(each.new for each in turns[1:]) for turns in (as_text, resumed))
    return [
        _row(f"{what}, turn {TURNS}", as_text[-1].new, resumed[-1].new, GOALS[agent]),
        _row(f"{what}, all turns but the first", text, ours, None),
    ]


def _row(what: str, text: int, ours: int, goal: float | None) -> Row:
    seen = f"{text / ours:.1f} × ({text:,} / {ours:,})"
    return Row(what, seen, f"≥ {goal:.0f} ×" if goal else "reported", goal is None or text >= goal * ours)


def _turn(api: Api, agent: str, number: int, mode: str) -> Tokens:
    """One turn of the conversation that is always continued in this mode."""
    fresh = {"fresh_session": True} if mode == "replay" else {}
    text = message(number + (APART if mode == "replay" else 0))
    turn = api.run(text, key=mode, agent=agent, **fresh)
    if turn["mode"] != (mode if number > 1 else "fresh"):
        raise RuntimeError(f"{agent}, turn {number}: {turn['mode']}")
    usage: dict[str, Any] = turn["usage"]
    new = (usage["input"] or 0) + (usage["cache_write"] or 0)
    return Tokens(new, new + (usage["cache_read"] or 0))


def _show(agent: str, resumed: list[Tokens], as_text: list[Tokens]) -> None:
    print(f"\n{agent} {CLIS[agent].newest} over HTTP: input tokens per turn", file=sys.stderr)
    names = ("resume: new", "prompt", "transcript: new", "prompt")
    print(f"{'turn':>5} " + " ".join(f"{name:>16}" for name in names), file=sys.stderr)
    for number, (ours, text) in enumerate(zip(resumed, as_text, strict=True), 1):
        cells = " ".join(f"{count:>16,}" for count in (*ours, *text))
        print(f"{number:>5} {cells}", file=sys.stderr, flush=True)
