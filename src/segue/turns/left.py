"""A turn whose Segue was killed: what can be told of it from its plan, its stream, and the store.

Nothing is guessed: a turn that came to its end is concluded with its answer, one that was cut short as such.
It is looked at by whoever settles it, and by those who only want to know what the next turn will do about it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from segue.agents import registry
from segue.agents.base import Agent
from segue.config.schema import Config
from segue.core.environment import child_environment
from segue.core.errors import Misuse
from segue.core.hosts import Host
from segue.core.marks import parts
from segue.core.model import Pin
from segue.core.outcome import DOUBT, Failure, Outcome
from segue.core.redact import Redactor
from segue.core.turn import Saved
from segue.store.records import AttemptRow, Claim, TurnRow
from segue.store.store import Store
from segue.turns import plan as plans
from segue.turns.finishing import abandon, finish, weigh
from segue.turns.orphans import Orphan
from segue.turns.owners import is_near
from segue.turns.plan import Plan
from segue.turns.prepared import Prepared
from segue.turns.remains import Traces, concluded, doubted, dropped, noted, traces, unread
from segue.turns.report import priced, refused, told
from segue.turns.settling import Result

LATER = "settled by a later run: the one it began in did not come to that"
NEVER = "Segue was killed before the agent was started"
LOST = "Segue was killed while it ran, and what it left in its run directory is gone"
Made = list[tuple[AttemptRow, Plan]]
"""The attempts of a turn that were started, as far as they can be read."""


class Here(msgspec.Struct, frozen=True, kw_only=True):
    """Where it is looked at from. ``secrets``: what must not be shown, beside what its account has."""

    key: str
    host: Host
    config: Config
    env: Mapping[str, str]
    secrets: tuple[str, ...] = ()

    @classmethod
    def of(cls, prepared: Prepared) -> Here:
        return cls(
            key=prepared.conversation.key,
            host=prepared.host,
            config=prepared.config,
            env=prepared.child.env,
            secrets=prepared.child.secrets,
        )


class Left:
    """``claim``: under which it is settled. ``why``: what became of it, where that is known."""

    def __init__(
        self, row: TurnRow, store: Store, here: Here, claim: Claim | None = None, why: Failure | None = None
    ) -> None:
        self.row, self.store, self.here, self.claim, self.why = row, store, here, claim, why
        self.is_near = is_near(row.owner, here.host)
        self.attempts = store.attempts(row.id)

    @property
    def run_dirs(self) -> list[Path]:
        """Those that may be found from here."""
        return [Path(attempt.run_dir) for attempt in self.attempts] if self.is_near else []

    def made(self) -> Made:
        if not self.is_near:
            return []
        found = [(attempt, plans.read(Path(attempt.run_dir))) for attempt in self.attempts]
        started = [(attempt, plan) for attempt, plan in found if plan and (plan.run_dir / "stdout").exists()]
        return [] if found and found[-1][1] is None else started

    def agent(self) -> Agent | None:
        try:
            return registry.get(self.row.voice.agent, self.here.config)
        except Misuse:
            return None

    def redactor(self, plan: Plan, agent: Agent) -> Redactor:
        """The turn may have run under another account than the one that is about to begin."""
        account = self.here.config.accounts.get(plan.account)
        theirs = child_environment(
            self.here.env,
            keys_withheld=agent.keys,
            account_env=account.env if account is not None else None,
        )
        return Redactor((*self.here.secrets, *theirs.secrets))

    def outcome(self, attempt: AttemptRow, agent: Agent, orphan: Orphan, redactor: Redactor) -> Outcome:
        """What came of its last attempt, whose stream was read."""
        outcome = concluded(attempt, agent, orphan)
        if self.why is not None and outcome.failure is not None and outcome.failure.kind == "killed":
            outcome = msgspec.structs.replace(outcome, failure=self.why)
        return redactor.outcome(outcome)

    def finish(self, made: Made, agent: Agent, outcome: Outcome, seen: Traces | None = None) -> bool:
        """``seen``: all that is known of what it did, where its own words are lost. False: overtaken."""
        earlier = [(plan, noted(attempt)) for attempt, plan in made[:-1]]
        _, plan = made[-1]
        outcome = priced(outcome, plan, self.here.config.prices)
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
            notices=(*([] if self.why else [LATER]), *result.notices, *refused([outcome])),
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
        return finish(self.store, self.row, plan, outcome, result, marked, turn, self.claim)

    def conclude(self, agent: Agent | None) -> bool:
        """From what the store was told. False: somebody else has taken the conversation over."""
        seen, silent = traces(self.store, self.row.id), self._silent()
        if not self._may_have_run(seen):
            failure = self.why or Failure("killed", silent or NEVER)
            return abandon(self.store, self.row, self.here.key, failure, self.claim)
        failure = self.why or Failure("killed", f"{silent or LOST}; {DOUBT}")
        planned = [(attempt, plan) for attempt in self.attempts if (plan := plans.recalled(attempt.task))]
        if silent or agent is None or not planned or planned[-1][0] is not self.attempts[-1]:
            return self._abandon(failure, seen)
        return self.finish(planned, agent, unread(planned[-1][1], seen, failure), seen)

    def _silent(self) -> str | None:
        """What is said of a turn that ran where nobody can look. Containers may have nothing in common but
        the machine id of their image."""
        there = self.here.host.has(self.row.owner)
        if self.is_near and (there or any(os.path.exists(run_dir) for run_dir in self.run_dirs)):
            return None
        return f"nothing was heard any more of {self.row.host}, where it ran"

    def _may_have_run(self, seen: Traces) -> bool:
        """An attempt is noted once its plan is written: one whose plan is gone may have come to anything."""
        if not self.run_dirs:
            return bool(self.attempts)
        last = self.run_dirs[-1]
        return seen.events > 0 or plans.read(last) is None or (last / "stdout").exists()

    def _abandon(self, failure: Failure, seen: Traces) -> bool:
        """Where its session ends now is not known either; so nobody must cut it where it ended before."""
        pin = self._pin()
        if pin is not None:
            pin = doubted(pin, failure, seen)
            pin = msgspec.structs.replace(pin, end=None) if self.is_near else pin
        return abandon(self.store, self.row, self.here.key, failure, self.claim, seen.calls or None, pin)

    def _pin(self) -> Pin | None:
        """The one it may have gone on from: of the login under which its message was said."""
        row, messages = self.row, self.store.messages(self.row.conversation)
        under = next((message.under for message in messages if message.id == row.message), ())
        for agent, account, login in map(parts, under):
            if (agent, account) == (row.voice.agent, row.account):
                return self.store.pin(row.conversation, row.voice, row.account, login, held=False)
        return None

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
