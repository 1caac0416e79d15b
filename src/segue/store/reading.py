"""What only readers ask for: pages of messages, search, versions, sums; and the marks that they leave.

``Store.reading`` makes one when it is needed, so that a turn does not load it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from segue.core.errors import NotFound
from segue.core.model import Sender, Voice
from segue.core.turn import Mode, State
from segue.core.usage import Grouping, Usage
from segue.store.conversations import TITLE_LENGTH
from segue.store.database import Queries, Row, from_json
from segue.store.messages import read_facts
from segue.store.records import Conversation, LogRow, Summary, TurnRow
from segue.store.store import NO_PLACE, by_time, log_row, with_attachments
from segue.store.turns import Turns, turn_of

_SQL = Queries("reading")
_MESSAGES = Queries("messages")
_END = 2**62
"""After every place."""
_RECENT = 1_000
"""How many turns are looked at for the models that were used."""
QUARTER_MS = 15 * 60_000
"""The offset of every time zone is a multiple of this."""


class _Told(msgspec.Struct, frozen=True):
    """What is read of a turn's result."""

    model: str | None = None


class PageRows(msgspec.Struct, frozen=True, kw_only=True):
    """Some messages in a row, oldest first."""

    rows: list[LogRow]
    """Those without a place stand where they were said; they do not count for the page's size."""
    first: str | None
    """The first message with a place: the one to name for the page before."""
    has_more: bool
    size: int
    """How many messages with a place the conversation has."""
    rewrites: int
    """Rises when messages were dropped or came back: pages that were read before no longer fit."""


class FoundRow(msgspec.Struct, frozen=True, kw_only=True):
    """A message with the words of a search, or a conversation that is named so (``message`` None)."""

    key: str
    title: str
    message: str | None = None
    sender: Sender | None = None
    agent: str | None = None
    ms: int
    text: str


