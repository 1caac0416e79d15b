"""Turns and their attempts, from the received message until they end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from segue.core.errors import Misuse
from segue.core.laws import Door
from segue.core.model import Message, NewAttachment, Owner, Voice
from segue.core.turn import Mode, Turn
from segue.core.usage import Usage
from segue.store.conversations import History
from segue.store.database import Queries, Row, from_json, to_json
from segue.store.lease_rows import Leases, waiting
from segue.store.messages import read_facts
from segue.store.receipts import Receipts
from segue.store.records import (
    AttemptRow,
    Conversation,
    KnownRun,
    LineageRow,
    NotWaiting,
    Receipt,
    TurnRow,
)
from segue.system import clock

_CONVERSATIONS = Queries("conversations")
_HISTORY = Queries("history")
_SQL = Queries("turns")
_ALL = 2**31 - 1
NOBODY = Owner(host="", pid=0)
_TURN_COLUMNS = (
    "id conversation message answer agent role account model cwd host mode state told owner"
    " started_ms ended_ms predicted_usd retry_of via"
).split()


class Predecessor(msgspec.Struct, frozen=True):
    """The turn that another one follows. ``forked``: in the conversation that its own was forked from."""

    run: str
    agent: str
    account: str
    forked: bool = False


class Turns(History, Leases, Receipts):
    """Turns and their attempts."""

    def receive(
        self,
        conversation: Conversation,
        message: Message,
        text: str,
        turn: TurnRow,
        receipt: Receipt | None = None,
        files: Sequence[NewAttachment] = (),
    ) -> Conversation:
        """Store the user's message, without a place yet, and its turn, before anything else happens.

        The conversation is created by first use of its key. Returns it as stored: another process may have
        created it first. Raises ``KnownRun`` if the receipt's key already has a run, or if the turn itself
        is stored already.
        """
        with self._db.writing():
            self._refuse_known(turn)
            stored = self._create_or_find(conversation)
            turn = msgspec.structs.replace(turn, conversation=stored.id, message=message.id)
            self._touch(stored.id, turn.started_ms)
            self._see_logins(message.under)
            self._insert_messages(stored.id, [(message, text, turn.started_ms)], first_place=None)
            self._attach(message.id, files)
            self._insert_turn(turn, receipt)
        return stored

    def add_retry(self, turn: TurnRow, receipt: Receipt | None = None, failed_run: str | None = None) -> None:
        """Store a turn for an existing message. Raises ``KnownRun`` as ``receive`` does. ``failed_run``: the
        run of the same call; it keeps its place before what waits."""
        with self._db.writing():
            self._refuse_known(turn)
            self._touch(turn.conversation, turn.started_ms)
            self._insert_turn(turn, receipt)
            if failed_run is not None:
                self._db.run(_SQL.take_place, id=turn.id, other=failed_run)
            self._note_retry(turn.id, turn.retry_of, turn.started_ms)

    def ask_cancel(self, turn_id: str) -> bool:
        """Ask the process that runs the turn to end it. False: it is over, or does not exist."""
        return self._db.run(_SQL.ask_cancel, id=turn_id, now_ms=clock.now_ms()) == 1

    def cancel_asked(self, turn_id: str) -> bool:
        """Whether the turn was asked to end."""
        row = self._db.one(_SQL.cancel_asked, id=turn_id)
        return row is not None and row[0] is not None

    def place(
        self,
        turn_id: str,
        gone: Sequence[str] = (),
        *,
        door: Door = Door.RUN,
        reserved_usd: float | None = None,
        counts_for: str | None = None,
    ) -> None:
        """Begin the turn: its message gets its place after all others, if it has none.

        Under the conversation's lease. ``door``: how it came to be; ``reserved_usd``: what it is expected to
        cost, which counts against budgets while it runs. ``gone``: turns whose process died while they
        waited. They never began, so they are withdrawn: no agent sees their messages. Raises ``NotWaiting``
        if the turn itself was withdrawn or begun by another process.
        """
        turn = self._must(turn_id)
        with self._db.writing():
            self._touch(turn.conversation)
            fields = {"door": door.value, "reserved_usd": reserved_usd, "counts_for": counts_for}
            if not self._db.run(_SQL.begin, id=turn_id, **fields):
                raise NotWaiting(turn_id)
            self._db.many(_SQL.withdraw, [{"id": each, "conversation": turn.conversation} for each in gone])
            for each in gone:
                self._drop_lease(waiting(each))
                self._db.run(_SQL.lapse, run=each, state="withdrawn")
            self._place_message(turn.message)
            self._db.run(_SQL.go_on, conversation=turn.conversation)

    def merge(self, turn: TurnRow, earlier: TurnRow) -> TurnRow:
        """Make the turn a retry of an earlier one with the same text: its own message is removed."""
        with self._db.writing():
            self._touch(turn.conversation)
            self._db.run(_SQL.merge, id=turn.id, message=earlier.message, retry_of=earlier.id)
            self._remove_unplaced(turn.message)
            self._note_retry(turn.id, earlier.id, turn.started_ms)
        return self._must(turn.id)

    def runs_of(self, messages: Sequence[str]) -> dict[str, list[TurnRow]]:
        """The turns of each of these messages, the newest last."""
        found: dict[str, list[TurnRow]] = {}
        for row in self._db.among(_SQL.of_messages, messages):
            turn = turn_of(row)
            found.setdefault(turn.message, []).append(turn)
        return {message: sorted(each, key=lambda t: (t.started_ms, t.id)) for message, each in found.items()}

    def started(
        self, turn_id: str, mode: Mode, predicted_usd: float | None = None, under: Sequence[str] = ()
    ) -> None:
        """Record the mode, once it is decided; and whose words its session is given, its own included."""
        marks = to_json(list(under)) if under else None
        self._db.run(_SQL.start, id=turn_id, mode=mode, predicted_usd=predicted_usd, under=marks)

    def _refuse_known(self, turn: TurnRow) -> None:
        """A command line and the daemon that it called may both have the same turn."""
        if self._db.one(_SQL.by_id, id=turn.id) is not None:
            raise KnownRun(turn.id)

    def turn(self, turn_id: str) -> TurnRow | None:
        row = self._db.one(_SQL.by_id, id=turn_id)
        return None if row is None else self._whole(turn_of(row))

    def turns(self, conversation_id: str, limit: int | None = None) -> list[TurnRow]:
        """The newest last; at most ``limit`` of them. ``told`` comes without the text of the answer."""
        count = _ALL if limit is None else limit
        rows = self._db.all(_SQL.newest, conversation=conversation_id, count=count)
        return [turn_of(row) for row in reversed(rows)]

    def failed_turns(self, conversation_id: str, limit: int) -> list[TurnRow]:
        """Those of the last ``limit`` turns that failed, were cancelled or never began, as in ``turns``."""
        rows = self._db.all(_SQL.newest_failed, conversation=conversation_id, count=limit)
        return [turn_of(row) for row in reversed(rows)]

    def turns_of(self, conversation_id: str, agent: str, limit: int) -> list[TurnRow]:
        """The turns of one agent, as in ``turns``."""
        rows = self._db.all(_SQL.newest_of, conversation=conversation_id, agent=agent, count=limit)
        return [turn_of(row) for row in reversed(rows)]

    def unsettled(self, conversation_id: str) -> list[TurnRow]:
        """The turns that wait or run, oldest first."""
        return [turn_of(row) for row in self._db.all(_SQL.unsettled, conversation=conversation_id)]

    def unplaced(self, conversation_id: str) -> list[TurnRow]:
        """The turns that have not begun; the oldest message first.

        They wait, or they were withdrawn and their message has no place.
        """
        found = [turn_of(row) for row in self._db.all(_SQL.unplaced, conversation=conversation_id)]
        found += [turn for turn in self.unsettled(conversation_id) if turn.state == "queued"]
        return sorted({t.id: t for t in found}.values(), key=lambda t: (t.message, t.started_ms, t.id))

    def attempting(self, attempt: AttemptRow) -> None:
        """Record an attempt before it starts; and a second time, with its process, once it has."""
        fields = msgspec.structs.asdict(attempt)
        fields |= {"usage": to_json(attempt.usage), "task": attempt.task.decode("utf-8", "replace")}
        self._db.run(_SQL.attempt, **fields)

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
        """Record how it ended: ``ok`` or the kind of failure."""
        self._db.run(
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
        """The attempts of a turn, in order."""
        return [_attempt_of(row) for row in self._db.all(_SQL.attempts, turn=turn_id)]

    def left_by(self, session_id: str, rows: int, run: str) -> str | None:
        """The turn before ``run`` that left the session with this many rows; None: it was not a turn of ours.

        The session of a fork, or a repaired copy, holds what the session holds that it was made from.
        """
        sessions, row = [session_id], self.session_by_id(session_id)
        if row is not None and row.parent is not None:
            sessions.append(row.parent)
        for each in sessions:
            left = self._db.one(_HISTORY.left_by, session=each, seq=rows - 1, run=run)
            if left is not None:
                return str(left[0])
        return None

    def before(self, run: str) -> Predecessor | None:
        """The turn of the last message before that of ``run`` that stands; in a fork that has none of its
        own, the turn that it was forked at. None: the run is a root."""
        row = self._db.one(_HISTORY.before, run=run)
        if row is None:
            return None
        facts, flow, forked_at, conversation, before, agent, account = row
        if flow is None and read_facts(facts).blank:
            return None
        if before is not None:
            return Predecessor(before, agent, account)
        point = self._db.one(_HISTORY.fork_point, conversation=conversation) if forked_at else None
        return None if point is None else Predecessor(point[0], point[1], point[2], forked=True)

    def _note_retry(self, run: str, retry_of: str | None, ms: int) -> None:
        if retry_of is not None:
            self._descend(LineageRow(child=run, parent=retry_of, kind="retry", ms=ms))

    def _descend(self, row: LineageRow) -> None:
        fields = msgspec.structs.asdict(row)
        self._db.run(_HISTORY.descend, **fields | {"session": row.session or ""})

    def _must(self, turn_id: str) -> TurnRow:
        turn = self.turn(turn_id)
        if turn is None:
            raise Misuse(f"turn {turn_id} does not exist, or no longer exists")
        return turn

    def _whole(self, turn: TurnRow, text: str | None = None) -> TurnRow:
        """The turn with the original ``text`` of its answer, which is only stored with the messages."""
        if turn.told is None or turn.answer is None or turn.told.text:
            return turn
        if text is None:
            row = self._db.one(_SQL.answered, message=turn.answer)
            text = row[0] if row is not None else ""
        return msgspec.structs.replace(turn, told=msgspec.structs.replace(turn.told, text=text))

    def _insert_turn(self, turn: TurnRow, receipt: Receipt | None) -> None:
        """Raises ``KnownRun`` if the receipt's key already has a run."""
        fields: dict[str, Any] = {
            name: getattr(turn, name)
            for name in ("id", "conversation", "message", "account", "model", "cwd", "host", "mode")
        }
        place = turn.flow
        fields |= {
            "agent": turn.voice.agent,
            "role": turn.voice.role,
            "state": "queued",
            "owner": to_json(turn.owner),
            "started_ms": turn.started_ms,
            "predicted_usd": turn.predicted_usd,
            "retry_of": turn.retry_of,
            "via": turn.via,
            "flow": place.flow if place is not None else None,
            "step": place.step if place is not None else None,
            "tier": place.tier if place is not None else None,
        }
        self._store_with_receipt((_SQL.insert, fields), turn, receipt)


def turn_of(row: Row) -> TurnRow:
    fields = dict(zip(_TURN_COLUMNS, row, strict=True))
    voice = Voice(fields.pop("agent"), fields.pop("role"))
    told, owner = from_json(fields.pop("told"), Turn), from_json(fields.pop("owner"), Owner) or NOBODY
    if told is not None:  # a report of an earlier version may lack these; the columns are the truth
        told = msgspec.structs.replace(
            told,
            message=fields["message"],
            state=fields["state"],
            retry_of=fields["retry_of"],
            limits=told.limits or None,  # earlier, unknown limits were an empty list
        )
    return TurnRow(**fields, voice=voice, told=told, owner=owner)


def _attempt_of(row: Row) -> AttemptRow:
    fields = dict(zip(AttemptRow.__struct_fields__, row, strict=True))
    fields |= {"usage": from_json(fields["usage"], Usage) or Usage(), "task": fields["task"].encode()}
    return AttemptRow(**fields)
