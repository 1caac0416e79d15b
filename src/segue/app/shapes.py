"""The JSON objects for conversations, agents and the set-up.

What ``segue sessions`` prints is in ``session_shapes`` and ``sessions/summary``, a turn in ``core/turn``, a
plan in ``turns/why``.
The order of the fields is the order in the JSON. What is not known is null.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from segue.core.model import Attached, MessageKind, Sender
from segue.core.outcome import Status
from segue.core.request import Capabilities
from segue.core.turn import Clause, FailureShown, Mode, Recovery, Sent, State, Turn
from segue.core.usage import Context, Usage

Level = Literal["ok", "note", "warn", "bad"]


class LogMessage(msgspec.Struct, frozen=True, kw_only=True, rename={"sender": "from"}):
    """One message of ``segue log``, with the turn that answered it. Times are milliseconds since 1970."""

    id: str | None
    """None: an answer that is not recorded yet."""
    n: int | None
    """The message's number, as in ``#n``; None: it is not part of the conversation (yet)."""
    sender: Sender
    agent: str
    role: str | None
    account: str | None
    text: str
    attachments: tuple[Attached, ...] = ()
    revision: int
    edited: int | None
    created: int
    blank: bool
    kind: MessageKind = "said"
    """``carried``: what was carried over from another account, as one block."""
    run: str | None
    mode: Mode | None
    state: State
    status: Status | None
    recovery: Recovery | None
    model: str | None
    usage: Usage | None
    cost_usd: float | None
    cost_estimated: bool | None
    saved_usd: float | None
    sent: Sent | None
    failure: FailureShown | None
    duration_ms: int | None = None
    tools_run: int | None = None
    notices: tuple[str, ...] = ()
    """What the turn's caller was told about it, in words."""
    notice_clauses: tuple[tuple[Clause, ...], ...] = ()
    """The same as data."""
    context: Context | None = None
    """How full the model's window was."""
    predicted_usd: float | None = None
    """What the turn was expected to cost, before it ran."""
    versions: int = 1
    """How many versions it has: wordings, or the answers of all runs."""


class Dialogue(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation as ``segue log`` shows it."""

    key: str
    forked_from: str | None
    messages: tuple[LogMessage, ...]
    turns: dict[str, Turn]
    """All turns that have ended, by run id, including those whose messages were dropped."""
    walled: bool = False
    """More than one account or login: what was sent is not simply everything before an answer."""

    def turn_of(self, message: LogMessage) -> Turn | None:
        return self.turns.get(message.run) if message.run is not None else None


class AllowedToolShown(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that an agent may use in a conversation: the user answered "always" when it asked."""

    agent: str
    role: str | None
    tool: str


class ConversationShown(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation of ``segue ls``. Times are milliseconds since 1970."""

    key: str
    title: str
    agents: tuple[str, ...]
    agent: str | None
    account: str | None
    model: str | None
    role: str | None
    cwd: str | None
    messages: int
    state: Literal["idle", "needs_you", "running", "parked", "queued"]
    status: Status | None
    """The last turn's; None: it has not ended."""
    recovery: Recovery | None
    """What the next turn does first, because Segue was killed during the last one."""
    created: int
    last_used: int
    tokens: int | None
    cost_usd: float | None
    cost_estimated: bool
    saved_usd: float | None
    forked_from: str | None
    starred: bool = False
    unread: bool = False
    """It has an answer that nobody has looked at."""
    allowed_tools: tuple[AllowedToolShown, ...] = ()
    """What was allowed for good when an agent asked for permission."""
    asks: str | None = None
    """The first open question, in words."""
    until: int | None = None
    """Until when its first parked run waits."""
    failure: FailureShown | None = None
    """Why its newest turn failed; null: it did not."""
    context: Context | None = None
    """How full the model's window was in the newest turn for which this is known."""
    queued: int = 0
    """How many runs wait."""


class LastAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``segue last``."""

    text: str | None
    """The last answer; None: there is none yet."""
    told: Turn | LogMessage | None
    """The turn that gave it; for an imported answer, its message."""
    failed: Turn | None
    """The newest turn, if it failed after that answer."""
    agent: str | None
    """The agent of the newest turn."""
    running: bool
    """The newest turn has not ended."""


class Undone(msgspec.Struct, frozen=True):
    """What ``undo`` reverted, and how many messages it restored."""

    kind: Literal["edit", "truncate", "retry"]
    restored: int


class ErrorDetail(msgspec.Struct, frozen=True):
    code: str
    message: str


class ErrorShown(msgspec.Struct, frozen=True, kw_only=True):
    """What ``--json`` prints instead of a result."""

    schema: int = 1
    error: ErrorDetail


class AgentShown(msgspec.Struct, frozen=True):
    """One agent of ``segue agents``; ``problem`` says why it cannot be used."""

    agent: str
    label: str
    path: str | None
    version: str | None
    distribution: str | None
    capabilities: Capabilities | None
    accounts: tuple[str, ...]
    problem: str | None = None
    models: tuple[str, ...] | None = None
    """The models that turns asked for and used lately, the newest first; null: the store is unavailable."""


class SetupFinding(msgspec.Struct, frozen=True):
    """One finding of ``segue doctor``, and how to fix it."""

    check: str
    level: Level
    what: str
    fix: str = ""
    what_clauses: tuple[Clause, ...] = ()
    """``what`` as data; empty if it is told in somebody else's words."""
    fix_clauses: tuple[Clause, ...] = ()
    """``fix`` as data; empty if it is only a command."""
