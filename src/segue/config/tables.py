"""The sections of all sources in one, each key with the source it came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.config.explain import no_such
from segue.config.schema import FLAT, NAMED
from segue.core.errors import ConfigError

if TYPE_CHECKING:
    from segue.config.lines import KeyPath
    from segue.config.source import Source


class Tables:
    """``values`` by section (and entry) and key; a later source wins key by key."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, Any]] = {}
        self._origin: dict[KeyPath, Source] = {}

    def add(self, source: Source) -> None:
        for section, table in source.tables.items():
            if section not in FLAT and section not in NAMED:
                raise source.error((section,), f"has {no_such('section', section, (*FLAT, *NAMED))}")
            _must_be_table(source, (section,), table)
            target = self.values.setdefault(section, {})
            self._origin.setdefault((section,), source)
            if section in FLAT:
                self._merge((section,), target, table, source)
                continue
            for name, entry in table.items():
                _must_be_table(source, (section, name), entry)
                self._origin.setdefault((section, name), source)
                self._merge((section, name), target.setdefault(name, {}), entry, source)

    def origin(self, path: KeyPath) -> Source | None:
        """Where the key that counts came from."""
        return self._origin.get(path)

    def error(self, path: KeyPath, message: str) -> ConfigError:
        """An error at this place, spoken by the source it came from."""
        for length in range(len(path), 0, -1):
            if source := self._origin.get(path[:length]):
                return source.error(path, message)
        return ConfigError(message)

    def _merge(self, path: KeyPath, target: dict[str, Any], table: dict[str, Any], source: Source) -> None:
        for key, value in table.items():
            target[key] = value
            self._origin[*path, key] = source


def _must_be_table(source: Source, path: KeyPath, value: Any) -> None:
    if not isinstance(value, dict):
        raise source.error(path, f"{'.'.join(path)} must be a table: write [{'.'.join(path)}] above its keys")
