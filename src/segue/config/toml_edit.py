"""Changes single keys and tables in the text of a TOML file. Everything else stays as it is, byte by byte.

    new = edited(text, [Change(("accounts", "work", "agent"), "codex"), Change(("accounts", "old"), GONE)])

The text is changed by line, and the result is parsed and compared with what was meant. What cannot be changed
this way (an inline table, dotted keys, a table in pieces) raises ``NotEditable``, and nothing is changed.
"""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from segue.config.source import KeyPath
from segue.core.toml import key_text, value_text

GONE = object()
"""The value of a key or a table that is removed."""
_TEXT = re.compile(
    r"""\"{3}(?:[^\\]|\\.)*?\"{3,5}|'{3}.*?'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|\#[^\n]*""", re.DOTALL
)


class NotEditable(Exception):  # noqa: N818 - it is caught, and told in other words
    """The file has a form that is not changed by program."""


class Change(NamedTuple):
    """A key of a table gets a value; with ``GONE``, a key or a whole table is removed."""

    path: KeyPath
    value: Any


class _Line(NamedTuple):
    """A heading, a key with its value, a blank line or a comment: with all its lines, to the newline."""

    start: int
    end: int
    names: KeyPath | None = None
    """Of a heading, or of a key below its heading; None: neither."""
    heading: bool = False


def edited(text: str, changes: Iterable[Change]) -> str:
    """The new text. Raises ``NotEditable``."""
    wanted = list(changes)
    meant = _meant(tomllib.loads(text), wanted)
    new = text
    for change in wanted:
        new = _removed(new, change.path) if change.value is GONE else _set(new, change)
    try:
        became = tomllib.loads(new)
    except tomllib.TOMLDecodeError:
        raise NotEditable from None
    if _without_empty(became) != _without_empty(meant):
        raise NotEditable
    return new


def by_hand(changes: Iterable[Change]) -> str:
    """What to write and what to remove instead, on one line."""
    said = []
    for path, value in changes:
        if value is GONE:
            said.append(f"remove {'.'.join(path)}")
        else:
            heading = f"[{'.'.join(map(key_text, path[:-1]))}]"
            said.append(f"write {key_text(path[-1])} = {value_text(value)} under {heading}")
    return "; ".join(said)


def _meant(tables: dict[str, Any], changes: Sequence[Change]) -> dict[str, Any]:
    """What the file should say."""
    result = copy.deepcopy(tables)
    for path, value in changes:
        table: Any = result
        for name in path[:-1]:
            if value is GONE and name not in table:
                break
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                raise NotEditable
        else:
            if value is GONE:
                table.pop(path[-1], None)
            else:
                table[path[-1]] = _plain(value)
    return result


def _without_empty(tables: dict[str, Any]) -> dict[str, Any]:
    """Without empty tables: a heading alone says nothing."""
    kept = {name: _without_empty(each) if isinstance(each, dict) else each for name, each in tables.items()}
    return {name: each for name, each in kept.items() if each != {}}


def _plain(value: Any) -> Any:
    """As a parser returns it."""
    return tomllib.loads(f"value = {value_text(value)}")["value"]


def _set(text: str, change: Change) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    *table, key = change.path
    line = f"{key_text(key)} = {value_text(change.value)}{newline}"
    lines = _lines(text)
    at = [n for n, each in enumerate(lines) if each.heading and each.names == tuple(table)]
    if not at:
        gap = "" if not text else newline if text.endswith("\n") else newline * 2
        return f"{text}{gap}[{'.'.join(map(key_text, table))}]{newline}{line}"
    body = _body(lines, at[0])
    for each in body:
        if each.names == (key,):
            comment = _comment(text[each.start : each.end])
            return text[: each.start] + line.removesuffix(newline) + comment + newline + text[each.end :]
    last = next((each for each in reversed(body) if each.names is not None), lines[at[0]])
    before = text[: last.end]
    return before + ("" if before.endswith("\n") else newline) + line + text[last.end :]


def _removed(text: str, path: KeyPath) -> str:
    lines = _lines(text)
    table: KeyPath = ()
    gone: list[tuple[int, int]] = []
    for n, each in enumerate(lines):
        if each.heading:
            table = each.names or ()
            if table[: len(path)] == path:
                body = [one for one in _body(lines, n) if one.names is not None]
                gone.append((each.start, (body[-1] if body else each).end))
        elif table[: len(path)] == path:
            continue  # gone with its heading
        elif each.names is not None and (*table, *each.names)[: len(path)] == path:
            gone.append((each.start, each.end))
    for start, end in reversed(gone):
        text = text[:start] + text[end:]
    return re.sub(r"\A(\r?\n)+", "", text) if gone and gone[0][0] == 0 else text


def _body(lines: Sequence[_Line], at: int) -> list[_Line]:
    """What follows a heading, up to the next one."""
    found = []
    for each in lines[at + 1 :]:
        if each.heading:
            break
        found.append(each)
    return found


def _comment(line: str) -> str:
    """The comment after a value, with the space before it."""
    found = re.search(r"[ \t]*#[^\n]*$", _masked(line, keep_comments=True).rstrip("\r\n"))
    return "" if found is None else line.rstrip("\r\n")[found.start() :]


def _lines(text: str) -> list[_Line]:
    masked, found, start, depth = _masked(text), [], 0, 0
    for at, char in enumerate(masked):
        depth += (char in "[{") - (char in "]}")
        if (char == "\n" and depth <= 0) or at == len(masked) - 1:
            found.append(_line(text, masked, start, at + 1))
            start, depth = at + 1, 0
    return found


def _line(text: str, masked: str, start: int, end: int) -> _Line:
    plain = masked[start:end].strip()
    if not plain:
        return _Line(start, end)
    if plain.startswith("["):
        begin, close = masked.index("[", start) + 1, masked.rindex("]", start, end)
        return _Line(start, end, _names(text[begin:close].strip("[]")), heading=True)
    return _Line(start, end, _names(text[start : masked.index("=", start)]))


def _names(key: str) -> KeyPath:
    """The names of a dotted key."""
    found, table = [], tomllib.loads(f"{key.strip()} = 0")
    while isinstance(table, dict):
        ((name, table),) = table.items()
        found.append(name)
    return tuple(found)


def _masked(text: str, *, keep_comments: bool = False) -> str:
    """The text with ``s`` for each character of a string, and blanks for comments: same length, same lines,
    but a string has no newline."""

    def mask(match: re.Match[str]) -> str:
        length = len(match[0])
        if match[0].startswith("#"):
            return "#" * length if keep_comments else " " * length
        return "s" * length

    return _TEXT.sub(mask, text)
