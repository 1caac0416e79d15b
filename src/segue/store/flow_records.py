"""The rows of flows and their steps, as frozen values."""

from __future__ import annotations

from typing import Literal

import msgspec

from segue.core.flow import FlowState, Needs, StepKind, StepState
from segue.core.model import Owner
from segue.core.turn import Mode, State
from segue.core.usage import Usage


class FlowRow(msgspec.Struct, frozen=True, kw_only=True):
    """A flow: a function whose steps are recorded."""

    id: str
    key: str | None = None
    """The caller's own name for it."""
    kind: str
    """The name of the flow's function."""
    version: int
    source: str | None = None
    """Where its code is, as JSON; None: it comes with Segue."""
    label: str = ""
    input: str = "{}"
    """What it was started with, as JSON."""
    state: FlowState = "running"
    needs: Needs | None = None
    """What it waits for, if it needs the user."""
    wake_ms: int | None = None
    """It is parked until then."""
    cwd: str
    tree: str | None = None
    """The directory whose working tree it has for itself while it runs."""
    host: str
    asked: Literal["pause", "cancel"] | None = None
    rounds: int = 0
    ending: str | None = None
    """How it ended, in the flow's own word."""
    result: str | None = None
    """What it returned, as JSON."""
    artefact: str | None = None
    """The hash of what it returned, if that is large."""
    failure: str | None = None
    created_ms: int
    ended_ms: int | None = None
    budget: float | None = None
    """What it may cost, in dollars. None: what is configured for all flows."""


class StepRow(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a flow."""

    flow: str
    key: str
    tries: int = 1
    """How often it was begun, this time included."""
    n: int | None = None
    """Its place in the order in which the steps began; None: it was taken back."""
    together: str = ""
    """The group of steps that run at the same time; empty: it runs alone."""
    kind: StepKind
    state: StepState = "running"
    run: str | None = None
    previous: str | None = None
    """The run of the try before."""
    conversation: str | None = None
    agent: str | None = None
    role: str | None = None
    tier: int | None = None
    question: str | None = None
    """What it asks, as JSON."""
    result: str | None = None
    artefact: str | None = None
    failure: str | None = None
    wake_ms: int | None = None
    began_ms: int
    ended_ms: int | None = None


class FlowAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt of a flow that has its working tree for itself: its agent may still work there."""

    flow: str
    tree: str
    run_dir: str
    owner: Owner
    """Who runs its turn, or did."""


class ArtefactRow(msgspec.Struct, frozen=True, kw_only=True):
    """Something large that a flow keeps."""

    flow: str
    name: str
    hash: str
    media_type: str
    size: int
    made_ms: int


class FlowRun(msgspec.Struct, frozen=True, kw_only=True):
    """A turn of a flow, with what it used."""

    run: str
    step: str
    conversation: str
    agent: str
    role: str
    tier: int | None
    model: str | None
    mode: Mode | None
    state: State
    usage: Usage
    cost_usd: float | None
    started_ms: int
    ended_ms: int | None
