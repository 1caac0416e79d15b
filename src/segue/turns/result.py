"""What the outcome of an attempt means for the conversation: the answer, the session, the pin. Pure.

Success is the CLI's final event with an answer. A session is pinned only after a completed model turn and
if its file exists; a turn whose session cannot be pinned is still a success.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from segue.agents.base import StoredSession
from segue.core.checks import tools_changed
from segue.core.cut import UNKNOWN_PLACE, embody
from segue.core.model import Ended, Held, Instructions, Message, Pin
from segue.core.outcome import CUT_SHORT, Failure, Outcome
from segue.core.usage import Totals
from segue.core.verdicts import Said, listed, say
from segue.turns.run_dir import Plan

COUNTED = frozenset({"session_rejected", "crashed", "protocol"})
"""Failures of a resume that say something about the session. Limits, logins and networks do not."""


UNCACHED = "the prompt cache could not be used"
"""What the notice of ``paid_again`` says."""


ASTRAY = "the agent did not continue from the place it was told to: the session is not kept"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of an attempt. ``pin`` None: the pin stays as it is."""

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
    notices: tuple[Said, ...] = ()


def result_of(
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
    """``kept``: the deliveries that the plan keeps (empty if only the added ones matter). ``found``: the
    session on disk now. ``end``: the anchor at its end."""
    answer = _answer(plan, outcome, answer_id) if outcome.failure is None else None
    if answer is None and not ((known_format and _has_work(outcome)) or _worth_keeping(plan, outcome)):
        return Result(pin=_marked(plan, outcome))
    native_id = outcome.session_id
    if native_id is None or (known_format and found is None) or not plan.request.save:
        pin = _marked(plan, outcome)
        return Result(answer=answer, pin=pin, notices=_unpinned(plan, native_id, answer))
    if end is not None and end == _left_at(plan):
        # Killed before the CLI had written anything: the session holds nothing of this turn.
        return Result(answer=answer, pin=_marked(plan, outcome))
    if not continued:
        return Result(
            answer=answer,
            switch_off="branch",
            notices=(say(ASTRAY, "notice.astray"),),
        )
    anchor = end if found is not None else UNKNOWN_PLACE + plan.turn
    marks = (answer.id, answer.revision) if answer is not None else None
    held = embody(kept, plan.text, plan.corrections, plan.voice, answer=marks, anchor=anchor)
    pin = _pin(plan, outcome, native_id, anchor, now_ms)
    if moves(plan, native_id):
        return Result(answer=answer, native_id=native_id, pin=pin, held=held, moved=True)
    # If it was retried and interrupted a second time, the last kept message has a new end.
    same = len(kept) - (1 if kept and held[len(kept) - 1] is not kept[-1] else 0)
    first = plan.kept_rows - len(kept) + same
    return Result(answer=answer, native_id=native_id, pin=pin, held=held[same:], held_from=first)


def paid_again(plan: Plan, outcome: Outcome) -> tuple[Said, ...]:
    """The notice that the cache did not serve a session whose tools had changed, if the usage shows it."""
    before = plan.pin.offers if plan.pin is not None and plan.mode in ("resume", "branch") else None
    if plan.pin is None or before is None or plan.offers is None or before == plan.offers:
        return ()
    usage, held = outcome.usage, plan.pin.context.used
    paid = (usage.input or 0) + (usage.cache_write or 0)
    if not paid or paid < (held / 2 if held else usage.cache_read or 0):
        return ()
    again = say(f"{UNCACHED}, so {paid:,} tokens were paid", "notice.uncached", tokens=paid)
    return (listed((tools_changed(before, plan.offers), again), ": "),)


def moves(plan: Plan, native_id: str | None) -> bool:
    """Whether the pin points to another native session than before."""
    return plan.pin is None or plan.mode != "resume" or plan.pin.native_id != native_id


def _has_work(outcome: Outcome) -> bool:
    """Whether a tool may have run, or it was killed after it asked something: the answer has to find the
    question in the session."""
    asked = outcome.asked and outcome.failure is not None and outcome.failure.kind == "killed"
    return asked or outcome.tools_run != 0


def _worth_keeping(plan: Plan, outcome: Outcome) -> bool:
    """Whether a session of an unknown format has new content after a failure.

    It does if tools ran. If that is not known, only a session that an interrupted turn began is kept, because
    the turn may have worked in it for long. A resumed one stays pinned as it was.
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
    """The instructions that the session has now. A summary may have lost them, but not a system prompt."""
    given = plan.instructions
    return None if outcome.compacted and given is not None and given.at >= 0 else given


def _marked(plan: Plan, outcome: Outcome) -> Pin | None:
    """The pin after a failure without known tool calls: only the failure is recorded."""
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
    """The totals after a failed resume, which may have cost something. A failed branch is not pinned."""
    assert plan.pin is not None
    return outcome.totals if plan.mode == "resume" and outcome.totals != Totals() else plan.pin.totals


def poison(failure: Failure | None, mode: str) -> str | None:
    """Why every later resume of a session would fail as this one did, or None."""
    if failure is None or mode not in ("resume", "branch"):
        return None
    if failure.kind == "context_exceeded":
        return "the conversation no longer fit the model's window"
    if failure.kind == "model_error" and failure.status == 400:
        return f"the provider refuses the session's history: {failure.message[:200]}"
    return None


def _ended(outcome: Outcome) -> Ended | None:
    failure = outcome.failure
    return None if failure is None else Ended(failure.kind, outcome.tools_run, failure.message[:500])


def _unpinned(plan: Plan, native_id: str | None, answer: Message | None) -> tuple[Said, ...]:
    if answer is None or not plan.request.save:
        return ()
    why = "its id is not known" if native_id is None else "it is not on disk"
    text = f"the session could not be kept ({why}): the next turn sends the conversation as text"
    return (say(text, "notice.unpinned_id" if native_id is None else "notice.unpinned_file"),)
