"""Where configuration comes from: a file, whose errors name a line, or a variable."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from segue.core.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


KeyPath = tuple[str, ...]

_TOML_LINE = r"\s*\(at line (\d+), column \d+\)$"
_TOML_END = r"\s*\(at end of document\)$"


class Source:
    """Tables, and the names of places in them for error messages."""

    def __init__(self, name: str, tables: dict[str, Any], text: str | None = None) -> None:
        self.name = name
        self.tables = tables
        self._text = text

    def error(self, path: KeyPath, message: str) -> ConfigError:
        return ConfigError(f"{self.where(path)}: {message}")

    def where(self, path: KeyPath) -> str:
        line = line_of(self._text, path) if self._text is not None else None
        return self.name if line is None else f"{self.name}:{line}"


def read_file(path: Path) -> Source | None:
    """The file as a source, or None if it does not exist."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    return source_of(path.name, raw)


def source_of(name: str, raw: bytes) -> Source:
    """The contents of a file as a source."""
    text = _decode(name, raw).replace("\r\n", "\n")
    return Source(name, _parse(name, text), text)


def read_text(name: str, raw: bytes) -> str:
    """The text of a file as it is written, which is known to be TOML. Raises ``ConfigError``."""
    text = _decode(name, raw)
    _parse(name, text.replace("\r\n", "\n"))
    return text


def _decode(name: str, raw: bytes) -> str:
    try:
        return raw.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        byte = f"0x{raw[error.start]:02x}"
        raise ConfigError(
            f"{name}:{line}: is not UTF-8 (byte {byte} at offset {error.start}); save it as UTF-8"
        ) from None


def _parse(name: str, text: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        message = str(error)
        found = re.search(_TOML_LINE, message)
        line = int(found[1]) if found else text.count("\n") + 1
        reason = re.sub(_TOML_END, " at the end of the file", re.sub(_TOML_LINE, "", message))
        raise ConfigError(f"{name}:{line}: is not TOML: {reason[:1].lower()}{reason[1:]}") from None


_QUOTED = r"""\"(?:[^"\\\n]|\\.)*\"|'[^'\n]*'"""
_TEXT = rf"""(\"{{3}}(?:[^\\]|\\.)*?\"{{3,5}}|'{{3}}.*?'{{3,5}}|\#[^\n]*)|{_QUOTED}"""
"""The first group: comments, and strings that may span several lines."""
_NAME = rf"(?:{_QUOTED}|[\w-]+)"
_KEY = rf"\s*(\[\[?)?\s*({_NAME}(?:\s*\.\s*{_NAME})*)\s*(?(1)\]|=)"


def line_of(text: str, path: KeyPath) -> int | None:
    """The line of the key, or of the nearest table around it, in a text that is known to be TOML."""
    line, depth = None, 0
    for number, names, value in _statements(text):
        common, end = _common(names, path), 0
        for name in path[common:] if common == len(names) else ():
            inside = re.search(rf"(?<![\w-])[\"']?{re.escape(name)}[\"']?\s*[=.]", value[end:])
            if inside is None:
                break
            common, end = common + 1, end + inside.end()
        if common > depth:
            line, depth = number + value.count("\n", 0, end), common
    return line


def _common(one: KeyPath, other: KeyPath) -> int:
    """The number of leading names that both have in common."""
    count = 0
    for name, same in zip(one, other, strict=False):
        if name != same:
            break
        count += 1
    return count


def _statements(text: str) -> Iterator[tuple[int, KeyPath, str]]:
    """Each table and each key with its line, and the value of the key."""
    plain = re.sub(_TEXT, _shortened, text, flags=re.DOTALL)
    table: KeyPath = ()
    lines = iter(enumerate(plain.split("\n"), 1))
    for number, line in lines:
        key = re.match(_KEY, line)
        if key is None:
            continue
        names = tuple(name[1:-1] if name[0] in "\"'" else name for name in re.findall(_NAME, key[2]))
        if key[1]:
            table = names
            yield number, table, ""
            continue
        value = line[key.end() :]
        while _is_open(value) and (following := next(lines, None)) is not None:
            value += f"\n{following[1]}"
        yield number, (*table, *names), value


def _shortened(text: re.Match[str]) -> str:
    return text[0] if text[1] is None else "\n" * text[1].count("\n")


def _is_open(value: str) -> bool:
    """Whether an array or an inline table continues after it."""
    bare = re.sub(_QUOTED, "", value)
    return bare.count("[") + bare.count("{") > bare.count("]") + bare.count("}")
