"""Reads the configuration: variables over the project's file over the user's file over the defaults.

    config = load(os.environ, Path.cwd())

All sources are merged into one set of tables that remembers where each key came from, and checked once. A
project's ``segue.toml`` is somebody else's file until the user trusts its directory.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

from segue.config import trust
from segue.config.build import build
from segue.config.home import Home, home_of, user_home
from segue.config.named_files import read_typed
from segue.config.schema import FLAT, LOWER_ONLY, NAMED, PROJECT_KEYS
from segue.config.source import Source, read_file, source_of
from segue.core.errors import ConfigError, Misuse
from segue.core.verdicts import Said, say

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from segue.config.schema import Config
    from segue.config.source import KeyPath


PROJECT_FILE = "segue.toml"


def find_project(cwd: Path, home: Path) -> Path | None:
    """The nearest ``segue.toml``: up to the repository's root, else to the user's home, else in ``cwd``."""
    cwd, home = cwd.resolve(), home.resolve()
    chain = (cwd, *cwd.parents)
    root = next((d for d in chain if (d / ".git").exists()), None)
    if root is None:
        root = home if home in chain else cwd
    for directory in chain[: chain.index(root) + 1]:
        if (directory / PROJECT_FILE).is_file():
            return directory / PROJECT_FILE
    return None


def restrict_project(source: Source, below: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[Said, ...]]:
    """What an untrusted file is allowed to set, and a notice for each part that is ignored."""
    kept: dict[str, Any] = {}
    notices: list[Said] = []
    for section, table in source.tables.items():
        if section not in FLAT and section not in NAMED:
            raise _no_section(source, section)
        if not isinstance(table, dict) or section not in PROJECT_KEYS:
            notices.append(_left_out(source, (section,), f"[{section}]"))
            continue
        for key, value in table.items():
            is_not_its = key in FLAT[section].__struct_fields__ and key not in PROJECT_KEYS[section]
            if is_not_its or _is_option(key, value):
                notices.append(_left_out(source, (section, key), f"[{section}] {key}"))
            elif _loosens(section, key, value, own := _limit(section, key, below)):
                notices.append(_over(source.where((section, key)), f"{key} = {value}", own))
            else:
                kept.setdefault(section, {})[key] = value
    return kept, tuple(notices)


def _limit(section: str, key: str, below: Mapping[str, Any]) -> Any:
    """The limit without the project: what the user sets, else the default."""
    default = getattr(FLAT[section](), key, None)
    return below.get(section, {}).get(key, default)


def _loosens(section: str, key: str, value: Any, own: Any) -> bool:
    numbers = isinstance(own, int | float) and isinstance(value, int | float)
    if key not in LOWER_ONLY[section] or not numbers:
        return False
    if key == "ttl_minutes":  # 0: none
        value, own = value or math.inf, own or math.inf
    return bool(value > own)


def _is_option(key: str, value: Any) -> bool:
    """Whether an agent's program could take the name of the model for an option of its own."""
    return key == "model" and isinstance(value, str) and value.startswith("-")


def _left_out(source: Source, path: tuple[str, ...], what: str) -> Said:
    place, why = source.where(path), "because this directory is not trusted (segue trust)"
    return say(f"{place}: {what} is ignored, {why}", "config.untrusted", place=place, setting=what)


def _over(place: str, setting: str, own: Any) -> Said:
    text = f"{place}: {setting} is ignored, your limit is {own}"
    return say(text, "config.over", place=place, setting=setting, most=str(own))


def _no_section(source: Source, section: str) -> Exception:
    from segue.config.explain import no_such  # only an error needs it

    return source.error((section,), f"has {no_such('section', section, (*FLAT, *NAMED))}")


class Tables:
    """``values`` by section (and entry) and key; a later source wins key by key."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, Any]] = {}
        self._origin: dict[KeyPath, Source] = {}

    def add(self, source: Source) -> None:
        for section, table in source.tables.items():
            if section not in FLAT and section not in NAMED:
                raise _no_section(source, section)
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
        """Where the value of a key came from."""
        return self._origin.get(path)

    def error(self, path: KeyPath, message: str) -> ConfigError:
        """An error at this place, with the name of the source it came from."""
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


def load(env: Mapping[str, str], cwd: Path) -> Config:
    """The configuration for a run in ``cwd``. Raises ``ConfigError``: one line, with file and line."""
    home = home_of(env)
    tables = _file(home)
    found, notices, doubted = _add_project(tables, env, cwd)
    misspelt = _add_variables(tables, env)
    names_model = doubted is not None and tables.origin(("defaults", "model")) is doubted
    return build(
        tables,
        env,
        project=found,
        model_from=_shown(found, cwd) if found is not None and names_model else None,
        notices=notices,
        misspelt=misspelt,
    )


def own_tables(env: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """What the user sets in the file and by variables, without any project: as written, but checked."""
    tables = _file(home_of(env))
    _add_variables(tables, env)
    build(tables, env, project=None, notices=())
    return tables.values


def own_config(env: Mapping[str, str]) -> Config:
    """What the user sets in the file and by variables, without any project."""
    tables = _file(home_of(env))
    _add_variables(tables, env)
    return build(tables, env, project=None, notices=())


def _file(home: Home) -> Tables:
    tables = Tables()
    if (user := read_file(home.config_file)) is not None:
        tables.add(user)
    return tables


def _add_variables(tables: Tables, env: Mapping[str, str]) -> tuple[Said, ...]:
    """Add the variables. Returns a sentence for each that looks like ours but is not."""
    if any(name.startswith("SEGUE_") and name != "SEGUE_HOME" for name in env):
        from segue.config.variables import misspelt_in, read_variables

        for source in read_variables(env, tables.values):
            tables.add(source)
        return misspelt_in(env)
    return ()


def _add_project(
    tables: Tables, env: Mapping[str, str], cwd: Path
) -> tuple[Path | None, tuple[Said, ...], Source | None]:
    """Add the project's file. Its path, what was ignored, and the file if its directory is not trusted."""
    path = find_project(cwd, user_home(env))
    if path is None:
        return None, (), None
    try:
        source = source_of(path.name, read_typed(path, env, path.parent).data)
    except Misuse as error:
        raise ConfigError(error.message) from None
    if trust.is_trusted(home_of(env), path.parent):
        tables.add(source)
        return path, (), None
    source.tables, notices = restrict_project(source, tables.values)
    tables.add(source)
    return path, notices, source


def _shown(path: Path, cwd: Path) -> str:
    """A file at or above the directory, as seen from there."""
    shown = os.path.relpath(path, cwd.resolve())
    return shown if shown.startswith("..") else f"./{shown}"
