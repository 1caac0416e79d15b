"""What a conversation starts with or imports: a copy of another one, or a session that no turn of it made.

A fork is a separate conversation that starts with a copy of another, and can use its native sessions. A
session that no turn of the conversation made comes from outside Segue, or is a repaired copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from segue.core.errors import Misuse
from segue.core.model import Held, Message, Pin, Voice
from segue.core.turn import Saved
from segue.core.usage import Context, Usage
from segue.store.conversations import Conversations
from segue.store.database import Queries, Row, to_json
from segue.store.messages import read_facts
from segue.store.records import Conversation, SessionRow, TurnRow, telling
from segue.store.sessions import pin_of
from segue.store.turns import turn_of

_ATTACHMENTS = Queries("attachments")
_SQL = Queries("messages")
_HISTORY = Queries("history")
_SESSIONS = Queries("sessions")
_QUESTIONS = Queries("questions")
_CONVERSATIONS = Queries("conversations")
_TURNS = Queries("turns")
_EVENTS = Queries("events")
COPIED = "fork"
"""Marks a turn that was copied from another conversation: it is not counted in totals."""


class Adoption(msgspec.Struct, frozen=True, kw_only=True):
    """The imported messages, and the session they come from. ``held`` begins at ``held_from``."""

    said: Sequence[tuple[Message, str, int]]
    session: SessionRow
    pin: Pin
    held: Sequence[Held]
    held_from: int = 0


class Successor(msgspec.Struct, frozen=True, kw_only=True):
    """The session that a pin points to from now on, and why."""

    session: str
    """Our own id for it."""
    native_id: str
    home: str
    end: str | None
    how: str
    reason: str
    changed: bool = True
    """It differs from the previous one in more than its id."""


class Forks(Conversations):
    """Forking, adopting and repinning. ``Store`` makes one when it is needed."""

    def adopt(self, conversation_id: str, adoption: Adoption, now_ms: int) -> None:
        """In one transaction: the messages get their places after the current ones."""
        with self._db.writing():
            self._touch(conversation_id, now_ms)
            self._cut(conversation_id)
            self._insert_messages(conversation_id, adoption.said, first_place=None)
            for message, _, _ in adoption.said:
                self._place_message(message.id)
            self._save_session(adoption.session)
            self._hold(adoption.session.id, adoption.held_from, adoption.held)
            self._save_pin(conversation_id, adoption.pin)

    def repin(self, conversation_id: str, pin: Pin, successor: Successor, now_ms: int) -> None:
        """The pinned session holds the same as before under another id; the old one is retired.

        Only the anchor of its last message is known.
        """
        with self._db.writing():
            row = self.session_by_id(pin.session)
            held = [msgspec.structs.replace(each, anchor=None) for each in self.held_by(pin.session)]
            if row is None or not held:
                return
            held[-1] = msgspec.structs.replace(held[-1], anchor=successor.end)
            made = msgspec.structs.replace(
                row,
                id=successor.session,
                native_id=successor.native_id,
                home=successor.home,
                path=None,
                created_ms=now_ms,
                last_used_ms=now_ms,
                parent=row.id,
                how=successor.how,
            )
            self._save_session(made)
            self._hold(made.id, 0, held)
            self._save_pin(conversation_id, _fresh(pin, successor))
            self._retire_session(row.id, successor.reason, now_ms)

    def fork(
        self,
        conversation: Conversation,
        new_key: str,
        upto: str | None,
        now_ms: int,
        ids: Callable[[], str],
    ) -> Conversation:
        """See ``Store.fork``."""
        with self._db.writing():
            rows = _upto(self._db.all(_SQL.whole, conversation=conversation.id), upto)
            new = msgspec.structs.replace(
                conversation,
                id=ids(),
                key=new_key,
                created_ms=now_ms,
                updated_ms=now_ms,
                forked_from=conversation.key,
                forked_at=rows[-1][0] if rows else None,
            )
            self._create(new)
            renamed = {row[0]: ids() for row in rows}
            copies = [(self._copy(conversation.id, row, renamed), row[5], row[4]) for row in rows]
            self._insert_messages(new.id, copies, first_place=1)
            attached = self.attachments(list(renamed))
            self._db.many(_ATTACHMENTS.copy, [{"message": renamed[old], "old": old} for old in attached])
            for agent, role, epoch in self._db.all(_HISTORY.epochs, conversation=conversation.id):
                self._db.run(_HISTORY.set_epoch, conversation=new.id, agent=agent, role=role, epoch=epoch)
            for agent, role, granted in self._db.all(
                _CONVERSATIONS.all_granted, conversation=conversation.id
            ):
                self._db.run(
                    _CONVERSATIONS.grant, conversation=new.id, agent=agent, role=role, granted=granted
                )
            self._db.run(_QUESTIONS.fork_allowed, old=conversation.id, new=new.id)
            self._fork_failures(conversation, new, renamed, ids)
            for row in self._db.all(_SESSIONS.pins, conversation=conversation.id):
                self._fork_pin(pin_of(row), conversation.key, new, renamed, ids)
        return new

    def _copy(self, conversation_id: str, row: Row, renamed: dict[str, str]) -> Message:
        """A copy of a message with the same revision number, so that it matches what a session holds."""
        message_id, facts, revision = row[:3]
        known = read_facts(facts)
        return Message(
            id=renamed[message_id],
            sender=known.sender,
            voice=Voice(known.agent, known.role),
            revision=revision,
            account=known.account,
            under=self._login_marks(conversation_id, known.under),
            blank=known.blank,
            kind=known.kind,
        )

    def _fork_failures(
        self, old: Conversation, new: Conversation, renamed: dict[str, str], ids: Callable[[], str]
    ) -> None:
        """Copy the failed runs of unanswered messages, so that the fork's agents are told about them too."""
        failed: dict[str, list[TurnRow]] = {}
        for row in map(turn_of, self._db.all(_TURNS.came_to_nothing, conversation=old.id)):
            failed.setdefault(row.message, []).append(row)
        for turn in (telling(runs) for message, runs in failed.items() if message in renamed):
            if turn is None or turn.told is None:
                continue
            told = msgspec.structs.replace(
                turn.told,
                run=ids(),
                conversation=new.key,
                usage=Usage(),
                cost_usd=None,
                cost_estimated=False,
                saved=Saved(),
            )
            where = {"conversation": new.id, "message": renamed[turn.message]}
            self._db.run(_TURNS.copy, id=told.run, old=turn.id, told=to_json(told), via=COPIED, **where)
            self._db.run(_EVENTS.copy_tools, turn=told.run, old=turn.id)

    def _fork_pin(
        self,
        pin: Pin | None,
        key: str,
        new: Conversation,
        renamed: dict[str, str],
        ids: Callable[[], str],
    ) -> None:
        """Add the fork's own row for a shared session, unless the fork has none of its messages."""
        session = None if pin is None else self.session_by_id(pin.session)
        if pin is None or session is None:
            return
        held = _known(self.held_by(session.id), renamed)
        if not held:
            return
        mine = msgspec.structs.replace(
            session,
            id=ids(),
            conversation=new.id,
            parent=session.id,
            how="fork",
            created_ms=new.created_ms,
            last_used_ms=new.created_ms,
        )
        self._save_session(mine)
        self._hold(mine.id, 0, held)
        self._save_pin(new.id, msgspec.structs.replace(pin, session=mine.id, foreign=pin.foreign or key))


def _fresh(pin: Pin, successor: Successor) -> Pin:
    return msgspec.structs.replace(
        pin,
        session=successor.session,
        native_id=successor.native_id,
        home=successor.home,
        end=successor.end,
        context=Context(None, pin.context.window) if successor.changed else pin.context,
        failures=0,
        poisoned=None if successor.changed else pin.poisoned,
        ended=None,
    )


def _upto(rows: list[Row], upto: str | None) -> list[Row]:
    if upto is None:
        return rows
    for n, row in enumerate(rows, 1):
        if row[0] == upto:
            return rows[:n]
    raise Misuse(f"message {upto} is not in this conversation")


def _known(held: tuple[Held, ...], renamed: dict[str, str]) -> list[Held]:
    """What is held, up to the first message that the fork does not have."""
    kept = []
    for item in held:
        if item.message not in renamed:
            break
        kept.append(msgspec.structs.replace(item, message=renamed[item.message]))
    return kept
