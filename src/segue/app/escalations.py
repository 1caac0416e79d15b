"""Escalations: the flow that a file describes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from anyio.to_thread import run_sync

from segue.app import flows
from segue.app.escalation_file import EscalationFile
from segue.app.flow_shapes import FlowShown
from segue.core.errors import Misuse
from segue.flows.definition import built_in

if TYPE_CHECKING:
    from segue.app.segue import Segue
    from segue.app.workspace import Workspace
    from segue.store.flow_records import FlowRow


async def start_escalation(
    segue: Segue,
    file: str | Path,
    *,
    dry_run: bool = False,
    max_tier: int | None = None,
    cwd: str | Path | None = None,
    key: str | None = None,
    label: str = "",
    budget: float | None = None,
    elsewhere: bool = False,
) -> FlowShown:
    """Start the escalation that a file describes, and return at once. ``elsewhere``: it is only stored, and
    the daemon runs it. Raises ``ConfigError`` if it cannot be run."""
    given = partial(_add, dry_run=dry_run, max_tier=max_tier, cwd=cwd, key=key, label=label, budget=budget)
    row = await run_sync(given, segue.workspace, file)
    if not elsewhere:
        await segue.service.flows.start(built_in(row.kind, row.version), row)
    return await segue.flows.show(row.id)


def _add(
    workspace: Workspace,
    file: str | Path,
    *,
    dry_run: bool,
    max_tier: int | None,
    cwd: str | Path | None,
    key: str | None,
    label: str,
    budget: float | None,
) -> FlowRow:
    """Store it, as a flow."""
    if max_tier is not None and max_tier < 1:
        raise Misuse(f"the highest tier is a number from 1 on, not {max_tier}")
    where = flows.directory_of(workspace, cwd)
    read = EscalationFile(file, workspace.env, workspace.cwd)
    plan = read.settled(read.read(dry_run=dry_run, max_tier=max_tier), workspace.env, where)
    flows.refuse_busy_tree(workspace, cwd, key)
    given = {"plan": msgspec.to_builtins(plan)}
    most = budget if budget is not None else plan.policy.budget
    return flows.add(
        workspace, built_in("escalate"), given, cwd=cwd, key=key, label=label, tree=True, budget=most
    )
