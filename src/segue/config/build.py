"""Makes the typed ``Config`` from the tables, or says in one line what is wrong with them."""

from __future__ import annotations

import datetime
import math
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from segue.config.declared import PLACEHOLDERS, DeclaredAgent
from segue.config.home import expand
from segue.config.schema import FLAT, Account, Config, Model, built_in_agents, is_name
from segue.core.usage import Price

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from segue.config.load import Tables
    from segue.config.source import KeyPath
    from segue.core.verdicts import Said

S = TypeVar("S", bound=msgspec.Struct)


def build(
    tables: Tables,
    env: Mapping[str, str],
    *,
    project: Path | None,
    model_from: str | None = None,
    notices: tuple[Said, ...] = (),
    misspelt: tuple[Said, ...] = (),
) -> Config:
    flat: dict[str, Any] = {
        name: _convert(tables, (name,), FLAT[name], table)
        for name, table in tables.values.items()
        if name in FLAT
    }
    commands, declared = _agents(tables)
    return Config(
        **flat,
        accounts={name: _account(tables, name, env) for name in tables.values.get("accounts", {})},
        commands=commands,
        declared=declared,
        prices={glob: _price(tables, glob) for glob in tables.values.get("prices", {})},
        models={
            glob: _convert(tables, ("models", glob), Model, table)
            for glob, table in tables.values.get("models", {}).items()
        },
        project=project,
        model_from=model_from,
        notices=notices,
        misspelt=misspelt,
    )


def _convert(tables: Tables, path: KeyPath, kind: type[S], table: dict[str, Any]) -> S:
    title = f"[{'.'.join(path)}]"
    for key in table:
        if key not in kind.__struct_fields__:
            from segue.config.explain import no_such  # only an error needs it

            raise tables.error((*path, key), f"{title} has {no_such('key', key, kind.__struct_fields__)}")
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        from segue.config.explain import refused

        key, why = refused(error, kind, table)
        place = (*path, key) if key else path
        raise tables.error(place, f"{title} {key} {why}" if key else f"{title} {why}") from None


def _account(tables: Tables, name: str, env: Mapping[str, str]) -> Account:
    path = ("accounts", name)
    _check_name(tables, path)
    account = _convert(tables, path, Account, tables.values["accounts"][name])
    if account.home is None and not account.directories:
        return account

    def absolute(key: str, text: str) -> str:
        place = expand(text, env)
        if not place.is_absolute():
            raise tables.error((*path, key), f'[accounts.{name}] {key} must be absolute or begin with "~/"')
        return str(place)

    return msgspec.structs.replace(
        account,
        home=None if account.home is None else absolute("home", account.home),
        directories=tuple(absolute("directories", each) for each in account.directories),
    )


def _agents(tables: Tables) -> tuple[dict[str, tuple[str, ...]], dict[str, DeclaredAgent]]:
    commands: dict[str, tuple[str, ...]] = {}
    declared: dict[str, DeclaredAgent] = {}
    entries = tables.values.get("agents", {})
    built_in = built_in_agents() if entries else frozenset()
    for name, entry in entries.items():
        path = ("agents", name)
        _check_name(tables, path)
        table = {key: _as_list(tables, (*path, key), value) for key, value in entry.items()}
        if name in built_in and (other := next((key for key in table if key != "command"), None)):
            message = f'[agents.{name}] has no key "{other}"; {name} is built in, only command can be set'
            raise tables.error((*path, other), message)
        if name in built_in or (table.keys() == {"command"} and not _has_placeholder(table["command"])):
            commands[name] = _command(tables, path, table)
        else:
            declared[name] = _convert(tables, path, DeclaredAgent, table)
    return commands, declared


def _command(tables: Tables, path: KeyPath, table: dict[str, Any]) -> tuple[str, ...]:
    value = table.get("command")
    if not isinstance(value, list) or not value or not all(isinstance(p, str) for p in value) or not value[0]:
        message = f"[{'.'.join(path)}] command must be a program, as a text or a list of texts"
        raise tables.error((*path, "command"), message)
    return tuple(value)


def _as_list(tables: Tables, path: KeyPath, value: Any) -> Any:
    """Commands can be written as one text, and a single ``Where`` without a list around it."""
    if path[-1] in ("command", "resume_command") and isinstance(value, str):
        import shlex

        try:
            return shlex.split(value)
        except ValueError as error:
            raise tables.error(path, f"[{'.'.join(path[:-1])}] {path[-1]} cannot be split: {error}") from None
    if path[-1] in ("session_id", "text", "error", "tool") and isinstance(value, dict):
        return [value]
    return value


def _has_placeholder(command: Any) -> bool:
    return isinstance(command, list) and any(
        f"{{{name}}}" in str(part) for part in command for name in PLACEHOLDERS
    )


def _price(tables: Tables, glob: str) -> Price:
    path = ("prices", glob)
    table = dict(tables.values["prices"][glob])
    if isinstance(table.get("dated"), datetime.date):
        table["dated"] = table["dated"].isoformat()
    price = _convert(tables, path, Price, table)
    for key in ("input", "output", "cache_read", "cache_write"):
        value = getattr(price, key)
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise tables.error(
                (*path, key), f"[prices.{glob}] {key} must be a number of at least 0, not {value}"
            )
    return price


def _check_name(tables: Tables, path: KeyPath) -> None:
    if not is_name(path[-1]):
        message = f'"{path[-1]}" cannot be a name here: use up to 64 letters, digits, ".", "_" and "-"'
        raise tables.error(path, message)
