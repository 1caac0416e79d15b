"""A conversation goes on with a session that no turn of it made: somebody else's, or a repaired copy."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from segue.core.model import Held, Message, Pin
from segue.core.usage import Context
from segue.store import messages, sessions
from segue.store.conversations import touch
from segue.store.database import Database
from segue.store.records import SessionRow


class Adoption(msgspec.Struct, frozen=True, kw_only=True):
    """What is taken in, and the session it is taken from. ``held`` begins at ``held_from``."""

    said: Sequence[tuple[Message, str, int]]
    session: SessionRow
    pin: Pin
    held: Sequence[Held]
    held_from: int = 0


def adopt(db: Database, conversation_id: str, adoption: Adoption, now_ms: int) -> None:
    """In one transaction: the messages get their places behind those that stand."""
    with db.writing():
        touch(db, conversation_id, now_ms)
        messages.insert(db, conversation_id, adoption.said, first_place=None)
        for message, _, _ in adoption.said:
            messages.place(db, message.id)
        sessions.save_session(db, adoption.session)
        sessions.hold(db, adoption.session.id, adoption.held_from, adoption.held)
        sessions.save_pin(db, conversation_id, adoption.pin)


class Successor(msgspec.Struct, frozen=True, kw_only=True):
    """The session that a pin points to instead, and why."""

    session: str
    """Our own id for it."""
    native_id: str
    home: str
    end: str | None
    how: str
    reason: str
    changed: bool = True
    """It differs from the one before in more than its id."""


def repin(db: Database, conversation_id: str, pin: Pin, successor: Successor, now_ms: int) -> None:
    """The pinned session holds the same as before under another id; the old one is retired.

    Where its messages end is known of the last one only.
    """
    with db.writing():
        row = sessions.session_by_id(db, pin.session)
        held = [msgspec.structs.replace(each, anchor=None) for each in sessions.held_by(db, pin.session)]
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
        sessions.save_session(db, made)
        sessions.hold(db, made.id, 0, held)
        sessions.save_pin(db, conversation_id, _fresh(pin, successor))
        sessions.retire(db, row.id, successor.reason, now_ms)


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
        standing=None,
    )
