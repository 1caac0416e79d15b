"""The log of a conversation: each message with its text, and the turn that belongs to it."""

from __future__ import annotations

from collections.abc import Sequence

from segue.core.model import Voice
from segue.store.database import Database, Row
from segue.store.messages import read_facts
from segue.store.queries import Queries
from segue.store.records import LogRow, TurnRow
from segue.store.turns import whole

_SQL = Queries("messages")
NO_PLACE = 0
"""The number of a message that never stood in the conversation."""


def log(db: Database, conversation_id: str, turns: list[TurnRow]) -> list[LogRow]:
    """See ``Store.log``. ``turns``: all of them, the newest last."""
    rows = db.all(_SQL.whole, conversation=conversation_id)
    standing = {row[0] for row in rows}
    by_answer = {turn.answer: turn for turn in turns if turn.answer}
    answered = {turn.message for turn in turns if turn.answer in standing}
    unanswered = {turn.message: turn for turn in turns if turn.message not in answered}
    answers = {
        row[0]: whole(db, by_answer[row[0]], row[5] if row[2] == 1 else None)
        for row in rows
        if row[0] in by_answer
    }
    return [_row(n, row, answers.get(row[0]) or unanswered.get(row[0])) for n, row in enumerate(rows, 1)]


def withdrawn(db: Database, conversation_id: str, turns: list[TurnRow]) -> list[LogRow]:
    """The messages without a place: their turn waits, or never began."""
    newest = {turn.message: turn for turn in turns}
    rows = db.all(_SQL.withdrawn, conversation=conversation_id)
    return [_row(NO_PLACE, row, newest.get(row[0])) for row in rows]


def by_time(placed: Sequence[LogRow], unplaced: Sequence[LogRow]) -> list[LogRow]:
    """One list: what has no place stands before the first that was said after it."""
    merged, left = [], list(unplaced)
    for row in placed:
        while left and left[0].created_ms < row.created_ms:
            merged.append(left.pop(0))
        merged.append(row)
    return [*merged, *left]


def _row(n: int, row: Row, turn: TurnRow | None) -> LogRow:
    message_id, facts, revision, _, created_ms, text, revised_ms = row
    known = read_facts(facts)
    return LogRow(
        n=n,
        id=message_id,
        sender=known.sender,
        voice=Voice(known.agent, known.role),
        account=known.account,
        under=known.under,
        blank=known.blank,
        text=text,
        revision=revision,
        created_ms=created_ms,
        edited_ms=revised_ms if revision > 1 else None,
        turn=turn,
    )
