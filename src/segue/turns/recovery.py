"""Settles what a killed Segue left behind, before the next turn begins.

The plan and the stream stand on disk, so nothing is guessed: a turn that came to its end is settled with its
answer, one that was cut short is settled as such. A process that still runs is adopted: it is read to its
end, and only ended when its time is over or it waits for an answer that nobody can give.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from anyio.to_thread import run_sync

from segue.agents import registry
from segue.agents.base import Agent, Ended
from segue.core.errors import Misuse
from segue.core.outcome import Exit, Outcome
from segue.core.redact import Redactor
from segue.core.request import Place
from segue.core.turn import Saved
from segue.store.records import TurnRow
from segue.store.store import Store
from segue.turns import keep
from segue.turns import plan as plans
from segue.turns.attempt import marked
from segue.turns.finishing import abandon, finish, weigh
from segue.turns.lease import Busy
from segue.turns.orphans import Orphan
from segue.turns.owners import lives
from segue.turns.plan import Plan
from segue.turns.prepared import Prepared
from segue.turns.recording import Recorder
from segue.turns.report import priced, told

if TYPE_CHECKING:
    from segue.turns.attempts import Company

KILLED = -9


async def recover(prepared: Prepared, store: Store, own: str, company: Company) -> None:
    """Settle every turn of the conversation that is running on paper only. Raises ``Busy`` if given up."""
    for row in await run_sync(store.unsettled, prepared.conversation.id):
        here = row.host == prepared.host
        if row.id != own and row.status == "running" and not (here and lives(row.owner)):
            await _settle(row, prepared, store, company)


async def _settle(row: TurnRow, prepared: Prepared, store: Store, company: Company) -> None:
    plan, agent = await run_sync(_known, row, prepared, store)
    if plan is None or agent is None:
        await run_sync(abandon, store, row, prepared.ask.key, "Segue was killed before the agent was started")
        return
    redactor = Redactor(prepared.child.secrets)
    recorder = Recorder(store, row.id, None, known=len(store.events(row.id)))
    orphan = Orphan(plan, agent, redactor, recorder)
    if orphan.lives:
        company.notice(f"an earlier turn of {agent.label} still runs; reading it to its end")
    if not await orphan.follow(lambda: company.cancel.asked > 0):
        raise Busy("an earlier turn whose Segue was killed")
    recorder.flush()
    await run_sync(_finish, row, plan, agent, orphan, prepared, store)
    keep.settle(plan.run_dir, redactor)


def _known(row: TurnRow, prepared: Prepared, store: Store) -> tuple[Plan | None, Agent | None]:
    attempts = store.attempts(row.id)
    if not attempts or row.host != prepared.host:
        return None, None
    plan = plans.read(Path(attempts[-1].run_dir))
    if plan is None:
        return None, None
    try:
        return plan, registry.get(plan.voice.agent, prepared.config)
    except Misuse:
        return plan, None


def _finish(row: TurnRow, plan: Plan, agent: Agent, orphan: Orphan, prepared: Prepared, store: Store) -> None:
    outcome = priced(_concluded(plan, agent, orphan), plan, prepared.config.prices)
    pin = store.pin(plan.conversation, plan.voice, plan.account)
    kept = pin.held[: plan.kept_rows] if pin is not None else ()
    result = weigh(agent, plan, outcome, kept)
    now_ms = time.time_ns() // 1_000_000
    turn = told(
        [(plan, outcome)],
        saved=Saved(),
        notices=("settled by a later run: Segue was killed while it ran", *result.notices),
        duration_ms=now_ms - row.started_ms,
    )
    store.attempted(
        plan.attempt,
        outcome="ok" if outcome.failure is None else outcome.failure.kind,
        native_id=outcome.session_id,
        usage=outcome.usage,
        cost_usd=outcome.cost_usd,
        tools_run=outcome.tools_run,
        ended_ms=now_ms,
    )
    finish(store, row, plan, outcome, result, None, turn)


def _concluded(plan: Plan, agent: Agent, orphan: Orphan) -> Outcome:
    """How it exited nobody knows. It went well if all signs of that are there; else it was killed."""
    stderr = orphan.stderr()
    place = Place(plan.run_dir, plan.home, plan.started_ms)
    ended = Ended(
        request=plan.request,
        runtime=plan.runtime,
        reading=orphan.reading,
        exit=Exit(0, orphan.ended_by, stderr),
        evidence=agent.evidence(plan.request, place, plan.home, orphan.reading),
        base=plan.base,
        now_ms=time.time_ns() // 1_000_000,
    )
    outcome = agent.conclude(ended)
    whole = orphan.reading.end is not None or (outcome.failure is None and outcome.session_id is not None)
    if not whole:
        outcome = agent.conclude(msgspec.structs.replace(ended, exit=Exit(KILLED, orphan.ended_by, stderr)))
    return marked(outcome, orphan.reading)
