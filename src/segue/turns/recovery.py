"""Settles what a killed Segue left behind, before the next turn begins.

The plan and the stream stand on disk, so nothing is guessed: a turn that came to its end is settled with its
answer, one that was cut short is settled as such. A process that still runs is adopted: it is read to its
end, and only ended when its time is over or it waits for an answer that nobody can give.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from anyio.to_thread import run_sync

from segue.agents import registry
from segue.agents.base import Agent
from segue.core.environment import child_environment
from segue.core.errors import Misuse
from segue.core.outcome import DOUBT, Failure, Outcome
from segue.core.redact import Redactor
from segue.core.turn import Saved
from segue.store.records import AttemptRow, TurnRow
from segue.store.store import Store
from segue.turns import keep
from segue.turns import plan as plans
from segue.turns.finishing import abandon, finish, weigh
from segue.turns.lease import OVERTAKEN, Busy, Lease, hold, session_lease_name
from segue.turns.orphans import Orphan, gone
from segue.turns.owners import is_near, this_process
from segue.turns.plan import Plan
from segue.turns.prepared import Prepared
from segue.turns.recording import Recorder
from segue.turns.remains import Traces, concluded, doubted, dropped, noted, traces, unread
from segue.turns.report import priced, told
from segue.turns.settling import Result

if TYPE_CHECKING:
    from segue.turns.attempts import Company

LATER = "settled by a later run: the one it began in did not come to that"
NEVER = "Segue was killed before the agent was started"
LOST = "Segue was killed while it ran, and what it left in its run directory is gone"
RECORD_S = 10.0
"""How long writing down what an orphan said may hold up the next turn."""
Made = list[tuple[AttemptRow, Plan]]
"""The attempts of a turn that were started, as far as they can be read."""


async def recover(
    prepared: Prepared,
    store: Store,
    lease: Lease,
    own: str | None,
    company: Company,
    until: float,
    why: Failure | None = None,
) -> None:
    """Settle every turn of the conversation that is running on paper only; raises ``Busy`` if given up.

    Under the conversation's lease: so nobody looks after these turns any more, be their process alive or not.
    ``own``: the turn that is about to begin. ``why``: what became of them, where that is known.
    """

    def given_up() -> bool:
        return company.cancel.asked > 0 or time.monotonic() >= until

    for row in await run_sync(store.unsettled, prepared.conversation.id):
        if row.id != own and row.state == "running":
            await _Left(row, prepared, store, lease, given_up, company.notice, why).settle()


class _Left:
    """A turn that somebody else began."""

    def __init__(
        self,
        row: TurnRow,
        prepared: Prepared,
        store: Store,
        lease: Lease,
        given_up: Callable[[], bool],
        notice: Callable[[str], None],
        why: Failure | None,
    ) -> None:
        self.row, self.prepared, self.store, self.lease = row, prepared, store, lease
        self.given_up, self.notice, self.why = given_up, notice, why
        self.here = is_near(row.owner, prepared.host)
        self.attempts = store.attempts(row.id)

    async def settle(self) -> None:
        made, agent = await run_sync(self._made), self._agent()
        if made and agent is not None:
            await self._read(made, agent)
        else:
            await self._unread(agent)

    async def _read(self, made: Made, agent: Agent) -> None:
        redactor = Redactor(self._secrets(made[-1][1], agent))
        recorder = Recorder(self.store, self.row.id, None)
        for _, plan in made:
            orphan = Orphan(plan, agent, redactor, recorder)
            async with self._one_writer(plan):
                await self._follow(orphan, agent)
        await run_sync(recorder.finish, RECORD_S)
        recorder.give_up()
        outcome = redactor.outcome(self._explained(concluded(made[-1][0], agent, orphan)))
        if not await run_sync(self._finish, made, agent, outcome):
            raise Busy(OVERTAKEN)
        for _, plan in made:
            if (trouble := await run_sync(keep.settle, plan.run_dir, redactor)) is not None:
                self.notice(trouble)

    @asynccontextmanager
    async def _one_writer(self, plan: Plan) -> AsyncIterator[None]:
        """The session's lease goes over to us with what writes to it."""
        name = session_lease_name(plan)
        if name is None:
            yield
            return
        async with hold(
            self.store,
            name,
            owner=this_process(self.prepared.host),
            locks=self.prepared.segue_home.locks,
            until=math.inf,
            on_wait=lambda holder: self.notice(f"waiting for the session ({holder})"),
            given_up=self.given_up,
            on_loss=lambda: None,
        ):
            yield

    async def _follow(self, orphan: Orphan, agent: Agent) -> None:
        if orphan.lives:
            self.notice(f"an earlier turn of {agent.label} still runs; reading it to its end")
        if not await orphan.follow(self.given_up):
            raise Busy("an earlier turn whose Segue was killed")

    async def _unread(self, agent: Agent | None) -> None:
        """Nothing can be read of it. Whoever still works at it is waited for all the same."""
        run_dirs = [Path(attempt.run_dir) for attempt in self.attempts] if self.here else []
        if not await gone(run_dirs, self.given_up):
            raise Busy("an earlier turn whose Segue was killed")
        if not await run_sync(self._conclude, agent):
            raise Busy(OVERTAKEN)

    def _conclude(self, agent: Agent | None) -> bool:
        """From what the store was told. False: somebody else has taken the conversation over."""
        seen, silent = traces(self.store, self.row.id), self._silent()
        if not self._may_have_run(seen):
            failure = self.why or Failure("killed", silent or NEVER)
            return abandon(self.store, self.row, self.prepared.conversation.key, failure, self.lease.claim)
        failure = self.why or Failure("killed", f"{silent or LOST}; {DOUBT}")
        planned = [(attempt, plan) for attempt in self.attempts if (plan := plans.recalled(attempt.task))]
        if silent or agent is None or not planned or planned[-1][0] is not self.attempts[-1]:
            return self._abandon(failure, seen)
        return self._finish(planned, agent, unread(planned[-1][1], seen, failure), seen)

    def _silent(self) -> str | None:
        """What is said of a turn that ran where nobody can look. Containers may have nothing in common but
        the machine id of their image."""
        there = self.prepared.host.has(self.row.owner)
        if self.here and (there or any(os.path.exists(attempt.run_dir) for attempt in self.attempts)):
            return None
        return f"nothing was heard any more of {self.row.host}, where it ran"

    def _may_have_run(self, seen: Traces) -> bool:
        """An attempt is noted once its plan is written: one whose plan is gone may have come to anything."""
        if not self.here or not self.attempts:
            return bool(self.attempts)
        last = Path(self.attempts[-1].run_dir)
        return seen.events > 0 or plans.read(last) is None or (last / "stdout").exists()

    def _abandon(self, failure: Failure, seen: Traces) -> bool:
        """Where its session ends now is not known either; so nobody must cut it where it ended before."""
        row, key = self.row, self.prepared.conversation.key
        pins = self.store.pins(row.conversation)
        pin = next((p for p in pins if (p.voice, p.account) == (row.voice, row.account)), None)
        if pin is not None:
            pin = doubted(pin, failure, seen)
            pin = msgspec.structs.replace(pin, end=None) if self.here else pin
        return abandon(self.store, row, key, failure, self.lease.claim, seen.calls or None, pin)

    def _made(self) -> Made:
        if not self.here:
            return []
        found = [(attempt, plans.read(Path(attempt.run_dir))) for attempt in self.attempts]
        started = [(attempt, plan) for attempt, plan in found if plan and (plan.run_dir / "stdout").exists()]
        return [] if found and found[-1][1] is None else started

    def _agent(self) -> Agent | None:
        try:
            return registry.get(self.row.voice.agent, self.prepared.config)
        except Misuse:
            return None

    def _secrets(self, plan: Plan, agent: Agent) -> tuple[str, ...]:
        """The turn may have run under another account than the one that is about to begin."""
        child, account = self.prepared.child, self.prepared.config.accounts.get(plan.account)
        theirs = child_environment(
            child.env, keys_withheld=agent.keys, account_env=account.env if account is not None else None
        )
        return (*child.secrets, *theirs.secrets)

    def _finish(self, made: Made, agent: Agent, outcome: Outcome, seen: Traces | None = None) -> bool:
        """``seen``: all that is known of what it did, where its own words are lost. False: overtaken."""
        earlier = [(plan, noted(attempt)) for attempt, plan in made[:-1]]
        _, plan = made[-1]
        outcome = priced(outcome, plan, self.prepared.config.prices)
        standing = {message.id for message in self.store.messages(plan.conversation)}
        if plan.message not in standing:
            outcome, result = dropped(outcome), Result()
        elif seen is None:
            result = self._weigh(agent, plan, outcome)
        else:
            result = self._doubted(agent, plan, outcome, seen)
        marked = self._weigh(agent, *earlier[0]).pin if earlier else None
        now_ms = time.time_ns() // 1_000_000
        turn = told(
            [*earlier, (plan, outcome)],
            saved=Saved(),
            notices=(*([] if self.why else [LATER]), *result.notices),
            duration_ms=now_ms - self.row.started_ms,
            retry_of=self.row.retry_of,
        )
        self.store.attempted(
            plan.attempt,
            outcome="ok" if outcome.failure is None else outcome.failure.kind,
            native_id=outcome.session_id,
            usage=outcome.usage,
            cost_usd=outcome.cost_usd,
            tools_run=outcome.tools_run,
            ended_ms=now_ms,
        )
        return finish(self.store, self.row, plan, outcome, result, marked, turn, self.lease.claim)

    def _explained(self, outcome: Outcome) -> Outcome:
        failure = outcome.failure
        if self.why is None or failure is None or failure.kind != "killed":
            return outcome
        return msgspec.structs.replace(outcome, failure=self.why)

    def _doubted(self, agent: Agent, plan: Plan, outcome: Outcome, seen: Traces) -> Result:
        """It may have done something: so its session is held up to where it ends now, and not cut before."""
        at_least = msgspec.structs.replace(outcome, tools_run=max(1, seen.calls))
        result = self._weigh(agent, plan, at_least)
        pin = result.pin or self.store.pin(plan.conversation, plan.voice, plan.account, plan.login)
        if pin is None or outcome.failure is None:
            return result
        return msgspec.structs.replace(result, pin=doubted(pin, outcome.failure, seen))

    def _weigh(self, agent: Agent, plan: Plan, outcome: Outcome) -> Result:
        pin = self.store.pin(plan.conversation, plan.voice, plan.account, plan.login)
        return weigh(agent, plan, outcome, pin.held[: plan.kept_rows] if pin is not None else ())
