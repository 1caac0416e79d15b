"""A flow as it is now, for whoever looks at it: its steps, what they cost, and what continues it."""

from __future__ import annotations

from contextlib import suppress
from math import fsum
from pathlib import Path

import msgspec

from segue.app.flow_progress import Progress, progress_of
from segue.app.flow_shapes import (
    FlowArtefact,
    FlowQuestionShown,
    FlowReport,
    FlowShown,
    FlowStepResult,
    FlowStepShown,
    TurnResult,
)
from segue.app.workspace import Workspace
from segue.core.errors import Misuse
from segue.core.flow import FlowQuestion, TreeUse
from segue.core.outcome import Status
from segue.core.turn import FailureShown, Sent
from segue.core.usage import Usage
from segue.flows.entry import flow_lease
from segue.flows.tree import tree_use
from segue.store.flow_records import ArtefactRow, FlowRow, FlowRun, StepRow
from segue.store.leases import judge

LONGEST_TEXT = 2_000
"""How much of a turn's answer is shown with its step."""


def is_held(workspace: Workspace, flow_id: str) -> bool:
    """Whether a process runs the flow now."""
    row = workspace.store.lease(flow_lease(flow_id))
    return row is not None and judge(row, workspace.host) == "alive"


def shown(workspace: Workspace, row: FlowRow) -> FlowShown:
    workspace = workspace.as_configured_now()
    runs, steps, artefacts = workspace.store.flows.recorded(row.id)
    held = is_held(workspace, row.id)
    live = progress_of(workspace, runs)
    runs = [_so_far(each, live) for each in runs]
    waiting = [step for step in steps if step.state == "waiting" and step.n is not None]
    return FlowShown(
        flow=row.id,
        key=row.key,
        kind=row.kind,
        version=row.version,
        label=row.label,
        state=row.state,
        needs=row.needs,
        held=held,
        stops=row.asked,
        waits=_waits(workspace, row, held),
        end=row.ending,
        rounds=row.rounds,
        cwd=row.cwd,
        host=row.host,
        built_in=row.source is None,
        input=msgspec.Raw(row.input.encode()),
        result=_raw(row.result),
        artefact=row.artefact,
        failure=row.failure,
        questions=tuple(map(question_of, waiting)),
        wake=row.wake_ms,
        usage=sum((each.usage for each in runs), Usage()),
        cost_usd=_cost(runs),
        budget_usd=_budget(workspace, row),
        created=row.created_ms,
        ended=row.ended_ms,
        next=_next(row, held, steps),
        steps=tuple(_step(step, runs, live) for step in steps if step.n is not None),
        artefacts=tuple(map(_artefact, artefacts)),
    )


def _so_far(run: FlowRun, live: dict[str, Progress]) -> FlowRun:
    """The run, with what it has used so far."""
    return msgspec.structs.replace(run, usage=live[run.run].usage) if run.run in live else run


def report(flow: FlowShown) -> FlowReport:
    """What ``--json`` prints."""
    return FlowReport(
        flow=flow.flow,
        kind=flow.kind,
        end=flow.end,
        rounds=flow.rounds,
        cost_usd=flow.cost_usd,
        steps=tuple(
            FlowStepResult(
                key=step.key,
                role=step.role,
                tier=step.tier,
                agent=step.agent,
                mode=step.mode,
                run=step.run,
                cost_usd=step.cost_usd,
                result=step.result,
            )
            for step in flow.steps
        ),
        state=flow.state,
        needs=flow.needs,
        failure=flow.failure,
        result=flow.result,
        next=flow.next,
        waits=flow.waits,
    )


class _ToldTurn(msgspec.Struct):
    """What is shown of a turn's report."""

    status: Status
    failure: FailureShown | None
    text: str
    sent: Sent
    model: str | None = None


def _told(step: StepRow) -> _ToldTurn | None:
    """How a turn ended, if it did and its report is small."""
    if step.kind != "turn" or step.result is None:
        return None
    return msgspec.json.decode(step.result, type=_ToldTurn)


