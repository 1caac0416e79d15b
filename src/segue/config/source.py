"""Where configuration comes from: a file, whose errors name a line, or a variable.

On which line of a TOML text a key stands. Only looked at when something is wrong.

The text has been read by ``tomllib`` before, so it is known to be TOML; this only has to find its way.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from segue.core.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


KeyPath = tuple[str, ...]

_TOKEN = re.compile(
    r"""(?P<text>\"{3}(?:[^\\]|\\.)*?\"{3,5}|'{3}.*?'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
    r"""|(?P<space>[ \t\r]+|\#[^\n]*)|(?P<mark>[\[\]{}=,.\n])|(?P<bare>[^\s\[\]{}=,.\#"']+)""",
    re.DOTALL,
)


class _Token(NamedTuple):
    text: str
    line: int
    quoted: bool


def key_lines(text: str) -> dict[KeyPath, int]:
    """The first line of every table and key, counted from 1."""
    return _Scanner(text).lines


def line_of(text: str, path: KeyPath) -> int | None:
    """The line of the key, or of the nearest table around it."""
    lines = key_lines(text)
    known = (path[:n] for n in range(len(path), 0, -1))
    return next((lines[p] for p in known if p in lines), None)


class _Scanner:
    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._tokens = _tokens(text)
        self._at = 0
        table: KeyPath = ()
        while (token := self._peek()) is not None:
            if token.text == "\n" and not token.quoted:
                self._at += 1
            elif token.text == "[" and not token.quoted:
                table = self._key((), "]")
            else:
                self._value(self._key(table, "="))

    def _peek(self) -> _Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _next(self) -> _Token | None:
        token = self._peek()
        self._at += 1
        return token

    def _key(self, base: KeyPath, end: str) -> KeyPath:
        """Reads ``a.b."c" =`` or ``[[a.b]]`` and notes every part."""
        path = base
        while (token := self._next()) is not None and (token.quoted or token.text not in (end, "\n")):
            if token.quoted or token.text not in ("[", "."):
                path = (*path, token.text)
                self.lines.setdefault(path, token.line)
        while end == "]" and (token := self._peek()) is not None and token.text == "]":
            self._at += 1
        return path

    def _value(self, path: KeyPath) -> None:
        """Passes over a value, noting the keys of inline tables in it."""
        token = self._next()
        if token is None or token.quoted or token.text not in ("[", "{"):
            self._scalar()
            return
        end = "]" if token.text == "[" else "}"
        while (token := self._peek()) is not None and (token.quoted or token.text != end):
            if not token.quoted and token.text in (",", "\n"):
                self._at += 1
            elif end == "]":
                self._value(path)
            else:
                self._value(self._key(path, "="))
        self._at += 1

    def _scalar(self) -> None:
        """The rest of a number or a date, which may have dots in it."""
        while (token := self._peek()) is not None and (
            token.quoted or token.text not in (",", "]", "}", "\n")
        ):
            self._at += 1


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    line = 1
    for match in _TOKEN.finditer(text):
        kind, piece = match.lastgroup, match[0]
        if kind == "text":
            found.append(_Token(piece[1:-1], line, True))
        elif kind != "space":
            found.append(_Token(piece, line, False))
        line += piece.count("\n")
    return found


_TOML_LINE = re.compile(r"\s*\(at line (\d+), column \d+\)$")
_TOML_END = re.compile(r"\s*\(at end of document\)$")


class Source:
    """Tables, and how to speak of a place in them."""

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
    """The file as a source, or None when there is none."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path.name}: cannot be read ({error.strerror}): {path}") from None
    text = _decode(path.name, raw)
    return Source(path.name, _parse(path.name, text), text)


def _decode(name: str, raw: bytes) -> str:
    try:
        return raw.decode("utf-8").removeprefix("\ufeff").replace("\r\n", "\n")
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
        said = str(error)
        found = _TOML_LINE.search(said)
        line = int(found[1]) if found else text.count("\n") + 1
        reason = _TOML_END.sub(" at the end of the file", _TOML_LINE.sub("", said))
        raise ConfigError(f"{name}:{line}: is not TOML: {reason[:1].lower()}{reason[1:]}") from None
