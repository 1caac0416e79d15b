"""The JSON objects for runs, the queue and the feed of changes. What is not known is null."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from segue.core.budget import ReachedBudget
from segue.core.model import Attached
from segue.core.question import OpenQuestion
from segue.core.request import Posture, Questions
from segue.core.turn import Mode, State, Turn

__all__ = [
    "Changed",
    "Delta",
    "FeedEvent",
    "FeedKind",
    "Hello",
    "OpenQuestion",
    "ReachedBudget",
    "RunOptions",
    "RunOrder",
    "RunShown",
    "ToolAnswer",
]

LATEST_MS = 2**53 - 1
FeedKind = Literal["conversation", "removed", "message", "run", "event", "flow"]


class RunOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The options of a turn that are not named in the request itself."""

    permission: Posture | None = None
    allow_tools: tuple[str, ...] = ()
    deny_tools: tuple[str, ...] = ()
    max_turns: int | None = None
    budget: float | Literal["none"] | None = None
    """In dollars; ``none``: no budget, although the conversation remembers one."""
    questions: Questions | None = None
    timeout: float | None = None
    retries: int | None = None
    park: bool | float | None = None
    """At a limit whose end is known: wait for it (true), at most this many seconds, or fail (false)."""
    fail_on_denied: bool = False
    save: bool = True


class AttachmentOrder(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A file to attach: its bytes as base64, with a name; or its absolute path, over the Unix socket only."""

    name: str | None = None
    media_type: str | None = None
    """Checked against the bytes; it can be left out."""
    data: bytes | None = None
    path: str | None = None


class RunOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What to run: a new message, or ``retry_of``, the run or message to run again."""

    message: str = ""
    agent: str | None = None
    account: str | None = None
    model: str | None = None
    role: str | None = None
    cwd: str | None = None
    fresh_session: bool = False
    blank: bool = False
    fork: bool = False
    adopt: str | None = None
    retry_of: str | None = None
    cut: bool = False
    """For ``retry_of``: what was said after that message may be dropped."""
    not_before: Annotated[int, msgspec.Meta(ge=0, le=LATEST_MS)] | None = None
    """Do not start it before this time, in milliseconds since 1970."""
    answers: bool = False
    """Somebody can answer the agent's questions."""
    attachments: tuple[AttachmentOrder, ...] = ()
    options: RunOptions = RunOptions()


class RunShown(msgspec.Struct, frozen=True, kw_only=True):
    """A run: one turn, seen from outside. Times are milliseconds since 1970."""

    run: str
    conversation: str
    """The key of the conversation."""
    message: str
    agent: str
    account: str | None
    model: str | None
    role: str | None
    cwd: str
    mode: Mode | None
    state: State
    place: int | None
    """Its place in the conversation's line while it waits; 1 is next."""
    not_before: int | None
    """Until when it is parked."""
    question: OpenQuestion | None
    """The first of ``questions``."""
    questions: tuple[OpenQuestion, ...]
    """What can be answered now."""
    continued_by: str | None
    """The run that the answer to its lapsed question was sent with."""
    cancel_asked: bool
    retry_of: str | None
    created: int
    ended: int | None
    turn: Turn | None
    """The result, once it is settled."""
    held_by: str | None
    """The run whose failure holds it up, until somebody lets it go on."""
    waits: Literal["budget"] | None
    """``budget``: it could begin, but a budget is reserved for turns that run."""
    text: str
    """The text of its message."""
    attachments: tuple[Attached, ...]
    options: RunOptions | None
    """What it was queued with; null once it is settled, and for a run that somebody waits for."""


class ToolAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The answer to an open question: ``answers`` by question, or ``content`` as text. To a permission:
    whether it is allowed. ``allow`` false: the question is not answered, and ``content`` says why.
    ``always``: the tool is allowed from now on, in this conversation. About a budget: ``budget``, the amount
    that it is raised to; ``allow`` false: the run is taken out of the queue."""

    tool_use_id: str
    answers: dict[str, Any] | None = None
    content: str | None = None
    allow: bool | None = None
    always: bool = False
    budget: float | None = None


class Delta(msgspec.Struct, frozen=True):
    """A fragment of what the agent says: ``text`` begins at ``offset`` of the answer's piece ``block``."""

    run: str
    block: int
    offset: int
    text: str


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """The first event of a subscription. ``gap``: something was missed; fetch everything again."""

    status: Literal["ok", "gap"]
    feed: str
    seq: int
    """The newest change that everything fetched from now on contains."""
    running: tuple[Delta, ...] = ()
    """The text so far of the piece that each running turn is writing."""


class FeedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a run that is settled in the store."""

    run: str
    n: int
    ms: int
    event: msgspec.Raw
    cut: bool = False
    """Long texts in it are cut."""


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a client may have fetched has changed. ``run``: as it is now."""

    kind: FeedKind
    conversation: str | None
    """The key of the conversation."""
    message: str | None = None
    run: RunShown | None = None
    flow: str | None = None
    """The id of a flow that has changed."""
