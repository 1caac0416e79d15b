"""Changes to what was said: edits and cuts, the epochs they raise, and which turn came out of which."""

from __future__ import annotations

from collections.abc import Sequence

from segue.core.errors import Misuse
from segue.core.model import Voice
from segue.store.conversations import rewrite, touch
from segue.store.database import Database
from segue.store.packing import storable
from segue.store.part import Part
from segue.store.queries import Queries
from segue.store.records import LineageRow

_SQL = Queries("history")
_MESSAGES = Queries("messages")


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
            rewrite(self.db, conversation_id)
            row = self.db.one(_MESSAGES.edit, id=message_id, size=len(text.encode()))
            if row is None:
                raise Misuse(f"message {message_id} was removed")
            revision: int = row[1]
            fields = {"message": message_id, "revision": revision, "text": text, "created_ms": now_ms}
            self.db.run(_MESSAGES.revise, **fields)
            self.truncate(conversation_id, removed, now_ms, epochs)
        return revision

    def truncate(
        self, conversation_id: str, removed: Sequence[str], now_ms: int, epochs: Sequence[Voice] = ()
    ) -> None:
        """These messages stand no longer. They are kept, marked with the time."""
        with self.db.writing():
            touch(self.db, conversation_id, now_ms)
            rewrite(self.db, conversation_id)
            fields = {"conversation": conversation_id, "now_ms": now_ms}
            self.db.many(_MESSAGES.drop, [{"id": message_id, **fields} for message_id in removed])
            raise_epochs(self.db, conversation_id, epochs)

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


def raise_epochs(db: Database, conversation_id: str, voices: Sequence[Voice]) -> None:
    rows = [{"conversation": conversation_id, "agent": v.agent, "role": v.role} for v in voices]
    db.many(_SQL.raise_epoch, rows)
