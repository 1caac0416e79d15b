"""Conversations: found by key, made by first use, listed with what their turns add up to."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import msgspec

from segue.core.errors import Misuse
from segue.core.grant import Grant
from segue.core.keys import LONGEST, numbered
from segue.core.model import Message, Voice
from segue.core.usage import Usage
from segue.store import kept, messages
from segue.store.database import Database, Row
from segue.store.packing import pack, unpack
from segue.store.part import Part
from segue.store.queries import Queries
from segue.store.records import Conversation, Summary

_SQL = Queries("conversations")
_SESSIONS = Queries("sessions")
TITLE_LENGTH = 200
_ROOM = 10
"""No number behind a key takes more, so what is left of the longest key is common to all of them."""


class Conversations(Part):
    def conversation(self, key: str) -> Conversation | None:
        row = self.db.one(_SQL.by_key, key=key)
        return None if row is None else conversation_of(row)

    def conversations(self) -> list[Summary]:
        """All of them, the one that was used last first."""
        with self.db.reading():
            found = {row[0]: conversation_of(row) for row in self.db.all(_SQL.every)}
            counts = _message_counts(self.db)
            spent = {row[0]: row[1:] for row in self.db.all(_SQL.spent)}
            states = {row[0]: row[1] for row in self.db.all(_SQL.newest_states)}
            unfinished = {row[0] for row in self.db.all(_SQL.unfinished)}
            titles = _beginnings(self.db)
            estimated = {row[0] for row in self.db.all(_SQL.estimated)}
        summaries = []
        for conversation in found.values():
            count, agents = counts.get(conversation.id, (0, ()))
            *tokens, cost, saved, used_ms = spent.get(conversation.id, (None,) * 7)
            summaries.append(
                Summary(
                    conversation=conversation,
                    title=conversation.title or titles.get(conversation.id, ""),
                    messages=count,
                    agents=agents,
                    last_used_ms=conversation.created_ms if used_ms is None else used_ms,
                    usage=Usage(*tokens),
                    cost_usd=cost,
                    cost_estimated=conversation.id in estimated,
                    saved_usd=saved,
                    state=states.get(conversation.id),
                    unfinished=conversation.id in unfinished,
                )
            )
        return sorted(summaries, key=lambda s: (s.last_used_ms, s.conversation.id), reverse=True)

    def rewrites(self, conversation_id: str) -> int:
        """How often something that was said was changed: while this stays, all that was said stands."""
        row = self.db.one(_SQL.rewrites, id=conversation_id)
        return 0 if row is None else int(row[0])

    def grant(self, conversation_id: str, voice: Voice) -> Grant:
        """What a voice was told it may do. What cannot be understood any more grants nothing."""
        row = self.db.one(_SQL.granted, conversation=conversation_id, agent=voice.agent, role=voice.role)
        return Grant() if row is None else unpack(row[0], Grant) or Grant()

    def add(
        self,
        conversation: Conversation,
        said: Sequence[tuple[Message, str]],
        times: Sequence[int] = (),
    ) -> None:
        """A whole conversation at once. ``times``: when each was said, where that is known."""
        when = times or [conversation.created_ms] * len(said)
        rows = [(message, text, ms) for (message, text), ms in zip(said, when, strict=True)]
        with self.db.writing():
            create(self.db, conversation)
            messages.insert(self.db, conversation.id, rows, first_place=1)

    def free_key(self, key: str) -> str:
        """``KEY~2``, or the first number after it that is free."""
        prefix = f"{key}~"[: LONGEST - _ROOM]
        taken = {row[0] for row in self.db.all(_SQL.keys_like, prefix=prefix, length=len(prefix))}
        return next(name for number in itertools.count(2) if (name := numbered(key, number)) not in taken)

    def remove(self, conversation_id: str) -> None:
        """All of it but the rows of its sessions, which belong to no conversation then, and the copies of
        sessions that another conversation would go on with."""
        with self.db.writing():
            kept.forget(self.db, conversation_id)
            self.db.run(_SESSIONS.let_all_go, conversation=conversation_id)
            self.db.run(_SQL.remove, id=conversation_id)


def create(db: Database, conversation: Conversation) -> None:
    """Raises ``Misuse`` where the key is taken."""
    if not db.run(_SQL.create, **msgspec.structs.asdict(conversation)):
        raise Misuse(f'there is a conversation "{conversation.key}" already; choose another key')


def create_or_find(db: Database, conversation: Conversation) -> Conversation:
    """Whoever comes first makes it."""
    db.run(_SQL.create, **msgspec.structs.asdict(conversation))
    row = db.one(_SQL.by_key, key=conversation.key)
    assert row is not None
    return conversation_of(row)


def remember_grant(db: Database, conversation_id: str, voice: Voice, grant: Grant) -> None:
    db.run(_SQL.grant, conversation=conversation_id, agent=voice.agent, role=voice.role, granted=pack(grant))


def rewrite(db: Database, conversation_id: str) -> None:
    db.run(_SQL.rewrite, id=conversation_id)


def touch(db: Database, conversation_id: str, now_ms: int = 0) -> bool:
    """Note that it was used, and keep other writers of it out until the end of the transaction."""
    return db.run(_SQL.touch, id=conversation_id, now_ms=now_ms) == 1


def conversation_of(row: Row) -> Conversation:
    return Conversation(**dict(zip(Conversation.__struct_fields__, row, strict=True)))


def _message_counts(db: Database) -> dict[str, tuple[int, tuple[str, ...]]]:
    """How many messages a conversation has, and its agents by their first one."""
    counts: dict[str, int] = {}
    first: dict[str, dict[str, int]] = {}
    for conversation_id, facts, count, place in db.all(_SQL.message_counts):
        counts[conversation_id] = counts.get(conversation_id, 0) + count
        agents = first.setdefault(conversation_id, {})
        agent = messages.read_facts(facts).agent
        agents[agent] = min(place, agents.get(agent, place))
    return {key: (counts[key], tuple(sorted(first[key], key=first[key].__getitem__))) for key in counts}


def _beginnings(db: Database) -> dict[str, str]:
    """How each conversation begins: the first words of the user, on one line."""
    found: dict[str, str] = {}
    for conversation_id, facts, text in db.all(_SQL.beginnings, length=2 * TITLE_LENGTH):
        if conversation_id not in found and messages.read_facts(facts).sender == "user":
            found[conversation_id] = " ".join(text.split())[:TITLE_LENGTH]
    return found
