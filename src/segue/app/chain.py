"""The chain of a run, a session, a conversation or a flow: a tree of turns, with totals."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import fsum

from segue.app import flows
from segue.app.conversation_shapes import Chain, ChainTurn
from segue.app.workspace import Workspace
from segue.core.errors import NotFound
from segue.core.usage import Usage
from segue.store.chains import ChainRow


def chain(workspace: Workspace, name: str) -> Chain:
    """``name``: the id of a run, a flow or a native session, or the key of a conversation or a flow."""
    rows = workspace.store.chains.chain(_runs(workspace, name))
    turns = tuple(_turn(row, parent, depth) for row, parent, depth in _tree(rows))
    costs = [each.cost_usd for each in turns if each.cost_usd is not None]
    return Chain(
        turns=turns,
        usage=sum((each.usage for each in turns), Usage(0, 0, 0, 0)),
        cost_usd=fsum(costs) if costs else None,
        cost_estimated=any(row.cost_estimated for row in rows),
        duration_ms=sum(each.duration_ms or 0 for each in turns),
    )


def _runs(workspace: Workspace, name: str) -> list[str]:
    store = workspace.store
    if store.turn(name) is not None:
        return [name]
    conversation = store.conversation(name)
    if conversation is not None:
        return store.chains.runs_of_conversation(conversation.id)
    try:
        return [each.run for each in store.flows.runs(flows.find(workspace, name).id)]
    except NotFound:
        found = store.chains.runs_of_session(name)
    if not found:
        raise NotFound(f"there is no run, session, conversation or flow {name!r:.60}")
    return found


def _tree(rows: Sequence[ChainRow]) -> list[tuple[ChainRow, str | None, int]]:
    """Each turn after the one that it came from, with that and its depth. Turns that follow one another have
    the same depth. Where several came out of one, only one has it: if any goes on in its session, that one.
    What is part of a cycle is shown as if it began one."""
    known = {row.run: row for row in rows}
    parent = {row.run: _parent(row, known) for row in rows}
    children: dict[str | None, list[ChainRow]] = {}
    for row in rows:
        children.setdefault(parent[row.run], []).append(row)
    shown: list[tuple[ChainRow, str | None, int]] = []
    seen: set[str] = set()
    for root in (*children.get(None, []), *rows):
        open_: list[tuple[ChainRow, str | None, int]] = [(root, None, 0)]
        while open_:
            row, above, depth = open_.pop()
            if row.run in seen:
                continue
            seen.add(row.run)
            shown.append((row, above, depth))
            below = sorted(children.get(row.run, []), key=partial(_goes_on, row.run))
            deeper = [(each, row.run, depth + 1) for each in below[1:]]
            open_ += [(each, row.run, depth) for each in below[:1]] + deeper[::-1]
    return shown


def _goes_on(parent: str, row: ChainRow) -> tuple[bool, bool]:
    """The lowest of several turns is the one that goes on in the session of their parent."""
    return (parent, "resume") not in row.parents, row.state != "done"


def _parent(row: ChainRow, known: dict[str, ChainRow]) -> str | None:
    """The turn that a turn is shown under: the first one it came from that is known."""
    return next((run for run, _ in row.parents if run in known and run != row.run), None)


def _turn(row: ChainRow, parent: str | None, depth: int) -> ChainTurn:
    return ChainTurn(
        run=row.run,
        conversation=row.conversation,
        flow=row.flow,
        step=row.step,
        role=row.role or None,
        tier=row.tier,
        agent=row.agent,
        model=row.model,
        mode=row.mode,
        state=row.state,
        failure=row.failure,
        parent=parent,
        kind=next((kind for run, kind in row.parents if run == parent), None),
        depth=depth,
        usage=row.usage,
        cost_usd=row.cost_usd,
        cost_estimated=row.cost_estimated,
        duration_ms=row.duration_ms,
        created=row.started_ms,
    )
