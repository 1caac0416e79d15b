"""What the next turn would do, why, and what each mode would cost, without running anything."""

from __future__ import annotations

import msgspec

from segue.core.ladder import decide
from segue.core.limits import shown
from segue.core.model import Message
from segue.core.outcome import CUT_SHORT
from segue.core.request import Terms
from segue.core.situation import Situation, tokens_of
from segue.core.turn import Check, Clause, Mode, Recovery, RungShown
from segue.core.usage import LimitShown, Pays
from segue.store.leases import judge, lease_name
from segue.store.records import TurnRow
from segue.store.store import Store
from segue.system import processes
from segue.turns import forecast, projection
from segue.turns.gate import judge as refusals
from segue.turns.marks import marks_of, with_words_of
from segue.turns.observer import Observer
from segue.turns.planned_store import PlannedStore
from segue.turns.prepare import Prepared
from segue.turns.situation import Gathered, continued_request, gather


class Sends(msgspec.Struct, frozen=True):
    """What the chosen mode would send: messages the session holds, messages as text, and about how much.

    ``text_messages`` includes the new one; a recap sends as many of them as fit. ``corrections``: the number
    of second-hand messages whose new text is sent.
    """

    native_messages: int
    text_messages: int
    bytes: int
    tokens: int
    corrections: int = 0


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """The decision for a turn that started now."""

    schema: int = 1
    conversation: str
    agent: str
    account: str | None
    model: str | None
    role: str | None
    terms: Terms = Terms()
    """What the agent would be allowed to do and spend."""
    refused: tuple[str, ...] = ()
    """Why the turn would not begin, in words: a rule of the user's, or a law of Segue's, forbids it."""
    given: tuple[str, ...] = ()
    """Whose words its message repeats, beside the user's own: their marks."""
    mode: Mode
    sends: Sends
    rungs: tuple[RungShown, ...]
    checks: tuple[Check, ...]
    epoch: int
    cwd: str
    """Where the turn would work."""
    session_id: str | None = None
    """The pinned native session, whether it can be used or not."""
    session_cwd: str | None = None
    """The directory that it belongs to."""
    context_window: int | None = None
    limits: tuple[LimitShown, ...] | None = None
    """The account's usage limits, as they were last seen; null: they are not known."""
    pays: Pays = "unknown"
    """What would pay for the turn."""
    recovery: Recovery | None = None
    """What the turn would do first about one whose Segue was killed; the decision is that after it."""
    first: tuple[str, ...] = ()
    """The same in words, and what else it would settle."""
    notices: tuple[str, ...] = ()
    """What was requested and would not apply, in words."""
    notice_clauses: tuple[tuple[Clause, ...], ...] = ()
    """The same as data."""


def why(prepared: Prepared, store: Store, new_bytes: int, retry: str | None = None) -> Why:
    """The decision for a turn that started now. ``new_bytes``: the size of its message. ``retry``: the
    message that it retries, if it is not a new one."""
    prepared = with_words_of(prepared, store, retry)
    given, refused = prepared.ask.given, refusals(prepared)
    if any(each.law == "wall" for each in refused):  # with these words in it, nobody may see the message
        prepared = msgspec.structs.replace(prepared, ask=msgspec.structs.replace(prepared.ask, given=()))
    begins = _beginning(prepared, store, retry)
    new = _message(prepared, new_bytes) if retry is None else None
    gathered = gather(prepared, begins.store, new=new, busy=begins.busy)
    if begins.busy is not None:
        gathered = _undisturbed(gathered)
    pin, decision = gathered.pin, decide(gathered.situation)
    outlook = forecast.forecast(gathered, prepared)
    rungs = forecast.shown_rungs(decision, decision.mode, outlook)
    return Why(
        conversation=begins.key,
        agent=prepared.agent.facts.name,
        account=prepared.account,
        model=prepared.request.model,
        role=prepared.role or None,
        terms=prepared.terms(
            continued_request(prepared, pin)
            if pin is not None and decision.mode in ("resume", "branch")
            else None
        ),
        refused=tuple(map(str, refused)),
        given=given,
        mode=decision.mode,
        sends=_sends(decision.mode, gathered, outlook.text_bytes[decision.mode]),
        rungs=rungs,
        checks=(*decision.checks, *_budget(prepared, store, decision.mode, rungs)),
        epoch=gathered.epoch,
        cwd=gathered.situation.workdir.path,
        session_id=pin.native_id if pin is not None else None,
        session_cwd=pin.workdir.path if pin is not None else None,
        context_window=gathered.situation.window,
        limits=shown(gathered.situation.limits, gathered.situation.now_ms),
        pays=_pays(gathered.situation),
        recovery=begins.recovery,
        first=begins.first,
        notices=tuple(each.text for each in prepared.granted.notices),
        notice_clauses=tuple(each.clauses for each in prepared.granted.notices),
    )


