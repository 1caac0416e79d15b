"""What only readers ask for: pages of messages, search, versions, sums; and the marks that they leave.

``Store.reading`` makes one when it is needed, so that a turn does not load it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from segue.core.model import TITLE_LENGTH, Sender, Voice, title_of
from segue.core.turn import Mode, State
from segue.core.usage import Usage
from segue.store.conditions import Conditions
from segue.store.database import Queries, Row, from_json
from segue.store.messages import read_facts
from segue.store.pages import Pages
from segue.store.records import Conversation, Summary
from segue.store.usage_sums import UsageSums

_SQL = Queries("reading")
_MESSAGES = Queries("messages")
_HISTORY = Queries("history")
_END = 2**62
"""After every place."""
_RECENT = 1_000
"""How many turns are looked at for the models that were used."""


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
    """A turn with a few facts of its report."""

    id: str
    message: str
    n: int | None
    """The number of its message; None: that does not stand."""
    voice: Voice
    account: str
    model: str | None
    mode: Mode | None
    state: State
    retry_of: str | None
    cost_usd: float | None
    cost_estimated: bool
    duration_ms: int | None
    stands: bool
    """Its answer stands."""
    ms: int


class _Told(msgspec.Struct, frozen=True):
    """What is needed of a turn's report. The rest is not decoded."""

    model: str | None = None
    duration_ms: int | None = None


class ChildRow(msgspec.Struct, frozen=True):
    """A conversation that came out of another one."""

    kind: Literal["fork", "adopt"]
    key: str
    run: str | None
    """Its first turn that continued a session of the other."""
    parent: str | None
    """The turn of the other that it begins after; None: unknown."""


class Reading(Pages, UsageSums, Conditions):
    """Made by ``Store.reading``."""

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
            title=conversation.title or title_of(begins[0]),
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
        with self._db.reading():
            found = self._db.all(_SQL.runs, conversation=conversation_id)
            standing = self._db.all(_MESSAGES.standing, conversation=conversation_id)
        numbers = {row[0]: n for n, row in enumerate(standing, 1)}
        return [_run(row, numbers) for row in found]

    def runs_in(
        self, states: Sequence[str], conversation_id: str | None, limit: int
    ) -> list[tuple[str, int]]:
        """The newest runs in each of these states, and when each was accepted; of a conversation, or of
        all."""
        named = {"conversation": conversation_id or "", "count": limit}
        return [
            (row[0], row[1]) for state in states for row in self._db.all(_SQL.runs_in, state=state, **named)
        ]

    def children(self, conversation: Conversation) -> list[ChildRow]:
        """The conversations that came out of this one, oldest first."""
        of = {"conversation": conversation.id}
        with self._db.reading():
            forks = self._db.all(
                _HISTORY.forks, key=conversation.key, created_ms=conversation.created_ms, **of
            )
            adoptions = self._db.all(_HISTORY.adoptions, **of)
        children = {key: ChildRow("adopt", key, run, None) for key, run in adoptions}
        children |= {key: ChildRow("fork", key, run, parent) for key, run, parent in forks}
        return list(children.values())

    def star(self, conversation_id: str, starred: bool) -> None:
        self._db.run(_SQL.star, id=conversation_id, starred=int(starred))

    def give_title(self, conversation_id: str, title: str) -> None:
        self._db.run(_SQL.give_title, id=conversation_id, title=title)

    def mark_read(self, conversation_id: str) -> None:
        """Record that somebody has seen the newest answer."""
        self._db.run(_SQL.mark_read, id=conversation_id)


def _run(row: Row, numbers: dict[str, int]) -> RunRow:
    run, message, answer, agent, role, account, model, mode, state, retry_of, cost, estimated, text, ms = row
    told = from_json(text, _Told) or _Told()
    return RunRow(
        id=run,
        message=message,
        n=numbers.get(message),
        voice=Voice(agent, role),
        account=account,
        model=told.model or model,
        mode=mode,
        state=state,
        retry_of=retry_of,
        cost_usd=cost,
        cost_estimated=bool(estimated),
        duration_ms=told.duration_ms,
        stands=answer in numbers,
        ms=ms,
    )


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
