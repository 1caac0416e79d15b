"""Turns and their attempts, from the message that was heard to the moment before they are settled.

The end of a turn: everything it changes, in one transaction, once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from segue.core.errors import Misuse
from segue.core.model import Message, Owner, Voice
from segue.core.turn import Mode, Turn
from segue.core.usage import Usage
from segue.store import lease_rows, messages, sessions
from segue.store.conversations import create_or_find, raise_epochs, remember_grant, touch
from segue.store.database import Database, Queries, Row, Section, from_json, to_json
from segue.store.records import AttemptRow, Claim, Conversation, LineageRow, Settlement, TurnRow

_SETTLING = Queries("turns")
_CONVERSATIONS = Queries("conversations")
_HISTORY = Queries("history")


class Settling(Section):
    def settle(self, settlement: Settlement) -> bool:
        """Write all of it, or nothing. False: somebody took the conversation over; they settle it, or did."""
        turn = settlement.turn
        now_ms = turn.started_ms if turn.ended_ms is None else turn.ended_ms
        with self.db.writing():
            if settlement.lease is not None and not lease_rows.confirm(self.db, settlement.lease):
                return False
            if not touch(self.db, turn.conversation, now_ms):
                raise Misuse(f"the conversation of turn {turn.id} was removed while it ran")
            if not self.db.run(_SETTLING.settle, **_final(settlement)):
                return False
            self.db.run(_SETTLING.planned_no_more, turn=turn.id)
            _settle_answer(self.db, settlement, now_ms)
            _settle_session(self.db, settlement, now_ms)
            for row in settlement.lineage:
                _descend(self.db, row)
            raise_epochs(self.db, turn.conversation, settlement.epochs)
            if settlement.grant is not None:
                remember_grant(self.db, turn.conversation, turn.voice, settlement.grant)
            if settlement.remember is not None:
                remembered = msgspec.structs.asdict(settlement.remember)
                self.db.run(_CONVERSATIONS.remember, id=turn.conversation, **remembered)
        return True


def _final(settlement: Settlement) -> dict[str, Any]:
    turn = settlement.turn
    return {
        "id": turn.id,
        "answer": settlement.answer[0].id if settlement.answer else turn.answer,
        "account": turn.account,
        "model": turn.model,
        "mode": turn.mode,
        "state": turn.state,
        "told": None if turn.told is None else to_json(_told(turn.told, settlement)),
        "ended_ms": turn.ended_ms,
        "predicted_usd": turn.predicted_usd,
        **_spent(turn.told),
    }


def _told(told: Turn, settlement: Settlement) -> Turn:
    """Without the answer's text, which stands among the messages: once is enough."""
    same = settlement.answer is not None and settlement.answer[1] == told.text
    return msgspec.structs.replace(told, text="") if same else told


def _spent(told: Turn | None) -> dict[str, Any]:
    """What lists add up, in columns."""
    if told is None:
        names = "input cache_read cache_write output cost_usd saved_usd".split()
        return {**dict.fromkeys(names), "cost_estimated": 0}
    usage, estimated = msgspec.structs.asdict(told.usage), int(told.cost_estimated and bool(told.cost_usd))
    return {**usage, "cost_usd": told.cost_usd, "cost_estimated": estimated, "saved_usd": told.saved.usd}


def _settle_answer(db: Database, settlement: Settlement, now_ms: int) -> None:
    if settlement.answer is None:
        return
    message, text = settlement.answer
    messages.insert(db, settlement.turn.conversation, [(message, text, now_ms)], first_place=None)
    messages.place(db, message.id)


def _settle_session(db: Database, settlement: Settlement, now_ms: int) -> None:
    if settlement.session is not None:
        sessions.save_session(db, settlement.session)
    if settlement.held is not None:
        sessions.hold(db, _holder(settlement), settlement.held_from, settlement.held)
    if settlement.pin is not None:
        sessions.save_pin(db, settlement.turn.conversation, settlement.pin)
    for session_id, reason in settlement.retire:
        sessions.retire(db, session_id, reason, now_ms)


