"""Where Claude keeps the sessions of a directory: ``<home>/projects/<the directory's name>/<id>.jsonl``."""

from __future__ import annotations

import os
import re
from pathlib import Path

from segue.core.errors import Misuse
from segue.core.keys import uuid

LONGEST_NAME = 200
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def folder(home: Path, cwd: Path) -> Path:
    """The folder that Claude uses for a directory."""
    path = os.path.realpath(cwd)
    units = [int.from_bytes(pair, "little") for pair in _pairs(path.encode("utf-16-le", "surrogatepass"))]
    name = re.sub(r"[^A-Za-z0-9]", "-", "".join(map(chr, units)))
    if len(name) > LONGEST_NAME:
        name = f"{name[:LONGEST_NAME]}-{_hash(units)}"
    return home / "projects" / name


def find(home: Path, session: str, cwd: Path) -> Path | None:
    """The file of a session: the directory's own, else the newest that another directory has."""
    try:
        name = f"{uuid(session)}.jsonl"
    except Misuse:
        return None
    own = folder(home, cwd) / name
    if own.is_file():
        return own
    others = [path for path in home.glob(f"projects/*/{name}") if path.is_file()]
    return max(others, key=_changed, default=None)


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _pairs(data: bytes) -> list[bytes]:
    return [data[n : n + 2] for n in range(0, len(data), 2)]


def _hash(units: list[int]) -> str:
    """What tells apart the names that were cut: 32 bits over the path, in base 36."""
    value = 0
    for unit in units:
        value = (value * 31 + unit) & 0xFFFFFFFF
    value = abs(value - (1 << 32) if value >= 1 << 31 else value)
    digits = ""
    while value or not digits:
        value, digit = divmod(value, 36)
        digits = _DIGITS[digit] + digits
    return digits
