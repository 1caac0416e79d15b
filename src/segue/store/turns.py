"""Turns and their attempts, from the message that was heard to the moment before they are settled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from segue.core.errors import Misuse
from segue.core.model import Message, Voice
from segue.core.turn import Mode, Turn
from segue.core.usage import Usage
from segue.store import logins, messages
from segue.store.conversations import create_or_find, touch
from segue.store.database import Database, Row
from segue.store.packing import pack, unpack
from segue.store.part import Part
from segue.store.queries import Queries
from segue.store.records import AttemptRow, Conversation, Owner, TurnRow

_SQL = Queries("turns")
_ALL = 2**31 - 1
_NOBODY = Owner(host="", pid=0)


class Turns(Part):
    def hear(self, conversation: Conversation, message: Message, text: str, turn: TurnRow) -> Conversation:
        """Keep what the user said before all else: the message, without a place yet, and its turn.

        The conversation is made by first use of its key. Returns it as it is stored, which is another's
        if that one was faster.
        """
        with self.db.writing():
            stored = create_or_find(self.db, conversation)
            touch(self.db, stored.id, turn.started_ms)
            logins.see(self.db, message.under)
            messages.insert(self.db, stored.id, [(message, text, turn.started_ms)], first_place=None)
            _insert(self.db, msgspec.structs.replace(turn, conversation=stored.id, message=message.id))
        return stored

    def again(self, turn: TurnRow) -> None:
        """A turn for a message that is there already."""
        with self.db.writing():
            touch(self.db, turn.conversation, turn.started_ms)
            _insert(self.db, turn)

    def place(self, turn_id: str, lost: Sequence[str] = ()) -> None:
        """The turn begins: its message gets its place after all others, if it has none.

        Under the conversation's lease. Before it come, oldest first, the messages of the ``lost`` turns:
        those that gave up waiting, and those whose process died while they waited, which have failed by that.
        """
        turn = self._must(turn_id)
        with self.db.writing():
            touch(self.db, turn.conversation)
            for gone in self.unplaced(turn.conversation):
                if gone.id in lost:
                    messages.place(self.db, gone.message)
                    self.db.run(_SQL.lose, id=gone.id)
            messages.place(self.db, turn.message)
            self.db.run(_SQL.begin, id=turn_id)

    def started(self, turn_id: str, mode: Mode, predicted_usd: float | None = None) -> None:
        """How it goes about it, now that this is decided."""
        self.db.run(_SQL.start, id=turn_id, mode=mode, predicted_usd=predicted_usd)

    def turn(self, turn_id: str) -> TurnRow | None:
        row = self.db.one(_SQL.by_id, id=turn_id)
        return None if row is None else turn_of(row)

    def turns(self, conversation_id: str, limit: int | None = None) -> list[TurnRow]:
        """The newest last; at most ``limit`` of them."""
        count = _ALL if limit is None else limit
        rows = self.db.all(_SQL.newest, conversation=conversation_id, count=count)
        return [turn_of(row) for row in reversed(rows)]

    def unsettled(self, conversation_id: str) -> list[TurnRow]:
        """Those that wait or run, oldest first."""
        return [turn_of(row) for row in self.db.all(_SQL.unsettled, conversation=conversation_id)]

    def unplaced(self, conversation_id: str) -> list[TurnRow]:
        """Those that have not begun; the oldest message first.

        They wait, or they gave up waiting and their message has no place yet.
        """
        found = [turn_of(row) for row in self.db.all(_SQL.unplaced, conversation=conversation_id)]
        found += [turn for turn in self.unsettled(conversation_id) if turn.status == "waiting"]
        return sorted({t.id: t for t in found}.values(), key=lambda t: (t.message, t.started_ms, t.id))

    def attempting(self, attempt: AttemptRow) -> None:
        """Note an attempt before it starts; and again, with its process, once it has."""
        fields = msgspec.structs.asdict(attempt)
        fields |= {"usage": pack(attempt.usage), "task": attempt.task.decode("utf-8", "replace")}
        self.db.run(_SQL.attempt, **fields)

    def attempted(
        self,
        attempt_id: str,
        outcome: str,
        native_id: str | None,
        usage: Usage,
        cost_usd: float | None,
        tools_run: int,
        ended_ms: int,
    ) -> None:
        """How it ended: ``ok`` or the kind of failure."""
        self.db.run(
            _SQL.attempted,
            id=attempt_id,
            outcome=outcome,
            native_id=native_id,
            usage=pack(usage),
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


def turn_of(row: Row) -> TurnRow:
    fields = dict(zip(_TURN_COLUMNS, row, strict=True))
    voice = Voice(fields.pop("agent"), fields.pop("role"))
    told, owner = unpack(fields.pop("told"), Turn), unpack(fields.pop("owner"), Owner) or _NOBODY
    return TurnRow(**fields, voice=voice, told=told, owner=owner)


def _attempt_of(row: Row) -> AttemptRow:
    fields = dict(zip(AttemptRow.__struct_fields__, row, strict=True))
    fields |= {"usage": unpack(fields["usage"], Usage) or Usage(), "task": fields["task"].encode()}
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
        status="waiting",
        owner=pack(turn.owner),
        started_ms=turn.started_ms,
        predicted_usd=turn.predicted_usd,
        retry_of=turn.retry_of,
    )


_TURN_COLUMNS = (
    "id conversation message answer agent role account model cwd host mode status told owner"
    " started_ms ended_ms predicted_usd retry_of"
).split()
