"""The end of a turn: everything it changes, in one transaction, once."""

from __future__ import annotations

from typing import Any

import msgspec

from segue.core.errors import Misuse
from segue.core.turn import Turn
from segue.store import leases, messages, sessions
from segue.store.conversations import remember_grant, touch
from segue.store.database import Database
from segue.store.history import raise_epochs
from segue.store.packing import pack
from segue.store.part import Part
from segue.store.queries import Queries
from segue.store.records import LineageRow, Settlement

_SQL = Queries("turns")
_CONVERSATIONS = Queries("conversations")
_HISTORY = Queries("history")


class Settling(Part):
    def settle(self, settlement: Settlement) -> bool:
        """Write all of it, or nothing. False: somebody took the conversation over; they settle it, or did."""
        turn = settlement.turn
        now_ms = turn.started_ms if turn.ended_ms is None else turn.ended_ms
        with self.db.writing():
            if settlement.lease is not None and not leases.confirm(self.db, settlement.lease):
                return False
            if not touch(self.db, turn.conversation, now_ms):
                raise Misuse(f"the conversation of turn {turn.id} was removed while it ran")
            if not self.db.run(_SQL.settle, **_final(settlement)):
                return False
            self.db.run(_SQL.planned_no_more, turn=turn.id)
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
        "told": None if turn.told is None else pack(_told(turn.told, settlement)),
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
