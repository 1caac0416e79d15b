"""Escalations: the flow that a file describes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from anyio.to_thread import run_sync

from segue.app import flows
from segue.app.escalation_file import EscalationFile
from segue.app.flow_shapes import FlowShown
from segue.app.flow_walls import Part, Passage, carried, mark_of, refuse_forbidden
from segue.config.load import load
from segue.core.errors import Misuse
from segue.flows.context import conversation_of
from segue.flows.definition import built_in
from segue.flows.escalation import CONVERSATION
from segue.flows.escalation_plan import EscalationPlan
from segue.turns.gate import may_send
from segue.turns.request import NONE

if TYPE_CHECKING:
    from segue.app.segue import Segue
    from segue.app.workspace import Workspace
    from segue.store.carries import CarryRow
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
    passages = _passages(workspace, plan, where)
    refuse_forbidden(workspace, where, passages)
    given = {"plan": msgspec.to_builtins(plan)}
    most = budget if budget is not None else plan.policy.budget

    def carries(flow: str) -> Sequence[CarryRow]:
        return carried(conversation_of(flow, CONVERSATION), passages)

    definition = built_in("escalate")
    add = partial(flows.add, cwd=cwd, key=key, label=label, tree=True, budget=most, carries=carries)
    return add(workspace, definition, given)


def _passages(workspace: Workspace, plan: EscalationPlan, where: Path) -> tuple[Passage, ...]:
    """Whose words would reach which tier. A tier that takes nothing from other accounts is left out, unless a
    rule is against its account anyway: then the file is wrong."""
    tiers = list(enumerate(plan.tiers[: plan.highest], 1))
    parts = [
        (tier, Part(f"tier {n} ({tier.name})", mark_of(workspace, tier.agent, tier.account or NONE, where)))
        for n, tier in tiers
        if not tier.human
    ]
    found: list[Passage] = []
    for (_, source), (tier, target) in combinations(parts, 2):
        unasked = not tier.carry and may_send(load(workspace.env, where), (source.mark,), target.mark, "none")
        is_rule = may_send(load(workspace.env, where), (source.mark,), target.mark, "user")
        if not unasked or is_rule:
            found.append(Passage(source, target, "trusted file" if tier.carry else "none"))
    return tuple(found)