def _holder(settlement: Settlement) -> str:
    if settlement.session is not None:
        return settlement.session.id
    if settlement.pin is not None:
        return settlement.pin.session
    raise ValueError("what is held is held by a session: give it, or a pin")


def _descend(db: Database, row: LineageRow) -> None:
    fields = msgspec.structs.asdict(row)
    db.run(_HISTORY.descend, **fields | {"session": row.session or ""})


_SQL = Queries("turns")
_ALL = 2**31 - 1
_NOBODY = Owner(host="", pid=0)


class Turns(Section):
    def hear(self, conversation: Conversation, message: Message, text: str, turn: TurnRow) -> Conversation:
        """Keep what the user said before all else: the message, without a place yet, and its turn.

        The conversation is made by first use of its key. Returns it as it is stored, which is another's
        if that one was faster.
        """
        with self.db.writing():
            stored = create_or_find(self.db, conversation)
            touch(self.db, stored.id, turn.started_ms)
            messages.see_logins(self.db, message.under)
            messages.insert(self.db, stored.id, [(message, text, turn.started_ms)], first_place=None)
            _insert(self.db, msgspec.structs.replace(turn, conversation=stored.id, message=message.id))
        return stored

    def again(self, turn: TurnRow) -> None:
        """A turn for a message that is there already."""
        with self.db.writing():
            touch(self.db, turn.conversation, turn.started_ms)
            _insert(self.db, turn)

    @contextmanager
    def fenced(self, lease: Claim) -> Iterator[bool]:
        """One transaction in which the lease is still ours. False: it is another's; nothing may be done."""
        with self.db.writing():
            yield lease_rows.confirm(self.db, lease)

    def place(self, turn_id: str, gone: Sequence[str] = ()) -> None:
        """The turn begins: its message gets its place after all others, if it has none.

        Under the conversation's lease. ``gone``: turns whose process died while they waited. They never
        began, so they are withdrawn: nobody is told of their messages.
        """
        turn = self._must(turn_id)
        with self.db.writing():
            touch(self.db, turn.conversation)
            self.db.many(_SQL.withdraw, [{"id": each, "conversation": turn.conversation} for each in gone])
            for each in gone:
                lease_rows.drop(self.db, lease_rows.waiting(each))
            messages.place(self.db, turn.message)
            self.db.run(_SQL.begin, id=turn_id)

    def merge(self, turn: TurnRow, earlier: TurnRow) -> TurnRow:
        """What the turn was asked is what an earlier one was: it is a run of that message, its own goes."""
        with self.db.writing():
            touch(self.db, turn.conversation)
            self.db.run(_SQL.merge, id=turn.id, message=earlier.message, retry_of=earlier.id)
            messages.remove_unplaced(self.db, turn.message)
        return self._must(turn.id)

    def runs_of(self, messages_: Sequence[str]) -> dict[str, list[TurnRow]]:
        """The turns of each of these messages, the newest last."""
        found: dict[str, list[TurnRow]] = {}
        for row in self.db.among(_SQL.of_messages, messages_):
            turn = turn_of(row)
            found.setdefault(turn.message, []).append(turn)
        return {message: sorted(each, key=lambda t: (t.started_ms, t.id)) for message, each in found.items()}

    def started(self, turn_id: str, mode: Mode, predicted_usd: float | None = None) -> None:
        """How it goes about it, now that this is decided."""
        self.db.run(_SQL.start, id=turn_id, mode=mode, predicted_usd=predicted_usd)

    def turn(self, turn_id: str) -> TurnRow | None:
        row = self.db.one(_SQL.by_id, id=turn_id)
        return None if row is None else whole(self.db, turn_of(row))

    def turns(self, conversation_id: str, limit: int | None = None) -> list[TurnRow]:
        """The newest last; at most ``limit`` of them. What is told of each is without its answer's text."""
        count = _ALL if limit is None else limit
        rows = self.db.all(_SQL.newest, conversation=conversation_id, count=count)
        return [turn_of(row) for row in reversed(rows)]

    def turns_of(self, conversation_id: str, agent: str, limit: int) -> list[TurnRow]:
        """Those of one agent, as above."""
        rows = self.db.all(_SQL.newest_of, conversation=conversation_id, agent=agent, count=limit)
        return [turn_of(row) for row in reversed(rows)]

    def unsettled(self, conversation_id: str) -> list[TurnRow]:
        """Those that wait or run, oldest first."""
        return [turn_of(row) for row in self.db.all(_SQL.unsettled, conversation=conversation_id)]

    def unplaced(self, conversation_id: str) -> list[TurnRow]:
        """Those that have not begun; the oldest message first.

        They wait, or they were withdrawn and their message has no place.
        """
        found = [turn_of(row) for row in self.db.all(_SQL.unplaced, conversation=conversation_id)]
        found += [turn for turn in self.unsettled(conversation_id) if turn.state == "queued"]
        return sorted({t.id: t for t in found}.values(), key=lambda t: (t.message, t.started_ms, t.id))

    def attempting(self, attempt: AttemptRow) -> None:
        """Note an attempt before it starts; and again, with its process, once it has."""
        fields = msgspec.structs.asdict(attempt)
        fields |= {"usage": to_json(attempt.usage), "task": attempt.task.decode("utf-8", "replace")}
        self.db.run(_SQL.attempt, **fields)

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
        """How it ended: ``ok`` or the kind of failure."""
        self.db.run(
            _SQL.attempted,
            id=attempt_id,
            outcome=outcome,
            native_id=native_id,
            usage=to_json(usage),
            cost_usd=cost_usd,
            tools_run=tools_run,
            ended_ms=ended_ms,
        )

    def attempts(self, turn_id: str) -> list[AttemptRow]:
        """In order."""
        return [_attempt_of(row) for row in self.db.all(_SQL.attempts, turn=turn_id)]

    def _must(self, turn_id: str) -> TurnRow:
        turn = self.turn(turn_id)
        if turn is None:
            raise Misuse(f"there is no turn {turn_id} (any more)")
        return turn


