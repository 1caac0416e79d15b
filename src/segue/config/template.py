"""Command templates: a list of arguments with placeholders.

Arguments in inner brackets belong together and are left out when a placeholder among them has no
value, so that a flag never stands without its value:

    ["mytool", ["--model", "{model}"], "{prompt_file}"]
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Mapping

Placeholder = Literal["prompt", "prompt_file", "session_id", "model", "cwd"]
Template = tuple[str | tuple[str, ...], ...]

PLACEHOLDERS: tuple[str, ...] = get_args(Placeholder)
_PLACEHOLDER = re.compile(r"\{(" + "|".join(PLACEHOLDERS) + r")\}")
_ANY_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


def placeholders(template: Template) -> frozenset[str]:
    """The placeholders a template uses."""
    return frozenset(name for entry in template for part in _parts(entry) for name in _names(part))


def fill(template: Template, values: Mapping[str, str | None]) -> tuple[str, ...]:
    """The arguments, without the entries in which a placeholder has no value."""
    argv: list[str] = []
    for entry in template:
        parts = _parts(entry)
        if all(values.get(name) is not None for part in parts for name in _names(part)):
            argv.extend(_PLACEHOLDER.sub(lambda m: values[m[1]] or "", part) for part in parts)
    return tuple(argv)


def check(key: str, template: Template) -> None:
    """Raises ``ValueError`` for a template that cannot be started."""
    first = _parts(template[0]) if template else ()
    if not first or not first[0]:
        raise ValueError(f"{key} is empty")
    if _names(first[0]):
        raise ValueError(f"{key} must begin with a program, not with a placeholder")
    for name in (n for entry in template for part in _parts(entry) for n in _ANY_PLACEHOLDER.findall(part)):
        if name not in PLACEHOLDERS:
            known = ", ".join(f"{{{p}}}" for p in PLACEHOLDERS)
            raise ValueError(f"{key} has the unknown placeholder {{{name}}}; there are {known}")


def _parts(entry: str | tuple[str, ...]) -> tuple[str, ...]:
    return (entry,) if isinstance(entry, str) else entry


def _names(part: str) -> list[str]:
    return _PLACEHOLDER.findall(part)
