"""What an attempt's outcome means for the conversation: the answer, the session, the pin. Pure.

Success is the CLI's final event with an answer. A session is pinned only after a completed model turn and
when its file exists; a turn whose session cannot be pinned has succeeded all the same.

Writes down what became of a turn, in one transaction: the answer, the session, the pin, the costs.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from segue.agents.base import Agent, StoredSession
from segue.core.cut import embody
from segue.core.model import Ended, Held, Instructions, Message, Pin, ViewFigures
from segue.core.outcome import CUT_SHORT, Failure, Outcome
from segue.core.situation import FRAME_BYTES
from segue.core.tools import changed
from segue.core.turn import Sent, Turn, shown_failure, state_of
from segue.core.usage import Context, Totals, Usage
from segue.store.records import Claim, LineageRow, Remembered, SessionRow, Settlement, TurnRow
from segue.store.store import Store
from segue.system import clock
from segue.turns.run_dir import Plan

COUNTED = frozenset({"session_rejected", "crashed", "protocol"})
"""Failures of a resume that say something about the session. Limits, logins and networks do not."""
UNKNOWN_PLACE = "end of "
"""The anchor where an agent's session format is not known: good to go on from, not to cut at."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of an attempt. ``pin`` None: what was pinned before stays as it is."""

    answer: Message | None = None
    native_id: str | None = None
    """The session that is pinned now."""
    pin: Pin | None = None
    held: tuple[Held, ...] | None = None
    """What the session holds from ``held_from`` on."""
    held_from: int = 0
    moved: bool = False
    """The pin points to another native session than before."""
    switch_off: str | None = None
    """A capability that this runtime turned out not to have."""
    notices: tuple[str, ...] = ()


def settle(
    plan: Plan,
    outcome: Outcome,
    found: StoredSession | None,
    kept: Sequence[Held],
    *,
    end: str | None = None,
    known_format: bool,
    continued: bool,
    answer_id: str,
    now_ms: int,
) -> Result:
    """``kept``: the deliveries that the plan keeps (none, if only what is added matters).
    ``found``: the session on disk now, ``end``: the anchor at its end."""
    answer = _answer(plan, outcome, answer_id) if outcome.failure is None else None
    if answer is None and (outcome.tools_run == 0 or not (known_format or _worth_keeping(plan, outcome))):
        return Result(pin=_marked(plan, outcome))
    native_id = outcome.session_id
    if native_id is None or (known_format and found is None) or not plan.request.save:
        pin = _marked(plan, outcome)
        return Result(answer=answer, pin=pin, notices=_unpinned(plan, native_id, answer))
    if end is not None and end == _left_at(plan):
        # Killed before the CLI had written anything of it down: the session holds nothing of this turn.
        return Result(answer=answer, pin=_marked(plan, outcome))
    if not continued:
        return Result(
            answer=answer,
            switch_off="branch",
            notices=("the agent did not go on from the place it was told to: the session is not kept",),
        )
    anchor = end if found is not None else UNKNOWN_PLACE + plan.turn
    marks = (answer.id, answer.revision) if answer is not None else None
    held = embody(kept, plan.text, plan.corrections, plan.voice, answer=marks, anchor=anchor)
    pin = msgspec.structs.replace(
        _pin(plan, outcome, native_id, anchor, now_ms),
        standing=_standing(plan, answer, len(held) - len(kept)),
    )
    if moves(plan, native_id):
        return Result(answer=answer, native_id=native_id, pin=pin, held=held, moved=True)
    # Run again and interrupted again, the last message that was kept ends elsewhere now.
    same = len(kept) - (1 if kept and held[len(kept) - 1] is not kept[-1] else 0)
    first = plan.kept_rows - len(kept) + same
    return Result(answer=answer, native_id=native_id, pin=pin, held=held[same:], held_from=first)


def paid_again(plan: Plan, outcome: Outcome) -> tuple[str, ...]:
    """That the cache did not serve a session whose tools had changed, if what was paid shows it."""
    before = plan.pin.offers if plan.pin is not None and plan.mode in ("resume", "branch") else None
    if plan.pin is None or before is None or plan.offers is None or before == plan.offers:
        return ()
    usage, held = outcome.usage, plan.pin.context.used
    paid = (usage.input or 0) + (usage.cache_write or 0)
    if not paid or paid < (held / 2 if held else usage.cache_read or 0):
        return ()
    return (f"{changed(before, plan.offers)}: the prompt cache did not serve it, {paid:,} tokens were paid",)


def moves(plan: Plan, native_id: str | None) -> bool:
    """Whether the pin points to another native session than before."""
    return plan.pin is None or plan.mode != "resume" or plan.pin.native_id != native_id