class VersionRow(msgspec.Struct, frozen=True):
    """One wording of a message. ``stands``: it is what the message says now."""

    message: str
    revision: int
    text: str
    ms: int
    stands: bool


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A turn without its report."""

    id: str
    message: str
    voice: Voice
    mode: Mode | None
    state: State
    ms: int


class SpentRow(msgspec.Struct, frozen=True, kw_only=True):
    """What some turns used and cost together. ``name``: what they have in common; of a day, the number of a
    quarter of an hour since 1970."""

    name: str
    turns: int
    usage: Usage
    cost_usd: float | None
    cost_estimated: bool
    saved_usd: float | None


class Reading(Turns):
    """Made by ``Store.reading``."""

    def page(self, conversation_id: str, before: str | None, limit: int) -> PageRows:
        """The newest messages, or those before the message ``before``; ``NotFound`` if that does not stand.

        Nothing but the page is read, however long the conversation is.
        """
        with self._db.reading():
            end, end_ms = (_END, _END) if before is None else self._place_of(conversation_id, before)
            found = self._db.all(_SQL.page, conversation=conversation_id, before=end, count=limit)
            found.reverse()
            counts = self._db.one(_SQL.counts, conversation=conversation_id, before=end)
            size, below = counts if counts is not None else (0, 0)
            turns = self._turns_shown([row[0] for row in found])
            numbers = range(below - len(found) + 1, below + 1)
            rows = [log_row(n, row[:7], turns.get(row[0])) for n, row in zip(numbers, found, strict=True)]
            has_more = below > len(found)
            start = found[0][7] if found and has_more else None
            unplaced = self._unplaced_between(conversation_id, start, end, end_ms)
            return PageRows(
                rows=with_attachments(self, by_time(rows, unplaced)),
                first=rows[0].id if rows else None,
                has_more=has_more,
                size=size,
                rewrites=self._cuts(conversation_id),
            )

    def summary(self, conversation: Conversation) -> Summary | None:
        """One conversation of the list, without reading the others; None if it is gone."""
        of = {"conversation": conversation.id}
        with self._db.reading():
            marks = self._db.one(_SQL.marks_of, id=conversation.id)
            kinds = [(read_facts(facts), *rest) for facts, *rest in self._db.all(_SQL.kinds_of, **of)]
            first = next((place for facts, _, place in kinds if facts.sender == "user"), None)
            begins = self._db.one(_SQL.beginning, place=first, length=2 * TITLE_LENGTH, **of) or ("",)
            spent, state = self._db.one(_SQL.spent_in, **of), self._db.one(_SQL.state_of, **of)
            unfinished = bool(self.unsettled(conversation.id))
        if marks is None or spent is None:
            return None
        *tokens, cost, estimated, saved, used_ms, answered_ms = spent
        return Summary(
            conversation=conversation,
            title=conversation.title or " ".join(begins[0].split())[:TITLE_LENGTH],
            messages=sum(count for _, count, _ in kinds),
            agents=tuple(dict.fromkeys(facts.agent for facts, _, _ in kinds)),
            last_used_ms=conversation.created_ms if used_ms is None else used_ms,
            usage=Usage(*tokens),
            cost_usd=cost,
            cost_estimated=bool(estimated),
            saved_usd=saved,
            state=None if state is None else state[0],
            unfinished=unfinished,
            starred=bool(marks[0]),
            unread=answered_ms is not None and (marks[1] is None or answered_ms > marks[1]),
        )

    def last_used(self, before_ms: int | None, before: str, limit: int | None) -> list[str]:
        """The ids of the conversations, the last used first; of those used before that time, or at that time
        and listed after the id ``before``."""
        rows = self._db.all(
            _SQL.last_used,
            before_ms=_END if before_ms is None else before_ms,
            before=before,
            count=_END if limit is None else limit,
        )
        return [row[0] for row in rows]

    def answered_by(self, answers: Sequence[str]) -> dict[str, TurnRow]:
        """The turns that gave these answers."""
        found = map(turn_of, self._db.among(_SQL.of_answers, answers))
        return {turn.answer: turn for turn in found if turn.answer is not None}

    def versions(self, messages: Sequence[str]) -> list[VersionRow]:
        """All wordings of these messages, oldest first; also of those that were dropped."""
        found = {row[:2]: row for row in self._db.among(_SQL.versions, messages)}.values()
        rows = [VersionRow(message, n, text, ms, bool(stands)) for message, n, text, ms, stands in found]
        return sorted(rows, key=lambda each: (each.ms, each.message, each.revision))

    def search(self, text: str, limit: int, agent: str = "", since_ms: int = 0) -> list[FoundRow]:
        """Conversations with this in their title or key, then messages that contain it; the newest first.

        ``agent``: only what was said to or by it. ``since_ms``: only what was said or used since then."""
        wanted = {"pattern": f"%{_escaped(text.lower())}%", "since_ms": since_ms}
        for name, sender in (("said", "assistant"), ("asked", "user")):
            wanted[name] = f'["{sender}","{_escaped(agent)}",%' if agent else "%"  # how facts begin
        with self._db.reading():
            titled = self._db.all(_SQL.titled, agent=agent, count=limit, **wanted)
            found = self._db.all(_SQL.found, count=limit - len(titled), **wanted)
        return [
            *(FoundRow(key=key, title=title, ms=ms, text=title or key) for key, title, ms in titled),
            *map(_found, found),
        ]

    def models(self) -> dict[str, tuple[str, ...]]:
        """By agent: the models that turns asked for and used lately, the newest first."""
        found: dict[str, dict[str, None]] = {}
        for agent, asked, told in self._db.all(_SQL.models, count=_RECENT):
            used = from_json(told, _Told) if told is not None else None
            for model in (asked, used.model if used is not None else None):
                if model:
                    found.setdefault(agent, {})[model] = None
        return {agent: tuple(models) for agent, models in found.items()}

    def runs(self, conversation_id: str) -> list[RunRow]:
        """All turns, oldest first."""
        return [
            RunRow(id=run, message=message, voice=Voice(agent, role), mode=mode, state=state, ms=ms)
            for run, message, agent, role, mode, state, ms in self._db.all(
                _SQL.runs, conversation=conversation_id
            )
        ]

    def runs_in(
        self, states: Sequence[str], conversation_id: str | None, limit: int
    ) -> list[tuple[str, int]]:
        """The newest runs in each of these states, and when each was accepted; of a conversation, or of
        all."""
        named = {"conversation": conversation_id or "", "count": limit}
        return [
            (row[0], row[1]) for state in states for row in self._db.all(_SQL.runs_in, state=state, **named)
        ]

    def spent(self, by: Grouping, since_ms: int) -> list[SpentRow]:
        """The sums of the turns since then, in no order."""
        return [
            SpentRow(
                name=str(name or ""),
                turns=turns,
                usage=Usage(*tokens),
                cost_usd=cost,
                cost_estimated=bool(estimated),
                saved_usd=saved,
            )
            for name, turns, *tokens, cost, estimated, saved in self._db.all(
                _SQL.usage, grouped=by, since_ms=since_ms, quarter_ms=QUARTER_MS
            )
        ]

    def star(self, conversation_id: str, starred: bool) -> None:
        self._db.run(_SQL.star, id=conversation_id, starred=int(starred))

    def give_title(self, conversation_id: str, title: str) -> None:
        self._db.run(_SQL.give_title, id=conversation_id, title=title)

    def mark_read(self, conversation_id: str) -> None:
        """Record that somebody has seen the newest answer."""
        self._db.run(_SQL.mark_read, id=conversation_id)

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

    def _unplaced_between(
        self, conversation_id: str, start: int | None, end: int, end_ms: int
    ) -> list[LogRow]:
        """The messages without a place that were said between two places; ``start`` None: from the beginning.

        ``end_ms``: when the message at ``end`` was said.

        Each belongs to exactly one page, because the time from which a page shows them never rises from a
        page to the one before it.
        """
        rows = [
            row for row in self._db.all(_MESSAGES.withdrawn, conversation=conversation_id) if row[4] < end_ms
        ]
        if not rows:
            return []
        since = self._said_from(conversation_id, start) if start is not None else None
        until = self._said_from(conversation_id, end)
        shown = [
            row for row in rows if (since is None or row[4] >= since) and (until is None or row[4] < until)
        ]
        runs = self.runs_of([row[0] for row in shown])
        return [log_row(NO_PLACE, row, runs[row[0]][-1] if row[0] in runs else None) for row in shown]

    def _said_from(self, conversation_id: str, place: int) -> int | None:
        row = self._db.one(_SQL.said_from, conversation=conversation_id, place=place)
        return None if row is None else row[0]


def _escaped(text: str) -> str:
    """As it stands, within a pattern of LIKE."""
    for sign in "!%_":
        text = text.replace(sign, f"!{sign}")
    return text


def _found(row: Row) -> FoundRow:
    key, title, message, facts, ms, text = row
    known = read_facts(facts)
    return FoundRow(
        key=key, title=title, message=message, sender=known.sender, agent=known.agent, ms=ms, text=text
    )
