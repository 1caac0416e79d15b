"""Where a turn came from: one row for each turn but a root.

A root has nothing before it: it is the first turn of its conversation, or it was to begin anew (``--blank``).
"""

from __future__ import annotations

from segue.core.turn import LineageKind
from segue.store.records import LineageRow, SessionRow, TurnRow
from segue.store.store import Store
from segue.turns.run_dir import Plan


def descent(
    store: Store, plan: Plan, session: SessionRow | None, now_ms: int, *, refused: bool = False
) -> tuple[LineageRow, ...]:
    """Of a turn that was planned like this. ``session``: the one it wrote, if it left one that can be used.
    ``refused``: the agent had refused to continue its session."""
    if plan.pin is not None and plan.mode in ("resume", "branch"):
        return (_continued(store, plan, session, now_ms),)
    wrote = session.id if session is not None else None
    if plan.parent is not None:
        return (LineageRow(child=plan.turn, parent=plan.parent, kind=plan.came_by, session=wrote, ms=now_ms),)
    before = store.before(plan.turn)
    if before is None:
        return ()
    kind: LineageKind = "new_session"
    if before.forked:
        kind = "fork"
    elif refused:
        kind = "step_down"
    elif (before.agent, before.account) != (plan.voice.agent, plan.account):
        kind = "switch"
    return (LineageRow(child=plan.turn, parent=before.run, kind=kind, session=wrote, ms=now_ms),)


def unplanned(store: Store, row: TurnRow, now_ms: int) -> tuple[LineageRow, ...]:
    """Of a turn whose plan is lost, or was never made."""
    before = store.before(row.id)
    if before is None:
        return ()
    same = (before.agent, before.account) == (row.voice.agent, row.account)
    kind: LineageKind = "new_session" if same else "switch"
    if before.forked:
        kind = "fork"
    elif row.mode == "resume" or row.mode == "branch":
        kind = row.mode
    return (LineageRow(child=row.id, parent=before.run, kind=kind, ms=now_ms),)


def _continued(store: Store, plan: Plan, session: SessionRow | None, now_ms: int) -> LineageRow:
    """It continued a session, or tried to. A session that was adopted was left by nobody we know."""
    assert plan.pin is not None
    kind: LineageKind = "branch" if plan.mode == "branch" else "resume"
    parent = store.left_by(plan.pin.session, plan.kept_rows, plan.turn)
    if parent is None:
        before = store.before(plan.turn)
        parent = before.run if before is not None else None
    return LineageRow(
        child=plan.turn,
        parent=parent,
        kind="fork" if plan.pin.foreign is not None else kind,
        session=session.id if session is not None else None,
        parent_session=plan.pin.session,
        ms=now_ms,
    )
