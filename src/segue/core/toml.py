"""Writes tables as TOML: a section per table, everything below it inline."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any

import msgspec

Tables = Mapping[str, Mapping[str, Any]]


def toml_text(tables: Tables, named: frozenset[str]) -> str:
    """``named``: sections whose entries are separate tables."""
    lines: list[str] = []
    for section, table in tables.items():
        if section in named:
            for name, entry in table.items():
                lines += [f"[{section}.{key_text(name)}]", *_pairs(entry), ""]
        else:
            lines += [f"[{section}]", *_pairs(table), ""]
    return "\n".join(lines)


def _pairs(table: Mapping[str, Any]) -> list[str]:
    return [f"{key_text(key)} = {value_text(value)}" for key, value in table.items()]


def value_text(value: Any) -> str:
    """A value as TOML, on one line."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(_pairs(value))} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(value_text, value))}]"
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, float):
        return repr(value)
    return _quoted(value)


def key_text(name: str) -> str:
    """A key, quoted if it has to be."""
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else _quoted(name)


def _quoted(value: str | bool | int) -> str:
    """JSON strings, numbers and booleans are valid TOML, except for one character."""
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
