"""The chain of parents in a repaired Claude session, tied as its records go by.

A parent that was left out is replaced by its own; one that was never there by the record before. A record
that says itself that it has none stays a beginning: that is how the CLI marks a compaction, and a prompt
that replaced the first one.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from segue.agents.claude.pieces import Fields, Piece

INTERRUPTED = "[This call was interrupted before it returned a result. Look before repeating it.]"
_COPIED = ("userType", "entrypoint", "cwd", "version", "gitBranch", "slug")


class Chain:
    def __init__(self, session: str, open_calls: set[str], counts: Counter[str]) -> None:
        self._session = session
        self._open = open_calls
        self._counts = counts
        self._instead: dict[str, str | None] = {}
        """What to follow instead of a record: of one left out its parent, of one closed the last result."""
        self._seen: set[str] = set()
        self._last: dict[bool, str | None] = {False: None, True: None}
        """The newest record of the dialogue, and of side chains."""
        self._pending: list[tuple[Piece, str]] = []
        """Calls that wait for the end of their answer, each with its record."""
        self._time: str | None = None

    def linked(self, old: Piece, new: Piece | None) -> Iterator[Fields]:
        """A record as it is to be written, and before it what closes the answer that it follows."""
        if not old.is_link:
            yield self._named(dict(old.fields))
            return
        if old.uuid in self._seen or old.uuid in self._instead:
            self._counts["again"] += 1
            return
        if not old.is_side and not self._goes_on(old):
            yield from self.closed()
        parent = self._parent(old)
        if new is None:
            if old.uuid:
                self._instead[old.uuid] = parent
            return
        yield self._tied(new, parent)

    def closed(self) -> Iterator[Fields]:
        """The results that are missing for the answer that has just ended."""
        for record, call in self._pending:
            own, after = str(uuid.uuid4()), self._last[False]
            block = {"type": "tool_result", "tool_use_id": call, "content": INTERRUPTED, "is_error": True}
            fields: Fields = {
                "parentUuid": _raw(after),
                "isSidechain": _raw(False),
                **{name: record.fields[name] for name in _COPIED if name in record.fields},
                "sessionId": _raw(self._session),
                "type": _raw("user"),
                "message": _raw({"role": "user", "content": [block]}),
                "uuid": _raw(own),
                "timestamp": _raw(self._later()),
            }
            if after:
                self._instead[after] = own
            self._last[False] = own
            self._seen.add(own)
            self._counts["closed"] += 1
            yield fields
        self._pending = []

    def _goes_on(self, old: Piece) -> bool:
        """Whether it is another block of the answer whose calls are waiting."""
        return bool(self._pending) and bool(old.answer) and self._pending[0][0].answer == old.answer

    def _parent(self, old: Piece) -> str | None:
        last = self._last[old.is_side]
        if old.has_parent_field and not old.parent and old.uuid:
            return None
        parent: str | None = old.parent
        while parent in self._instead:
            parent = self._instead[parent]
            if parent is None:
                return None
        if parent in self._seen:
            return parent
        self._counts["linked"] += last is not None
        return last

    def _tied(self, new: Piece, parent: str | None) -> Fields:
        fields = dict(new.fields)
        own = new.uuid or str(uuid.uuid4())
        fields["uuid"], fields["parentUuid"] = _raw(own), _raw(parent)
        self._time = _text(fields.get("timestamp")) or self._later()
        fields["timestamp"] = _raw(self._time)
        self._seen.add(own)
        self._last[new.is_side] = own
        if not new.is_side:
            self._pending += [(new, call) for call in sorted(new.calls & self._open)]
        return self._named(fields)

    def _named(self, fields: Fields) -> Fields:
        if "sessionId" in fields:
            fields["sessionId"] = _raw(self._session)
        return fields

    def _later(self) -> str:
        """A little after the record before: older versions sort by time."""
        try:
            now = datetime.fromisoformat(self._time or "2000-01-01T00:00:00.000Z")
        except ValueError:
            now = datetime.fromisoformat("2000-01-01T00:00:00.000Z")
        self._time = (now + timedelta(milliseconds=1)).isoformat(timespec="milliseconds")[:23] + "Z"
        return self._time


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def _text(raw: msgspec.Raw | None) -> str:
    value = None if raw is None else msgspec.json.decode(raw)
    return value if isinstance(value, str) else ""
