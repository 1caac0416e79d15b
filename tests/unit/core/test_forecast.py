"""Predicted tokens and cost of each rung, and what continuing saved, as tables."""

from __future__ import annotations

from typing import Any

import pytest

from segue.agents import registry
from segue.config.schema import Config
from segue.core.forecast import MINUTE, Habits, Outlook, Predicted, expected, predict, saved
from segue.core.request import Capabilities
from segue.core.turn import Mode, Saved
from segue.core.usage import Price, Usage

ANTHROPIC = Price(input=10.0, output=50.0, cache_read=1.0, cache_write=12.5)
OPENAI = Price(input=10.0, output=50.0, cache_read=1.0)
TEXT: dict[Mode, int] = {"resume": 350, "branch": 700, "replay": 35_000, "recap": 7_000, "fresh": 350}
"""Which is 100, 200, 10,000, 2,000 and 100 tokens."""


def habits_of(agent: str) -> Habits:
    return registry.get(agent, Config()).facts.habits if agent in registry.BUILT_IN else Habits()


def rungs(agent: str = "claude", **more: Any) -> dict[Mode, tuple[int, int]]:
    """New and cached tokens of each rung."""
    given: dict[str, Any] = {"context": 50_000, "idle_ms": MINUTE, "text_bytes": TEXT, "overhead": 10_000}
    outlook = Outlook(habits=habits_of(agent), can=Capabilities(resume=True), **(given | more))
    return {rung.mode: (rung.new_tokens, rung.cached_tokens) for rung in predict(outlook)}


WARM: tuple[tuple[str, dict[str, Any], Mode, tuple[int, int]], ...] = (
    ("claude", {}, "resume", (400, 50_000)),
    ("claude", {"idle_ms": 59 * MINUTE}, "resume", (400, 50_000)),
    ("claude", {"idle_ms": 60 * MINUTE}, "resume", (50_400, 0)),
    ("claude", {"idle_ms": None}, "resume", (50_400, 0)),
    ("claude", {"output": 1_000}, "resume", (1_100, 50_000)),
    ("claude", {}, "branch", (200, 50_000)),
    ("claude", {"kept_share": 0.25}, "branch", (200, 20_000)),
    ("claude", {"kept_share": 0.0}, "branch", (200, 10_000)),
    ("claude", {"kept_share": 0.25, "idle_ms": 60 * MINUTE}, "branch", (20_200, 0)),
    ("claude", {}, "replay", (20_000, 0)),
    ("claude", {"overhead_warm": True}, "replay", (10_000, 10_000)),
    ("claude", {"overhead_warm": True}, "recap", (2_000, 10_000)),
    ("claude", {"overhead_warm": True}, "fresh", (100, 10_000)),
    ("claude", {"overhead": None}, "fresh", (11_800, 0)),
    ("claude", {"requests": 3}, "fresh", (10_100, 20_200)),
    ("codex", {"idle_ms": 9 * MINUTE}, "resume", (400, 50_000)),
    ("codex", {"idle_ms": 10 * MINUTE}, "resume", (50_400, 0)),
    ("codex", {}, "branch", (200, 50_000)),
    ("gemini", {"idle_ms": 4 * MINUTE}, "branch", (200, 50_000)),
    ("gemini", {"idle_ms": 5 * MINUTE}, "branch", (50_200, 0)),
    ("codex", {"overhead_warm": True, "repeated": 9_000}, "replay", (1_000, 19_000)),
    ("codex", {"repeated": 9_000}, "replay", (20_000, 0)),
    ("claude", {"overhead_warm": True, "repeated": 9_000}, "replay", (10_000, 10_000)),
    ("vibe", {"idle_ms": 0}, "resume", (50_400, 0)),
    ("vibe", {"overhead_warm": True}, "fresh", (10_100, 0)),
    ("vibe", {"requests": 2}, "fresh", (20_200, 0)),
    ("elsewhere", {}, "resume", (400, 50_000)),
)


@pytest.mark.parametrize(("agent", "more", "mode", "tokens"), WARM)
def test_tokens(agent: str, more: dict[str, Any], mode: Mode, tokens: tuple[int, int]) -> None:
    assert rungs(agent, **more)[mode] == tokens


