"""The anchors in a Vibe session of any version.

An anchor identifies a turn by the number of the user's messages up to it, and by a hash of the texts of the
first and the last of them. Every version keeps these through a resume, a fork, an import and a cut. It does
not keep message ids, and an interrupted turn still grows when the session is resumed. A compaction replaces
the first message, so earlier anchors are no longer found.
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
        """The text of the user's message."""
        ...

    def line(self) -> bytes | None:
        """The message as a line of a 2.x session; None if that form cannot represent it."""
        ...


class Anchor(msgspec.Struct, frozen=True):
    """The end of the turn that the user's message number ``users`` began, or was added to."""

    users: int
    check: str

    def __str__(self) -> str:
        return f"{self.users}.{self.check}"


def parse_anchor(text: str) -> Anchor | None:
    match = _ANCHOR.fullmatch(text)
    return Anchor(int(match[1]), match[2]) if match is not None else None


def end_of(messages: Iterable[AnchoredMessage]) -> Anchor | None:
    """The anchor after the last message; None if there is no message of the user."""
    users, first, last = 0, None, None
    for message in messages:
        if message.role == "user":
            users, first, last = users + 1, first or message, message
    return _anchor(users, first, last) if first is not None and last is not None else None


def upto(messages: Iterable[AnchoredMessage], anchor: Anchor) -> list[AnchoredMessage] | None:
    """All messages up to the anchor, reading no further than the next one; None if it is not found."""
    kept: list[AnchoredMessage] = []
    users, first, matches = 0, None, False
    for message in messages:
        if message.role == "user":
            users, first = users + 1, first or message
            if users > anchor.users:
                break
            matches = users == anchor.users and _anchor(users, first, message) == anchor
        kept.append(message)
    return kept if matches else None


def _anchor(users: int, first: AnchoredMessage, last: AnchoredMessage) -> Anchor:
    texts = f"{first.text()}\0{last.text()}".encode("utf-8", "surrogatepass")
    return Anchor(users, sha256(texts).hexdigest()[:16])
