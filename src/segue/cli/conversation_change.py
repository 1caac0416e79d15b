"""Changes a conversation, and says what was done: ``segue edit``, ``truncate``, ``undo``, ``fork``,
``import`` and ``rm``."""

from __future__ import annotations

import os
import sys
from binascii import b2a_base64

from segue.cli.caller import gather_prompt, say_mentions
from segue.cli.change import change
from segue.cli.render.output import agreed, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

NOTHING = "the new text is empty; to drop a message, use segue truncate"
LARGEST_EXPORT = 1 << 30
"""The most bytes of a file that is imported."""
KINDS = {"edit": "the edit", "truncate": "the truncation", "retry": "the retry"}


def edit(key: str, message: str, text: str | None = None, *, cut: bool = False) -> None:
    new = gather_prompt(text, use_stdin=text is None, nothing=NOTHING)
    count = change("edit", key=key, message=message, text=new, cut=cut, mentions=True)
    which = f"#{message.removeprefix('#')}" if message.removeprefix("#").isdecimal() else message
    gone = f", dropped {_messages(count)}" if count else ""
    say(f"Changed {which}{gone}. {_undo_hint(key)}", err=True)


def truncate(key: str, message: str) -> None:
    count = change("truncate", key=key, message=message, mentions=True)
    say(f"Dropped {_messages(count)}. {_undo_hint(key)}", err=True)


def undo(key: str) -> None:
    done = change("undo", key=key, mentions=True)
    restored = f"; restored {_messages(done['restored'])}" if done["restored"] else ""
    say(f"Undid {KINDS[done['kind']]}{restored}. See: segue log {key}", err=True)


def fork(key: str, new_key: str | None = None, *, upto: str | None = None) -> None:
    say(change("fork", key=key, new_key=new_key, upto=upto, mentions=True))


def import_(file: str, *, key: str | None = None) -> None:
    data = sys.stdin.buffer.read() if file == "-" else _read(file)
    say(change("import", data=b2a_base64(data, newline=False).decode(), key=key, mentions=True))


def rm(keys: Sequence[str], *, yes: bool = False) -> None:
    keys = tuple(dict.fromkeys(keys))
    asks = not yes and sys.stdin.isatty()
    if asks:
        import click

        say_mentions()
        if not agreed(f"Forget {', '.join(keys)}?"):
            raise click.Abort
    change("rm", keys=keys, mentions=not asks)
    say(f"Forgot {', '.join(keys)}.", err=True)


def _read(path: str) -> bytes:
    from pathlib import Path

    from segue.config.named_files import read_typed

    hint = "; - reads stdin"
    said = f"cannot read {path}"
    return read_typed(path, os.environ, Path.cwd(), said=said, hint=hint, most=LARGEST_EXPORT).data


def _messages(count: int) -> str:
    """As ``count_in_words`` in ``core/usage.py``, which takes long to load."""
    return f"{count:,} message" if count == 1 else f"{count:,} messages"


def _undo_hint(key: str) -> str:
    return f"To undo: segue undo {key}. What the next turn will do: segue why {key}"