def test_rungs_come_in_their_order_and_only_those_that_can_be_told() -> None:
    assert list(rungs()) == ["resume", "branch", "replay", "recap", "fresh"]
    assert list(rungs(context=None)) == ["replay", "recap", "fresh"]
    assert list(rungs(text_bytes={"fresh": 1, "resume": 1})) == ["resume", "fresh"]


def test_what_cannot_resume_has_no_figures_for_it() -> None:
    outlook = Outlook(habits=Habits(), can=Capabilities(), context=9, text_bytes=TEXT)
    assert [rung.mode for rung in predict(outlook)] == ["replay", "recap", "fresh"]


COSTS: tuple[tuple[Price | None, Mode, float | None], ...] = (
    (ANTHROPIC, "resume", (400 * 12.5 + 50_000 * 1 + 300 * 50) / 1e6),
    (ANTHROPIC, "replay", (20_000 * 12.5 + 300 * 50) / 1e6),
    (OPENAI, "resume", (400 * 10 + 50_000 * 1 + 300 * 50) / 1e6),
    (OPENAI, "replay", (20_000 * 10 + 300 * 50) / 1e6),
    (None, "replay", None),
)


@pytest.mark.parametrize(("price", "mode", "usd"), COSTS)
def test_cost(price: Price | None, mode: Mode, usd: float | None) -> None:
    given: dict[str, Any] = {"context": 50_000, "idle_ms": MINUTE, "overhead": 10_000}
    outlook = Outlook(
        habits=habits_of("claude"),
        can=Capabilities(resume=True),
        price=price,
        text_bytes={mode: TEXT[mode]},
        **given,
    )
    (rung,) = predict(outlook)
    assert isinstance(rung, Predicted)
    assert rung.usd == (None if usd is None else pytest.approx(usd))
    assert rung.output_tokens == 300


def test_every_agent_of_ours_has_habits() -> None:
    assert all(habits_of(agent) != Habits() for agent in registry.BUILT_IN)


@pytest.mark.parametrize(
    ("known", "value"), [((), 300), ((None, None), 300), ((10,), 10), ((1, None, 500, 20), 20), ((1, 2), 2)]
)
def test_the_median_of_what_is_known(known: tuple[int | None, ...], value: int) -> None:
    assert expected(known) == value


REPLAY: dict[str, Any] = {"replay_tokens": 20_000, "overhead": 10_000}
HIT = Usage(0, 50_000, 400, 300)
MISSED = Usage(0, 0, 50_400, 300)

SAVED: tuple[tuple[str, Usage, Price | None, dict[str, Any], int | None, float | None], ...] = (
    ("the cache served it", HIT, ANTHROPIC, {}, 29_600, 29_600 * 12.5 - 50_000),
    ("replay would have had a warm start", HIT, ANTHROPIC, {"overhead_warm": True}, 19_600, 205_000.0),
    ("the cache missed", MISSED, ANTHROPIC, {}, -20_400, -20_400 * 12.5),
    ("a big session, read for much", Usage(0, 900_000, 400, 9), ANTHROPIC, {}, 29_600, -530_000.0),
    ("no price", HIT, None, {}, 29_600, None),
    ("plain input", Usage(400, 50_000, 0, 300), OPENAI, {}, 29_600, 296_000.0 - 50_000),
    ("nothing known", Usage(), ANTHROPIC, {}, None, None),
    ("only the answer known", Usage(output=5), ANTHROPIC, {}, None, None),
    (
        "three requests, each read again",
        Usage(0, 153_000, 2_400, 300),
        ANTHROPIC,
        {"requests": 3, "growth": 2_000},
        29_600,
        29_600 * 12.5 + 62_000 - 153_000,
    ),
    (
        "two requests and no cache",
        Usage(101_000, None, None, 9),
        OPENAI,
        {"requests": 2},
        -41_000,
        -410_000.0,
    ),
)


@pytest.mark.parametrize(
    ("usage", "price", "more", "tokens", "micro_usd"), [case[1:] for case in SAVED], ids=[c[0] for c in SAVED]
)
def test_what_continuing_saved(
    usage: Usage, price: Price | None, more: dict[str, Any], tokens: int | None, micro_usd: float | None
) -> None:
    found = saved(usage, price, **(REPLAY | more))
    assert found.tokens == tokens
    assert found.usd == (None if micro_usd is None else pytest.approx(micro_usd / 1e6))
    assert found.estimated
    assert found == Saved() or found.against == "replay"
