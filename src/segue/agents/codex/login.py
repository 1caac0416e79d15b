"""Who is logged in, as a fingerprint: of Codex's ``auth.json`` only the account's open id is read."""

from __future__ import annotations

import time
from hashlib import sha256
from pathlib import Path

import msgspec

REWRITE_S = 0.05
"""How long a file that is just being written may be broken."""


class _Tokens(msgspec.Struct, frozen=True):
    account_id: str | None = None


class _Auth(msgspec.Struct, frozen=True):
    tokens: _Tokens | None = None


_auth = msgspec.json.Decoder(_Auth)


def fingerprint(path: Path) -> str | None:
    """``None``: nobody, somebody with a key of their own, or a file that stays unreadable."""
    auth = _read(path)
    if auth is None and path.exists():
        time.sleep(REWRITE_S)
        auth = _read(path)
    account = auth.tokens.account_id if auth is not None and auth.tokens is not None else None
    return sha256(account.encode()).hexdigest()[:16] if account else None


def _read(path: Path) -> _Auth | None:
    try:
        return _auth.decode(path.read_bytes())
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
