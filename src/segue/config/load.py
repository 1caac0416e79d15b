"""Reads the configuration: variables over the project's file over the user's file over the defaults.

    config = load(os.environ, Path.cwd())

Everything is put into one set of tables that remembers where each key came from, and checked once.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from segue.config import project, trust
from segue.config.build import build
from segue.config.homes import Home, home_of, user_home
from segue.config.source import Source, read_file
from segue.config.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from segue.config.schema import Config


def load(env: Mapping[str, str], cwd: Path) -> Config:
    """The configuration for a run in ``cwd``. Raises ``ConfigError``: one line, with file and line."""
    home = home_of(env)
    tables = _file(home)
    found, notices, doubted = _add_project(tables, home, cwd, user_home(env))
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
    """What the user says in the file and by variables, without any project: as it is written, but checked."""
    tables = _file(home_of(env))
    _add_variables(tables, env)
    build(tables, env, project=None, notices=())
    return tables.values


def _file(home: Home) -> Tables:
    tables = Tables()
    if (user := read_file(home.config_file)) is not None:
        tables.add(user)
    return tables


def _add_variables(tables: Tables, env: Mapping[str, str]) -> tuple[str, ...]:
    """What looks like a variable of ours and is none, in words."""
    if any(name.startswith("SEGUE_") and name != "SEGUE_HOME" for name in env):
        from segue.config.variables import misspelt_in, read_variables

        for source in read_variables(env, tables.values):
            tables.add(source)
        return misspelt_in(env)
    return ()


def _add_project(
    tables: Tables, home: Home, cwd: Path, user: Path
) -> tuple[Path | None, tuple[str, ...], Source | None]:
    """Its path, what was left out of it, and the file itself if its directory is not trusted."""
    path = project.find(cwd, user)
    source = read_file(path) if path is not None else None
    if path is None or source is None:
        return None, (), None
    if trust.is_trusted(home, path.parent):
        tables.add(source)
        return path, (), None
    source.tables, notices = project.restrict(source, tables.values)
    tables.add(source)
    return path, notices, source


def _shown(path: Path, cwd: Path) -> str:
    """A file at or above the directory, as seen from there."""
    shown = os.path.relpath(path, cwd.resolve())
    return shown if shown.startswith("..") else f"./{shown}"
