"""Keys and ids: checked when they come from outside, so that none can be taken for a flag or a path.

Version numbers as comparable values, for the adapters' version tables.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module

from segue.core.errors import Misuse

LONGEST = 200
"""The longest key, in characters."""
_KEY = rf"[A-Za-z0-9._/@~-]{{1,{LONGEST}}}"
_NATIVE_ID = r"[A-Za-z0-9][A-Za-z0-9._:-]{0,199}"
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_BITS, _RANDOM_BITS = 48, 80


def conversation_key(text: str) -> str:
    """Return the key unchanged, or raise ``Misuse``."""
    if not re.fullmatch(_KEY, text):
        hint = f'; did you forget the key? segue run KEY "{_brief(text)}"' if text.strip() else ""
        allowed = f"1 to {LONGEST} letters, digits and . _ / @ ~ -"
        raise Misuse(f'"{_brief(text)}" is not a conversation key ({allowed}){hint}')
    if text.startswith("-"):
        raise Misuse(f'"{text}" is not a conversation key: it starts like an option')
    if ".." in text.split("/"):
        raise Misuse(f'"{text}" is not a conversation key: it contains ".." as a path part')
    return text


def numbered(key: str, number: int) -> str:
    """``KEY~2``; a key that is too long for that is shortened."""
    behind = f"~{number}"
    return key[: LONGEST - len(behind)] + behind


def checked_uuid(text: str) -> str:
    """Return a uuid in its canonical form, or raise ``Misuse``."""
    canonical = text.lower()
    if not re.fullmatch(_UUID, canonical):
        raise Misuse(f'"{_brief(text)}" is not a session id: it should be a uuid')
    return canonical


def native_id(text: str) -> str:
    """Return an id of any CLI unchanged, or raise ``Misuse`` if it is empty or could be a flag or a path."""
    if not re.fullmatch(_NATIVE_ID, text) or ".." in text:
        raise Misuse(f'"{_brief(text)}" is not a session id')
    return text


def flag(name: str, value: str) -> str:
    """``--name=value``, so that a value is never taken for another option."""
    if "\0" in value:
        raise Misuse(f"--{name} cannot contain a NUL character")
    return f"--{name}={value}"


def id_of(now_ms: int, random_bytes: bytes) -> str:
    """One of our ids: 26 characters that sort by time (48 bits of milliseconds, 80 random bits)."""
    if not 0 <= now_ms < 1 << _TIME_BITS or len(random_bytes) * 8 != _RANDOM_BITS:
        raise ValueError("an id takes 48 bits of milliseconds and 10 random bytes")
    number = now_ms << _RANDOM_BITS | int.from_bytes(random_bytes, "big")
    return "".join(_CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))


def short_id(session_id: str) -> str:
    """A hash of a session id for logs and exports: enough to compare, not enough to resume with."""
    return sha256_hex(session_id.encode("utf-8", "surrogatepass"))[:8]


def sha256_hex(data: bytes) -> str:
    """The hash of a few bytes, without ``hashlib``: it loads OpenSSL, which takes some milliseconds."""
    try:
        hashes = import_module("_sha2" if sys.version_info >= (3, 12) else "_sha256")
    except ImportError:  # another Python than CPython
        hashes = import_module("hashlib")
    return str(hashes.sha256(data).hexdigest())


def _brief(text: str) -> str:
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= 60 else f"{line[:59]}…"


def version_parts(version: str | None) -> tuple[int, ...]:
    """``"2.1.325-beta.1"`` as ``(2, 1, 325)``; an unknown version sorts before all others."""
    found = re.match(r"\d+(?:\.\d+)*", version or "")
    return tuple(int(part) for part in found[0].split(".")) if found else ()
