"""Who is logged in to Claude, as far as its files say so openly: a fingerprint, never the name itself."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

REREAD_SECONDS = 0.05


class _Account(msgspec.Struct, frozen=True, rename="camel"):
    account_uuid: str = ""
    organization_uuid: str | None = None


class _Settings(msgspec.Struct, frozen=True, rename="camel"):
    oauth_account: _Account | None = None


_settings = msgspec.json.Decoder(_Settings)


def fingerprint(home: Path) -> str | None:
    """None: nobody is, or the file cannot be read; a broken one may be in the middle of being written."""
    path = home / ".claude.json"
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


def _hashed(text: str) -> str:
    from hashlib import sha256  # most turns never ask, and start faster without it

    return sha256(text.encode()).hexdigest()[:16]
