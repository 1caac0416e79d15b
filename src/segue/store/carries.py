"""Switches of a conversation's account, and the record of everything that was carried over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from segue.core.model import Message
from segue.store.conversations import Conversations
from segue.store.database import Queries
from segue.store.records import Conversation

_SQL = Queries("carries")
_CONVERSATIONS = Queries("conversations")

CarryMode = Literal["none", "raw", "summary"]
"""How a switch carries over."""
RecordedMode = Literal[CarryMode, "flow"]
"""``flow``: the prompts of a flow's turns repeat what turns under the other account have said."""


class CarryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One switch at which something should have been carried over, or one direction in which a flow carries
    over. ``why``: why something else was carried than was asked for, or nothing."""

    id: str
    conversation: str
    """Its key."""
    at_ms: int
    from_agent: str
    from_account: str
    to_agent: str
    to_account: str
    mode: RecordedMode
    bytes: int = 0
    turns: int = 0
    omitted: bool = False
    asked_by: str
    """Who asked: ``command line``, ``library``, ``api``, ``page`` or ``policy``; for a flow: ``flow`` if the
    user named both accounts for it, ``trusted file`` if its file says so, or ``policy``."""
    cost_usd: float | None = None
    message: str | None = None
    """The block in the conversation."""
    why: str = ""
    left_out: int = 0
    """How many bytes of the newest turn were left out, because it alone is too long."""


class MovedRun(msgspec.Struct, frozen=True):
    """A run that waits, as it is under the new account: its request as JSON, and its message."""

    run: str
    request: str
    message: Message


class Carries(Conversations):
    """The record, and the change that it records."""

    def switch(
        self,
        conversation: Conversation,
        to: tuple[str, str],
        block: tuple[Message, str] | None,
        carried: CarryRow | None,
        moved: Sequence[MovedRun],
        now_ms: int,
        *,
        before: str | None = None,
    ) -> None:
        """Bind the conversation to an agent and account, with the block and its record. The model belongs to
        the account before, and is forgotten. ``before``: the last message; the block is placed before it."""
        agent, account = to
        with self._db.writing():
            self._db.run(_CONVERSATIONS.touch, id=conversation.id, now_ms=now_ms)
            self._db.run(
                _CONVERSATIONS.remember,
                id=conversation.id,
                agent=agent,
                account=account,
                model=None,
                role=conversation.role,
                cwd=conversation.cwd,
            )
            if block is not None:
                message, text = block
                self._see_logins(message.under)
                self._insert_messages(conversation.id, [(message, text, now_ms)], first_place=None)
                if before is not None:
                    self._unplace_message(before)
                self._place_message(message.id)
                if before is not None:
                    self._place_message(before)
            for each in moved:
                self._db.run(_SQL.move, id=each.run, request=each.request, agent=agent, account=account)
                self._readdress(each.message)
            if carried is not None:
                self._db.run(_SQL.add, **carry_fields(carried))

    def record_once(self, flow: str, rows: Sequence[CarryRow]) -> None:
        """Record what the turns of a flow carry over; a direction that is recorded is left as it is."""
        for row in rows:
            self._db.run(_SQL.add_once, **carry_fields(row), flow=flow)

    def carries(self, key: str | None = None, limit: int = 100) -> list[CarryRow]:
        """What was carried over, newest first: of one conversation, or of all."""
        if key is None:
            rows = self._db.all(_SQL.every, count=limit)
        else:
            rows = self._db.all(_SQL.of, conversation=key, count=limit)
        names = CarryRow.__struct_fields__
        return [
            msgspec.convert({**dict(zip(names, row, strict=True)), "omitted": bool(row[10])}, CarryRow)
            for row in rows
        ]


def carry_fields(row: CarryRow) -> dict[str, Any]:
    return {**msgspec.structs.asdict(row), "omitted": int(row.omitted)}
