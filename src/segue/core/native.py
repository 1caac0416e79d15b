"""Native arguments: what a caller passes on to the CLI, less what Segue sets itself."""

from __future__ import annotations

import re
from collections.abc import Iterable

from segue.core.errors import Misuse

SHORTEST = 4
"""Some CLIs take abbreviated options; fewer characters than these (``--x``) abbreviate nothing."""


def refuse_owned(label: str, owned: frozenset[str], arguments: Iterable[str]) -> None:
    """``Misuse`` for what is ours, however it is written: ``--a=b``, ``-ab``, ``--camelCase``, cut short."""
    for argument in arguments:
        found = _owned(argument, owned)
        if found is not None:
            raise Misuse(f"{found} is set by Segue and cannot be passed to {label}")


def _owned(argument: str, owned: frozenset[str]) -> str | None:
    if not argument.startswith("-"):
        return argument if argument in owned else None
    if not argument.startswith("--"):
        return next((f"-{letter}" for letter in _letters(argument) if f"-{letter}" in owned), None)
    name = re.sub(r"(?<=[a-z0-9])[A-Z]", lambda found: "-" + found[0].lower(), argument.split("=", 1)[0])
    if argument.split("=", 1)[0] in owned or name in owned:
        return name
    if len(name) < SHORTEST:
        return None
    return next((option for option in sorted(owned) if option.startswith(name)), None)


def _letters(argument: str) -> str:
    """Short options written together; what follows the first that takes a value is not looked at closely."""
    return argument[1:2] if "=" in argument or not argument[1:].isalpha() else argument[1:]
