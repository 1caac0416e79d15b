"""How an attempt ended: an answer, or a failure of a named kind.

The kinds, and what they mean for the next turn, are the same for every agent:

    session_rejected   the CLI refused the native session (``reason`` says why)
    session_busy       another process is writing it
    context_exceeded   the conversation does not fit the model's window
    auth               not logged in, or not allowed
    untrusted          the CLI does not work in a directory that it was not told to trust
    rate_limited       a usage limit (``until``: when it ends, if the CLI says so)
    network            the model service could not be reached, or the connection broke
    model_error        the model service failed or answered nonsense
    refused            the model service declined because of what was asked or answered
    tool_denied        no answer came after a tool was refused, or the caller counts a refusal as a failure
    timeout            our time limit, or the CLI's own limit of turns, time or money
    cancelled          the user stopped it
    killed             something else ended the process
    crashed            the CLI itself crashed
    not_installed      the program was not found
    protocol           the CLI's output cannot be understood
    budget             it did not begin: a budget of its conversation, day or account does not cover it
    forbidden          it did not begin: a rule of the user's, or a law of Segue's, forbids it
    unsettled          it succeeded, but the store was not available: the next run records it
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from segue.core.stream import TurnState
from segue.core.tools import DeniedTools
from segue.core.usage import Context, Limit, Pays, Totals, Usage

Kind = Literal[
    "session_rejected",
    "session_busy",
    "context_exceeded",
    "auth",
    "untrusted",
    "rate_limited",
    "network",
    "model_error",
    "refused",
    "tool_denied",
    "timeout",
    "cancelled",
    "killed",
    "crashed",
    "not_installed",
    "protocol",
    "budget",
    "forbidden",
    "unsettled",
]
Reason = Literal["not_found", "expired", "foreign_account", "wrong_cwd", "corrupt", "form", "unknown"]
Status = Literal["ok", "failed", "cancelled"]

FAULTS = (4, 5, 6, 7, 8, 11)
"""Signals of a crash: illegal instruction, trap, abort, bus error, arithmetic error, segmentation fault."""

EndedBy = Literal["cancelled", "timeout", "flood"]
"""Why we ended a process: the user cancelled it, it exceeded its time limit, it printed without end."""

CUT_SHORT: frozenset[Kind] = frozenset({"cancelled", "killed", "timeout"})
"""Failures after which it is not known how far the turn got."""

BROKEN_OFF: frozenset[Kind] = CUT_SHORT | {*("network", "model_error", "refused", "crashed", "protocol")}
"""Failures in which the model may have been working although no usage was reported."""
DOUBT = "what it did is not known"
"""Added to a failure after which it is not known whether tools ran."""

RETRYABLE: frozenset[Kind] = frozenset({"session_busy", "rate_limited", "network", "model_error"})
"""Failures after which a later retry may succeed."""


class Failure(msgspec.Struct, frozen=True):
    """A failure in the CLI's own words, under our name for its kind."""

    kind: Kind
    message: str
    reason: Reason | None = None
    until: int | None = None
    """When a limit ends, in epoch milliseconds."""
    status: int | None = None
    """The HTTP status behind it, if known."""

    @property
    def retryable(self) -> bool:
        refused = self.kind == "model_error" and self.status is not None and self.status < 500
        return self.kind in RETRYABLE and not refused


class Exit(msgspec.Struct, frozen=True):
    """How the process ended. ``ended_by`` is set if we ended it."""

    code: int | None
    ended_by: EndedBy | None = None
    stderr: str = ""
    """The end of what it wrote to stderr."""

    @property
    def signal(self) -> int | None:
        """The signal that ended it, also if a shell or launcher turned it into 128 + n."""
        if self.code is None:
            return None
        if self.code < 0:
            return -self.code
        return self.code - 128 if self.code in (129, 130, 137, 143) else None


class Outcome(msgspec.Struct, frozen=True):
    """Everything that is known about an attempt once it has ended."""

    text: str = ""
    failure: Failure | None = None
    session_id: str | None = None
    """The native session the CLI says it wrote. Never taken from a failed resume."""
    model: str | None = None
    usage: Usage = Usage()
    cost_usd: float | None = None
    cost_estimated: bool = False
    context: Context = Context()
    totals: Totals = Totals()
    """The session's running totals after this turn, if the CLI reports totals."""
    model_turns: int | None = None
    tools_run: int | None = 0
    """None: unknown."""
    tools_denied: DeniedTools | None = DeniedTools()
    """None: unknown."""
    compacted: bool = False
    """The CLI replaced its history with a summary."""
    asked: bool = False
    """It asked the user a question."""
    limits: tuple[Limit, ...] = ()
    """The usage limits that the CLI reported."""
    pays: Pays | None = None
    """What paid for it, as far as the CLI says so."""

    @property
    def status(self) -> Status:
        if self.failure is None:
            return "ok"
        return "cancelled" if self.failure.kind == "cancelled" else "failed"


def by_status(status: int | None) -> Kind | None:
    """The kind of failure behind an HTTP status of the model service."""
    if status is None:
        return None
    if status in (401, 403):
        return "auth"
    if status == 429:
        return "rate_limited"
    if status == 413:
        return "context_exceeded"
    if status in (408, 502, 504):
        return "network"
    return "model_error" if status >= 400 else None


def by_exit(ended: Exit) -> Failure | None:
    """The failure that follows from how the process was ended, whatever it printed."""
    if ended.ended_by == "cancelled":
        return Failure("cancelled", "the turn was cancelled")
    if ended.ended_by == "timeout":
        return Failure("timeout", "the time limit was reached")
    if ended.ended_by == "flood":
        return Failure("protocol", "it did not stop printing, and was stopped")
    return None


def fallen(ended: Exit, name: str) -> Failure:
    """The failure of a process that ended without a final event."""
    line = last_line(ended.stderr)
    if ended.signal is not None and ended.signal not in FAULTS:
        return Failure("killed", f"{name} was ended by signal {ended.signal}" + (f": {line}" if line else ""))
    if ended.code == 0:
        return Failure("protocol", f"{name} exited without a final answer" + (f": {line}" if line else ""))
    return Failure("crashed", line or f"{name} exited with code {ended.code} and printed nothing")


def unanswered(reading: TurnState, denied: DeniedTools | None = None) -> Failure | None:
    """The failure of a run without an answer, unless tools ran. ``denied``: if it is known better."""
    refused = (reading.tools_denied if denied is None else denied).count
    if reading.answer.strip() or reading.tools_run + reading.tools_denied.count > refused:
        return None
    if refused:
        return Failure("tool_denied", "it gave no answer after a tool was refused")
    return Failure("model_error", "the model gave an empty answer")


def kept_answer(reading: TurnState, evidence: Mapping[str, Any]) -> str:
    """The answer at the end of the session, if the output does not say that the turn has ended: the process
    was killed in between. ``evidence`` has it as ``answered``."""
    return str(evidence.get("answered") or "") if reading.end is None else ""


def nothing_known(outcome: Outcome) -> bool:
    """Whether the usage is unknown although the CLI reports 0.

    If an answer broke off, no CLI counts the request. A request that the model service refused costs nothing.
    """
    failure, usage = outcome.failure, outcome.usage
    if failure is None or failure.kind not in BROKEN_OFF or failure.status is not None:
        return False
    return not (usage.prompt or usage.output)


def last_line(text: str) -> str:
    """The last line that is not blank, bounded, to be quoted in an error message."""
    for line in reversed(text.splitlines()):
        if line.strip():
            return line.strip()[:500]
    return ""
