"""Whether Vibe is logged in, without a look at any secret: of its ``.env``, only whether it is there."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from segue.agents import keyring

DEFAULT_KEY = "MISTRAL_API_KEY"


def logged_in(home: Path, env: Mapping[str, str]) -> bool | None:
    """None: it cannot be told, because a keyring may hold the key."""
    key = _key(home)
    if not key or env.get(key):
        return True
    if _holds_something(home / ".env"):
        return True
    return None if home.is_dir() and keyring.is_reachable(env) else False


def _key(home: Path) -> str:
    """The variable that holds the key of the provider that is set; empty where it needs none."""
    try:
        config = tomllib.loads((home / "config.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return DEFAULT_KEY
    models, providers = _entries(config, "models"), _entries(config, "providers")
    wanted = config.get("active_model")
    model = next((each for each in models if wanted in (each.get("alias"), each.get("name"))), {})
    provider = next((each for each in providers if each.get("name") == model.get("provider")), None)
    return str(provider.get("api_key_env_var", "")) if provider is not None else DEFAULT_KEY


def _entries(config: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = config.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _holds_something(file: Path) -> bool:
    try:
        return file.stat().st_size > 0
    except OSError:
        return False
