"""The attempts of a turn: decide, compose, launch, and interpret the outcome.

A turn has one attempt, and at most one more if it has to step down.
"""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from segue.core import ladder
from segue.core.errors import SegueError
from segue.core.events import Event
from segue.core.ladder import Decision
from segue.core.model import Pin
from segue.core.outcome import Failure, Outcome
from segue.core.request import Command, RunPlace
from segue.core.situation import RUNGS
from segue.core.turn import Mode
from segue.core.verdicts import Said, say
from segue.runner.attempt import Task, attempt
from segue.runner.supervisor import Limits
from segue.store.leases import OVERTAKEN, Lease, LeaseBusy, hold
from segue.store.records import AttemptRow
from segue.store.store import Store
from segue.system.loop import in_loop, run_sync
from segue.turns.composer import NATIVE
from segue.turns.gate import Admission
from segue.turns.live_turn import LiveTurn
from segue.turns.plan import NoPlace, Planner, TooLong
from segue.turns.prepare import Prepared
from segue.turns.run_dir import Plan, gist, session_lease_name, write_plan, write_secrets
from segue.turns.situation import NO_OBSTACLES, Gathered, Obstacles, gather

if TYPE_CHECKING:
    from segue.turns.settlement import FinishedAttempt

SESSION_WAIT_S = 30.0
GONE = "the session no longer contains the place to continue from"
REJECTED = {
    "not_found": say("it is gone from disk", "notice.gone"),
    "wrong_cwd": say("it belongs to another directory", "notice.elsewhere"),
    "corrupt": say("it is damaged", "notice.damaged"),
    "expired": say("it has expired", "notice.expired"),
    "foreign_account": say("it belongs to another account", "notice.foreign"),
}


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt carries the past, and everything that this was decided from."""

    gathered: Gathered
    decision: Decision
    mode: Mode
    obstacles: Obstacles
    refused: str | None = None
    """Why the previous attempt was refused."""


def decide(prepared: Prepared, store: Store, obstacles: Obstacles = NO_OBSTACLES) -> Decided:
    """Gather the situation, and take the first mode that is open."""
    gathered = gather(prepared, store, obstacles=obstacles)
    decision = ladder.decide(gathered.situation)
    return Decided(gathered=gathered, decision=decision, mode=decision.mode, obstacles=obstacles)


async def restore(live: LiveTurn, decided: Decided) -> Decided:
    """Restore the session from our copy, if the turn would continue a session that is missing."""
    prepared, store = live.prepared, live.store
    pin, copy = decided.gathered.pin, decided.gathered.copy
    if pin is None or copy is None or decided.mode not in NATIVE:
        return decided
    await in_loop()
    from segue.turns import session_copies

    unrestored = None
    try:
        async with _only_writer(live, session_copies.copies_lease(prepared, pin)):
            live.say(await run_sync(session_copies.restore_session, prepared, store, pin, copy))
    except (LeaseBusy, SegueError) as error:
        unrestored = str(error)
    return await run_sync(decide, prepared, store, Obstacles(unrestored=unrestored))


def step_down(prepared: Prepared, store: Store, decided: Decided, failed: FinishedAttempt) -> Decided:
    """The decision for a second attempt, in the lower mode that ``failed`` names."""
    assert failed.lower is not None
    assert failed.outcome.failure is not None
    obstacles = msgspec.structs.replace(decided.obstacles, closed={})
    second = decide(prepared, store, obstacles)
    return msgspec.structs.replace(second, mode=failed.lower, refused=failed.outcome.failure.message)


async def try_once(live: LiveTurn, decided: Decided, seq: int) -> tuple[Decided, FinishedAttempt]:
    """One attempt to its end, with the final decision that it ran under."""
    prepared = live.prepared
    if decided.mode not in ("fresh", "resume"):  # others rewrite a session or send all that was said
        await in_loop()
    with _home(prepared, decided.gathered.pin) as (home, locks):
        decided, plan, command = await run_sync(compose, live.admission, live.store, decided, seq, home)
        live.keep_secret(command.secrets)
        await run_sync(_note_start, live, decided, plan)
        try:
            async with _one_writer(live, plan) as leases:
                if not all([await run_sync(lease.renew) for lease in leases]):
                    raise LeaseBusy(OVERTAKEN)
                outcome = await launch(live.admission, live, plan, command, locks)
        except LeaseBusy as busy:
            outcome = Outcome(failure=_refused(live, busy), cost_usd=0.0)
        # Loaded by now, while the agent worked.
        from segue.turns.report import advised, left_alone, priced
        from segue.turns.settlement import FinishedAttempt, interpret

        outcome = advised(priced(outcome, plan, prepared.config.prices), prepared)
        if seq == live.attempts + 1 and _in_doubt(decided, plan, outcome):
            outcome = left_alone(outcome)
        kept = decided.gathered.kept if plan.kept_rows else ()
        result = await run_sync(interpret, prepared.agent, plan, outcome, kept)
        return decided, FinishedAttempt(plan, outcome, result, _lower(decided, plan, outcome))


def compose(
    admission: Admission, store: Store, decided: Decided, seq: int, home: Path
) -> tuple[Decided, Plan, Command]:
    """A plan for the mode decided on, or for the next one down if that turns out to be impossible.

    ``fresh`` is always possible.
    """
    prepared = admission.prepared
    while True:
        obstacles = decided.obstacles
        try:
            planner = Planner(admission, store, decided.gathered, decided.decision)
            return decided, *planner.plan(decided.mode, seq, home, decided.refused)
        except NoPlace:
            closed = msgspec.structs.replace(obstacles, closed={"branch": GONE})
            lower = decide(prepared, store, closed)
        except TooLong:
            too_long = obstacles.too_long | {decided.mode}
            lower = decide(prepared, store, msgspec.structs.replace(obstacles, too_long=too_long))
            lower = msgspec.structs.replace(lower, mode=_below(lower.decision, decided.mode))
        decided = msgspec.structs.replace(lower, refused=decided.refused)


async def launch(
    admission: Admission, live: LiveTurn, plan: Plan, command: Command, locks: tuple[int, ...]
) -> Outcome:
    """Run the agent, stream its events to the listener, and return the outcome."""
    prepared, callbacks = admission.prepared, live.callbacks
    env = prepared.child.env
    task = Task(
        agent=prepared.agent,
        runtime=prepared.runtime,
        request=plan.request,
        place=RunPlace(plan.run_dir, plan.home, plan.started_ms),
        env=env if plan.home == prepared.home else {**env, **prepared.agent.home_env(plan.home)},
        home=plan.home,
        command=msgspec.structs.replace(command, inherited=prepared.ask.inherited),
        base=plan.base,
        limits=Limits(time_s=plan.time_s),
        redactor=live.redactor,
        claims=locks,
    )
    at_work = False

    def stream(event: Event) -> None:
        nonlocal at_work
        if not at_work:  # the agent is working now, so there is time to load what comes after it
            at_work = True
            threading.Thread(target=_load_the_rest, args=(prepared,), daemon=True).start()
        live.recorder(event)

    callbacks.answerer.others = live
    return await attempt(task, on_event=stream, answer=callbacks.answerer, cancel=callbacks.cancel)


def _load_the_rest(prepared: Prepared) -> None:
    """Import what the end of a turn needs, so that it does not delay the end."""
    with suppress(Exception):
        import segue.turns.reply  # noqa: F401 - only to load it
        from segue.turns import session_copies

        session_copies.load_early(prepared)


def stepped_words(label: str, failure: Failure, lower: Mode) -> Said:
    """The notice that the session could not be used, and what was sent instead."""
    parts: dict[Mode, Said] = {
        "replay": say("the conversation as text", "notice.replayed"),
        "fresh": say("the whole message", "notice.sent_whole"),
    }
    how = parts.get(lower, say("a part of the conversation", "notice.recapped"))
    sent = Said(f"; sent {how.text} instead.", how.clauses)
    if failure.kind == "context_exceeded":
        return say(f"The session no longer fit {label}'s window", "notice.unfit", agent=label) + sent
    why = REJECTED.get(failure.reason or "")
    if why is None:
        text = f"{label} refused the session ({failure.message})"
        return say(text, "notice.refused_why", agent=label, why=failure.message) + sent
    refused = say(f"{label} refused the session", "notice.refused", agent=label)
    return refused + Said(f" ({why.text})", why.clauses) + sent


def _note_start(live: LiveTurn, decided: Decided, plan: Plan) -> None:
    """Record the attempt on disk and in the store: from now on it can be recovered after a crash."""
    store = live.store
    if plan.mode == "fresh" and decided.gathered.situation.earlier:
        # Nothing was carried: later turns of this voice start here.
        store.address(msgspec.structs.replace(decided.gathered.view[-1], blank=True))
    write_plan(plan)
    write_secrets(plan.run_dir, live.secrets)
    under = plan.under
    if plan.seq > 1:  # it was given more before: under another account, perhaps
        under = tuple(sorted({*under, *store.marks.of_runs([live.row.id])}))
    store.started(live.row.id, plan.mode, plan.predicted_usd, under)
    store.attempting(_attempt_row(plan))
    live.lease.working_in(plan.run_dir)


def _attempt_row(plan: Plan) -> AttemptRow:
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
        task=gist(plan),
        started_ms=plan.started_ms,
    )


def _refused(live: LiveTurn, busy: LeaseBusy) -> Failure:
    """The failure of an attempt that did not get the session: busy, or cancelled while waiting."""
    if live.cancelled and not live.lease.lost:
        return Failure("cancelled", "the turn was cancelled before the agent was started")
    return Failure("session_busy", str(busy))


def _lower(decided: Decided, plan: Plan, outcome: Outcome) -> Mode | None:
    if outcome.failure is None:
        return None
    return ladder.step_down(plan.mode, outcome.failure, outcome.tools_run, decided.gathered.situation)


def _in_doubt(decided: Decided, plan: Plan, outcome: Outcome) -> bool:
    """Whether the turn would step down if it were known that the attempt did nothing."""
    if outcome.tools_run is not None:
        return False
    return _lower(decided, plan, msgspec.structs.replace(outcome, tools_run=0)) is not None


def _below(decision: Decision, mode: Mode) -> Mode:
    """The next mode down that is open."""
    below = decision.rungs[RUNGS.index(mode) + 1 :]
    return next(rung.mode for rung in below if rung.state == "open")


@asynccontextmanager
async def _one_writer(live: LiveTurn, plan: Plan) -> AsyncIterator[list[Lease]]:
    """Hold all the leases that the attempt runs under."""
    name = session_lease_name(plan)
    if name is None:
        yield [live.lease]
        return
    async with _only_writer(live, name) as lease:
        lease.working_in(plan.run_dir)
        yield [live.lease, lease]


def _only_writer(live: LiveTurn, name: str) -> AbstractAsyncContextManager[Lease]:
    cancel, notice = live.callbacks.cancel, live.callbacks.notice
    return hold(
        live.store,
        name,
        owner=live.row.owner,
        locks=live.prepared.segue_home.locks,
        until=time.monotonic() + SESSION_WAIT_S,
        on_wait=lambda holder: notice(f"waiting for the session ({holder})"),
        given_up=lambda: cancel.asked > 0,
        on_loss=cancel,
        adopts=False,
    )


@contextmanager
def _home(prepared: Prepared, pin: Pin | None) -> Iterator[tuple[Path, tuple[int, ...]]]:
    """The account's home, or a private one made from it if a session's id can only be found on disk.

    Also the locks that the CLI must hold.
    """
    runners = prepared.segue_home.runners
    session = pin.native_id if pin is not None else None
    if not prepared.runtime.capabilities.id_on_disk_only:
        if pin is not None and Path(pin.home).is_relative_to(runners):  # the home used to be private
            from segue.turns.private_homes import fetch_session

            fetch_session(pin.native_id, prepared.home, [Path(pin.home)])
        yield prepared.home, ()
        return
    from segue.turns.private_homes import claimed_home

    name = f"{prepared.agent.facts.name}-{prepared.account or 'default'}"
    root = prepared.segue_home.make(runners) / name
    with claimed_home(root, prepared.home, session) as claim:
        yield claim.home, (claim.lock,)
