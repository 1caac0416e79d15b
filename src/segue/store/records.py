"""The rows of the store, as frozen values. Messages and pins are the core's own types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from segue.core.model import Attached, Held, Message, MessageKind, Owner, Pin, Sender, Voice
from segue.core.request import FlowPlace, Grant
from segue.core.turn import LineageKind, Mode, Recovery, State, Turn
from segue.core.usage import Context, Limit, Totals, Usage


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A dialogue under the user's own key. ``agent`` to ``cwd``: the last used, for the next turn."""

    id: str
    key: str
    agent: str = ""
    account: str = ""
    model: str | None = None
    role: str = ""
    cwd: str = ""
    title: str = ""
    """A title that was given to it; without one, lists show how it begins."""
    created_ms: int = 0
    updated_ms: int = 0
    forked_from: str | None = None
    """The key of the conversation it is a fork of."""
    forked_at: str | None = None
    """The last message of that conversation that was copied."""


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """What a conversation's next turn uses unless told otherwise."""

    agent: str
    account: str = ""
    model: str | None = None
    role: str = ""
    cwd: str = ""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation in a list, with the totals of its turns."""

    conversation: Conversation
    title: str = ""
    messages: int = 0
    agents: tuple[str, ...] = ()
    """In the order of their first message."""
    last_used_ms: int = 0
    usage: Usage = Usage()
    cost_usd: float | None = None
    cost_estimated: bool = False
    """Whether a part of the cost is estimated."""
    saved_usd: float | None = None
    state: State | None = None
    """The state of its newest turn."""
    recovery: Recovery | None = None
    """What the next turn does first; set by ``turns/projection.py`` only."""
    unfinished: bool = False
    """A turn of it waits or runs, or did when its process died."""
    starred: bool = False
    unread: bool = False
    """Nobody has looked at it since its newest answer."""
    told: Turn | None = None
    """What will be recorded of a turn that a killed Segue left; set by ``turns/projection.py`` only."""

    @property
    def tokens(self) -> int | None:
        """The new tokens: all except those that a cache served."""
        known = [n for n in (self.usage.input, self.usage.cache_write, self.usage.output) if n is not None]
        return sum(known) if known else None


class TurnRow(msgspec.Struct, frozen=True, kw_only=True):
    """A turn, from the moment its message was received. ``told`` is the turn as it was reported."""

    id: str
    conversation: str
    message: str
    answer: str | None = None
    voice: Voice
    account: str = ""
    model: str | None = None
    cwd: str = ""
    host: str = ""
    mode: Mode | None = None
    state: State = "queued"
    told: Turn | None = None
    owner: Owner
    started_ms: int
    ended_ms: int | None = None
    """Also None if its process died unnoticed."""
    predicted_usd: float | None = None
    retry_of: str | None = None
    via: str = ""
    """``run``: by a plain ``segue run``, which is a retry if the same text is sent after a failure."""
    recovery: Recovery | None = None
    """What remains to be done about it; set by ``turns/projection.py`` only, and not stored."""
    flow: FlowPlace | None = None
    """Stored with a new turn of a flow; ``store/flows.py`` reads it."""


def telling(runs: Sequence[TurnRow]) -> TurnRow | None:
    """Of the runs of an unanswered message: the newest that did something, or may have; else the last.

    What an earlier run did is not undone by a later one that did nothing.
    """
    acted = [run for run in runs if run.told is not None and run.told.tools_run != 0]
    return (acted or [*runs])[-1] if runs else None


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """A caller's key for a run, and a digest of the request."""

    key: str
    body: str
    failed: str | None = None
    """The run of this key that just failed, if the same call retries it."""


class KnownRun(Exception):  # noqa: N818 - it is an answer, not an error
    """The key belongs to an existing run."""

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.run = run


class ChangeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the history, with the previous values, so that it can be undone."""

    id: str
    kind: Literal["edit", "truncate", "retry"]
    message: str
    revision: int
    facts: str
    removed: tuple[str, ...] = ()
    last_place: int = 0
    run: str | None = None
    ms: int


class AttemptRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the CLI: written before it starts, with everything needed to adopt it."""

    id: str
    turn: str
    seq: int
    mode: Mode
    session: str | None = None
    """Our own id of the native session."""
    resumed_from: str | None = None
    new_id: str | None = None
    """The native id it is supposed to get."""
    run_dir: str
    task: bytes = b"{}"
    """A short form of the plan as JSON, in case its directory is lost. Kept until it is settled."""
    process: str | None = None
    """The process as JSON, once it is started."""
    outcome: str | None = None
    native_id: str | None = None
    usage: Usage = Usage()
    cost_usd: float | None = None
    tools_run: int | None = 0
    started_ms: int
    ended_ms: int | None = None


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A native session that we made or continued. A retired one keeps its id, and the reason."""

    id: str
    agent: str
    account: str = ""
    native_id: str
    host: str
    home: str
    cwd: str
    path: str | None = None
    conversation: str | None = None
    created_ms: int
    last_used_ms: int
    retired_ms: int | None = None
    retired_reason: str | None = None
    parent: str | None = None
    """Our id of the session it was made from."""
    how: str
    """The mode that made it."""
    intended: bool = False
    """We chose the id, and it is not confirmed yet."""
    totals: Totals = Totals()
    context: Context = Context()
    host_id: str | None = None


class LineageRow(msgspec.Struct, frozen=True, kw_only=True):
    """Which turn came from which."""

    child: str
    parent: str | None = None
    kind: LineageKind
    session: str | None = None
    parent_session: str | None = None
    ms: int


class Descent(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn came from, with the names that users know."""

    run: str
    kind: LineageKind
    parent: str | None
    """The run it came from; None: unknown, or not a run of ours."""
    parent_key: str | None
    """The key of that run's conversation."""
    voice: Voice
    session: str | None
    """The native session that it wrote."""
    parent_session: str | None
    """The native session that it came from."""
    ms: int