def whole(db: Database, turn: TurnRow, text: str | None = None) -> TurnRow:
    """With the ``text`` of its answer as it was given, which is stored among the messages alone."""
    if turn.told is None or turn.answer is None or turn.told.text:
        return turn
    if text is None:
        said = db.one(_SQL.answered, message=turn.answer)
        text = said[0] if said is not None else ""
    return msgspec.structs.replace(turn, told=msgspec.structs.replace(turn.told, text=text))


def turn_of(row: Row) -> TurnRow:
    fields = dict(zip(_TURN_COLUMNS, row, strict=True))
    voice = Voice(fields.pop("agent"), fields.pop("role"))
    told, owner = from_json(fields.pop("told"), Turn), from_json(fields.pop("owner"), Owner) or _NOBODY
    if told is not None:  # what was told by an earlier version says less; the columns are the truth
        told = msgspec.structs.replace(
            told, message=fields["message"], state=fields["state"], retry_of=fields["retry_of"]
        )
    return TurnRow(**fields, voice=voice, told=told, owner=owner)


def _attempt_of(row: Row) -> AttemptRow:
    fields = dict(zip(AttemptRow.__struct_fields__, row, strict=True))
    fields |= {"usage": from_json(fields["usage"], Usage) or Usage(), "task": fields["task"].encode()}
    return AttemptRow(**fields)


def _insert(db: Database, turn: TurnRow) -> None:
    fields: dict[str, Any] = {
        name: getattr(turn, name)
        for name in ("id", "conversation", "message", "account", "model", "cwd", "host", "mode")
    }
    db.run(
        _SQL.insert,
        **fields,
        agent=turn.voice.agent,
        role=turn.voice.role,
        state="queued",
        owner=to_json(turn.owner),
        started_ms=turn.started_ms,
        predicted_usd=turn.predicted_usd,
        retry_of=turn.retry_of,
        via=turn.via,
    )


_TURN_COLUMNS = (
    "id conversation message answer agent role account model cwd host mode state told owner"
    " started_ms ended_ms predicted_usd retry_of via"
).split()