def _worth_keeping(plan: Plan, outcome: Outcome) -> bool:
    """Whether a session that nobody can look into holds more, after a failure, than it was known to hold.

    It does if tools ran. If that is not known, only the session that an interrupted turn began is kept: it
    may have worked long in it. One that it resumed stays pinned as it was.
    """
    if outcome.tools_run is not None:
        return outcome.tools_run > 0
    began = plan.mode not in ("resume", "branch")
    return began and outcome.failure is not None and outcome.failure.kind in CUT_SHORT


def _left_at(plan: Plan) -> str | None:
    """Where the session ended before this turn."""
    if plan.mode == "branch":
        return plan.anchor
    return plan.pin.end if plan.pin is not None and plan.mode == "resume" else None


def _standing(plan: Plan, answer: Message | None, added: int) -> ViewFigures | None:
    before = plan.standing
    if before is None:
        return None
    spoken = 1 if answer is not None else 0
    return msgspec.structs.replace(
        before,
        last=answer.id if answer is not None else plan.message,
        rows=plan.kept_rows + added,
        kept=plan.sent.native_messages + len(plan.text) + spoken,
        messages=before.messages + spoken,
        bytes=before.bytes + (answer.size + FRAME_BYTES if answer is not None else 0),
        under=plan.under,
    )


def _answer(plan: Plan, outcome: Outcome, answer_id: str) -> Message:
    return Message(
        id=answer_id,
        sender="assistant",
        voice=plan.voice,
        account=plan.account,
        under=plan.under,
        size=len(outcome.text.encode()),
    )


def _pin(plan: Plan, outcome: Outcome, native_id: str, anchor: str | None, now_ms: int) -> Pin:
    failure = outcome.failure
    before = plan.pin if plan.mode == "resume" else None
    return Pin(
        session="",
        native_id=native_id,
        voice=plan.voice,
        account=plan.account,
        workdir=plan.workdir,
        home=str(plan.home),
        host=plan.host,
        host_id=plan.host_id,
        runtime=plan.runtime.identity,
        version=plan.runtime.version,
        model=plan.model,
        model_used=outcome.model or (before.model_used if before is not None else None),
        login=plan.login,
        epoch=plan.epoch,
        end=anchor if anchor is not None and not anchor.startswith(UNKNOWN_PLACE) else None,
        totals=outcome.totals,
        context=outcome.context,
        instructions=_instructions(plan, outcome),
        asked=outcome.asked,
        offers=plan.offers,
        questions=plan.request.questions,
        poisoned=poison(failure, plan.mode),
        ended=_ended(outcome),
        succeeded_ms=now_ms if failure is None else before.succeeded_ms if before is not None else 0,
    )


def _instructions(plan: Plan, outcome: Outcome) -> Instructions | None:
    """A summary may have lost them; a system prompt (given before everything) outlives that."""
    given = plan.instructions
    return None if outcome.compacted and given is not None and given.at >= 0 else given


def _marked(plan: Plan, outcome: Outcome) -> Pin | None:
    """A failure without tools that we know of: all that is new about the session is that it failed."""
    failure = outcome.failure
    if plan.pin is None or plan.mode not in ("resume", "branch") or failure is None:
        return None
    refused = poison(failure, plan.mode)
    return msgspec.structs.replace(
        plan.pin,
        totals=_counted(plan, outcome),
        ended=_ended(outcome),
        failures=plan.pin.failures + (failure.kind in COUNTED or refused is not None),
        poisoned=plan.pin.poisoned or refused,
    )


def _counted(plan: Plan, outcome: Outcome) -> Totals:
    """A failed run may have cost something, too; the session that a branch made for itself is not pinned."""
    assert plan.pin is not None
    return outcome.totals if plan.mode == "resume" and outcome.totals != Totals() else plan.pin.totals


def poison(failure: Failure | None, mode: str) -> str | None:
    """Why every later resume of a session would fail as this one did, or None."""
    if failure is None or mode not in ("resume", "branch"):
        return None
    if failure.kind == "context_exceeded":
        return "the conversation did not fit the model's window any more"
    if failure.kind == "model_error" and failure.status == 400:
        return f"the provider refuses the session's history: {failure.message[:200]}"
    return None


def _ended(outcome: Outcome) -> Ended | None:
    failure = outcome.failure
    return None if failure is None else Ended(failure.kind, outcome.tools_run, failure.message[:500])


def _unpinned(plan: Plan, native_id: str | None, answer: Message | None) -> tuple[str, ...]:
    if answer is None or not plan.request.save:
        return ()
    why = "its id is not known" if native_id is None else "it is not on disk"
    return (f"the session could not be kept ({why}): the next turn sends the conversation as text",)


def interpret(agent: Agent, plan: Plan, outcome: Outcome, kept: Sequence[Held]) -> Result:
    """What an attempt's outcome means, with a look at the session it left on disk."""
    sessions = agent.format
    found: StoredSession | None = None
    end: str | None = None
    continued = True
    if sessions is not None and outcome.session_id is not None:
        found = sessions.find(plan.home, outcome.session_id, plan.request.cwd)
        end = sessions.end(found) if found is not None else None
    if sessions is not None and found is not None and plan.anchor is not None:
        continued = sessions.continues(found, plan.anchor)
    return settle(
        plan,
        outcome,
        found,
        kept,
        end=end,
        known_format=sessions is not None,
        continued=continued,
        answer_id=_id(),
        now_ms=_now(),
    )


