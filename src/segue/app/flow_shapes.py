"""The JSON objects for flows. What is not known is null. Times are milliseconds since 1970."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from segue.core.budget import ReachedBudget
from segue.core.flow import FlowState, Needs, StepKind, StepState, TreeUse
from segue.core.outcome import Status
from segue.core.turn import Mode
from segue.core.usage import Usage

Above = Annotated[float, msgspec.Meta(gt=0)]


class FlowOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A flow to start."""

    kind: str
    """The name of a flow that comes with Segue."""
    input: dict[str, Any] = {}
    cwd: str | None = None
    key: str | None = None
    """Your own name for it: the same key again is the same flow."""
    label: str = ""
    budget: Above | None = None
    """What it may cost, in dollars, before it asks."""
    tree: bool = False
    """No other flow may work in the same working tree meanwhile."""


class EscalationOrder(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """An escalation to start."""

    file: str
    """The ``FLOW.toml`` that describes it, on the machine of the daemon."""
    dry_run: bool = False
    max_tier: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """The highest tier that is started."""
    cwd: str | None = None
    key: str | None = None
    """Your own name for it: the same key again is the same flow."""
    label: str = ""
    budget: Above | None = None
    """What all tiers together may cost, in dollars, before it asks. Without it: as the file says."""


class FlowAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An answer to what a flow asks."""

    answer: str
    step: str | None = None
    """The step that asks; it can be left out if only one does."""


class FlowQuestionShown(msgspec.Struct, frozen=True, kw_only=True):
    """What a flow asks."""

    step: str
    text: str
    needs: Needs
    choices: tuple[str, ...]
    asked: int
    budget: ReachedBudget | None
    """The budget that does not cover the next turn. The answer is the amount that it is raised to, or
    ``stop``."""


class FlowStepShown(msgspec.Struct, frozen=True, kw_only=True):
    """One step. ``usage`` and ``cost_usd``: of all its runs. ``result``: of a turn, how it ended."""

    key: str
    kind: StepKind
    state: StepState
    tries: int
    role: str | None
    tier: int | None
    agent: str | None
    model: str | None
    mode: Mode | None
    conversation: str | None
    run: str | None
    runs: tuple[str, ...]
    """All its runs, the oldest first."""
    sent_bytes: int | None
    """How much text the turn was sent."""
    usage: Usage
    cost_usd: float | None
    result: msgspec.Raw | None
    artefact: str | None
    """The hash of the result, if it is large; it is an artefact then."""
    failure: str | None
    wake: int | None
    began: int
    ended: int | None


class TurnResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn ended, in short. The run has the rest."""

    status: Status
    failure: str | None
    """The kind of its failure."""
    text: str
    """The answer, or its beginning."""


class FlowArtefact(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a flow keeps."""

    name: str
    hash: str
    media_type: str
    size: int
    made: int


class FlowShown(msgspec.Struct, frozen=True, kw_only=True):
    """A flow."""

    flow: str
    key: str | None
    kind: str
    version: int
    label: str
    state: FlowState
    needs: Needs | None
    held: bool
    """Whether a process runs it now. If it should run and none does, ``segue flow resume`` continues it."""
    stops: Literal["pause", "cancel"] | None
    """It was asked to stop, and has not done so yet."""
    waits: TreeUse | None
    """It cannot go on because another flow has its working tree."""
    end: str | None
    """How it ended, in the flow's own word."""
    rounds: int
    cwd: str
    host: str
    built_in: bool
    input: msgspec.Raw
    result: msgspec.Raw | None
    artefact: str | None
    failure: str | None
    questions: tuple[FlowQuestionShown, ...]
    wake: int | None
    """It is parked until then."""
    usage: Usage
    cost_usd: float | None
    budget_usd: float | None
    """What it may cost before it asks; null: there is no limit."""
    created: int
    ended: int | None
    next: str | None
    """The command that continues it, if it does not go on by itself."""
    steps: tuple[FlowStepShown, ...]
    artefacts: tuple[FlowArtefact, ...]


class FlowStepResult(msgspec.Struct, frozen=True, kw_only=True):
    """A step in the report of a flow."""

    key: str
    role: str | None
    tier: int | None
    agent: str | None
    mode: Mode | None
    run: str | None
    cost_usd: float | None
    result: msgspec.Raw | None


class FlowReport(msgspec.Struct, frozen=True, kw_only=True):
    """What ``--json`` prints of a flow at its end, or when it waits."""

    flow: str
    kind: str
    end: str | None
    rounds: int
    cost_usd: float | None
    steps: tuple[FlowStepResult, ...]
    state: FlowState
    needs: Needs | None
    failure: str | None
    result: msgspec.Raw | None
    next: str | None
    waits: TreeUse | None
