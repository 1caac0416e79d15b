"""Who is logged in, as Gemini's own files tell it openly: a fingerprint, never the name. And whether anybody
is: its settings are read, of files with secrets only whether they are there."""

from __future__ import annotations

import time
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import msgspec

from segue.agents import keyring
from segue.core.decoder import decode

AGAIN_S = 0.05
BY_VARIABLE = {
    "GOOGLE_GENAI_USE_GCA": "oauth-personal",
    "GOOGLE_GENAI_USE_VERTEXAI": "vertex-ai",
    "GOOGLE_GEMINI_BASE_URL": "gateway",
    "GEMINI_API_KEY": "gemini-api-key",
    "CLOUD_SHELL": "compute-default-credentials",
    "GEMINI_CLI_USE_COMPUTE_ADC": "compute-default-credentials",
}
"""What a variable chooses where the settings do not, in the order in which Gemini looks."""
STORED = ("oauth_creds.json", "gemini-credentials.json")


class _Accounts(msgspec.Struct, frozen=True):
    active: str | None = None


def login(home: Path) -> str | None:
    """None: nobody, or it cannot be told. A file that is just being rewritten gets a second look."""
    file = home / ".gemini" / "google_accounts.json"
    for attempt in range(2):
        try:
            active = decode(file.read_bytes(), _Accounts).active
            return sha256(active.encode()).hexdigest()[:16] if active else None
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            if attempt == 0:
                time.sleep(AGAIN_S)
    return None


class _Auth(msgspec.Struct, frozen=True):
    selected: str | None = msgspec.field(default=None, name="selectedType")


class _Security(msgspec.Struct, frozen=True):
    auth: _Auth = _Auth()


class _Settings(msgspec.Struct, frozen=True):
    security: _Security = _Security()
    older: str | None = msgspec.field(default=None, name="selectedAuthType")


def logged_in(home: Path, env: Mapping[str, str]) -> bool | None:
    """None: it cannot be told, because a ``.env``, a keyring or the machine may hold what is missing."""
    way = _selected(home) or next((way for name, way in BY_VARIABLE.items() if env.get(name)), None)
    stored = any((home / ".gemini" / name).exists() for name in STORED)
    known = {
        None: False,
        "oauth-personal": stored or bool(env.get("GOOGLE_CLOUD_ACCESS_TOKEN")),
        "gemini-api-key": stored or bool(env.get("GEMINI_API_KEY")),
        "vertex-ai": _vertex(env),
        "gateway": True,
    }.get(way)
    if known is not False:
        return known
    elsewhere = any(file.exists() for file in (home / ".gemini" / ".env", home / ".env"))
    return None if elsewhere or (way is not None and keyring.is_reachable(env)) else False


def _selected(home: Path) -> str | None:
    """What its settings choose. It takes comments in them, so what we cannot read may choose anything."""
    try:
        settings = decode((home / ".gemini" / "settings.json").read_bytes(), _Settings)
    except OSError:
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return "unreadable"
    return settings.security.auth.selected or settings.older


def _vertex(env: Mapping[str, str]) -> bool:
    whole = env.get("GOOGLE_CLOUD_PROJECT") and env.get("GOOGLE_CLOUD_LOCATION")
    return bool(whole or env.get("GOOGLE_API_KEY"))
