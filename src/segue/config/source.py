"""Where configuration comes from: a file, whose errors name a line, or a variable."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from segue.config.lines import KeyPath, line_of
from segue.core.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

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
