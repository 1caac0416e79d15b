"""The attempts of a turn: one, and at most one more when it has to step down."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec
from anyio.to_thread import run_sync

from segue.core.errors import Broken, SegueError
from segue.core.events import Event
from segue.core.ladder import decide, step_down
from segue.core.model import Held, Pin
from segue.core.outcome import Failure, Outcome
from segue.core.redact import Redactor
from segue.core.request import RunPlace
from segue.core.situation import RUNGS
from segue.core.turn import FailureShown, Mode, Saved, Turn
from segue.runner.attempt import Cancel, Guarded, Listener, Replies, Task, attempt
from segue.runner.supervisor import Limits
from segue.store.leases import OVERTAKEN, Lease, LeaseBusy, hold
from segue.store.records import AttemptRow, TurnRow
from segue.store.store import FORGET_AT_ONCE, Store
from segue.system import clock
from segue.turns import forecast, run_dir, session_copies
from segue.turns import run_dir as plans
from segue.turns.plan import NATIVE, NoPlace, Planner, TooLong
from segue.turns.prepare import Prepared
from segue.turns.recorder import Recorder
from segue.turns.report import advised, failed_if_denied, left_alone, priced, refused, told
from segue.turns.run_dir import Plan, session_lease_name
from segue.turns.settlement import Result, commit, interpret, moves, paid_again
from segue.turns.situation import gather
from segue.turns.store_outage import StoreOutage, StoreStillAway

SESSION_WAIT_S = 30.0
UNSETTLED = (
    "it went well, but the store could not be written; do not run it again: the next run writes it down"
)
EVENTS_S = 1.0
"""How long writing the last events may take before the store counts as away."""
FORGET_S = 1.0
"""For so long a turn that is over lets old events pass; the rest waits for the next one."""
DAY_MS = 24 * 3_600_000


class Callbacks(msgspec.Struct, frozen=True):
    """Who is there while a turn runs: listens, answers, may cancel it, is told in words."""

    listener: Listener | None
    answerer: Replies
    cancel: Cancel
    notice: Guarded[str]


class FinishedAttempt(msgspec.Struct, frozen=True):
    """An attempt that is over."""

    plan: Plan
    outcome: Outcome
    result: Result


class Attempts:
    """Decides, tries, settles. Everything happens under the conversation's lease."""

    def __init__(
        self, prepared: Prepared, store: Store, row: TurnRow, lease: Lease, company: Callbacks
    ) -> None:
        self.prepared, self.store, self.row, self.lease, self.company = prepared, store, row, lease, company
        self.redactor = Redactor(prepared.child.secrets)
        self.audience = Guarded("on_event", company.listener)
        self.recorder = Recorder(store, row.id, self.audience)
        self.patience = StoreOutage(company.notice, company.cancel)
        self.made: list[tuple[Plan, Outcome]] = []
        """The attempts that were made, each with what came of it."""
        self.notices: list[str] = [*prepared.mentions]
        self.unrestored: str | None = None
        self.too_long: frozenset[Mode] = frozenset()
        self.ready = False

    async def run(self, began_ns: int) -> Turn:
        for notice in self.prepared.granted.notices:
            self._say(notice)
        try:
            tried = await self._tries()
            return await self._settle(tried, began_ns)
        except StoreStillAway as away:
            return self._unsettled(away, began_ns)
        finally:
            self.recorder.give_up()

    async def _tries(self) -> list[FinishedAttempt]:
        await run_sync(self._decide, {}, True)
        await self._bring_back()
        first = await self._try(self.decision.mode, 1)
        tried, lower = [first], self._lower(first)
        if lower is not None and first.outcome.failure is not None:
            why = first.outcome.failure
            self._say(_stepped(self.prepared.agent.label, why, lower))
            await self.patience(partial(self._decide, {}))
            tried.append(await self._try(lower, 2, why.message))
        return tried

    async def _settle(self, tried: list[FinishedAttempt], began_ns: int) -> Turn:
        """Write it all down, in its order. Once that is done, nothing makes a failure of a success."""
        with suppress(StoreStillAway):  # whatever is wrong with the events, the turn itself is worth a try
            await self.patience(self._write_events)
        last = tried[-1]
        for notice in (*last.plan.notices, *last.result.notices, *paid_again(last.plan, last.outcome)):
            self._say(notice)
        for guard in (self.audience, self.company.answerer, self.company.notice):
            if (raised := guard.told()) is not None:
                self._say(raised)
        if (trouble := await run_sync(self._keep, tried[-1])) is not None:
            self._say(trouble)
        for notice in refused([outcome for _, outcome in self.made]):
            self._say(notice)
        turn = self._told(tried, began_ns)
        if not await self.patience(partial(self._finish, tried, turn)):
            why = FailureShown("cancelled", None, f"this turn is over: {OVERTAKEN}", False)
            turn = msgspec.structs.replace(turn, state="cancelled", status="cancelled", failure=why, text="")
        await run_sync(self._clear_up, tried)
        return msgspec.structs.replace(turn, notices=tuple(self.notices))

    def _unsettled(self, away: StoreStillAway, began_ns: int) -> Turn:
        """All that was done is on disk, and the turn is as it was begun: so the next run settles it."""
        made = self.made
        self._say(f"this turn is not written down ({away}); the next run of {made[-1][0].key} does that")
        turn = told(
            made,
            saved=Saved(),
            notices=self.notices,
            duration_ms=_ms_since(began_ns),
            retry_of=self.row.retry_of,
        )
        if turn.failure is not None:
            return turn
        why, read = FailureShown("unsettled", None, UNSETTLED, False), f"segue last {turn.conversation}"
        return msgspec.structs.replace(turn, state="failed", status="failed", failure=why, next=read)

    def _decide(self, switched_off: dict[str, str], quick: bool = False) -> None:
        """``quick``: without looking at all that was said, if that is enough to resume the session."""
        conversation = self.prepared.conversation.id
        self.surveyed = gather(
            self.prepared,
            self.store,
            conversation,
            switched_off=switched_off,
            quick=quick,
            unrestored=self.unrestored,
            too_long=self.too_long,
        )
        self.decision = decide(self.surveyed.situation)
        if self.surveyed.quick and self.decision.mode != "resume":
            self._decide(switched_off)

    async def _bring_back(self) -> None:
        """A session that is not here, but of which we have a copy, if the turn would go on with it."""
        pin, copy = self.surveyed.pin, self.surveyed.copy
        if pin is None or copy is None or self.decision.mode not in NATIVE:
            return
        try:
            async with self._only_writer(session_copies.copies_lease(self.prepared, pin)):
                self._say(await run_sync(session_copies.bring_back, self.prepared, self.store, pin, copy))
        except (LeaseBusy, SegueError) as error:
            self.unrestored = str(error)
        await run_sync(self._decide, {})

    async def _try(self, mode: Mode, seq: int, refused: str | None = None) -> FinishedAttempt:
        with _home(self.prepared, self.surveyed.pin) as (home, locks):
            plan = await run_sync(self._plan, mode, seq, home, refused)
            try:
                async with self._one_writer(plan) as leases:
                    if not all([await run_sync(lease.renew) for lease in leases]):
                        raise LeaseBusy(OVERTAKEN)
                    outcome = await self._attempt(plan, locks)
            except LeaseBusy as busy:
                outcome = Outcome(failure=self._refused(busy))
            outcome = advised(priced(outcome, plan, self.prepared.config.prices), self.prepared)
            if seq == 1 and self._in_doubt(plan, outcome):
                outcome = left_alone(outcome)
            self.made.append((plan, outcome))
            return await self.patience(partial(self._weigh, plan, outcome))

    def _refused(self, busy: LeaseBusy) -> Failure:
        """The session is not ours to write to, or the user would not wait for it."""
        if self.company.cancel.asked and not self.lease.lost:
            return Failure("cancelled", "the turn was cancelled before the agent was started")
        return Failure("session_busy", str(busy))

    def _plan(self, mode: Mode, seq: int, home: Path, refused: str | None) -> Plan:
        """The plan, and its traces on disk and in the store: from here on a crash can be mended."""
        plan = self._planned(mode, seq, home, refused)
        if plan.mode == "fresh" and self.surveyed.situation.earlier:
            # Nothing was carried: later turns of this voice go on from here, not from before.
            self.store.address(msgspec.structs.replace(self.surveyed.view[-1], blank=True))
        plans.write_plan(plan)
        self.store.started(self.row.id, plan.mode, plan.predicted_usd)
        self.store.attempting(_row(plan))
        self.lease.working_in(plan.run_dir)
        return plan

    def _planned(self, mode: Mode, seq: int, home: Path, refused: str | None) -> Plan:
        """A plan for this way, or for the next one down if it turns out to be closed. ``fresh`` never is."""
        closed: dict[str, str] = {}
        while True:
            try:
                carrying = Planner(self.prepared, self.store, self.surveyed, self.decision)
                return carrying.plan(mode, seq, home, refused)
            except NoPlace:
                closed = {"branch": "the place to go on from is not in the session any more"}
                self._decide(closed)
                mode = self.decision.mode
            except TooLong:
                self.too_long |= {mode}
                self._decide(closed)
                mode = self._below(mode)

    async def _attempt(self, plan: Plan, claims: tuple[int, ...]) -> Outcome:
        prepared = self.prepared
        same_home = plan.home == prepared.home
        task = Task(
            agent=prepared.agent,
            runtime=prepared.runtime,
            request=plan.request,
            place=RunPlace(plan.run_dir, plan.home, plan.started_ms),
            env=prepared.child.env
            if same_home
            else {**prepared.child.env, **prepared.agent.home_env(plan.home)},
            home=plan.home,
            base=plan.base,
            limits=Limits(time_s=prepared.ask.timeout_s or prepared.config.defaults.timeout),
            redactor=self.redactor,
            claims=claims,
        )
        company = self.company
        return await attempt(task, on_event=self._heard, answer=company.answerer, cancel=company.cancel)

    def _heard(self, event: Event) -> None:
        if not self.ready:  # the agent is at work, and we have nothing to do but to wait
            self.ready = True
            threading.Thread(target=session_copies.get_ready, args=(self.prepared,), daemon=True).start()
        self.recorder(event)

    @asynccontextmanager
    async def _one_writer(self, plan: Plan) -> AsyncIterator[list[Lease]]:
        """All the leases that the attempt runs under."""
        name = session_lease_name(plan)
        if name is None:
            yield [self.lease]
            return
        async with self._only_writer(name) as lease:
            lease.working_in(plan.run_dir)
            yield [self.lease, lease]

    def _only_writer(self, name: str) -> AbstractAsyncContextManager[Lease]:
        return hold(
            self.store,
            name,
            owner=self.row.owner,
            locks=self.prepared.segue_home.locks,
            until=time.monotonic() + SESSION_WAIT_S,
            on_wait=lambda holder: self.company.notice(f"waiting for the session ({holder})"),
            given_up=lambda: self.company.cancel.asked > 0,
            on_loss=self.company.cancel,
            adopts=False,
        )

    def _weigh(self, plan: Plan, outcome: Outcome) -> FinishedAttempt:
        kept = self._kept(plan, outcome)
        result = interpret(self.prepared.agent, plan, outcome, kept)
        ended = "ok" if outcome.failure is None else outcome.failure.kind
        self.store.attempted(
            plan.attempt,
            outcome=ended,
            native_id=outcome.session_id,
            usage=outcome.usage,
            cost_usd=outcome.cost_usd,
            tools_run=outcome.tools_run,
            ended_ms=clock.now_ms(),
        )
        return FinishedAttempt(plan, outcome, result)

    def _kept(self, plan: Plan, outcome: Outcome) -> tuple[Held, ...]:
        """What the session held before: all of it where it is written anew, else only what was looked at."""
        if plan.kept_rows and self.surveyed.quick and moves(plan, outcome.session_id):
            pin = self.store.pin(plan.conversation, plan.voice, plan.account, plan.login)
            return pin.held[: plan.kept_rows] if pin is not None else ()
        return self.surveyed.kept if plan.kept_rows else ()

    def _lower(self, tried: FinishedAttempt) -> Mode | None:
        failure = tried.outcome.failure
        if failure is None or self.company.cancel.asked:
            return None
        return step_down(tried.plan.mode, failure, tried.outcome.tools_run, self.surveyed.situation)

    def _in_doubt(self, plan: Plan, outcome: Outcome) -> bool:
        """Whether it would step down if it were known that it did nothing."""
        failure = outcome.failure
        if failure is None or outcome.tools_run is not None:
            return False
        return step_down(plan.mode, failure, 0, self.surveyed.situation) is not None

    def _keep(self, last: FinishedAttempt) -> str | None:
        """A copy of the session, if this turn has pinned one; None, or what went wrong."""
        native_id = last.result.native_id
        if native_id is None or self.lease.lost:
            return None
        return session_copies.keep_copy(self.prepared, self.store, last.plan, native_id)

    def _write_events(self) -> None:
        if not self.recorder.finish(EVENTS_S):
            raise Broken(f"the store does not take events: {self.recorder.trouble or 'it is slow'}")

    def _told(self, tried: list[FinishedAttempt], began_ns: int) -> Turn:
        last = tried[-1]
        turn = told(
            self.made,
            saved=forecast.saved_by(last.plan, last.outcome, self.prepared.config.prices),
            notices=self.notices,
            duration_ms=_ms_since(began_ns),
            retry_of=self.row.retry_of,
        )
        return failed_if_denied(turn, self.prepared.named) if self.prepared.ask.fail_on_denied else turn

    def _finish(self, tried: list[FinishedAttempt], turn: Turn) -> bool:
        """False: somebody else has taken the turn over and settled it."""
        last = tried[-1]
        marked = tried[0].result.pin if len(tried) > 1 else None
        claim = self.lease.claim
        if commit(self.store, self.row, last.plan, last.outcome, last.result, marked, turn, claim):
            return True
        # The store may have gone away in the very moment in which it had written it all.
        row = self.store.turn(self.row.id)
        before = row.told if row is not None else None
        return before is not None and (before.status, before.duration_ms) == (turn.status, turn.duration_ms)

    def _clear_up(self, tried: list[FinishedAttempt]) -> None:
        if not self.recorder.finish(EVENTS_S):
            self._say(f"{self.recorder.give_up():,} events of this turn are not recorded: the store was away")
        for each in tried:
            if (trouble := run_dir.archive(each.plan.run_dir, self.redactor)) is not None:
                self._say(trouble)
        with suppress(Exception):  # the next turn does it, too
            self._forget(time.monotonic() + FORGET_S)

    def _forget(self, until: float) -> None:
        """Let old events pass. A turn may leave more than go at once, so that one call would not do."""
        before_ms = clock.now_ms() - self.prepared.config.retention.days * DAY_MS
        while self.store.forget_events(before_ms) == FORGET_AT_ONCE and time.monotonic() < until:
            pass

    def _below(self, mode: Mode) -> Mode:
        """The next way down that is open."""
        below = self.decision.rungs[RUNGS.index(mode) + 1 :]
        return next(rung.mode for rung in below if rung.state == "open")

    def _say(self, notice: str) -> None:
        self.notices.append(notice)
        self.company.notice(notice)


