"""The JSON objects of ``Segue.conversations``: pages, hits, versions, lineage.

Times are milliseconds since 1970. What is not known is null.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from segue.app.run_shapes import FeedEvent
from segue.app.shapes import LogMessage
from segue.core.model import Sender
from segue.core.turn import LineageKind, Mode, State
from segue.core.usage import Context, Usage


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
    last_id: str | None = None
    """The message to name for the page after; null: there is none."""
    has_newer: bool = False
    """There are newer messages."""
    events: dict[str, tuple[FeedEvent, ...]] | None = None
    """The events of the messages' runs, by run, without those about usage; null: not asked for."""
    events_left_out: dict[str, int] | None = None
    """By run: how many of its first events are left out, because there are too many."""


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
    n: int | None = None
    """The number of its user message, as in ``#n``; null: that is not part of the conversation (yet)."""
    model: str | None = None
    account: str | None = None
    cost_usd: float | None = None
    cost_estimated: bool = False
    duration_ms: int | None = None
    retry_of: str | None = None
    """The earlier run of the same message."""
    stands: bool = False
    """Its answer is part of the conversation now."""


class TurnChild(msgspec.Struct, frozen=True, kw_only=True):
    """Another conversation that came out of this one."""

    kind: Literal["fork", "adopt"]
    """``adopt``: it took over a native session of this one."""
    run: str | None
    """Its first run that continued a session of this one; null: there is none yet."""
    conversation: str
    """Its key."""
    parent: str | None = None
    """The run of this conversation that it begins after; null: unknown."""


class ConversationLineage(msgspec.Struct, frozen=True, kw_only=True):
    """What the turns of a conversation came from, and what came out of it."""

    turns: tuple[TurnLineage, ...]
    """Oldest first."""
    children: tuple[TurnChild, ...]


class ConversationSession(msgspec.Struct, frozen=True, kw_only=True):
    """A native session that the next turn of an agent in a role would continue."""

    agent: str
    role: str | None
    account: str | None
    session: str
    """The agent's own id of it."""
    cwd: str
    home: str
    path: str | None
    """Null: it is not on this machine."""
    size: int | None
    context: Context
    """What its last request sent, and the window."""
    last_used: int | None
    expires: int | None
    """When the agent's own clean-up will delete it."""
    command: str | None
    """The line that opens it in a terminal; null: there is no way."""


class ChainTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn of a chain. ``usage`` and ``cost_usd``: of this turn alone, with all its attempts."""

    run: str
    conversation: str
    flow: str | None
    step: str | None
    """The step of the flow."""
    role: str | None
    tier: int | None
    agent: str
    model: str | None
    mode: Mode | None
    state: State
    failure: str | None
    """The kind of its failure."""
    parent: str | None
    """The run that it came from; null: the chain begins here."""
    kind: LineageKind | None
    """How it came from that."""
    depth: int
    """How often the chain has divided before it."""
    usage: Usage
    cost_usd: float | None
    cost_estimated: bool
    duration_ms: int | None
    created: int


class Chain(msgspec.Struct, frozen=True, kw_only=True):
    """All turns that came out of each other, each after the one that it came from, and their sums."""

    turns: tuple[ChainTurn, ...]
    usage: Usage
    cost_usd: float | None
    cost_estimated: bool
    duration_ms: int
    """The times of all turns together."""
