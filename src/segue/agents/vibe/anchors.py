"""The anchors in a session of Vibe, whichever version wrote it.

An anchor names a turn by how many messages of the user's there are up to it, and checks itself by the texts
of the first of them and of the last. That much every version keeps through a resume, a fork, an import and a
cut; message ids it does not, and a turn that was broken off still grows when the session is resumed. A
compaction puts another first message in place, so anchors from before it are no longer found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Protocol

import msgspec

_ANCHOR = re.compile(r"([1-9][0-9]{0,8})\.([0-9a-f]{16})")


class Damaged(Exception):  # noqa: N818 - it is an answer, not an error
    """The session cannot be read any further."""


class AnchoredMessage(Protocol):
    """One message of a session, of either version."""

    @property
    def role(self) -> str: ...

    @property
    def opens(self) -> bool:
        """Whether a turn begins with it."""
        ...

    def text(self) -> str:
        """What the user's message says."""
        ...

    def line(self) -> bytes | None:
        """The message as a line of a 2.x session; None when that form cannot hold it."""
        ...


class Anchor(msgspec.Struct, frozen=True):
    """The end of the turn that the user's message number ``users`` began, or was put into."""

    users: int
    check: str

    def __str__(self) -> str:
        return f"{self.users}.{self.check}"


def parse_anchor(text: str) -> Anchor | None:
    found = _ANCHOR.fullmatch(text)
    return Anchor(int(found[1]), found[2]) if found is not None else None


def end_of(messages: Iterable[AnchoredMessage]) -> Anchor | None:
    """The anchor behind the last message; None when the user has said nothing."""
    users, first, last = 0, None, None
    for message in messages:
        if message.role == "user":
            users, first, last = users + 1, first or message, message
    return _anchor(users, first, last) if first is not None and last is not None else None


def upto(messages: Iterable[AnchoredMessage], anchor: Anchor) -> list[AnchoredMessage] | None:
    """All messages up to the anchor, none read beyond the next; None when the anchor is not there."""
    kept: list[AnchoredMessage] = []
    users, first, stands = 0, None, False
    for message in messages:
        if message.role == "user":
            users, first = users + 1, first or message
            if users > anchor.users:
                break
            stands = users == anchor.users and _anchor(users, first, message) == anchor
        kept.append(message)
    return kept if stands else None


def _anchor(users: int, first: AnchoredMessage, last: AnchoredMessage) -> Anchor:
    texts = f"{first.text()}\0{last.text()}".encode("utf-8", "surrogatepass")
    return Anchor(users, sha256(texts).hexdigest()[:16])
