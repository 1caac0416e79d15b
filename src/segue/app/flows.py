"""Flows seen from outside: lists, one flow, its report, and what can be asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum
from pathlib import Path

import msgspec

from segue.app.flow_budgets import answer_budget
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
from segue.core.errors import Conflict, Gone, InUse, Misuse, NotFound
from segue.core.flow import UNFINISHED, FlowQuestion
from segue.core.outcome import Status
from segue.core.turn import FailureShown, Sent
from segue.core.usage import Usage
from segue.flows.definition import FlowDefinition
from segue.flows.entry import flow_lease
from segue.flows.results import LARGEST
from segue.flows.tree import tree_lease
from segue.store.flow_records import ArtefactRow, FlowRow, FlowRun, StepRow
from segue.store.leases import judge
from segue.system import clock
from segue.system.processes import short_name
from segue.turns.request import utf8

MOST = 1_000
"""The longest list of flows."""
LONGEST_NAME = 200
MOST_DOLLARS = 1e9
LONGEST_TEXT = 2_000
"""How much of a turn's answer is shown with its step."""


def add(
    workspace: Workspace,
    definition: FlowDefinition,
    given: Mapping[str, object],
    *,
    cwd: str | Path | None = None,
    key: str | None = None,
    label: str = "",
    tree: bool = False,
    budget: float | None = None,
) -> FlowRow:
    """Store a new flow. If its key is known, that flow is returned; ``Conflict`` if it was started with
    something else."""
    where = directory_of(workspace, cwd)
    definition.check(given)
    values = _checked(given, key, budget)
    source = definition.source
    now_ms = clock.now_ms()
    row = workspace.store.flows.add(
        FlowRow(
            id=clock.new_id(now_ms),
            key=utf8(key, "key") if key is not None else None,
            kind=definition.name,
            version=definition.version,
            source=None if source is None else msgspec.json.encode(source).decode(),
            label=utf8(label, "label"),
            input=values,
            cwd=str(where),
            tree=str(where) if tree else None,
            host=workspace.host.name,
            created_ms=now_ms,
            budget=budget,
        )
    )
    if (row.kind, row.input) != (definition.name, values):
        raise Conflict(f"the key {key} belongs to another flow ({row.kind} {row.id}); use another key")
    if budget is not None and budget != row.budget:
        raise Conflict(f"the flow {row.id} began with another budget; segue answer {row.id} raises it")
    return row


def _checked(given: Mapping[str, object], key: str | None, budget: float | None) -> str:
    """What a flow is started with, as JSON. Raises ``Misuse``."""
    if budget is not None and not 0 < budget < MOST_DOLLARS:
        raise Misuse(f"a budget is an amount in dollars, more than 0, not {budget}")
    if key is not None and (not key.strip() or len(key) > LONGEST_NAME or not key.isprintable()):
        raise Misuse(f"the key of a flow is a name on one line (at most {LONGEST_NAME} characters)")
    try:
        return msgspec.json.encode(given, order="sorted").decode()
    except (TypeError, ValueError) as error:
        raise Misuse(f"what a flow is started with must be JSON values: {error}") from None


def refuse_busy_tree(workspace: Workspace, cwd: str | Path | None, key: str | None) -> None:
    """Raise ``InUse`` if another flow works in the working tree of the directory."""
    where, flows = directory_of(workspace, cwd), workspace.store.flows
    if key is not None and flows.by_key(key) is not None:
        return
    row = workspace.store.lease(tree_lease(where, workspace.host))
    if row is not None and judge(row, workspace.host) == "alive":
        who = short_name(row.owner)
        raise InUse(f"another flow works in {where} ({who}); wait for it, or use another worktree")


def directory_of(workspace: Workspace, cwd: str | Path | None) -> Path:
    """Where a flow works. Raises ``Misuse`` if that is no directory."""
    where = workspace.cwd if cwd is None else workspace.cwd / Path(cwd).expanduser()
    if not where.is_dir():
        raise Misuse(f"the directory {where} does not exist")
    return where


def find(workspace: Workspace, name: str) -> FlowRow:
    """The flow of that id or key, or with an id that ends like this. Raises ``NotFound``."""
    flows = workspace.store.flows
    found = flows.flow(name) or flows.by_key(name)
    if found is not None:
        return found
    alike = [each for each in flows.newest(MOST) if len(name) >= 4 and each.id.endswith(name.lower())]
    if len(alike) == 1:
        return alike[0]
    many = "several flows end" if alike else "no flow ends"
    raise NotFound(f"there is no flow {name!r:.60}, and {many} like this; segue flow ls lists them")


def show(workspace: Workspace, name: str) -> FlowShown:
    """The flow as it is now, with its steps."""
    return shown(workspace, find(workspace, name))


