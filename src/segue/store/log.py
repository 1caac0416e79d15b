"""The log of a conversation: each message with its text, and the turn that belongs to it."""

from __future__ import annotations

from segue.core.model import Voice
from segue.store.database import Database, Row
from segue.store.messages import read_facts
from segue.store.queries import Queries
from segue.store.records import LogRow, TurnRow

_SQL = Queries("messages")


def log(db: Database, conversation_id: str, turns: list[TurnRow]) -> list[LogRow]:
    """See ``Store.log``. ``turns``: all of them, the newest last."""
    rows = db.all(_SQL.whole, conversation=conversation_id)
    standing = {row[0] for row in rows}
    by_answer = {turn.answer: turn for turn in turns if turn.answer}
    unanswered = {turn.message: turn for turn in turns}
    for message_id, turn in list(unanswered.items()):
        if turn.answer in standing:
            del unanswered[message_id]
    return [_row(n, row, by_answer.get(row[0]) or unanswered.get(row[0])) for n, row in enumerate(rows, 1)]


def _row(n: int, row: Row, turn: TurnRow | None) -> LogRow:
    message_id, facts, revision, _, created_ms, text, revised_ms = row
    known = read_facts(facts)
    return LogRow(
        n=n,
        id=message_id,
        sender=known.sender,
        voice=Voice(known.agent, known.role),
        account=known.account,
        blank=known.blank,
        text=text,
        revision=revision,
        created_ms=created_ms,
        edited_ms=revised_ms if revision > 1 else None,
        turn=turn,
    )
