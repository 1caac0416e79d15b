"""Where requests go, by which method, and with which keys, from variables and settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.agents import registry
from segue.agents.decoding import TellsRoute
from segue.config.schema import Config
from segue.core.environment import ChildEnvironment, Route
from segue.core.view import UNKNOWN, Identity, is_same_user
from segue.turns.agent_choice import route_names

KEY = "sk-0123456789"


def route(agent: str, home: Path, env: dict[str, str], file: str = "", data: Any = None) -> Any:
    if file:
        (home / file).parent.mkdir(exist_ok=True)
        (home / file).write_bytes(data if isinstance(data, bytes) else msgspec.json.encode(data))
    adapter = registry.get(agent, Config())
    assert isinstance(adapter, TellsRoute)
    found = adapter.route(home, env)
    return None if found is None else (found.method, found.variables)


CASES: list[tuple[str, dict[str, str], Any, Any]] = [
    ("claude", {}, None, ("login", {})),
    ("claude", {"ANTHROPIC_API_KEY": KEY}, None, ("key", {"ANTHROPIC_API_KEY": ""})),
    ("claude", {"ANTHROPIC_BASE_URL": "https://x/"}, None, ("login", {"ANTHROPIC_BASE_URL": "https://x"})),
    ("claude", {"CLAUDE_CODE_USE_BEDROCK": "0", "AWS_PROFILE": "p"}, None, ("login", {})),
    (
        "claude",
        {"CLAUDE_CODE_USE_BEDROCK": "true", "AWS_PROFILE": "p"},
        None,
        ("cloud", {"CLAUDE_CODE_USE_BEDROCK": "", "AWS_PROFILE": "p"}),
    ),
    (
        "claude",
        {"CLAUDE_CODE_USE_VERTEX": "1", "ANTHROPIC_VERTEX_PROJECT_ID": "p"},
        None,
        ("cloud", {"CLAUDE_CODE_USE_VERTEX": "", "ANTHROPIC_VERTEX_PROJECT_ID": "p"}),
    ),
    (
        "claude",
        {},
        {"env": {"CLAUDE_CODE_USE_FOUNDRY": "1", "ANTHROPIC_FOUNDRY_RESOURCE": "r", "OTHER": 3}},
        ("cloud", {"CLAUDE_CODE_USE_FOUNDRY": "", "ANTHROPIC_FOUNDRY_RESOURCE": "r"}),
    ),
    ("claude", {}, {"env": {"ANTHROPIC_AUTH_TOKEN": KEY}}, ("key", {"ANTHROPIC_AUTH_TOKEN": ""})),
    ("claude", {}, {"env": {"ANTHROPIC_AUTH_TOKEN": ""}, "other": []}, ("login", {})),
    ("claude", {}, {"apiKeyHelper": "print-key"}, ("key", {"apiKeyHelper": ""})),
    ("claude", {}, {"env": []}, ("login", {})),
    ("claude", {}, b"", None),
    ("claude", {}, b'{"env": {"ANTHR', None),
    ("codex", {"OPENAI_BASE_URL": "https://x"}, None, ("login", {"OPENAI_BASE_URL": "https://x"})),
    ("codex", {"CODEX_API_KEY": KEY}, None, ("key", {"CODEX_API_KEY": ""})),
    ("gemini", {}, None, ("unknown", {})),
    ("gemini", {}, {"security": {"auth": {"selectedType": "oauth-personal"}}}, ("login", {})),
    (
        "gemini",
        {"GEMINI_API_KEY": KEY},
        {"security": {"auth": {"selectedType": "gemini-api-key"}}},
        ("key", {"GEMINI_API_KEY": "", "selectedType": "gemini-api-key"}),
    ),
    (
        "gemini",
        {"GOOGLE_GENAI_USE_VERTEXAI": "true", "GOOGLE_CLOUD_PROJECT": "p"},
        None,
        ("cloud", {"GOOGLE_CLOUD_PROJECT": "p", "selectedType": "vertex-ai"}),
    ),
    ("gemini", {}, b"{ // mine\n}", ("unknown", {})),
    ("gemini", {}, b'{"security": {', None),
    (
        "claude",
        {"ANTHROPIC_BASE_URL": "http://localhost:81"},
        None,
        ("login", {"ANTHROPIC_BASE_URL": "http://localhost"}),
    ),
]
FILES = {"claude": "settings.json", "gemini": ".gemini/settings.json"}


@pytest.mark.parametrize(("agent", "env", "settings", "expected"), CASES)
def test_the_route(agent: str, env: dict[str, str], settings: Any, expected: Any, tmp_path: Path) -> None:
    file = "" if settings is None else FILES[agent]
    assert route(agent, tmp_path, env, file, settings) == expected


OAUTH = "CLAUDE_CODE_OAUTH_TOKEN"


@pytest.mark.parametrize(
    ("agent", "env", "settings", "method", "keys"),
    [
        ("claude", {}, None, "login", {}),
        ("claude", {OAUTH: KEY}, None, "key", {OAUTH: True}),
        ("claude", {OAUTH: ""}, None, "login", {}),
        ("claude", {"ANTHROPIC_API_KEY": KEY}, None, "key", {"ANTHROPIC_API_KEY": True}),
        (
            "claude",
            {"ANTHROPIC_AUTH_TOKEN": KEY, OAUTH: KEY},
            {"env": {"ANTHROPIC_AUTH_TOKEN": "other"}},
            "key",
            {"ANTHROPIC_AUTH_TOKEN": False, OAUTH: True},
        ),
        ("claude", {}, {"env": {OAUTH: KEY}}, "key", {OAUTH: False}),
        ("claude", {"CLAUDE_CODE_USE_BEDROCK": "1", "ANTHROPIC_API_KEY": KEY}, None, "cloud", {}),
        ("codex", {"CODEX_API_KEY": KEY}, None, "key", {"CODEX_API_KEY": True}),
        ("codex", {"OPENAI_API_KEY": KEY}, None, "login", {"OPENAI_API_KEY": True}),
        ("gemini", {"GEMINI_API_KEY": KEY}, None, "key", {"GEMINI_API_KEY": True}),
        (
            "gemini",
            {"GEMINI_API_KEY": KEY},
            {"security": {"auth": {"selectedType": "oauth-personal"}}},
            "login",
            {},
        ),
        ("vibe", {"MISTRAL_API_KEY": KEY}, None, "key", {"MISTRAL_API_KEY": True}),
        ("vibe", {}, None, "unknown", {}),
        ("rehearsal", {"REHEARSAL_KEY": KEY}, None, "key", {"REHEARSAL_KEY": True}),
    ],
)
def test_the_keys_whose_value_says_who_it_is(
    agent: str, env: dict[str, str], settings: Any, method: str, keys: dict[str, bool], tmp_path: Path
) -> None:
    if settings is not None:
        (tmp_path / FILES[agent]).parent.mkdir(exist_ok=True)
        (tmp_path / FILES[agent]).write_bytes(msgspec.json.encode(settings))
    adapter = registry.get(agent, Config())
    assert isinstance(adapter, TellsRoute)
    found = adapter.route(tmp_path, env)
    assert found is not None
    assert (found.method, found.keys) == (method, keys)


def test_keys_that_nobody_reads_do_not_make_two_accounts_one_users() -> None:
    """Each of them has a key in a file of its own."""
    route = Route("key", {"ANTHROPIC_API_KEY": ""}, {"ANTHROPIC_API_KEY": False})
    name = route_names(route, ChildEnvironment({}))[0]
    assert not is_same_user(Identity(UNKNOWN, name, "one"), Identity(UNKNOWN, name, "other"))
    named = route_names(route, ChildEnvironment({}, user="me"))[0]
    assert is_same_user(Identity(UNKNOWN, named, "one"), Identity(UNKNOWN, named, "other"))
