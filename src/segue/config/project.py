"""A project's ``segue.toml``: somebody else's file until the user trusts its directory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from segue.config.explain import no_such
from segue.config.schema import FLAT, LOWER_ONLY, NAMED, PROJECT_KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from segue.config.source import Source

FILE = "segue.toml"


def find(cwd: Path, home: Path) -> Path | None:
    """The nearest ``segue.toml``: up to the repository's root, else up to the user's home, else here."""
    cwd, home = cwd.resolve(), home.resolve()
    chain = (cwd, *cwd.parents)
    root = next((d for d in chain if (d / ".git").exists()), None)
    if root is None:
        root = home if home in chain else cwd
    for directory in chain[: chain.index(root) + 1]:
        if (directory / FILE).is_file():
            return directory / FILE
    return None


def restrict(source: Source, below: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What a file that is not trusted may say, and a notice for each part that was left out."""
    kept: dict[str, Any] = {}
    notices: list[str] = []
    for section, table in source.tables.items():
        if section not in FLAT and section not in NAMED:
            raise source.error((section,), f"has {no_such('section', section, (*FLAT, *NAMED))}")
        if not isinstance(table, dict) or section not in PROJECT_KEYS:
            notices.append(_left_out(source, (section,), f"[{section}]"))
            continue
        for key, value in table.items():
            if key in FLAT[section].__struct_fields__ and key not in PROJECT_KEYS[section]:
                notices.append(_left_out(source, (section, key), f"[{section}] {key}"))
            elif _loosens(section, key, value, own := _limit(section, key, below)):
                notices.append(
                    f"{source.where((section, key))}: {key} = {value} is ignored, your limit is {own}"
                )
            else:
                kept.setdefault(section, {})[key] = value
    return kept, tuple(notices)


def _limit(section: str, key: str, below: Mapping[str, Any]) -> Any:
    """What holds without the project: what the user says, else the default."""
    default = getattr(FLAT[section](), key, None)
    return below.get(section, {}).get(key, default)


def _loosens(section: str, key: str, value: Any, own: Any) -> bool:
    numbers = isinstance(own, int | float) and isinstance(value, int | float)
    if key not in LOWER_ONLY[section] or not numbers:
        return False
    if key == "ttl_minutes":  # 0: none
        value, own = value or math.inf, own or math.inf
    return bool(value > own)


def _left_out(source: Source, path: tuple[str, ...], what: str) -> str:
    return f"{source.where(path)}: {what} is ignored, because this directory is not trusted (segue trust)"
