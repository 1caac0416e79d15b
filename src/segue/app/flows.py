"""Flows seen from outside: starting, finding and listing them, and answering what they ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from segue.app.flow_report import question_of, shown
from segue.app.flow_shapes import FlowShown
from segue.app.workspace import Workspace
from segue.core.errors import Conflict, Gone, InUse, Misuse, NotFound
from segue.core.flow import UNFINISHED
from segue.flows.definition import FlowDefinition
from segue.flows.results import LARGEST
from segue.flows.tree import tree_use
from segue.store.carries import CarryRow
from segue.store.flow_records import FlowRow
from segue.system import clock
from segue.turns.request import utf8

MOST = 1_000
"""The longest list of flows."""
LONGEST_NAME = 200
MOST_DOLLARS = 1e9


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
    carries: Callable[[str], Sequence[CarryRow]] | None = None,
) -> FlowRow:
    """Store a new flow. If its key is known, that flow is returned; ``Conflict`` if it was started with
    something else. ``carries``: what the flow of that id carries over from account to account, for the
    audit."""
    where = directory_of(workspace, cwd)
    definition.check(given)
    values = _checked(given, key, budget)
    source = definition.source
    now_ms = clock.now_ms()
    id_ = clock.new_id(now_ms)
    row = workspace.store.flows.add(
        FlowRow(
            id=id_,
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
        ),
        carries(id_) if carries is not None else (),
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
    """Raise ``InUse`` if another flow works in the working tree of the directory, or the agent of one that
    was killed."""
    where, store = directory_of(workspace, cwd), workspace.store
    if key is not None and store.flows.by_key(key) is not None:
        return
    if (use := tree_use(store, where, workspace.host)) is not None:
        raise InUse(use.why)


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
    many = "several ids end with it" if alike else "no id ends with it"
    raise NotFound(f"there is no flow {name!r:.60}, and {many}; segue flow ls lists them")


def show(workspace: Workspace, name: str) -> FlowShown:
    """The flow as it is now, with its steps."""
    return shown(workspace, find(workspace, name))


def artefact(workspace: Workspace, name: str, kept: str) -> bytes:
    """What a flow keeps under a name. Raises ``NotFound``."""
    row, flows = find(workspace, name), workspace.store.flows
    known = {each.name: each.hash for each in flows.artefacts(row.id)}
    data = flows.artefact(known[kept]) if kept in known else None
    if data is None:
        names = ", ".join(known) or "nothing"
        raise NotFound(f"the flow {row.id} keeps nothing named {kept!r:.60}; it keeps: {names}")
    return data


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
        from segue.app.budget_answers import answer_flow_budget

        answer_flow_budget(workspace, row, found, text)
        return find(workspace, row.id)
    choices = question_of(found).choices
    if choices and text not in choices:
        raise Misuse(f"the answer is one of: {', '.join(choices)}")
    if len(text.encode("utf-8", "replace")) > LARGEST:
        raise Misuse(f"an answer has at most {LARGEST // 1024} KB; put it into a file and name that")
    said = msgspec.json.encode(utf8(text, "answer")).decode()
    if not workspace.store.flows.answer(row.id, found.key, said, clock.now_ms()):
        raise Conflict("this question has been answered")
    return find(workspace, row.id)