def _budget(prepared: Prepared, store: Store, mode: Mode, rungs: tuple[RungShown, ...]) -> tuple[Check, ...]:
    """Whether the budgets cover the turn; nothing if there are none."""
    if not prepared.has_budget:
        return ()
    from segue.turns.budget import planned_check

    return (planned_check(prepared, store, next((rung.usd for rung in rungs if rung.mode == mode), None)),)


def _pays(now: Situation) -> Pays:
    """What can be told before a turn; otherwise what paid for the last one."""
    return now.paid if now.pays == "unknown" else now.pays


class _Beginning(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn finds that started now, after what it does first."""

    store: PlannedStore
    key: str
    busy: str | None = None
    recovery: Recovery | None = None
    first: tuple[str, ...] = ()


def _beginning(prepared: Prepared, store: Store, retry: str | None) -> _Beginning:
    conversation = prepared.conversation
    rows, then = store.unsettled(conversation.id), PlannedStore(store, conversation)
    projection.project(store, rows, Observer.of(prepared), presume=True, seen=then)
    changed = [then.changed.get(row.id, row) for row in rows]
    recovery = projection.first_recovery(changed)
    busy = _busy(prepared, store, recovery)
    first = tuple(filter(None, map(_settles, changed)))
    begins = _Beginning(store=then, key=conversation.key, busy=busy, recovery=recovery, first=first)
    if busy is not None and prepared.ask.fork:
        begins = _Beginning(store=PlannedStore(store, conversation), key=store.free_key(conversation.key))
        begins.store.fork_messages()
    if prepared.adopted is not None:
        from segue.turns.adopt import adoption_of

        begins.store.adopt_messages(adoption_of(prepared, begins.store, prepared.adopted))
    if retry is not None:
        begins.store.retry_message(retry, prepared)
    return begins


def _settles(row: TurnRow) -> str:
    """What the turn would do first about another one, in words."""
    if row.recovery == "adopt":
        return "waits for an earlier turn: its Segue was killed, but its agent is still running"
    if row.state == "withdrawn":
        return "withdraws a message whose process ended while it waited"
    turn = row.told
    if row.recovery is None or turn is None:
        return ""
    if turn.failure is None:
        return "records an answer that was given after Segue was killed"
    calls = f"{turn.tools_run} tool call{'' if turn.tools_run == 1 else 's'}" if turn.tools_run else ""
    after = f" after {calls}" if calls else ", and what it did is not known" if turn.tools_run is None else ""
    how = "was interrupted" if turn.failure.kind in CUT_SHORT else f"failed ({turn.failure.kind})"
    return f"settles an earlier turn whose Segue was killed: it {how}{after or ' before it did anything'}"


def _message(prepared: Prepared, size: int) -> Message:
    return Message(
        id="",
        sender="user",
        voice=prepared.voice,
        account=prepared.account_name,
        under=marks_of(prepared),
        blank=prepared.ask.blank,
        size=size,
    )


def _undisturbed(gathered: Gathered) -> Gathered:
    """Ignore the session's end: the running turn writes to the session, so it moves anyway."""
    file = msgspec.structs.replace(gathered.situation.file, end=None)
    return msgspec.structs.replace(gathered, situation=msgspec.structs.replace(gathered.situation, file=file))


def _sends(mode: Mode, gathered: Gathered, size: int) -> Sends:
    cut, view = gathered.situation.cut, gathered.view
    if mode in ("resume", "branch"):
        return Sends(cut.kept, len(cut.text), size, tokens_of(size), len(cut.corrections))
    return Sends(0, 1 if mode == "fresh" else len(view), size, tokens_of(size))


def _busy(prepared: Prepared, store: Store, recovery: Recovery | None) -> str | None:
    """In words: another turn that is running, even if its Segue was killed."""
    row = store.lease(lease_name(prepared.conversation.id))
    if row is not None and judge(row, prepared.host) == "alive":
        return f"another turn is running ({processes.short_name(row.owner)})"
    return "a turn whose Segue was killed still runs" if recovery == "adopt" else None
