"""Pages of a conversation's messages, and the events of their runs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from segue.core.errors import NotFound
from segue.store.database import Queries
from segue.store.records import LogRow, TurnRow
from segue.store.store import NO_PLACE, by_time, log_row, with_attachments
from segue.store.turns import Turns, turn_of

_SQL = Queries("reading")
_MESSAGES = Queries("messages")
_EVENTS = Queries("events")
_END = 2**62
"""After every place."""


class PageRows(msgspec.Struct, frozen=True, kw_only=True):
    """Some messages in a row, oldest first."""

    rows: list[LogRow]
    """Those without a place stand where they were said; they do not count for the page's size."""
    first: str | None
    """The first message with a place: the one to name for the page before."""
    last: str | None
    """The last message with a place: the one to name for the page after."""
    has_more: bool
    has_newer: bool
    size: int
    """How many messages with a place the conversation has."""
    rewrites: int
    """Rises when messages were dropped or came back: pages that were read before no longer fit."""


class EventRows(msgspec.Struct, frozen=True):
    """The last events of a run, in order: number, time, JSON. ``left_out``: how many came before them."""

    rows: list[tuple[int, int, str]]
    left_out: int


class _Bounds(msgspec.Struct, frozen=True):
    """Where a page ends: the place and the time of the message after it; and how many it has at most."""

    end: int
    end_ms: int
    count: int


