"""A fork: a conversation of its own that begins with a copy of another, and may use its native sessions."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from segue.core.errors import Misuse
from segue.core.model import Held, Message, Pin, Voice
from segue.core.turn import Saved
from segue.core.usage import Usage
from segue.store import logins, messages, sessions
from segue.store.conversations import create
from segue.store.database import Database, Row
from segue.store.messages import read_facts
from segue.store.packing import pack
from segue.store.queries import Queries
from segue.store.records import Conversation, TurnRow, telling
from segue.store.turns import turn_of

_SQL = Queries("messages")
_HISTORY = Queries("history")
_SESSIONS = Queries("sessions")
_CONVERSATIONS = Queries("conversations")
_TURNS = Queries("turns")
_EVENTS = Queries("events")
COPIED = "fork"
"""How a turn came about that is only the copy of another conversation's: it counts in no sum."""


def fork(
    db: Database,
    conversation: Conversation,
    new_key: str,
    upto: str | None,
    now_ms: int,
    ids: Callable[[], str],
) -> Conversation:
    """See ``Store.fork``."""
    with db.writing():
        rows = _upto(db.all(_SQL.whole, conversation=conversation.id), upto)
        new = msgspec.structs.replace(
            conversation,
            id=ids(),
            key=new_key,
            created_ms=now_ms,
            updated_ms=now_ms,
            forked_from=conversation.key,
            forked_at=rows[-1][0] if rows else None,
        )
        create(db, new)
        renamed = {row[0]: ids() for row in rows}
        copies = [(_copy(db, conversation.id, row, renamed), row[5], row[4]) for row in rows]
        messages.insert(db, new.id, copies, first_place=1)
        for agent, role, epoch in db.all(_HISTORY.epochs, conversation=conversation.id):
            db.run(_HISTORY.set_epoch, conversation=new.id, agent=agent, role=role, epoch=epoch)
        for agent, role, granted in db.all(_CONVERSATIONS.all_granted, conversation=conversation.id):
            db.run(_CONVERSATIONS.grant, conversation=new.id, agent=agent, role=role, granted=granted)
        _fork_failures(db, conversation, new, renamed, ids)
        for row in db.all(_SESSIONS.pins, conversation=conversation.id):
            _fork_pin(db, sessions.pin_of(row), conversation.key, new, renamed, ids)
    return new


def _upto(rows: list[Row], upto: str | None) -> list[Row]:
    if upto is None:
        return rows
    for n, row in enumerate(rows, 1):
        if row[0] == upto:
            return rows[:n]
    raise Misuse(f"message {upto} does not stand in this conversation")


def _copy(db: Database, conversation_id: str, row: Row, renamed: dict[str, str]) -> Message:
    """Its number of revision stays, so that it can be compared with what a session holds."""
    message_id, facts, revision = row[:3]
    known = read_facts(facts)
    return Message(
        id=renamed[message_id],
        sender=known.sender,
        voice=Voice(known.agent, known.role),
        revision=revision,
        account=known.account,
        under=logins.marks(db, conversation_id, known.under),
        blank=known.blank,
    )


def _fork_failures(
    db: Database, old: Conversation, new: Conversation, renamed: dict[str, str], ids: Callable[[], str]
) -> None:
    """What came of the messages that have no answer: whoever goes on in the fork is told of it as well."""
    failed: dict[str, list[TurnRow]] = {}
    for row in map(turn_of, db.all(_TURNS.came_to_nothing, conversation=old.id)):
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
        db.run(_TURNS.copy, id=told.run, old=turn.id, told=pack(told), via=COPIED, **where)
        db.run(_EVENTS.copy_tools, turn=told.run, old=turn.id)


def _fork_pin(
    db: Database,
    pin: Pin | None,
    key: str,
    new: Conversation,
    renamed: dict[str, str],
    ids: Callable[[], str],
) -> None:
    """The fork's own row for a session it shares, with what the fork knows of it; none if that is nothing."""
    session = None if pin is None else sessions.session_by_id(db, pin.session)
    if pin is None or session is None:
        return
    held = _known(sessions.held_by(db, session.id), renamed)
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
    sessions.save_session(db, mine)
    sessions.hold(db, mine.id, 0, held)
    sessions.save_pin(db, new.id, msgspec.structs.replace(pin, session=mine.id, foreign=pin.foreign or key))


def _known(held: tuple[Held, ...], renamed: dict[str, str]) -> list[Held]:
    """What is held, up to the first message that the fork has no copy of."""
    kept = []
    for item in held:
        if item.message not in renamed:
            break
        kept.append(msgspec.structs.replace(item, message=renamed[item.message]))
    return kept
