from __future__ import annotations

import datetime

import pytest

from segue.core.prices import TABLE, price_for
from segue.core.usage import Price, Usage


@pytest.mark.parametrize(
    ("model", "per_million"),
    [
        ("gpt-5", (1.25, 10)),
        ("gpt-5-2025-08-07", (1.25, 10)),
        ("gpt-5-codex", (1.25, 10)),
        ("openai/gpt-5.2-codex", (1.75, 14)),
        ("gpt-5.1-codex-mini", (0.25, 2)),
        ("codex-mini-latest", (1.5, 6)),
        ("gemini-2.5-pro", (1.25, 10)),
        ("models/gemini-2.5-flash", (0.3, 2.5)),
        ("gemini-2.5-flash-lite", (0.1, 0.4)),
        ("gemini-3-pro-preview", (2, 12)),
        ("claude-opus-4-20250514", (15, 75)),
        ("claude-opus-4-1-20250805", (15, 75)),
        ("claude-opus-4-5-20251101", (5, 25)),
        ("claude-sonnet-4-5-20250929[1m]", (3, 15)),
        ("Claude-Haiku-4-5", (1, 5)),
        ("codestral-latest", (0.3, 0.9)),
        ("devstral-small-latest", (0.1, 0.3)),
    ],
)
def test_a_published_model_has_its_price(model: str, per_million: tuple[float, float]) -> None:
    price = price_for(model)
    assert price is not None
    assert (price.input, price.output) == per_million


@pytest.mark.parametrize(
    "model", ["", "loopback", "gpt-5-unheard-of", "gpt-6", "claude-sonnet-5-5", "gemini-2.5-pro-ultra", "/"]
)
def test_an_unknown_model_has_none(model: str) -> None:
    assert price_for(model) is None


def test_the_longest_glob_of_the_user_wins() -> None:
    general, special = Price(1, 2), Price(3, 4)
    overrides = {"*": Price(9, 9), "gpt-*": general, "gpt-5*": special}
    assert price_for("gpt-5", overrides) is special
    assert price_for("gpt-4", overrides) is general
    assert price_for("other", overrides) == Price(9, 9)
    assert price_for("vendor/own", {"vendor/*": special}) is special


def test_anthropic_caches_by_its_rule() -> None:
    price = price_for("claude-sonnet-4-5")
    assert price is not None
    assert (price.cache_read, price.cache_write) == (0.3, 3.75)
    assert price.cost(Usage(1_000_000, 1_000_000, 1_000_000, 1_000_000)) == pytest.approx(22.05)


@pytest.mark.parametrize("glob", TABLE)
def test_every_row_is_dated_and_plausible(glob: str) -> None:
    price = TABLE[glob]
    assert datetime.date.fromisoformat(price.dated).year >= 2025
    assert 0 < price.input < price.output
    assert price.cache_read is None or price.cache_read < price.input