def commit(
    store: Store,
    row: TurnRow,
    plan: Plan,
    outcome: Outcome,
    result: Result,
    marked: Pin | None,
    turn: Turn,
    lease: Claim | None,
) -> bool:
    """``marked``: what an earlier attempt of the same turn made of the pin, if this one leaves it alone.

    False: somebody took the conversation over, and settles the turn or did; nothing was written.
    """
    now = _now()
    session = _session(plan, outcome, result, now)
    pin = result.pin or marked
    if pin is not None and session is not None:
        pin = msgspec.structs.replace(pin, session=session.id)
    answer = result.answer
    if result.switch_off is not None:
        why = "it did not go on from the place it was told to"
        store.switch_off(plan.runtime.identity, result.switch_off, why, now)
    return store.settle(
        Settlement(
            turn=msgspec.structs.replace(
                row,
                answer=answer.id if answer else None,
                mode=plan.mode,
                state=turn.state,
                told=turn,
                ended_ms=now,
            ),
            lease=lease,
            answer=(answer, outcome.text) if answer is not None else None,
            session=session,
            held=result.held,
            held_from=result.held_from,
            pin=pin,
            retire=_retired(plan, result),
            lineage=_lineage(plan, result, session, now),
            grant=plan.grant,
            remember=Remembered(
                agent=plan.voice.agent,
                account=plan.account,
                model=row.model,
                role=plan.voice.role,
                cwd=str(plan.request.cwd),
            ),
        )
    )


def abandon(
    store: Store,
    row: TurnRow,
    key: str,
    failure: Failure,
    lease: Claim | None,
    calls: int | None = 0,
    pin: Pin | None = None,
) -> bool:
    """A turn of which nothing is known but that it is over: its message stays, to be sent again.

    ``calls``: those of tools that are known of; None: nobody knows. ``pin``: what it makes of the one before,
    if anything. False: it is not ours to say so any more.
    """
    now, outcome = _now(), Outcome(failure=failure)
    turn = Turn(
        run=row.id,
        conversation=key,
        message=row.message,
        agent=row.voice.agent,
        account=row.account or None,
        model=row.model,
        role=row.voice.role or None,
        mode=row.mode or "fresh",
        resumed=False,
        session_id=None,
        sent=Sent(),
        text="",
        state=state_of(outcome),
        status=outcome.status,
        failure=shown_failure(outcome),
        retry_of=row.retry_of,
        usage=Usage(),
        cost_usd=None,
        cost_estimated=False,
        context=Context(),
        model_turns=None,
        tools_run=calls,
        attempts=(),
        duration_ms=now - row.started_ms,
    )
    over = msgspec.structs.replace(row, state=turn.state, told=turn, ended_ms=now)
    return store.settle(Settlement(turn=over, lease=lease, pin=pin))


def _session(plan: Plan, outcome: Outcome, result: Result, now: int) -> SessionRow | None:
    if result.native_id is None or result.pin is None:
        return None
    old = plan.pin
    goes_on = old is not None and plan.mode in ("resume", "branch")
    same = old is not None and not result.moved
    return SessionRow(
        id=old.session if old is not None and same else _id(),
        agent=plan.voice.agent,
        account=plan.account,
        native_id=result.native_id,
        host=plan.host,
        host_id=plan.host_id,
        home=str(plan.home),
        cwd=str(plan.request.cwd),
        path=None,
        conversation=plan.conversation,
        created_ms=now,
        last_used_ms=now,
        parent=old.session if old is not None and goes_on and not same else None,
        how=plan.mode,
        totals=outcome.totals,
        context=outcome.context,
    )


def _retired(plan: Plan, result: Result) -> tuple[tuple[str, str], ...]:
    """The session that the pin pointed to before keeps its id, with the reason why it was left."""
    old = plan.pin
    if old is None or not result.moved or result.native_id is None or old.foreign is not None:
        return ()
    if plan.mode == "resume":
        return ((old.session, "the agent goes on under a new id"),)
    why = [check.detail for check in plan.checks if check.verdict == "fail" and "resume" in check.bars]
    return ((old.session, why[0] if why else f"went on by {plan.mode}"),)


def _lineage(plan: Plan, result: Result, session: SessionRow | None, now: int) -> tuple[LineageRow, ...]:
    if session is None or plan.pin is None or plan.mode not in ("resume", "branch"):
        return ()
    kind = "fork" if plan.pin.foreign is not None else plan.mode
    return (
        LineageRow(child=plan.turn, kind=kind, session=session.id, parent_session=plan.pin.session, ms=now),
    )


def _id() -> str:
    return clock.new_id(_now())


def _now() -> int:
    return clock.now_ms()
