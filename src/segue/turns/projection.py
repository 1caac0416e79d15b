"""The store as it will be when the next turn has settled what a killed Segue left behind.

Readers use it instead of the store itself, so that dead turns are not reported as running. Nothing is
written; if nothing is unsettled, nothing is examined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from segue.config.load import load
from segue.core.model import Held, Message, Pin, Voice
from segue.core.turn import Recovery, State
from segue.core.usage import Usage
from segue.store.records import BEGUN, Conversation, LogRow, Settlement, Summary, TurnRow
from segue.store.store import Store
from segue.turns.adopted_run import AdoptedRun
from segue.turns.killed_turn import KilledTurn
from segue.turns.liveness import liveness_of
from segue.turns.observer import Observer

URGENT = ("needs_you", "running", "parked", "queued")
"""Of several turns that are not settled, the state of the first of these is the conversation's."""


class ProjectedStore(Store):
    """Keeps what would be written in memory, and reads it from there. ``changed``: the turns that differ from
    what is stored, by id."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.changed: dict[str, TurnRow] = {}
        self._settled: list[Settlement] = []
        self._off: dict[str, dict[str, str]] = {}

    # what recovery would write

    def settle(self, settlement: Settlement) -> bool:
        self._settled.append(settlement)
        self.changed[settlement.turn.id] = msgspec.structs.replace(settlement.turn, recovery="recover")
        return True

    def attempted(
        self,
        attempt_id: str,
        outcome: str,
        native_id: str | None,
        usage: Usage,
        cost_usd: float | None,
        tools_run: int | None,
        ended_ms: int,
    ) -> None:
        pass

    def switch_off(self, runtime: str, capability: str, reason: str, ms: int) -> None:
        self._off.setdefault(runtime, {})[capability] = reason

    # what is read then

    def switched_off(self, runtime: str) -> dict[str, str]:
        return super().switched_off(runtime) | self._off.get(runtime, {})

    def turns(self, conversation_id: str, limit: int | None = None) -> list[TurnRow]:
        return [self.changed.get(row.id, row) for row in super().turns(conversation_id, limit)]

    def messages(self, conversation_id: str) -> list[Message]:
        answers = [each.answer[0] for each in self._of(conversation_id) if each.answer is not None]
        return [*super().messages(conversation_id), *answers]

    def pin(
        self, conversation_id: str, voice: Voice, account: str, login: str | None = None, *, held: bool = True
    ) -> Pin | None:
        for each in self._of(conversation_id):
            if each.pin is not None and _whose(each.pin) == (voice, account, login):
                return msgspec.structs.replace(each.pin, held=self._held(each, each.pin) if held else ())
        return super().pin(conversation_id, voice, account, login, held=held)

    def pins(self, conversation_id: str) -> list[Pin]:
        mine = [each.pin for each in self._of(conversation_id) if each.pin is not None]
        whose = [_whose(pin) for pin in mine]
        return [*mine, *(pin for pin in super().pins(conversation_id) if _whose(pin) not in whose)]

    def log(self, conversation_id: str, *, withdrawn: bool = False) -> list[LogRow]:
        """The log, with the answers that are not stored yet; they have no place."""
        return self._with_answers(conversation_id, super().log(conversation_id, withdrawn=withdrawn))

    def completed(self, conversation_id: str, rows: Sequence[LogRow]) -> list[LogRow]:
        """Some messages as they were read from the store, with their turns as they will be, and the answers
        that are not stored yet."""
        now = [
            row
            if row.turn is None
            else msgspec.structs.replace(row, turn=self.changed.get(row.turn.id, row.turn))
            for row in rows
        ]
        return self._with_answers(conversation_id, now)

    def _with_answers(self, conversation_id: str, read: Sequence[LogRow]) -> list[LogRow]:
        rows: list[LogRow] = []
        answers = {each.turn.message: each for each in self._of(conversation_id) if each.answer is not None}
        for row in read:
            settlement = answers.get(row.id)
            rows += [row] if settlement is None else _answered(row, settlement)
        return rows

    def _of(self, conversation_id: str) -> list[Settlement]:
        """The settlements of a conversation, the newest first."""
        return [each for each in reversed(self._settled) if each.turn.conversation == conversation_id]

    def _held(self, settlement: Settlement, pin: Pin) -> tuple[Held, ...]:
        before = self.held_by(pin.session)
        if settlement.held is None:
            return before
        return (*before[: settlement.held_from], *settlement.held)


def projected(store: Store, conversation: Conversation, env: Mapping[str, str], here: Path) -> Store:
    """The store for readers of one conversation. ``env``, ``here``: the caller's."""
    rows = store.unsettled(conversation.id)
    return project(store, rows, _here(conversation.key, env, here)) if rows else store


