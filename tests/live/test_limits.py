"""What the real CLIs tell about usage limits, and about what pays."""

from __future__ import annotations

import time

import pytest

from segue.core.usage import Limit
from tests.live.harness import Bench, Ran, live
from tests.live.talk import Talk

USED = "[[limit 5h 0.82 7200]][[limit 7d 0.31 200000]][[say hi]]"
NEW_CLAUDE, OLD_CLAUDE = "2.1.325", "2.1.50"


def as_subscriber(bench: Bench, prompt: str) -> Ran:
    bench.env.pop("ANTHROPIC_API_KEY", None)
    return bench.attempt(prompt, env={"CLAUDE_CODE_OAUTH_TOKEN": bench.model.key})


def told(ran: Ran) -> list[tuple[str, float | None, str]]:
    """Each limit; its reset must be in the future, and it was seen just now."""
    now_ms = time.time() * 1000
    for each in ran.outcome.limits:
        assert each.resets_at is not None
        assert now_ms < each.resets_at < now_ms + 200_001_000
        assert now_ms - 60_000 < each.seen_ms <= now_ms
    return [(each.window, each.used, each.source) for each in ran.outcome.limits]


@live("claude", NEW_CLAUDE)
def test_claude_tells_a_subscriber_every_window(bench: Bench) -> None:
    ran = as_subscriber(bench, USED)
    assert told(ran) == [("5h", 0.82, "stream"), ("7d", 0.31, "stream")]
    assert ran.outcome.pays == "subscription"
    assert "limit" in ran.kinds
    few = as_subscriber(bench, "[[limit 5h 0.12 7200]][[limit 7d 0.31 200000]][[say hi]]")
    assert told(few) == [("5h", 0.12, "stream"), ("7d", 0.31, "stream")]


@live("claude", OLD_CLAUDE)
def test_an_older_claude_tells_one_window_and_its_share_only_as_a_warning(bench: Bench) -> None:
    assert told(as_subscriber(bench, USED)) == [("5h", 0.82, "stream")]
    few = as_subscriber(bench, "[[limit 5h 0.12 7200]][[limit 7d 0.31 200000]][[say hi]]")
    assert told(few) == [("7d", None, "stream")]


@live("claude", NEW_CLAUDE, OLD_CLAUDE)
def test_claude_names_the_window_that_refuses(bench: Bench) -> None:
    ran = as_subscriber(bench, "[[limit 5h 1 7200]][[error 429]]")
    assert ran.outcome.failure is not None
    (limit,) = ran.outcome.limits
    assert limit == Limit("5h", 1.0, ran.outcome.failure.until, "stream", limit.seen_ms)


@live("claude", NEW_CLAUDE, OLD_CLAUDE)
def test_claude_tells_nobody_with_a_key(bench: Bench) -> None:
    ran = bench.attempt(USED)
    assert (ran.outcome.limits, ran.outcome.pays) == ((), "api_key")


@live("codex", "0.166.0", "0.104.0")
def test_codex_writes_its_limits_into_the_session(bench: Bench) -> None:
    ran = bench.attempt(USED)
    assert told(ran) == [("5h", 0.82, "session"), ("7d", 0.31, "session")]
    again = bench.resume(ran.outcome.session_id, "[[limit 5h 0.9 7200]][[limit 7d 0.31 200000]][[say hi]]")
    assert told(again) == [("5h", 0.9, "session"), ("7d", 0.31, "session")]


@pytest.mark.parametrize("talk", [pytest.param(("codex", "0.166.0"), id="codex-0.166.0")], indirect=True)
def test_they_are_stored_for_the_next_turn(talk: Talk) -> None:
    first = talk.run(USED).turn
    assert [(each["window"], each["used"]) for each in first["limits"]] == [("5h", 0.82), ("7d", 0.31)]
    assert first["pays"] == "api_key"
    found = talk.why("hello")
    assert [each["used"] for each in found["limits"]] == [0.82, 0.31]
    (check,) = [each for each in found["checks"] if each["check"] == "limits"]
    assert (check["verdict"], check["detail"]) == ("pass", "5h limit 82% used, 7d limit 31% used")
