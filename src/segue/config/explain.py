"""Turns a refused configuration into one line: what is wrong, and what is allowed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import inspect

if TYPE_CHECKING:
    from collections.abc import Iterable

_AT = r" - at `\$\.?([A-Za-z_]*)[^`]*`$"
_MISSING = r"Object missing required field `(\w+)`"
_UNKNOWN = r"Object contains unknown field `([^`]+)`"


def no_such(kind: str, wrong: str, known: Iterable[str]) -> str:
    """``no key "grft"; did you mean "graft"?``, or the list of known names."""
    from difflib import get_close_matches

    names = list(known)
    close = get_close_matches(wrong.lower(), names, 1)
    hint = f'did you mean "{close[0]}"?' if close else f"known: {', '.join(names)}"
    return f'no {kind} "{wrong}"; {hint}'


def refused(
    error: msgspec.ValidationError, kind: type[msgspec.Struct], table: dict[str, Any]
) -> tuple[str, str]:
    """The key that msgspec refused ("" for the table itself), and why, as the end of a sentence."""
    message = str(error)
    place = re.search(_AT, message)
    key = place[1] if place else ""
    reason = message[: place.start()] if place else message
    if isinstance(error.__cause__, ValueError):
        return key, reason
    if missing := re.search(_MISSING, reason):
        return key, f"needs {missing[1]}"
    if unknown := re.search(_UNKNOWN, reason):
        return key, f'has no key "{unknown[1]}"'
    value = table.get(key)
    shown = "" if isinstance(value, dict | list) else f", not {shown_as(value)}"
    return key, f"must be {expected(field_type(kind, key))}{shown}"


def field_type(kind: type[msgspec.Struct], key: str) -> Any:
    """The type of a key, as ``msgspec.inspect`` describes it (None: the key does not exist)."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return next((field.type for field in info.fields if field.name == key), None)


def expected(kind: Any) -> str:
    """What a type allows, in words."""
    match kind:
        case inspect.LiteralType():
            return " or ".join(shown_as(value) for value in kind.values)
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType() | inspect.FloatType():
            return _number(kind)
        case inspect.StrType():
            return "a text"
        case inspect.VarTupleType():
            return f"a list, each {expected(kind.item_type)}"
        case inspect.DictType():
            return f"a table, each value {expected(kind.value_type)}"
        case inspect.UnionType():
            return " or ".join(expected(t) for t in kind.types if not isinstance(t, inspect.NoneType))
    return "a table"


def shown_as(value: Any) -> str:
    """A value as it is written in TOML, bounded."""
    text = msgspec.json.encode(value).decode() if isinstance(value, bool | str) else str(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _number(kind: Any) -> str:
    text = "a whole number" if isinstance(kind, inspect.IntType) else "a number"
    bounds = (("of at least", kind.ge), ("above", kind.gt), ("of at most", kind.le), ("below", kind.lt))
    limits = [f"{word} {bound:g}" for word, bound in bounds if bound is not None]
    return f"{text} {' and '.join(limits)}" if limits else text
