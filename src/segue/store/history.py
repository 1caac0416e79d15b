"""Changes to what was said: edits and cuts, the epochs they raise, and which turn came out of which."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence

from segue.core.errors import Misuse
from segue.core.keys import new_id
from segue.core.model import Message, Voice
from segue.store.conversations import rewrite, touch
from segue.store.database import Database
from segue.store.messages import readdress, standing
from segue.store.packing import pack, storable, unpack
from segue.store.part import Part
from segue.store.queries import Queries
from segue.store.records import ChangeRow, LineageRow

_SQL = Queries("history")
_MESSAGES = Queries("messages")
_TURNS = Queries("turns")


class History(Part):
    def edit(
        self,
        message_id: str,
        text: str,
        now_ms: int,
        removed: Sequence[str] = (),
        epochs: Sequence[Voice] = (),
    ) -> int:
        """A new revision of a message; its number. ``removed``: the messages that go with it."""
        text = storable(text)
        with self.db.writing():
            conversation_id = self._conversation_of(message_id)
            touch(self.db, conversation_id, now_ms)
            _note(self.db, conversation_id, "edit", message_id, removed, now_ms)
            row = self.db.one(_MESSAGES.edit, id=message_id, size=len(text.encode()))
            if row is None:
                raise Misuse(f"message {message_id} was removed")
            revision: int = row[1]
            fields = {"message": message_id, "revision": revision, "text": text, "created_ms": now_ms}
            self.db.run(_MESSAGES.revise, **fields)
            _drop(self.db, conversation_id, removed, now_ms, epochs)
        return revision

    def truncate(
        self, conversation_id: str, removed: Sequence[str], now_ms: int, epochs: Sequence[Voice] = ()
    ) -> None:
        """These messages stand no longer. They are kept, marked with the time."""
        with self.db.writing():
            touch(self.db, conversation_id, now_ms)
            if removed:
                _note(self.db, conversation_id, "truncate", removed[0], removed, now_ms)
            _drop(self.db, conversation_id, removed, now_ms, epochs)

    def rerun(
        self,
        conversation_id: str,
        message: Message,
        run: str,
        removed: Sequence[str],
        now_ms: int,
        epochs: Sequence[Voice] = (),
    ) -> None:
        """A message is run again, said as ``message`` says now; what came after it stands no longer."""
        with self.db.writing():
            touch(self.db, conversation_id, now_ms)
            _note(self.db, conversation_id, "retry", message.id, removed, now_ms, run)
            readdress(self.db, message)
            _drop(self.db, conversation_id, removed, now_ms, epochs)

    def undo(
        self,
        conversation_id: str,
        now_ms: int,
        risen: Callable[[Sequence[Message], Sequence[Message]], Sequence[Voice]],
    ) -> ChangeRow | None:
        """Take the last change back, and say which it was; None: there is none, or something was said since.

        Revisions get their old numbers back, so that what native sessions hold is compared as before.
        """
        with self.db.writing():
            touch(self.db, conversation_id, now_ms)
            change = self._last_change(conversation_id)
            if change is None:
                return None
            rows = self.db.all(_MESSAGES.said_since, conversation=conversation_id, place=change.last_place)
            since = {row[0] for row in rows}
            answers = self._answers(change)
            if since - answers:
                return None
            before = standing(self.db, conversation_id)
            _revert(self.db, conversation_id, change, answers, now_ms)
            after = standing(self.db, conversation_id)
            rewrite(self.db, conversation_id)
            raise_epochs(self.db, conversation_id, risen(before, after))
            self.db.run(_SQL.undone, id=change.id, now_ms=now_ms)
        return change

    def _last_change(self, conversation_id: str) -> ChangeRow | None:
        row = self.db.one(_SQL.last_change, conversation=conversation_id)
        if row is None:
            return None
        fields = dict(zip(ChangeRow.__struct_fields__, row, strict=True))
        fields["removed"] = tuple(unpack(fields["removed"], list[str]) or ())
        return ChangeRow(**fields)

    def _answers(self, change: ChangeRow) -> set[str]:
        """What a retry was answered: that goes with it, and does not count as said since."""
        row = self.db.one(_TURNS.answer_of, id=change.run) if change.run is not None else None
        return {row[0]} if row is not None and row[0] is not None else set()

    def epochs(self, conversation_id: str) -> dict[Voice, int]:
        """How often each voice's slice has changed; a voice that is not in it: never."""
        rows = self.db.all(_SQL.epochs, conversation=conversation_id)
        return {Voice(agent, role): epoch for agent, role, epoch in rows}

    def lineage(self, conversation_id: str) -> list[LineageRow]:
        """Oldest first."""
        rows = self.db.all(_SQL.lineage, conversation=conversation_id)
        return [
            LineageRow(child=c, parent=p, kind=kind, session=s or None, parent_session=ps, ms=ms)
            for c, p, kind, s, ps, ms in rows
        ]

    def _conversation_of(self, message_id: str) -> str:
        row = self.db.one(_MESSAGES.conversation_of, id=message_id)
        if row is None:
            raise Misuse(f"there is no message {message_id}")
        return str(row[0])


def _note(
    db: Database,
    conversation_id: str,
    kind: str,
    message_id: str,
    removed: Sequence[str],
    now_ms: int,
    run: str | None = None,
) -> None:
    """How it was before a change, so that it can be taken back."""
    was = db.one(_MESSAGES.as_it_is, id=message_id)
    last = db.one(_MESSAGES.last_place, conversation=conversation_id)
    if was is None or last is None:
        raise Misuse(f"there is no message {message_id}")
    db.run(
        _SQL.changed,
        id=new_id(now_ms, os.urandom(10)),
        conversation=conversation_id,
        kind=kind,
        message=message_id,
        revision=was[0],
        facts=was[1],
        removed=pack(list(removed)),
        last_place=last[0],
        run=run,
        ms=now_ms,
    )


def _drop(
    db: Database, conversation_id: str, removed: Sequence[str], now_ms: int, epochs: Sequence[Voice]
) -> None:
    rewrite(db, conversation_id)
    fields = {"conversation": conversation_id, "now_ms": now_ms}
    db.many(_MESSAGES.drop, [{"id": message_id, **fields} for message_id in removed])
    raise_epochs(db, conversation_id, epochs)


def _revert(
    db: Database, conversation_id: str, change: ChangeRow, answers: Iterable[str], now_ms: int
) -> None:
    back = {"conversation": conversation_id}
    db.many(_MESSAGES.drop, [{"id": each, "now_ms": now_ms, **back} for each in answers])
    db.many(_MESSAGES.restore, [{"id": each, **back} for each in change.removed])
    db.run(_MESSAGES.revert, id=change.message, revision=change.revision, facts=change.facts)
    for message_id, text in db.among(_MESSAGES.texts, [change.message]):
        db.run(_MESSAGES.resize, id=message_id, size=len(text.encode()))


def raise_epochs(db: Database, conversation_id: str, voices: Sequence[Voice]) -> None:
    rows = [{"conversation": conversation_id, "agent": v.agent, "role": v.role} for v in voices]
    db.many(_SQL.raise_epoch, rows)