def ls(
    workspace: Workspace, *, every: bool = False, limit: int = 100, brief: bool = False
) -> list[FlowShown]:
    """The flows that are not over; or all, the newest first. ``brief``: without what is long."""
    if not 1 <= limit <= MOST:
        raise Misuse(f"the limit must be between 1 and {MOST:,}, not {limit}")
    flows = workspace.store.flows
    rows = flows.newest(limit) if every else [*reversed(flows.unfinished())][:limit]
    found = [shown(workspace, row) for row in rows]
    return [_brief(each) for each in found] if brief else found


def _brief(flow: FlowShown) -> FlowShown:
    """The flow without its artefacts, its result and the steps that are over; of its input, the beginnings of
    texts."""
    given = msgspec.json.decode(flow.input)
    texts = {name: each[:LONGEST_NAME] for name, each in given.items() if isinstance(each, str)}
    open_ = (each for each in flow.steps if each.state in ("running", "waiting"))
    return msgspec.structs.replace(
        flow,
        input=msgspec.Raw(msgspec.json.encode(texts)),
        result=None,
        steps=tuple(msgspec.structs.replace(each, result=None) for each in open_),
        artefacts=(),
    )


def is_held(workspace: Workspace, flow_id: str) -> bool:
    """Whether a process runs the flow now."""
    row = workspace.store.lease(flow_lease(flow_id))
    return row is not None and judge(row, workspace.host) == "alive"


def shown(workspace: Workspace, row: FlowRow) -> FlowShown:
    flows = workspace.store.flows
    runs, held = flows.runs(row.id), is_held(workspace, row.id)
    steps = flows.steps(row.id)
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
        end=row.ending,
        rounds=row.rounds,
        cwd=row.cwd,
        host=row.host,
        built_in=row.source is None,
        input=msgspec.Raw(row.input.encode()),
        result=_raw(row.result),
        artefact=row.artefact,
        failure=row.failure,
        questions=tuple(map(_question, waiting)),
        wake=row.wake_ms,
        usage=sum((each.usage for each in runs), Usage()),
        cost_usd=_cost(runs),
        budget_usd=_budget(workspace, row),
        created=row.created_ms,
        ended=row.ended_ms,
        next=_next(row, held, bool(waiting)),
        steps=tuple(_step(step, runs) for step in steps if step.n is not None),
        artefacts=tuple(map(_artefact, flows.artefacts(row.id))),
    )


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
    )


def answer(workspace: Workspace, name: str, text: str, step: str | None = None) -> FlowRow:
    """Answer what a flow asks; the first answer counts. ``Conflict``: it has been answered."""
    row = find(workspace, name)
    asked = [each for each in workspace.store.flows.steps(row.id) if each.question is not None and each.n]
    waiting = [each for each in asked if each.state == "waiting"]
    if step is None:
        if not waiting:
            raise Conflict(f"the flow {row.id} asks nothing now: it may have been answered")
        if len(waiting) > 1:
            keys = ", ".join(each.key for each in waiting)
            raise Misuse(f"the flow {row.id} asks several things; name the step: {keys}")
        step = waiting[0].key
    found = next((each for each in asked if each.key == step), None)
    if found is None:
        raise NotFound(f"the flow {row.id} has no step {step!r:.60} that asks something")
    if row.state not in UNFINISHED:
        raise Gone(f"the flow {row.id} is {row.state}; nothing can be answered any more")
    if found.kind == "turn":
        answer_budget(workspace, row, found, text)
        return find(workspace, row.id)
    choices = _question(found).choices
    if choices and text not in choices:
        raise Misuse(f"the answer is one of: {', '.join(choices)}")
    if len(text.encode("utf-8", "replace")) > LARGEST:
        raise Misuse(f"an answer has at most {LARGEST // 1024} KB; put it into a file and name that")
    said = msgspec.json.encode(utf8(text, "answer")).decode()
    if not workspace.store.flows.answer(row.id, found.key, said, clock.now_ms()):
        raise Conflict("this question has been answered")
    return find(workspace, row.id)


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


def _step(step: StepRow, runs: list[FlowRun]) -> FlowStepShown:
    told = _told(step)
    mine = [each for each in runs if each.step == step.key]
    last = next((each for each in reversed(mine) if each.run == step.run), mine[-1] if mine else None)
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
        sent_bytes=told.sent.bytes if told is not None else None,
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


def _question(step: StepRow) -> FlowQuestionShown:
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


def _next(row: FlowRow, held: bool, waiting: bool) -> str | None:
    """The command that continues a flow, if one is needed."""
    if row.state == "needs_you" and waiting:
        return f"segue answer {row.id} ANSWER"
    if row.state in ("paused", "failed", "needs_you") or (row.state == "running" and not held):
        return f"segue flow resume {row.id}"
    return None
