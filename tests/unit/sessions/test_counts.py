"""What a resume would bring back, and whether it would fit."""

from __future__ import annotations

import pytest

from segue.agents import registry
from segue.agents.base import WindowRules
from segue.config.schema import Config
from segue.core.transcript import Brief, Entry
from segue.sessions.counts import context_load, tally_of
from tests.clis import CLIS

CLAUDE = WindowRules(reserved=20_000, compacts_at=1.0, margin=13_000, window=200_000)


@pytest.mark.parametrize(
    ("context", "after", "window", "compacts"),
    [
        (100_000, 0, None, False),
        (160_000, 6_999, None, False),
        (160_000, 7_000, None, True),
        (160_000, 7_000, 1_000_000, False),
        (967_000, 0, 1_000_000, True),
    ],
)
def test_the_last_request_and_what_came_after_it_are_loaded(
    context: int, after: int, window: int | None, compacts: bool
) -> None:
    loaded = context_load(Brief(context=context, after=after, window=window), CLAUDE)
    assert (loaded.tokens, loaded.window) == (context + after, window or 200_000)
    assert loaded.compacts is compacts


def test_what_a_session_does_not_tell_is_not_known() -> None:
    loaded = context_load(Brief(), CLAUDE)
    assert (loaded.tokens, loaded.compacts, loaded.share) == (None, None, None)


def test_an_agent_that_never_compacts_does_not() -> None:
    loaded = context_load(Brief(context=199_999), WindowRules(reserved=0, compacts_at=None, window=200_000))
    assert loaded.compacts is False


def test_what_comes_back_is_counted_apart_from_what_does_not() -> None:
    entries = [
        Entry(id="0.0", kind="user", text="hi"),
        Entry(id="1.0", kind="assistant", text="hello"),
        Entry(id="2.0", kind="user", text="context", inserted=True),
        Entry(id="3.0", kind="assistant", text="hello", again=True),
        Entry(id="4.0", kind="assistant", text="aside", side=True),
        Entry(id="5.0", kind="call", tool="Bash"),
        Entry(id="6.0", kind="state", label="git snapshot"),
        Entry(id="7.0", kind="state", label="ai title", restored=False),
        Entry(id="8.0", kind="damaged"),
    ]
    counts = tally_of(entries)
    assert (counts.messages, counts.calls, counts.side, counts.damaged) == (2, 1, 1, 1)
    assert (counts.restored, counts.left) == ({"git snapshot": 1}, {"ai title": 1})


@pytest.mark.parametrize("agent", CLIS)
def test_the_versions_that_were_tried_are_those_of_the_live_tests(agent: str) -> None:
    reader = registry.get(agent, Config()).archive()
    assert reader is not None
    assert reader.window_rules.tried == (CLIS[agent].older, CLIS[agent].newest)
