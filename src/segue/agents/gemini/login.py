"""Who is logged in, as Gemini's own files tell it openly: a fingerprint, never the name."""

from __future__ import annotations

import time
from hashlib import sha256
from pathlib import Path

import msgspec

AGAIN_S = 0.05


class _Accounts(msgspec.Struct, frozen=True):
    active: str | None = None


def login(home: Path) -> str | None:
    """None: nobody, or it cannot be told. A file that is just being rewritten gets a second look."""
    file = home / ".gemini" / "google_accounts.json"
    for attempt in range(2):
        try:
            active = msgspec.json.decode(file.read_bytes(), type=_Accounts).active
            return sha256(active.encode()).hexdigest()[:16] if active else None
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            if attempt == 0:
                time.sleep(AGAIN_S)
    return None
