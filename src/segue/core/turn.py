"""A turn as it is reported: the object that ``segue run --json`` prints."""

from typing import Any, Literal

import msgspec

from segue.core.outcome import CUT_SHORT, Failure, Kind, Outcome, Reason, Status
from segue.core.request import Terms
from segue.core.tools import DeniedTools
from segue.core.usage import Context, LimitShown, Pays, Usage

Mode = Literal["resume", "branch", "graft", "replay", "recap", "fresh"]
State = Literal["queued", "running", "needs_you", "parked", "done", "failed", "cancelled", "withdrawn"]
"""The state of a run, the same word everywhere. ``withdrawn``: it never began; no agent sees its message."""

Recovery = Literal["adopt", "recover"]
"""What the next turn does first about one whose Segue was killed. ``adopt``: its agent still runs, and is
followed to its end; ``recover``: no process runs any more, and its result is recorded."""

LineageKind = Literal[
    "resume", "branch", "fork", "graft", "step_down", "new_session", "retry", "escalation", "review", "switch"
]
"""How one turn came out of another. ``new_session``: the same agent follows in a new session; the mode says
what of the past it was sent. ``switch``: another agent or account follows. ``step_down``: the agent refused
to continue its session, so the past was sent as text. ``escalation``, ``review``: so a flow says of a turn
that begins a session."""


class Clause(msgspec.Struct, frozen=True):
    """A part of a reason, for those who say it in another language: what it says, and its values."""

    code: str
    values: dict[str, str | int | float] = {}


class Check(msgspec.Struct, frozen=True):
    """One check's verdict, with its reason in words and the modes it rules out (``bars``)."""

    check: str
    verdict: Literal["pass", "fail", "skip"]
    bars: tuple[Mode, ...] = ()
    detail: str = ""
    clauses: tuple[Clause, ...] = ()
    """The same reason as data; empty for turns of older versions."""


class RungShown(msgspec.Struct, frozen=True):
    """One rung of the ladder: what rules it out, or what it would cost."""

    mode: Mode
    state: str
    """``chosen``, ``open``, ``barred`` (a check rules it out, or the agent refused it) or ``impossible``."""
    why: str = ""
    new_tokens: int | None = None
    cached_tokens: int | None = None
    usd: float | None = None
    clauses: tuple[Clause, ...] = ()
    """``why`` as data; empty if it is told in somebody else's words."""


class Sent(msgspec.Struct, frozen=True):
    """What the agent was given: messages its session held, messages as text, and the size of the text."""

    native_messages: int = 0
    text_messages: int = 0
    bytes: int = 0


class FailureShown(msgspec.Struct, frozen=True):
    kind: Kind
    reason: Reason | None
    message: str
    retryable: bool
    until: int | None = None


class AttemptShown(msgspec.Struct, frozen=True):
    mode: Mode
    session_id: str | None
    outcome: str
    """``ok`` or the kind of failure."""
    usage: Usage
    cost_usd: float | None


class Saved(msgspec.Struct, frozen=True):
    """What continuing saved compared with sending everything as text."""

    tokens: int | None = None
    usd: float | None = None
    against: Mode | None = None
    estimated: bool = True


Transport = Literal["process", "daemon"]


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What was done for one user message, why, and what it cost. Unknown is ``None``, never 0."""

    schema: int = 1
    run: str
    conversation: str
    message: str | None = None
    """The id of the user message that it answers."""
    agent: str
    account: str | None
    model: str | None
    role: str | None = None
    terms: Terms = Terms()
    """What the agent was allowed to do and spend."""
    mode: Mode
    resumed: bool
    why: tuple[Check, ...] = ()
    session_id: str | None
    resumed_from: str | None = None
    sent: Sent
    text: str
    state: State = "done"
    status: Status
    """The settled state, simplified for programs: ``done`` is ok, ``withdrawn`` is failed."""
    failure: FailureShown | None
    retry_of: str | None = None
    """The previous run of the same message."""
    earlier: tuple[str, ...] = ()
    """The runs of the same call that failed before this one."""
    next: str | None = None
    """The command that continues after a failure."""
    transport: Transport = "process"
    """Whether the caller's own process ran it, or the daemon."""
    usage: Usage
    cost_usd: float | None
    cost_estimated: bool
    predicted_usd: float | None = None
    """What it was expected to cost, before it ran."""
    saved: Saved = Saved()
    context: Context
    limits: tuple[LimitShown, ...] | None = None
    """The account's usage limits when the turn ended, as they were last seen; None: they are not known."""
    pays: Pays = "unknown"
    """What paid for the turn."""
    model_turns: int | None
    tools_run: int | None
    """Tool calls that ran, or may have; None: unknown."""
    tools_denied: DeniedTools | None = None
    """Tool calls that were refused, and of which tools; None: unknown."""
    attempts: tuple[AttemptShown, ...]
    notices: tuple[str, ...] = ()
    """What the caller should know about the turn, in words."""
    notice_clauses: tuple[tuple[Clause, ...], ...] = ()
    """Each of them as data, in the same order; empty where there is none, and for turns of older versions."""
    duration_ms: int
    rungs: tuple[RungShown, ...] = ()
    """The ladder as it was when the last attempt was decided on; empty: it is not known."""
    agent_version: str | None = None
    """The version of the CLI that ran it."""

    def to_dict(self) -> dict[str, Any]:
        """The object that ``segue run --json`` prints, as plain values."""
        plain: dict[str, Any] = msgspec.json.decode(self.to_json())
        return plain

    def to_json(self) -> str:
        """The line that ``segue run --json`` prints."""
        return msgspec.json.encode(self).decode()


def shown_failure(outcome: Outcome) -> FailureShown | None:
    failure = outcome.failure
    if failure is None:
        return None
    return FailureShown(failure.kind, failure.reason, failure.message, failure.retryable, failure.until)


def state_of(outcome: Outcome) -> State:
    """The state of a run that had begun."""
    return "done" if outcome.failure is None else "cancelled" if outcome.status == "cancelled" else "failed"


def status_of(state: State) -> Status | None:
    """The status of a settled run; None: it is not settled yet."""
    known: dict[State, Status] = {
        "done": "ok",
        "failed": "failed",
        "withdrawn": "failed",
        "cancelled": "cancelled",
    }
    return known.get(state)


PARKED = "parked until"
"""How the notice begins that tells until when a run is parked."""


def next_command(
    key: str, message: str | None, failure: Failure | None, tools: bool, cwd: str | None = None
) -> str | None:
    """The command that continues after a failure. ``cwd``: the directory, if the command has to name it.

    ``tools``: some ran, or may have run, so the agent continues instead of starting over.
    """
    if failure is None:
        return None
    if tools and failure.kind in CUT_SHORT:
        return f'segue run {key} "go on"{_in(cwd)}'
    return retry_command(key, message, cwd)


def retry_command(key: str, message: str | None, cwd: str | None = None) -> str:
    """The command that retries a message."""
    return " ".join(filter(None, ("segue retry", key, message))) + _in(cwd)


def _in(cwd: str | None) -> str:
    from shlex import quote

    return f" --cwd {quote(cwd)}" if cwd is not None else ""


def exit_code(turn: Turn) -> int:
    """0 ok, 1 failed, 75 a later run may do better, 124 a limit was reached, 130 cancelled."""
    if turn.failure is None:
        return 0
    if turn.failure.kind == "cancelled":
        return 130
    if turn.failure.kind == "timeout":
        return 124
    return 75 if turn.failure.retryable or turn.failure.kind == "unsettled" else 1
