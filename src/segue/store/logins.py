"""Which login of an account was first seen: what was said before logins were told apart counts as its."""

from __future__ import annotations

from collections.abc import Iterable

from segue.core.marks import parts, told_apart
from segue.store.database import Database
from segue.store.queries import Queries

_SQL = Queries("logins")


def see(db: Database, marks: Iterable[str]) -> None:
    """Something is said under these. The first login of an account takes over the pins from before."""
    for each in marks:
        agent, account, login = parts(each)
        fields = {"agent": agent, "account": account, "login": login}
        if login is not None and db.run(_SQL.see, **fields):
            db.run(_SQL.own_pins, **fields)


def first(db: Database, conversation_id: str, agent: str, account: str) -> str | None:
    """In the conversation, else anywhere."""
    row = db.one(_SQL.first, conversation=conversation_id, agent=agent, account=account)
    return None if row is None else str(row[0])


def marks(db: Database, conversation_id: str, under: tuple[str, ...]) -> tuple[str, ...]:
    """Those of a message, each with its login as far as one was seen."""
    return told_apart(under, lambda agent, account: first(db, conversation_id, agent, account))