class Pages(Turns):
    """Messages page by page."""

    def page(
        self,
        conversation_id: str,
        before: str | None,
        limit: int,
        *,
        at: str | None = None,
        after: str | None = None,
    ) -> PageRows:
        """The newest messages, those before ``before``, those after ``after``, or those around ``at``: half
        of the page comes after it. ``NotFound`` if the named message does not stand.

        Nothing but the page is read, however long the conversation is.
        """
        with self._db.reading():
            bounds = self._bounds(conversation_id, before, limit, at, after)
            found = self._db.all(
                _SQL.page, conversation=conversation_id, before=bounds.end, count=bounds.count
            )
            found.reverse()
            size, below = self._counts(conversation_id, bounds.end)
            turns = self._turns_shown([row[0] for row in found])
            numbers = range(below - len(found) + 1, below + 1)
            rows = [log_row(n, row[:7], turns.get(row[0])) for n, row in zip(numbers, found, strict=True)]
            has_more = below > len(found)
            start = found[0][7] if found and has_more else None
            nothing = after is not None and not found
            unplaced = [] if nothing else self._unplaced_between(conversation_id, start, bounds)
            return PageRows(
                rows=with_attachments(self, by_time(rows, unplaced)),
                first=rows[0].id if rows else None,
                last=rows[-1].id if rows else None,
                has_more=has_more,
                has_newer=below < size,
                size=size,
                rewrites=self._cuts(conversation_id),
            )

    def version_counts(self, rows: Sequence[LogRow]) -> dict[str, int]:
        """By message: how many versions it has, as ``siblings`` lists them; 1 if nothing is known."""
        asked = {row.id: row.turn.message for row in rows if row.sender != "user" and row.turn is not None}
        answers: dict[str, set[str]] = {}
        for message, answer in self._db.among(_SQL.answers_to, sorted(set(asked.values()))):
            answers.setdefault(message, set()).add(answer)
        alike = {row.id: {row.id} | answers.get(asked.get(row.id, ""), set()) for row in rows}
        wordings: dict[str, int] = dict(self._db.among(_SQL.wordings, sorted(set().union(*alike.values()))))
        return {
            message: max(1, sum(wordings.get(each, 0) for each in same)) for message, same in alike.items()
        }

    def run_events(self, runs: Sequence[str], limit: int) -> dict[str, EventRows]:
        """The last events of these runs, at most ``limit`` of each, without those about usage."""
        found: dict[str, EventRows] = {}
        rows = {row[:2]: row for row in self._db.among(_EVENTS.last_of, runs) if row[4] <= limit}
        for run, seq, ms, event, _, count in sorted(rows.values()):
            kept = found.setdefault(run, EventRows([], max(0, count - limit)))
            kept.rows.append((seq, ms, event))
        return found

    def run_event(self, run: str, number: int) -> tuple[int, str] | None:
        """The time and the JSON of one event."""
        row = self._db.one(_EVENTS.one, turn=run, seq=number)
        return None if row is None else (row[0], row[1])

    def answered_by(self, answers: Sequence[str]) -> dict[str, TurnRow]:
        """The turns that gave these answers."""
        found = map(turn_of, self._db.among(_SQL.of_answers, answers))
        return {turn.answer: turn for turn in found if turn.answer is not None}

    def _bounds(
        self, conversation_id: str, before: str | None, limit: int, at: str | None, after: str | None
    ) -> _Bounds:
        if before is not None:
            return _Bounds(*self._place_of(conversation_id, before), limit)
        named = at or after
        if named is None:
            return _Bounds(_END, _END, limit)
        place, _ = self._place_of(conversation_id, named)
        skip = limit if after is not None else limit // 2
        beyond = self._db.one(_SQL.beyond, conversation=conversation_id, place=place, skip=skip)
        end, end_ms = (_END, _END) if beyond is None else (beyond[0], beyond[1])
        if after is None:
            return _Bounds(end, end_ms, limit)
        _, upto = self._counts(conversation_id, place + 1)
        return _Bounds(end, end_ms, self._counts(conversation_id, end)[1] - upto)

    def _counts(self, conversation_id: str, before: int) -> tuple[int, int]:
        """How many messages stand, and how many of them before a place."""
        row = self._db.one(_SQL.counts, conversation=conversation_id, before=before)
        return (0, 0) if row is None else (row[0], row[1])

    def _place_of(self, conversation_id: str, message_id: str) -> tuple[int, int]:
        """Its place, and when it was said."""
        row = self._db.one(_SQL.place_of, id=message_id, conversation=conversation_id)
        if row is None:
            raise NotFound(f'the conversation has no message "{message_id}" any more; read the newest page')
        return row[0], row[1]

    def _cuts(self, conversation_id: str) -> int:
        row = self._db.one(_SQL.cuts, id=conversation_id)
        return 0 if row is None else int(row[0])

    def _turns_shown(self, messages: Sequence[str]) -> dict[str, TurnRow]:
        """By message: the turn that gave it, or the newest one if it has no answer that stands."""
        shown = self.answered_by(messages)
        settled = {*shown, *(turn.message for turn in shown.values())}
        runs = self.runs_of([message for message in messages if message not in settled])
        answers = [turn.answer for turns in runs.values() for turn in turns if turn.answer is not None]
        standing = {row[0] for row in self._db.among(_SQL.standing_among, answers)}
        unanswered = {
            message: turns[-1]
            for message, turns in runs.items()
            if not any(turn.answer in standing for turn in turns)
        }
        return unanswered | shown

    def _unplaced_between(self, conversation_id: str, start: int | None, bounds: _Bounds) -> list[LogRow]:
        """The messages without a place that were said between two places; ``start`` None: from the beginning.

        Each belongs to exactly one page, because the time from which a page shows them never rises from a
        page to the one before it.
        """
        waiting = self._db.all(_MESSAGES.withdrawn, conversation=conversation_id)
        rows = [row for row in waiting if row[4] < bounds.end_ms]
        if not rows:
            return []
        since = self._said_from(conversation_id, start) if start is not None else None
        until = self._said_from(conversation_id, bounds.end)
        shown = [
            row for row in rows if (since is None or row[4] >= since) and (until is None or row[4] < until)
        ]
        runs = self.runs_of([row[0] for row in shown])
        return [log_row(NO_PLACE, row, runs[row[0]][-1] if row[0] in runs else None) for row in shown]

    def _said_from(self, conversation_id: str, place: int) -> int | None:
        row = self._db.one(_SQL.said_from, conversation=conversation_id, place=place)
        return None if row is None else row[0]
