"""Who is logged in to Claude, as far as its files say so openly: a fingerprint, never the name itself."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

REREAD_SECONDS = 0.05


class _Account(msgspec.Struct, frozen=True, rename="camel"):
    account_uuid: str = ""
    organization_uuid: str | None = None


class _Settings(msgspec.Struct, frozen=True, rename="camel"):
    oauth_account: _Account | None = None


_settings = msgspec.json.Decoder(_Settings)


def fingerprint(home: Path, env: Mapping[str, str]) -> str | None:
    """None: nobody is, or the file cannot be read; a broken one may be in the middle of being written."""
    path = settings_file(home, env)
    for pause in (REREAD_SECONDS, 0):
        try:
            account = _settings.decode(path.read_bytes()).oauth_account
        except OSError:
            return None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            time.sleep(pause)
            continue
        if account is None or not account.account_uuid:
            return None
        return _hashed(f"{account.account_uuid}\n{account.organization_uuid or ''}")
    return None


def settings_file(home: Path, env: Mapping[str, str]) -> Path:
    """As Claude looks for it: beside its home, not in it, unless CLAUDE_CONFIG_DIR names the home. A file of
    the old name that holds something comes first."""
    old = home / ".config.json"
    try:
        if old.stat().st_size > 0:
            return old
    except OSError:
        pass
    named = env.get("CLAUDE_CONFIG_DIR")
    return (home if named else home.parent) / ".claude.json"


def _hashed(text: str) -> str:
    from hashlib import sha256  # most turns never ask, and start faster without it

    return sha256(text.encode()).hexdigest()[:16]
