"""The names that users gave to threads: ``session_index.jsonl``, a line for each naming; the last counts."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import msgspec

INDEX = "session_index.jsonl"
MOST = 1 << 24
"""An index larger than this is read from its end."""


class Naming(msgspec.Struct, frozen=True):
    id: str = ""
    thread_name: str = ""


_naming = msgspec.json.Decoder(Naming)


def name(home: Path, thread: str) -> str | None:
    index = f"{home}/{INDEX}"
    try:
        found = os.stat(index)
    except OSError:
        return None
    return _names(index, found.st_mtime_ns, found.st_size).get(thread)


def naming(line: bytes) -> Naming:
    try:
        return _naming.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Naming()


@lru_cache(maxsize=8)
def _names(index: str, changed_ns: int, size: int) -> dict[str, str]:
    """The state of the file is part of the key, so that it is read again once somebody was named."""
    try:
        with Path(index).open("rb") as file:
            file.seek(max(0, size - MOST))
            lines = file.read(MOST).splitlines()
    except OSError:
        return {}
    found = (naming(line) for line in lines)
    return {one.id: one.thread_name for one in found if one.id and one.thread_name.strip()}
