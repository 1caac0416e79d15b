"""What the real CLIs tell about usage limits, and about what pays."""

from __future__ import annotations

import base64
import time
from pathlib import Path

import msgspec
import pytest

from segue.accounts.limits import ask_limits
from segue.agents import registry
from segue.agents.decoding import TellsLimits
from segue.config.schema import Account, Config
from segue.core.usage import Limit
from segue.runner.inquiry import inquire
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


@pytest.mark.fact
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


@pytest.mark.fact
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


def as_chatgpt_user(bench: Bench, home: Path) -> Config:
    """A login as Codex writes it, with made-up tokens, whose provider is the loopback model."""
    claims = {"https://api.openai.com/auth": {"chatgpt_plan_type": "plus", "chatgpt_account_id": "ann"}}
    parts = [base64.urlsafe_b64encode(msgspec.json.encode(each)) for each in ({"alg": "none"}, claims)]
    tokens = {
        "id_token": b".".join((*parts, b"c2ln")).replace(b"=", b"").decode(),
        "access_token": bench.model.key,
        "refresh_token": "made-up",
        "account_id": "ann",
    }
    today = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    home.mkdir()
    (home / "auth.json").write_bytes(
        msgspec.json.encode({"OPENAI_API_KEY": None, "tokens": tokens, "last_refresh": today})
    )
    (home / "config.toml").write_text(f'chatgpt_base_url = "{bench.model.url}/backend-api/"\n')
    account = Account(agent="codex", home=str(home))
    return Config(commands={"codex": bench.runtime.command}, accounts={"plan": account})


@live("codex", "0.166.0", "0.104.0")
def test_codex_tells_the_limits_of_a_subscription_without_a_model(bench: Bench, tmp_path: Path) -> None:
    config = as_chatgpt_user(bench, tmp_path / "plan")
    login = (tmp_path / "plan" / "auth.json").read_bytes()
    bench.attempt(USED)
    before = len(bench.model.requests)
    told = ask_limits(config, config.accounts["plan"], bench.env)
    assert told.problem is None
    now_ms = time.time() * 1000
    assert [(each.window, each.used, each.source) for each in told.limits] == [
        ("5h", 0.82, "app_server"),
        ("7d", 0.31, "app_server"),
    ]
    assert all(now_ms < (each.resets_at or 0) < now_ms + 200_001_000 for each in told.limits)
    asked = bench.model.requests[before:]
    assert "/backend-api/wham/usage" in {each.path for each in asked}
    assert all(each.side for each in asked), "no model is asked"
    assert (tmp_path / "plan" / "auth.json").read_bytes() == login
    assert bench.alive() == []


@pytest.mark.fact
@live("codex", "0.166.0", "0.104.0")
def test_codex_tells_nothing_without_a_subscription(bench: Bench, tmp_path: Path) -> None:
    config = as_chatgpt_user(bench, tmp_path / "plan")
    adapter = registry.get("codex", config)
    assert isinstance(adapter, TellsLimits)
    inquiry = adapter.limits_inquiry(tmp_path / "plan", {})
    assert inquiry is not None
    (tmp_path / "plan" / "auth.json").write_bytes(msgspec.json.encode({"OPENAI_API_KEY": "made-up"}))
    assert ask_limits(config, config.accounts["plan"], bench.env).problem == (
        "Codex tells limits only of a login with a subscription"
    )
    argv, env = (*bench.runtime.command, *inquiry.args), bench.env | adapter.home_env(tmp_path / "plan")
    told = inquire(argv, inquiry.sent, adapter.limits_told, env=env, cwd=bench.cwd, time_s=60)
    assert told is not None
    assert told.problem == "chatgpt authentication required to read rate limits"


@pytest.mark.parametrize("talk", [pytest.param(("codex", "0.166.0"), id="codex-0.166.0")], indirect=True)
def test_they_are_stored_for_the_next_turn(talk: Talk) -> None:
    first = talk.run(USED).turn
    assert [(each["window"], each["used"]) for each in first["limits"]] == [("5h", 0.82), ("7d", 0.31)]
    assert first["pays"] == "api_key"
    found = talk.why("hello")
    assert [each["used"] for each in found["limits"]] == [0.82, 0.31]
    (check,) = [each for each in found["checks"] if each["check"] == "limits"]
    assert (check["verdict"], check["detail"]) == ("pass", "5h limit 82% used, 7d limit 31% used")
