"""The JSON objects of ``Segue.conversations``: pages, hits, versions, lineage.

Times are milliseconds since 1970. What is not known is null.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from segue.app.shapes import LogMessage
from segue.core.model import Sender
from segue.core.turn import LineageKind, Mode, State


class AttachmentData(msgspec.Struct, frozen=True):
    """An attachment with its bytes. ``media_type`` is what the bytes are, whatever the name says."""

    id: str
    name: str
    media_type: str
    data: bytes


class MessagePage(msgspec.Struct, frozen=True, kw_only=True):
    """Some messages of a conversation, oldest first."""

    messages: tuple[LogMessage, ...]
    """Those that wait or were withdrawn stand where they were said, and do not count for the limit."""
    first_id: str | None
    """The message to name for the page before; null: there is none."""
    has_more: bool
    """There are older messages."""
    rewrites: int
    """Rises when messages were dropped or came back. Pages with another number do not fit together."""
    size: int
    """How many messages the conversation has."""


class ConversationHit(msgspec.Struct, frozen=True, kw_only=True, rename={"sender": "from"}):
    """A conversation that is named so, or a message that contains the words."""

    key: str
    title: str
    """The title that was given to the conversation; empty: none."""
    where: Literal["title", "message"]
    message: str | None
    """The message's id."""
    sender: Sender | None
    agent: str | None
    """Who said it, or to whom it was said."""
    snippet: str
    """The words with what stands around them, on one line."""
    created: int
    """When the message was said; of a title, when the conversation was last used."""


class MessageVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a message: a wording of it, or one of the answers to the same message."""

    message: str
    """The message's id: the answers of several runs are different messages."""
    revision: int
    text: str
    run: str | None
    """The run that gave this answer; of a user message, the last run of this wording."""
    created: int
    current: bool
    """It is what the conversation says now."""


class TurnParent(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn came from."""

    kind: LineageKind
    run: str | None
    """The run it came from; null: unknown, or not a run of Segue."""
    conversation: str | None
    """The key of that run's conversation."""
    session: str | None
    """The native session it came from."""


class TurnLineage(msgspec.Struct, frozen=True, kw_only=True):
    """A turn, and what it came from. A turn without parents began with nothing."""

    run: str
    message: str
    agent: str
    role: str | None
    mode: Mode | None
    """Null: not decided yet."""
    state: State
    created: int
    session: str | None
    """The native session that it wrote, if it came from another turn or session."""
    parents: tuple[TurnParent, ...]
