"""Configuration from the environment: ``SEGUE_<SECTION>_<KEY>``.

    SEGUE_CONTINUITY_GRAFT=account              [continuity] graft
    SEGUE_ACCOUNTS_WORK_HOME=~/.claude-work     [accounts.work] home
    SEGUE_PRICES={"my-*"={input=1,output=2}}    a whole section, as a TOML inline table

Lists are separated by commas, tables are TOML inline tables, an empty variable counts as not set. In
the name of an account or an agent, every character that is not a letter or a digit becomes an underscore.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import inspect

from segue.config.explain import field_type, no_such
from segue.config.schema import FLAT, NAMED
from segue.config.source import Source
from segue.core.errors import ConfigError
from segue.core.verdicts import Said, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import msgspec

PREFIX = "SEGUE_"
OTHERS = ("SEGUE_HOME", "SEGUE_MARK", "SEGUE_DAEMON")
"""Our variables that set no key."""
TESTS = ("SEGUE_TEST_", "SEGUE_SEED")
_SWITCH = {
    "true": True,
    "1": True,
    "yes": True,
    "on": True,
    "false": False,
    "0": False,
    "no": False,
    "off": False,
}


def read_variables(env: Mapping[str, str], known: Mapping[str, Iterable[str]]) -> Iterator[Source]:
    """One source per variable. ``known``: the entries in the files, per section."""
    for name in sorted(env):
        if name.startswith(PREFIX) and env[name] and name not in OTHERS:
            section, _, rest = name.removeprefix(PREFIX).lower().partition("_")
            if section in FLAT or section in NAMED:
                yield Source(name, {section: _table(name, env[name], section, rest, known.get(section, ()))})


def misspelt_in(env: Mapping[str, str]) -> tuple[Said, ...]:
    """A sentence for each variable that has no effect although it looks as if it should."""
    meant = ((name, _meant(name)) for name in sorted(env) if name.startswith(PREFIX))
    return tuple(
        say(f"{name} has no effect; did you mean {other}?", "config.misspelt", name=name, meant=other)
        for name, other in meant
        if other is not None
    )


def _meant(name: str) -> str | None:
    """Our variable that was probably meant; None if this one is ours, or resembles none of ours."""
    section, _, key = name.removeprefix(PREFIX).lower().partition("_")
    if section in FLAT or section in NAMED or name in OTHERS or name.startswith(TESTS):
        return None
    from difflib import get_close_matches

    whole = f"{section}_{key}" if key else section
    owner = next((each for each in ("defaults", *FLAT) if whole in FLAT[each].__struct_fields__), None)
    if owner is not None:
        return f"{PREFIX}{owner}_{whole}".upper()
    if key and (close := get_close_matches(section, (*FLAT, *NAMED), 1, 0.75)):
        return f"{PREFIX}{close[0]}_{key}".upper()
    spelled = [f"{PREFIX}{each}_{one}".upper() for each in FLAT for one in FLAT[each].__struct_fields__]
    return next(iter(get_close_matches(name, (*spelled, *OTHERS), 1, 0.85)), None)


def _table(name: str, value: str, section: str, rest: str, entries: Iterable[str]) -> dict[str, Any]:
    if not rest:
        table = _toml(value)
        if not isinstance(table, dict):
            raise ConfigError(f"{name}: must be a TOML inline table such as {{ key = 1 }}")
        return table
    if section in FLAT:
        return {rest: _value(value, FLAT[section], rest)}
    kind = NAMED[section]
    keys = sorted((k for k in kind.__struct_fields__ if rest.endswith(f"_{k}")), key=len)
    if not keys:
        raise ConfigError(f"{name}: [{section}] has {no_such('key', rest, kind.__struct_fields__)}")
    spelled = rest.removesuffix(f"_{keys[-1]}")
    entry = next((e for e in entries if re.sub(r"[^a-z0-9]", "_", e.lower()) == spelled), spelled)
    return {entry: {keys[-1]: _value(value, kind, keys[-1])}}


def _value(text: str, kind: type[msgspec.Struct], key: str) -> Any:
    """The text as a value of the key's type; text that does not fit is refused later."""
    declared = field_type(kind, key)
    types = declared.types if isinstance(declared, inspect.UnionType) else (declared,)
    for wanted in types:
        if isinstance(wanted, inspect.BoolType):
            return _SWITCH.get(text.strip().lower(), text)
        if isinstance(wanted, inspect.IntType | inspect.FloatType):
            return _number(text)
        if isinstance(wanted, inspect.VarTupleType):
            plain = isinstance(wanted.item_type, inspect.StrType | inspect.LiteralType)
            return _list(text) if plain or text.lstrip().startswith(("[", "{")) else text
        if isinstance(wanted, inspect.DictType | inspect.StructType):
            return _toml(text)
    return text


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _list(text: str) -> Any:
    if text.lstrip().startswith(("[", "{")):
        return _toml(text)
    return [part.strip() for part in text.split(",") if part.strip()]


def _toml(text: str) -> Any:
    import tomllib

    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