def _ms_since(began_ns: int) -> int:
    return (time.monotonic_ns() - began_ns) // 1_000_000


def _row(plan: Plan) -> AttemptRow:
    start = plan.request.start
    return AttemptRow(
        id=plan.attempt,
        turn=plan.turn,
        seq=plan.seq,
        mode=plan.mode,
        session=plan.pin.session if plan.pin is not None else None,
        resumed_from=plan.pin.native_id if plan.pin is not None and plan.kept_rows else None,
        new_id=start.new_id or (start.session if plan.mode == "branch" else None),
        run_dir=str(plan.run_dir),
        task=plans.gist(plan),
        started_ms=plan.started_ms,
    )


def _stepped(label: str, failure: Failure, lower: Mode) -> str:
    how = "the conversation as text" if lower == "replay" else "a summary of the conversation"
    if failure.kind == "context_exceeded":
        return f"The session did not fit {label}'s window any more; sent {how} instead."
    reasons = {
        "not_found": "it is gone from disk",
        "wrong_cwd": "it belongs to another directory",
        "corrupt": "it is damaged",
        "expired": "it has expired",
        "foreign_account": "it belongs to another account",
    }
    why = reasons.get(failure.reason or "", failure.message)
    return f"{label} refused the session ({why}); sent {how} instead."


@contextmanager
def _home(prepared: Prepared, pin: Pin | None) -> Iterator[tuple[Path, tuple[int, ...]]]:
    """The account's home; or, where a session's id can only be found on disk, a private one made from it.

    With the locks that the CLI must hold as well.
    """
    runners = prepared.segue_home.runners
    session = pin.native_id if pin is not None else None
    if not prepared.runtime.capabilities.id_on_disk_only:
        if pin is not None and Path(pin.home).is_relative_to(runners):  # an older one was private
            from segue.turns.private_homes import fetch_session

            fetch_session(pin.native_id, prepared.home, [Path(pin.home)])
        yield prepared.home, ()
        return
    from segue.turns.private_homes import claimed_home

    name = f"{prepared.agent.name}-{prepared.account or 'default'}"
    root = prepared.segue_home.make(runners) / name
    with claimed_home(root, prepared.home, session) as claim:
        yield claim.home, (claim.lock,)