class Claim(msgspec.Struct, frozen=True):
    """Proof that a lease is held. The generation rises whenever a lease is taken."""

    name: str
    token: str
    generation: int


class Parking(msgspec.Struct, frozen=True, kw_only=True):
    """A run that met a limit waits for its end instead of failing."""

    until_ms: int
    request: str
    """What was asked for, as JSON."""
    leaves: bool
    """Nothing was done for the message: it is not part of the conversation until the run wakes."""


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the end of a turn changes; what is left out stays as it was."""

    turn: TurnRow
    """In its final state, or parked."""
    parking: Parking | None = None
    """Set if it is parked."""
    hold: bool = False
    """If it failed, the runs that wait in the conversation's line stay there."""
    lease: Claim | None = None
    """The lease under which it is settled; None for a turn that never had one."""
    answer: tuple[Message, str] | None = None
    session: SessionRow | None = None
    held: tuple[Held, ...] | None = None
    """What the session of ``session``, else of ``pin``, holds from ``held_from`` on."""
    held_from: int = 0
    pin: Pin | None = None
    retire: tuple[tuple[str, str], ...] = ()
    """Our ids of sessions, each with the reason."""
    lineage: tuple[LineageRow, ...] = ()
    remember: Remembered | None = None
    grant: Grant | None = None
    """What the turn's voice may do from now on, unless told otherwise."""
    epochs: tuple[Voice, ...] = ()
    """The voices whose epoch rises by one."""
    limits: tuple[str, tuple[Limit, ...]] | None = None
    """The login that it ran under, and what it told about usage limits."""


class LogRow(msgspec.Struct, frozen=True, kw_only=True):
    """A message in the log; ``n`` is the number that users give, 0: it has no place (yet)."""

    n: int
    id: str
    sender: Sender
    voice: Voice
    account: str
    under: tuple[str, ...] = ()
    blank: bool
    kind: MessageKind = "said"
    text: str
    revision: int
    created_ms: int
    edited_ms: int | None = None
    turn: TurnRow | None = None
    """The turn that gave this answer, or the newest one that left this message unanswered."""
    attachments: tuple[Attached, ...] = ()


class LeaseRow(msgspec.Struct, frozen=True, kw_only=True):
    """Who may write. ``group``: the run directory of the attempt that writes for them."""

    name: str
    token: str
    generation: int
    owner: Owner
    group: str | None = None
    taken_ms: int
    renewed_ms: int
    silent_ms: int = 0
    """The time since its last renewal when it was read. All times are the database's."""

    @property
    def claim(self) -> Claim:
        return Claim(self.name, self.token, self.generation)


class QueuedRow(msgspec.Struct, frozen=True):
    """What the queue knows of a run. ``request``: what was asked for, as JSON; None once it is settled."""

    id: str
    conversation: str
    message: str
    state: State
    request: str | None
    place: int | None
    not_before_ms: int | None
    """It is parked until then."""
    claims: int
    """How often it was begun without getting as far as an attempt."""
    started_ms: int
    cancel_asked_ms: int | None
    host: str
    """The host that accepted it, and runs it."""
    held_by: str | None
    """The run whose failure holds it up."""
    waits: str | None = None
    """The budget whose reservations keep it from beginning."""


class FeedRow(msgspec.Struct, frozen=True):
    """One change. ``item``: the id of a message or flow, an event's number, the key of what was removed."""

    seq: int
    kind: Literal["conversation", "removed", "message", "run", "event", "flow"]
    conversation: str | None
    run: str | None
    item: str | None
    ms: int
    event: str | None
    """Of an event: its JSON; None if it has been forgotten since."""


class NotWaiting(Exception):  # noqa: N818 - it is an answer, not an error
    """The run does not wait any more: it was withdrawn, or another process has begun it."""

    def __init__(self, run: str) -> None:
        super().__init__(f"the run {run} does not wait any more")
        self.run = run


BEGUN: tuple[State, ...] = ("running", "needs_you")
"""The states of a run that has begun and is not settled."""
QUEUED = "queue"
"""``via`` of a run that is driven by a daemon: it outlives the process that accepted it."""
