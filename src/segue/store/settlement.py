"""The end of a turn: everything that it changes is written once, in one transaction."""

from __future__ import annotations

from typing import Any

import msgspec

from segue.core.errors import Misuse
from segue.core.turn import Turn
from segue.store.database import Queries, to_json
from segue.store.records import Settlement
from segue.store.turns import Turns

_CONVERSATIONS = Queries("conversations")
_SQL = Queries("turns")


class Settling(Turns):
    """The end of a turn."""

    def settle(self, settlement: Settlement) -> bool:
        """Write all of it, or nothing. False: another process took the conversation over and settles it."""
        turn = settlement.turn
        now_ms = turn.started_ms if turn.ended_ms is None else turn.ended_ms
        with self._db.writing():
            if settlement.lease is not None and not self.renew_lease(settlement.lease):
                return False
            if not self._touch(turn.conversation, now_ms):
                raise Misuse(f"the conversation of turn {turn.id} was deleted while it ran")
            if not self._db.run(_SQL.settle, **_final(settlement)):
                return False
            self._db.run(_SQL.planned_no_more, turn=turn.id)
            self._settle_line(settlement)
            self._db.run(_SQL.lapse, run=turn.id, state=turn.state)
            self._settle_answer(settlement, now_ms)
            self._settle_session(settlement, now_ms)
            for row in settlement.lineage:
                self._descend(row)
            self._raise_epochs(turn.conversation, settlement.epochs)
            if settlement.limits is not None and settlement.limits[0] and turn.told is not None:
                login, limits = settlement.limits
                self._see_limits(turn.voice.agent, turn.account, login, limits, turn.told.pays, now_ms)
            if settlement.grant is not None:
                self._remember_grant(turn.conversation, turn.voice, settlement.grant)
            if settlement.remember is not None:
                remembered = msgspec.structs.asdict(settlement.remember)
                self._db.run(_CONVERSATIONS.remember, id=turn.conversation, **remembered)
        return True

    def _settle_line(self, settlement: Settlement) -> None:
        """What the end of the turn means for the queue."""
        raise NotImplementedError

    def _settle_answer(self, settlement: Settlement, now_ms: int) -> None:
        if settlement.answer is None:
            return
        message, text = settlement.answer
        self._insert_messages(settlement.turn.conversation, [(message, text, now_ms)], first_place=None)
        self._place_message(message.id)

    def _settle_session(self, settlement: Settlement, now_ms: int) -> None:
        if settlement.session is not None:
            self._save_session(settlement.session)
        if settlement.held is not None:
            self._hold(_holder(settlement), settlement.held_from, settlement.held)
        if settlement.pin is not None:
            self._save_pin(settlement.turn.conversation, settlement.pin)
        for session_id, reason in settlement.retire:
            self._retire_session(session_id, reason, now_ms)


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
        "agent_version": None if turn.told is None else turn.told.agent_version,
        **_spent(turn.told),
    }


def _told(told: Turn, settlement: Settlement) -> Turn:
    """The report without the answer's text, which is stored with the messages."""
    same = settlement.answer is not None and settlement.answer[1] == told.text
    return msgspec.structs.replace(told, text="") if same else told


def _spent(told: Turn | None) -> dict[str, Any]:
    """The columns that lists add up."""
    if told is None:
        names = "input cache_read cache_write output cost_usd saved_usd".split()
        return {**dict.fromkeys(names), "cost_estimated": 0}
    usage, estimated = msgspec.structs.asdict(told.usage), int(told.cost_estimated and bool(told.cost_usd))
    return {**usage, "cost_usd": told.cost_usd, "cost_estimated": estimated, "saved_usd": told.saved.usd}


def _holder(settlement: Settlement) -> str:
    if settlement.session is not None:
        return settlement.session.id
    if settlement.pin is not None:
        return settlement.pin.session
    raise ValueError("held needs a session or a pin")
