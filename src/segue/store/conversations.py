"""Conversations: found by key, created by first use, listed with the totals of their turns.

Also the changes of the history (edits, cuts, the epochs they raise), and which turn came from which.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from segue.core.errors import Misuse
from segue.core.ids import LONGEST, numbered
from segue.core.model import TITLE_LENGTH, Message, NewAttachment, Voice, title_of
from segue.core.request import Grant
from segue.core.usage import Usage
from segue.store.copies import Copies
from segue.store.database import Queries, Row, from_json, storable, to_json
from segue.store.messages import read_facts
from segue.store.records import ChangeRow, Conversation, Descent, LineageRow, Summary
from segue.system import clock

_BUDGETS = Queries("budgets")
_SQL = Queries("conversations")
_SESSIONS = Queries("sessions")
_ROOM = 10
"""The most characters that ``~N`` adds to a key. The rest of a shortened key is the same for every number."""
_HISTORY = Queries("history")
_MESSAGES = Queries("messages")
_TURNS = Queries("turns")
_READING = Queries("reading")


class Conversations(Copies):
    """Conversations as a whole."""

    def conversation(self, key: str) -> Conversation | None:
        row = self._db.one(_SQL.by_key, key=key)
        return None if row is None else conversation_of(row)

    def conversation_by_id(self, conversation_id: str) -> Conversation | None:
        row = self._db.one(_SQL.by_id, id=conversation_id)
        return None if row is None else conversation_of(row)

    def conversations(self) -> list[Summary]:
        """All conversations, the last used first."""
        with self._db.reading():
            found = {row[0]: conversation_of(row) for row in self._db.all(_SQL.every)}
            counts = self._message_counts()
            spent = {row[0]: row[1:] for row in self._db.all(_SQL.spent)}
            states = {row[0]: row[1] for row in self._db.all(_SQL.newest_states)}
            unfinished = {row[0] for row in self._db.all(_SQL.unfinished)}
            titles = self._beginnings()
            marks = {row[0]: row[1:] for row in self._db.all(_READING.marks)}
        summaries = []
        for conversation in found.values():
            count, agents = counts.get(conversation.id, (0, ()))
            *tokens, cost, estimated, saved, used_ms, answered_ms = spent.get(conversation.id, (None,) * 9)
            starred, read_ms = marks[conversation.id]
            summaries.append(
                Summary(
                    conversation=conversation,
                    title=conversation.title or titles.get(conversation.id, ""),
                    messages=count,
                    agents=agents,
                    last_used_ms=conversation.created_ms if used_ms is None else used_ms,
                    usage=Usage(*tokens),
                    cost_usd=cost,
                    cost_estimated=bool(estimated),
                    saved_usd=saved,
                    state=states.get(conversation.id),
                    unfinished=conversation.id in unfinished,
                    starred=bool(starred),
                    unread=answered_ms is not None and (read_ms is None or answered_ms > read_ms),
                )
            )
        return sorted(summaries, key=lambda s: (s.last_used_ms, s.conversation.id), reverse=True)

    def rewrites(self, conversation_id: str) -> int:
        """How often the history was changed. As long as this is the same, earlier messages are unchanged."""
        row = self._db.one(_SQL.rewrites, id=conversation_id)
        return 0 if row is None else int(row[0])

    def grant(self, conversation_id: str, voice: Voice) -> Grant:
        """What a voice was allowed to do. A grant that cannot be decoded any more counts as empty."""
        row = self._db.one(_SQL.granted, conversation=conversation_id, agent=voice.agent, role=voice.role)
        return Grant() if row is None else from_json(row[0], Grant) or Grant()

    def add(
        self,
        conversation: Conversation,
        said: Sequence[tuple[Message, str]],
        times: Sequence[int] = (),
        files: Mapping[str, Sequence[NewAttachment]] | None = None,
    ) -> None:
        """Add a whole conversation at once. ``times``: when each message was said, if known. ``files``: what
        was attached, by message."""
        when = times or [conversation.created_ms] * len(said)
        rows = [(message, text, ms) for (message, text), ms in zip(said, when, strict=True)]
        with self._db.writing():
            self._create(conversation)
            self._insert_messages(conversation.id, rows, first_place=1)
            for message_id, attached in (files or {}).items():
                self._attach(message_id, attached)

    def free_key(self, key: str) -> str:
        """``KEY~2``, or the first number after it that is free."""
        prefix = f"{key}~"[: LONGEST - _ROOM]
        taken = {row[0] for row in self._db.all(_SQL.keys_like, prefix=prefix, length=len(prefix))}
        return next(name for number in itertools.count(2) if (name := numbered(key, number)) not in taken)

    def remove(self, conversation_id: str, *, counts_for: str | None = None) -> None:
        """Remove all of it, except what it cost, the rows of its sessions, which then belong to no
        conversation, and the copies of sessions that another conversation would continue.

        ``counts_for``: the key of the conversation that it cost something for; its own, unless given."""
        with self._db.writing():
            self._db.run(_BUDGETS.keep_costs, conversation=conversation_id, key=counts_for)
            self._forget_copies(conversation_id)
            self._db.run(_SESSIONS.let_all_go, conversation=conversation_id)
            self._db.run(_SQL.remove, id=conversation_id)
            self._drop_unused_files()

    def _create(self, conversation: Conversation) -> None:
        """Raises ``Misuse`` if the key is taken."""
        if not self._db.run(_SQL.create, **msgspec.structs.asdict(conversation)):
            raise Misuse(f'a conversation "{conversation.key}" already exists; choose another key')

    def _create_or_find(self, conversation: Conversation) -> Conversation:
        """The conversation with this key; created if it does not exist."""
        self._db.run(_SQL.create, **msgspec.structs.asdict(conversation))
        row = self._db.one(_SQL.by_key, key=conversation.key)
        assert row is not None
        return conversation_of(row)

    def _remember_grant(self, conversation_id: str, voice: Voice, grant: Grant) -> None:
        self._db.run(
            _SQL.grant,
            conversation=conversation_id,
            agent=voice.agent,
            role=voice.role,
            granted=to_json(grant),
        )

    def _rewrite(self, conversation_id: str) -> None:
        self._db.run(_SQL.rewrite, id=conversation_id)

    def _cut(self, conversation_id: str) -> None:
        """Record that pages of messages that were read before no longer fit together."""
        self._db.run(_READING.cut, id=conversation_id)

    def _touch(self, conversation_id: str, now_ms: int = 0) -> bool:
        """Record that it was used, and block its other writers until the end of the transaction."""
        return self._db.run(_SQL.touch, id=conversation_id, now_ms=now_ms) == 1

    def _message_counts(self) -> dict[str, tuple[int, tuple[str, ...]]]:
        """The number of messages of each conversation, and its agents in the order of their first message."""
        counts: dict[str, int] = {}
        first: dict[str, dict[str, int]] = {}
        for conversation_id, facts, count, place in self._db.all(_SQL.message_counts):
            counts[conversation_id] = counts.get(conversation_id, 0) + count
            agents = first.setdefault(conversation_id, {})
            agent = read_facts(facts).agent
            agents[agent] = min(place, agents.get(agent, place))
        return {key: (counts[key], tuple(sorted(first[key], key=first[key].__getitem__))) for key in counts}

    def _beginnings(self) -> dict[str, str]:
        """How each conversation begins: the first words of the user, on one line."""
        found: dict[str, str] = {}
        for conversation_id, facts, text in self._db.all(_SQL.beginnings, length=2 * TITLE_LENGTH):
            if conversation_id not in found and read_facts(facts).sender == "user":
                found[conversation_id] = title_of(text)
        return found


class History(Conversations):
    """Changes of the history."""

    def edit(
        self,
        message_id: str,
        text: str,
        now_ms: int,
        removed: Sequence[str] = (),
        epochs: Sequence[Voice] = (),
    ) -> int:
        """Store a new revision of a message. Returns its number. ``removed``: messages to drop with it."""
        text = storable(text)
        with self._db.writing():
            conversation_id = self._conversation_of(message_id)
            self._touch(conversation_id, now_ms)
            self._note_change(conversation_id, "edit", message_id, removed, now_ms)
            row = self._db.one(_MESSAGES.edit, id=message_id, size=len(text.encode()))
            if row is None:
                raise Misuse(f"message {message_id} was dropped")
            revision: int = row[1]
            fields = {"message": message_id, "revision": revision, "text": text, "created_ms": now_ms}
            self._db.run(_MESSAGES.revise, **fields)
            self._drop_messages(conversation_id, removed, now_ms, epochs)
            if removed:
                self._cut(conversation_id)
        return revision

    def truncate(
        self, conversation_id: str, removed: Sequence[str], now_ms: int, epochs: Sequence[Voice] = ()
    ) -> None:
        """Drop these messages from the conversation. They are kept, marked with the time."""
        with self._db.writing():
            self._touch(conversation_id, now_ms)
            if removed:
                self._note_change(conversation_id, "truncate", removed[0], removed, now_ms)
                self._cut(conversation_id)
            self._drop_messages(conversation_id, removed, now_ms, epochs)

    def rerun(
        self,
        conversation_id: str,
        message: Message,
        run: str,
        removed: Sequence[str],
        now_ms: int,
        epochs: Sequence[Voice] = (),
    ) -> None:
        """Retry a message, addressed as ``message`` now is; what came after it is dropped."""
        with self._db.writing():
            self._touch(conversation_id, now_ms)
            self._note_change(conversation_id, "retry", message.id, removed, now_ms, run)
            self._readdress(message)
            self._drop_messages(conversation_id, removed, now_ms, epochs)
            self._cut(conversation_id)

    def undo(
        self,
        conversation_id: str,
        now_ms: int,
        risen: Callable[[Sequence[Message], Sequence[Message]], Sequence[Voice]],
    ) -> ChangeRow | None:
        """Undo the last change and return it; None: there is none, or something was said since.

        Revisions get their old numbers back, so that they match what native sessions hold.
        """
        with self._db.writing():
            self._touch(conversation_id, now_ms)
            change = self._last_change(conversation_id)
            if change is None:
                return None
            rows = self._db.all(_MESSAGES.said_since, conversation=conversation_id, place=change.last_place)
            since = {row[0] for row in rows}
            answers = self._answers(change)
            if since - answers:
                return None
            before = self._standing(conversation_id)
            self._revert(conversation_id, change, answers, now_ms)
            after = self._standing(conversation_id)
            self._rewrite(conversation_id)
            self._cut(conversation_id)
            self._raise_epochs(conversation_id, risen(before, after))
            self._db.run(_HISTORY.undone, id=change.id, now_ms=now_ms)
        return change

    def _last_change(self, conversation_id: str) -> ChangeRow | None:
        row = self._db.one(_HISTORY.last_change, conversation=conversation_id)
        if row is None:
            return None
        fields = dict(zip(ChangeRow.__struct_fields__, row, strict=True))
        fields["removed"] = tuple(from_json(fields["removed"], list[str]) or ())
        return ChangeRow(**fields)

    def _answers(self, change: ChangeRow) -> set[str]:
        """The answer of a retry: it is dropped with it, and does not count as said since."""
        row = self._db.one(_TURNS.answer_of, id=change.run) if change.run is not None else None
        return {row[0]} if row is not None and row[0] is not None else set()

    def epochs(self, conversation_id: str) -> dict[Voice, int]:
        """How often each voice's slice has changed; a missing voice: never."""
        rows = self._db.all(_HISTORY.epochs, conversation=conversation_id)
        return {Voice(agent, role): epoch for agent, role, epoch in rows}

    def descents(self, conversation_id: str) -> list[Descent]:
        """What the turns of a conversation came from, oldest first."""
        return [
            Descent(
                run=run,
                kind=kind,
                parent=parent,
                parent_key=key,
                voice=Voice(agent, role),
                session=session,
                parent_session=parent_session,
                ms=ms,
            )
            for run, kind, parent, key, agent, role, session, parent_session, ms in self._db.all(
                _HISTORY.descents, conversation=conversation_id
            )
        ]

    def lineage(self, conversation_id: str) -> list[LineageRow]:
        """Oldest first."""
        rows = self._db.all(_HISTORY.lineage, conversation=conversation_id)
        return [
            LineageRow(child=c, parent=p, kind=kind, session=s or None, parent_session=ps, ms=ms)
            for c, p, kind, s, ps, ms in rows
        ]

    def _conversation_of(self, message_id: str) -> str:
        row = self._db.one(_MESSAGES.conversation_of, id=message_id)
        if row is None:
            raise Misuse(f"message {message_id} does not exist")
        return str(row[0])

    def _note_change(
        self,
        conversation_id: str,
        kind: str,
        message_id: str,
        removed: Sequence[str],
        now_ms: int,
        run: str | None = None,
    ) -> None:
        """Record the state before a change, so that it can be undone."""
        was = self._db.one(_MESSAGES.as_it_is, id=message_id)
        last = self._db.one(_MESSAGES.last_place, conversation=conversation_id)
        if was is None or last is None:
            raise Misuse(f"message {message_id} does not exist")
        self._db.run(
            _HISTORY.changed,
            id=clock.new_id(now_ms),
            conversation=conversation_id,
            kind=kind,
            message=message_id,
            revision=was[0],
            facts=was[1],
            removed=to_json(list(removed)),
            last_place=last[0],
            run=run,
            ms=now_ms,
        )

    def _drop_messages(
        self, conversation_id: str, removed: Sequence[str], now_ms: int, epochs: Sequence[Voice]
    ) -> None:
        self._rewrite(conversation_id)
        fields = {"conversation": conversation_id, "now_ms": now_ms}
        self._db.many(_MESSAGES.drop, [{"id": message_id, **fields} for message_id in removed])
        self._raise_epochs(conversation_id, epochs)

    def _revert(self, conversation_id: str, change: ChangeRow, answers: Iterable[str], now_ms: int) -> None:
        back = {"conversation": conversation_id}
        self._db.many(_MESSAGES.drop, [{"id": each, "now_ms": now_ms, **back} for each in answers])
        self._db.many(_MESSAGES.restore, [{"id": each, **back} for each in change.removed])
        self._db.run(_MESSAGES.revert, id=change.message, revision=change.revision, facts=change.facts)
        for message_id, text in self._db.among(_MESSAGES.texts, [change.message]):
            self._db.run(_MESSAGES.resize, id=message_id, size=len(text.encode()))

    def _raise_epochs(self, conversation_id: str, voices: Sequence[Voice]) -> None:
        rows = [{"conversation": conversation_id, "agent": v.agent, "role": v.role} for v in voices]
        self._db.many(_HISTORY.raise_epoch, rows)


def conversation_of(row: Row) -> Conversation:
    return Conversation(**dict(zip(Conversation.__struct_fields__, row, strict=True)))