def _result(step: StepRow, told: _ToldTurn | None) -> msgspec.Raw | None:
    if told is None:
        return _raw(step.result)
    kind = told.failure.kind if told.failure is not None else None
    short = TurnResult(status=told.status, failure=kind, text=told.text[:LONGEST_TEXT])
    return msgspec.Raw(msgspec.json.encode(short))


def _step(step: StepRow, runs: list[FlowRun], live: dict[str, Progress]) -> FlowStepShown:
    told = _told(step)
    mine = [each for each in runs if each.step == step.key]
    last = next((each for each in reversed(mine) if each.run == step.run), mine[-1] if mine else None)
    now = live.get(last.run) if last is not None else None
    return FlowStepShown(
        key=step.key,
        kind=step.kind,
        state=step.state,
        tries=step.tries,
        role=last.role or None if last is not None else step.role,
        tier=step.tier,
        agent=last.agent if last is not None else step.agent,
        model=(told.model if told is not None else None) or (last.model if last is not None else None),
        mode=last.mode if last is not None else None,
        conversation=step.conversation,
        run=last.run if last is not None else None,  # the next try has an id before it has a run
        runs=tuple(each.run for each in mine),
        sent_bytes=told.sent.bytes if told is not None else now.sent_bytes if now is not None else None,
        usage=sum((each.usage for each in mine), Usage()),
        cost_usd=_cost(mine),
        result=_result(step, told),
        artefact=step.artefact,
        failure=step.failure,
        wake=step.wake_ms,
        began=step.began_ms,
        ended=step.ended_ms,
    )


def _artefact(row: ArtefactRow) -> FlowArtefact:
    return FlowArtefact(
        name=row.name, hash=row.hash, media_type=row.media_type, size=row.size, made=row.made_ms
    )


def question_of(step: StepRow) -> FlowQuestionShown:
    asked = msgspec.json.decode(step.question or "{}", type=FlowQuestion)
    return FlowQuestionShown(
        step=step.key,
        text=asked.text,
        needs=asked.needs,
        choices=asked.choices,
        asked=asked.asked,
        budget=asked.budget,
    )


def _raw(text: str | None) -> msgspec.Raw | None:
    return None if text is None else msgspec.Raw(text.encode())


def _cost(runs: list[FlowRun]) -> float | None:
    known = [each.cost_usd for each in runs if each.cost_usd is not None]
    return fsum(known) if known else None


def _budget(workspace: Workspace, row: FlowRow) -> float | None:
    """What it may cost: its own budget, else the configured one; or what that was raised to."""
    limit = row.budget or workspace.config.budgets.flow
    return max(limit, workspace.store.budgets.raised_to("flow", row.id, "") or 0.0) if limit else None


def _waits(workspace: Workspace, row: FlowRow, held: bool) -> TreeUse | None:
    """The flow that has the working tree of this one, which should run."""
    if row.tree is None or row.state != "running" or row.host != workspace.host.name:
        return None
    with suppress(Misuse):  # the directory is gone
        use = tree_use(workspace.store, Path(row.tree), workspace.host, but=row.id)
        return use if use is not None and (use.flow is not None or not held) else None
    return None


def _next(row: FlowRow, held: bool, steps: list[StepRow]) -> str | None:
    """The command that continues a flow, if one is needed. A flow that has named its end would only come to
    the same end again, unless a step has another result."""
    taken = [step for step in steps if step.n is not None]
    if row.state == "needs_you" and any(step.state == "waiting" for step in taken):
        return f"segue answer {row.id} ANSWER"
    changing = [step.key for step in taken if step.kind in ("turn", "ask")]
    if row.state == "failed" and row.ending is not None and changing:
        return f"segue flow retry-step {row.id} {changing[-1]}"
    if row.state in ("paused", "failed", "needs_you") or (row.state == "running" and not held):
        return f"segue flow resume {row.id}"
    return None
