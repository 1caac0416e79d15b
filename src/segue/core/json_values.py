"""Decodes JSON into our types. Each decoder is made once, by one thread at a time.

msgspec inspects a struct when it is first used; if two threads do so at the same moment, the whole process
crashes (signal 11). So anything a thread may decode is decoded here, or by a decoder that was made when its
module was imported.

A minimal JSON path: where a declared agent keeps its session id, its text, its usage.

    $            the whole record
    .name        a field of an object (the leading ``$.`` can be left out)
    ["name"]     the same, for names with dots, brackets or spaces in them; also with single quotes
    [0]  [-1]    an element of a list, from the front or from the end

No filters, no wildcards, no recursion: a path names one place, and a lookup never fails.

Values from foreign JSON: the wanted type, or nothing, because formats drift.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from threading import Lock
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
Hook = Callable[[type, Any], Any]

_MAKING = Lock()
_made: dict[tuple[Any, Hook | None], msgspec.json.Decoder[Any]] = {}


def decode(data: bytes | str | msgspec.Raw, kind: type[T], dec_hook: Hook | None = None) -> T:
    """Decode JSON. Raises ``msgspec.MsgspecError``, as msgspec does."""
    known = _made.get((kind, dec_hook))
    if known is None:
        with _MAKING:
            known = _made.setdefault((kind, dec_hook), msgspec.json.Decoder(kind, dec_hook=dec_hook))
    decoded: T = known.decode(data)
    return decoded


Step = str | int
Scalar = str | int | float | bool

_NAME = r"\.([A-Za-z_$@][\w$@-]*)"
_INDEX = r"\[(-?[0-9]{1,9})\]"
_QUOTED = r"""\[(?:"([^"]*)"|'([^']*)')\]"""


@lru_cache(maxsize=256)
def path_steps(path: str) -> tuple[Step, ...]:
    """The steps of a path. Raises ``ValueError`` that says where it is wrong."""
    rooted = path == "$" or path.startswith(("$.", "$["))
    text = path[1:] if rooted else f".{path}"
    found: list[Step] = []
    at = 0
    while at < len(text):
        step, end = _next(text, at)
        if step is None:
            hint = "a path looks like $.message.text or $.items[0].id"
            raise ValueError(f'"{path}" is not a JSON path: cannot read "{text[at:]}"; {hint}')
        found.append(step)
        at = end
    return tuple(found)


def look_up(record: Any, path: str) -> Any:
    """The value at the path, or ``None`` if there is none."""
    for step in path_steps(path):
        if isinstance(step, str):
            record = record.get(step) if isinstance(record, dict) else None
        else:
            within = isinstance(record, list) and -len(record) <= step < len(record)
            record = record[step] if within else None
    return record


def fulfills(record: Any, when: Mapping[str, Scalar]) -> bool:
    """Whether the record has all these values at these paths (``true`` is not 1)."""
    return all(_same(look_up(record, path), wanted) for path, wanted in when.items())


def _same(found: Any, wanted: Scalar) -> bool:
    return isinstance(found, bool) == isinstance(wanted, bool) and bool(found == wanted)


def _next(text: str, at: int) -> tuple[Step | None, int]:
    if match := re.compile(_NAME).match(text, at):
        return match[1], match.end()
    if match := re.compile(_INDEX).match(text, at):
        return int(match[1]), match.end()
    if match := re.compile(_QUOTED).match(text, at):
        return match[1] if match[1] is not None else match[2], match.end()
    return None, at


def as_whole(value: Any) -> int | None:
    """A whole number; a fraction is truncated."""
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def as_number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def as_table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def as_items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
