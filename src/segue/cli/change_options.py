"""The commands that change a conversation, read without click, which takes long to load.

Only plain calls are read here. Click sees all others, and tells what is wrong with them.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

WORDS = {
    "edit": (2, 3),
    "truncate": (2, 2),
    "undo": (1, 1),
    "fork": (1, 2),
    "import": (1, 1),
    "rm": (1, 1000),
}
"""How many words each command takes, at least and at most."""
FLAGS = {"edit": {"--cut": "cut"}, "rm": {"--yes": "yes", "-y": "yes"}}
VALUES = {"fork": {"--at": "upto"}, "import": {"--key": "key"}}


def change_call(args: Sequence[str], env: Mapping[str, str]) -> Callable[[], None] | None:
    """``args`` as a call of such a command; None if they are another, or click has to see them."""
    if not args or args[0] not in WORDS or "_SEGUE_COMPLETE" in env:
        return None
    command = args[0]
    parsed = _parsed(command, args[1:])
    if parsed is None:
        return None
    words, options = parsed
    least, most = WORDS[command]
    if not least <= len(words) <= most:
        return None
    if command == "rm" and "yes" not in options and sys.stdin is not None and sys.stdin.isatty():
        return None  # it asks first
    from segue.cli import conversation_change

    if command == "rm":
        return lambda: conversation_change.rm(words, **options)
    made = getattr(conversation_change, "import_" if command == "import" else command)
    return lambda: made(*words, **options)


def _parsed(command: str, args: Sequence[str]) -> tuple[list[str], dict[str, Any]] | None:
    """The words and the options; None if anything is unusual."""
    flags, values = FLAGS.get(command, {}), VALUES.get(command, {})
    words: list[str] = []
    options: dict[str, Any] = {}
    rest = iter(args)
    for word in rest:
        name, equals, value = word.partition("=")
        if word in flags:
            options[flags[word]] = True
        elif name in values:
            value = value if equals else next(rest, "")
            if not value or value.startswith("-"):
                return None
            options[values[name]] = value
        elif word.startswith("-") and word != "-":
            return None
        else:
            words.append(word)
    return words, options
