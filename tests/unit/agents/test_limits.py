"""What the adapters tell about usage limits and about what pays, beside Claude's stream."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from tests.unit.streams import concluded

from segue.agents import registry
from segue.agents.codex import trace as rollout
from segue.agents.codex.adapter import AGENT as CODEX
from segue.agents.decoding import TellsPays
from segue.agents.rehearsal.adapter import AGENT as REHEARSAL
from segue.config.schema import Config
from segue.core.usage import Limit, Pays

RESETS, LATER = 1794945417, 1795138217
WINDOWS = {
    "primary": {"used_percent": 82.0, "window_minutes": 300, "resets_at": RESETS},
    "secondary": {"used_percent": 31.0, "window_minutes": 10080, "resets_at": LATER},
}
"""As Codex 0.104 and 0.166 write them."""
BOTH = (Limit("5h", 0.82, RESETS * 1000, "session", 7), Limit("7d", 0.31, LATER * 1000, "session", 7))


def counted(limits: object) -> bytes:
    payload = {"type": "token_count", "info": None, "rate_limits": limits}
    line = {"timestamp": "2026-11-17T17:56:57.368Z", "type": "event_msg", "payload": payload}
    return msgspec.json.encode(line) + b"\n"


@pytest.mark.parametrize(
    ("told", "limits", "pays"),
    [
        ([{"limit_id": "codex", **WINDOWS, "plan_type": "plus"}], BOTH, "subscription"),
        ([{"limit_id": "codex", **WINDOWS, "plan_type": None}], BOTH, None),
        ([{"limit_id": "codex", "primary": None, "secondary": None}], (), None),
        ([None], (), None),
        ([{**WINDOWS}, {"primary": None, "secondary": None}], BOTH, None),
        (
            [{"limit_id": "mini", "primary": {"used_percent": 130.0, "window_minutes": 90}}],
            (Limit("90m_mini", 1.0, None, "session", 7),),
            None,
        ),
        ([{"primary": {"used_percent": 0.0}}], (Limit("unknown", 0.0, None, "session", 7),), None),
        ([{"primary": {"window_minutes": 300}}], (Limit("5h", None, None, "session", 7),), None),
        ([{"primary": "much"}], (), None),
    ],
)
def test_codex_writes_limits_into_its_session(
    tmp_path: Path, told: list[object], limits: tuple[Limit, ...], pays: str | None
) -> None:
    path = tmp_path / "rollout.jsonl"
    path.write_bytes(b"".join(map(counted, told)))
    outcome = concluded(CODEX, [], evidence={"trace": rollout.trace(path, 0)}, now_ms=7)
    assert (outcome.limits, outcome.pays) == (limits, pays)


def test_limits_of_an_earlier_turn_are_not_seen_again(tmp_path: Path) -> None:
    path = tmp_path / "rollout.jsonl"
    path.write_bytes(counted(WINDOWS))
    found = rollout.trace(path, 1794945417_000)
    assert found is not None
    assert found.limits == {}


def test_the_rehearsal_agent_tells_both() -> None:
    lines = (
        b'{"type": "session", "id": "s", "pays": "cloud"}',
        b'{"type": "limit", "window": "5h", "used": 0.5, "resets_at": 9000}',
        b'{"type": "limit", "window": "5h", "used": 0.6, "resets_at": 9000}',
    )
    outcome = concluded(REHEARSAL, [event for line in lines for event in REHEARSAL.parse(line)], now_ms=7)
    assert (outcome.limits, outcome.pays) == ((Limit("5h", 0.6, 9000, "stream", 7),), "cloud")


PROVIDER = 'model = "m"\nmodel_provider = "own"\n[model_providers.own]\nname = "own"\n'
SECRET = '"OPENAI_API_KEY": "not to be shown"'


@pytest.mark.parametrize(
    ("agent", "files", "env", "pays"),
    [
        ("claude", {}, {}, "unknown"),
        ("claude", {}, {"ANTHROPIC_API_KEY": "x"}, "api_key"),
        ("claude", {}, {"ANTHROPIC_API_KEY": ""}, "unknown"),
        ("claude", {}, {"CLAUDE_CODE_OAUTH_TOKEN": "x"}, "subscription"),
        ("claude", {}, {"CLAUDE_CODE_OAUTH_TOKEN": "x", "ANTHROPIC_AUTH_TOKEN": "x"}, "unknown"),
        ("claude", {}, {"CLAUDE_CODE_USE_BEDROCK": "1", "ANTHROPIC_API_KEY": "x"}, "cloud"),
        ("claude", {}, {"CLAUDE_CODE_USE_VERTEX": "true"}, "cloud"),
        ("claude", {}, {"CLAUDE_CODE_USE_BEDROCK": "0", "ANTHROPIC_API_KEY": "x"}, "api_key"),
        ("codex", {}, {}, "unknown"),
        ("codex", {}, {"OPENAI_API_KEY": "x"}, "api_key"),
        ("codex", {"auth.json": '{"tokens": {"account_id": "a"}}'}, {}, "subscription"),
        (
            "codex",
            {"auth.json": '{"tokens": {}, "auth_mode": "chatgpt"}'},
            {"OPENAI_API_KEY": "x"},
            "subscription",
        ),
        ("codex", {"auth.json": '{"tokens": {}, "auth_mode": "apikey"}'}, {}, "api_key"),
        ("codex", {"auth.json": "{" + SECRET + "}"}, {}, "api_key"),
        ("codex", {"auth.json": '{"auth_mode": "something new"}'}, {}, "unknown"),
        ("codex", {"auth.json": "{broken"}, {}, "unknown"),
        ("codex", {"auth.json": '{"tokens": {}}'}, {"CODEX_API_KEY": "x"}, "api_key"),
        ("codex", {"auth.json": '{"tokens": {}}', "config.toml": PROVIDER}, {}, "unknown"),
        ("codex", {"config.toml": PROVIDER + 'env_key = "OWN"\n'}, {}, "api_key"),
        ("codex", {"config.toml": PROVIDER + '[other]\nenv_key = "OWN"\n'}, {}, "unknown"),
        ("codex", {"config.toml": 'model_provider = "amazon-bedrock"\n'}, {}, "cloud"),
        (
            "codex",
            {"auth.json": '{"tokens": {}}', "config.toml": 'model_provider = "openai"'},
            {},
            "subscription",
        ),
        ("gemini", {}, {"GEMINI_API_KEY": "x"}, "api_key"),
        ("gemini", {}, {"GOOGLE_GENAI_USE_VERTEXAI": "true"}, "cloud"),
        ("gemini", {".gemini/settings.json": '{"selectedAuthType": "oauth-personal"}'}, {}, "subscription"),
        ("gemini", {".gemini/settings.json": "// what"}, {"GEMINI_API_KEY": "x"}, "unknown"),
        ("gemini", {}, {"GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:1"}, "unknown"),
        ("vibe", {}, {"MISTRAL_API_KEY": "x"}, "api_key"),
        ("vibe", {}, {}, "unknown"),
        ("rehearsal", {"login.json": '{"pays": "subscription"}'}, {}, "subscription"),
        ("rehearsal", {"login.json": '{"pays": "luck"}'}, {}, "unknown"),
        ("rehearsal", {}, {}, "unknown"),
    ],
)
def test_what_will_pay(
    tmp_path: Path, agent: str, files: Mapping[str, str], env: Mapping[str, str], pays: Pays
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    adapter = registry.get(agent, Config())
    assert isinstance(adapter, TellsPays)
    assert adapter.pays(tmp_path, env) == pays