def list_projected(store: Store, env: Mapping[str, str], here: Path) -> list[Summary]:
    """All conversations, each with its actual state."""
    summaries = store.conversations()
    if not any(each.unfinished for each in summaries):
        return summaries
    around = _here("", env, here)
    return [_true(store, each, around) if each.unfinished else each for each in summaries]


def summary_projected(
    store: Store, conversation: Conversation, env: Mapping[str, str], here: Path
) -> Summary | None:
    """One conversation of the list; None if it is gone."""
    found = store.reading.summary(conversation)
    return _true(store, found, _here("", env, here)) if found is not None and found.unfinished else found


def project(
    store: Store,
    rows: Sequence[TurnRow],
    here: Observer,
    *,
    presume: bool = False,
    seen: ProjectedStore | None = None,
) -> ProjectedStore:
    """``rows``: the unsettled turns. ``presume``: assume that those still running will succeed. ``seen``: the
    store to change."""
    seen = seen or ProjectedStore(store)
    for row in rows:
        life = liveness_of(store, row, here.host)
        if row.state == "queued" and life == "dead":
            seen.changed[row.id] = msgspec.structs.replace(row, state="withdrawn")
        elif row.state in BEGUN and life != "alive":
            if life == "dead" or presume:
                _conclude(KilledTurn(row, seen, here), presume=life == "orphan")
            if life == "orphan":
                settled = seen.changed.get(row.id, row)
                seen.changed[row.id] = msgspec.structs.replace(settled, recovery="adopt")
    return seen


def _conclude(left: KilledTurn, *, presume: bool) -> None:
    """Conclude it as the next turn will, from what is there now."""
    made, agent = left.made(), left.agent()
    if not made or agent is None:
        left.conclude(agent)
        return
    attempt, plan = made[-1]
    redactor = left.redactor(plan, agent)
    orphan = AdoptedRun(plan, agent, redactor)
    orphan.read_all()
    outcome = left.outcome(attempt, agent, orphan, redactor)
    left.finish(made, agent, msgspec.structs.replace(outcome, failure=None) if presume else outcome)


def _true(store: Store, summary: Summary, here: Observer) -> Summary:
    conversation = summary.conversation
    rows = store.unsettled(conversation.id)
    seen = project(store, rows, msgspec.structs.replace(here, key=conversation.key))
    now = [seen.changed.get(row.id, row) for row in rows]
    states = {row.state for row in now}
    state = next((state for state in URGENT if state in states), None)
    if state is None:  # all of them are dead: what counts is the newest turn that had begun
        state = _newest_begun(seen, conversation.id, len(rows) + 1) or _newest_begun(seen, conversation.id)
    asked = (seen.changed.get(each.run) for each in store.asked(conversation.id))
    if any(row is None or row.state == "failed" for row in asked):
        state = "needs_you"
    told = next((row.told for row in reversed(now) if row.recovery == "recover"), None)
    return msgspec.structs.replace(summary, state=state, recovery=first_recovery(now), told=told)


def _newest_begun(store: Store, conversation_id: str, among: int | None = None) -> State | None:
    """The state of the newest turn that was not withdrawn. ``among``: of that many turns at the end."""
    begun = [row.state for row in store.turns(conversation_id, among) if row.state != "withdrawn"]
    return begun[-1] if begun else None


def first_recovery(rows: Sequence[TurnRow]) -> Recovery | None:
    """What a turn would have to do first."""
    wanted = {row.recovery for row in rows}
    return "adopt" if "adopt" in wanted else "recover" if "recover" in wanted else None


def _here(key: str, env: Mapping[str, str], here: Path) -> Observer:
    return Observer.here(key, env, load(env, here))


def _answered(row: LogRow, settlement: Settlement) -> list[LogRow]:
    """A message and its future answer."""
    assert settlement.answer is not None
    message, text = settlement.answer
    turn = msgspec.structs.replace(settlement.turn, recovery="recover")
    answer = LogRow(
        n=0,
        id=message.id,
        sender=message.sender,
        voice=message.voice,
        account=message.account,
        blank=message.blank,
        text=text,
        revision=message.revision,
        created_ms=settlement.turn.ended_ms or settlement.turn.started_ms,
        turn=turn,
    )
    return [msgspec.structs.replace(row, turn=None), answer]


def _whose(pin: Pin) -> tuple[Voice, str, str | None]:
    return pin.voice, pin.account, pin.login
