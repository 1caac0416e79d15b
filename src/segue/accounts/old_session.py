"""What an agent's own session has of the turns that Segue left in it, by the places where they end."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from segue.agents.base import SessionArchive, StoredSession, entries_of
from segue.core.cut import UNKNOWN_PLACE
from segue.core.prompt_parts import user_words
from segue.core.transcript import is_message

MOST = 50
"""How many turns are looked for, from the last one back."""


class FileTurn(msgspec.Struct):
    """The last prompt before a place, and what the agent said after it."""

    words: str | None = None
    """The user's own words; None: they cannot be told from what was sent with them."""
    answer: str = ""


class OldSession(msgspec.Struct, frozen=True):
    """``turns``: by their anchors. A turn whose end is missing is not there."""

    turns: dict[str, FileTurn]
    prompts: int
    """How many prompts can be read, up to the last place that still holds."""


def read_session(archive: SessionArchive, stored: StoredSession, anchors: Sequence[str]) -> OldSession:
    """Read a session once, from its beginning. ``anchors``: where its turns end, in order."""
    last = [anchor for anchor in anchors if not anchor.startswith(UNKNOWN_PLACE)][-MOST:]
    after = [archive.after(anchor) for anchor in last]
    turns: dict[str, FileTurn] = {}
    passed, prompts, current = -1, 0, FileTurn()
    for entry in entries_of(archive, stored):
        behind = max((at for at, is_after in enumerate(after) if is_after(entry)), default=-1)
        if behind > passed:
            turns[last[behind]], current, passed = current, FileTurn(), behind
        if passed == len(last) - 1 and last:
            break
        if is_message(entry):
            if entry.kind == "user":
                prompts, current = prompts + 1, FileTurn(words=user_words(entry.text))
            else:
                current.answer += f"\n\n{entry.text}" if current.answer else entry.text
    ended = max((at for at, each in enumerate(after) if each.found), default=-1)
    if ended > passed:
        turns[last[ended]] = current
    return OldSession(turns, prompts)
