"""Whether Gemini and Vibe are logged in, as their settings and the names of files and variables show it."""

from __future__ import annotations

from pathlib import Path

import pytest

from segue.agents.gemini.adapter import AGENT as GEMINI
from segue.agents.vibe.adapter import AGENT as VIBE

OWN = """
active_model = "mine"
[[models]]
name = "m"
alias = "mine"
provider = "own"
[[providers]]
name = "own"
api_key_env_var = "{key}"
"""
BUS = {"DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/bus"}
SECRET = b"\xff not to be read"


def selected(way: str) -> bytes:
    return b'{"security": {"auth": {"selectedType": "%s"}}}' % way.encode()


def put(home: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(content)


@pytest.mark.parametrize(
    ("files", "env", "says"),
    [
        ({}, {}, False),
        ({"settings.json": b"{}"}, {}, False),
        ({"settings.json": b"{}"}, BUS, False),
        ({"settings.json": b'{"ui": 1} // hm'}, {}, None),
        ({".env": SECRET}, {}, None),
        ({"settings.json": selected("oauth-personal")}, {}, False),
        ({"settings.json": selected("oauth-personal")}, BUS, None),
        ({"settings.json": selected("oauth-personal"), "oauth_creds.json": SECRET}, {}, True),
        ({"settings.json": b'{"selectedAuthType": "oauth-personal"}', "oauth_creds.json": SECRET}, {}, True),
        ({"settings.json": selected("gemini-api-key")}, {}, False),
        ({"settings.json": selected("gemini-api-key")}, {"GEMINI_API_KEY": "x"}, True),
        ({"settings.json": selected("gemini-api-key"), "gemini-credentials.json": SECRET}, {}, True),
        ({"settings.json": selected("gemini-api-key"), ".env": SECRET}, {}, None),
        ({"settings.json": selected("vertex-ai")}, {}, False),
        ({"settings.json": selected("vertex-ai")}, {"GOOGLE_API_KEY": "x"}, True),
        (
            {"settings.json": selected("vertex-ai")},
            {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "l"},
            True,
        ),
        ({"settings.json": selected("compute-default-credentials")}, {}, None),
        ({}, {"GEMINI_API_KEY": "x"}, True),
        ({}, {"GOOGLE_GENAI_USE_GCA": "true"}, False),
        ({}, {"GOOGLE_GENAI_USE_GCA": "true", "GOOGLE_CLOUD_ACCESS_TOKEN": "x"}, True),
        ({}, {"GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:1"}, True),
    ],
)
def test_gemini(tmp_path: Path, files: dict[str, bytes], env: dict[str, str], says: bool | None) -> None:
    put(tmp_path / ".gemini", files)
    for name in files:
        if files[name] is SECRET:
            (tmp_path / ".gemini" / name).chmod(0)
    assert GEMINI.logged_in(tmp_path, env) is says


@pytest.mark.parametrize(
    ("files", "env", "says"),
    [
        (None, {}, False),
        (None, BUS, False),
        ({}, {}, False),
        ({}, BUS, None),
        ({}, {"MISTRAL_API_KEY": "x"}, True),
        ({".env": SECRET}, {}, True),
        ({".env": b""}, {}, False),
        ({"config.toml": b"not toml ="}, {}, False),
        ({"config.toml": b'active_model = "devstral"'}, {}, False),
        ({"config.toml": OWN.format(key="MY_KEY").encode()}, {"MISTRAL_API_KEY": "x"}, False),
        ({"config.toml": OWN.format(key="MY_KEY").encode()}, {"MY_KEY": "x"}, True),
        ({"config.toml": OWN.format(key="").encode()}, {}, True),
    ],
)
def test_vibe(tmp_path: Path, files: dict[str, bytes] | None, env: dict[str, str], says: bool | None) -> None:
    home = tmp_path / ".vibe"
    if files is not None:
        home.mkdir()
        put(home, files)
    assert VIBE.logged_in(home, env) is says
