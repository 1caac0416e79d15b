"""What of a session is searched: which entries, and which words of them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Literal

from segue.core.transcript import Entry

In = Literal["text", "tool"]

HEAD, TAIL = 64 * 1024, 8 * 1024
"""Of longer texts only the beginning and the end are searched."""
_SAID = frozenset(("user", "assistant", "thinking", "boundary"))
_BLOB = re.compile(r"[A-Za-z0-9+/=_-]{256,}")
"""Encoded data: no words of anybody."""
_BLOCK = 128
_DEPTH = 8


def searched(entry: Entry) -> In | None:
    """Whether it belongs to what was said, to what tools did, or to nothing one would search."""
    if entry.inserted:
        return None
    if entry.kind in _SAID or (entry.kind == "state" and entry.label == "title"):
        return "text"
    return "tool" if entry.kind in ("call", "result") else None


def wording(entry: Entry) -> str:
    """All its words: of a call, the tool's name and what it was given."""
    if entry.kind != "call":
        return entry.text
    return "\n".join((entry.tool, *_leaves(entry.input), entry.text))


def indexed(text: str) -> str:
    """What of the words goes into the index."""
    if len(text) > HEAD + TAIL:
        text = f"{text[:HEAD]}\n{text[-TAIL:]}"
    if _may_hold_blob(text):
        text = _BLOB.sub(" ", text)
    return text if text.isascii() else storable(text)


def _may_hold_blob(text: str) -> bool:
    """A run of 256 covers a whole block of half its length; few other texts do, and those are searched."""
    for at in range(0, len(text) - _BLOCK, _BLOCK):
        block = text[at : at + _BLOCK]
        if " " not in block and "\n" not in block:
            return True
    return False


def storable(text: str) -> str:
    """A session may hold halves of characters, which no database takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def marks(agent: str, cwd: str | None, where: In) -> str:
    """Words of our own that every row carries beside its text, so that the index itself can narrow down."""
    return " ".join((f"k{where}", agent_mark(agent), cwd_mark(cwd or "")))


def agent_mark(agent: str) -> str:
    return f"a{_hashed(agent)}"


def cwd_mark(cwd: str) -> str:
    return f"d{_hashed(cwd)}"


def _hashed(text: str) -> str:
    return blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()


def _leaves(value: Any, depth: int = 0) -> Iterator[str]:
    """The texts in it, however nested; numbers too, for they are looked for as well."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple) and depth < _DEPTH:
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each, depth + 1)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
