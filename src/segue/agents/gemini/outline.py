"""Which messages a session of lines amounts to, without holding them: where each of them stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO, Any, NamedTuple

import msgspec

from segue.agents.gemini.entries import all_context, of
from segue.agents.gemini.lines import ERRORS, held
from segue.agents.gemini.shapes import Header, Message
from segue.agents.gemini.story import record_of
from segue.agents.records import LONGEST, forwards
from segue.core.loose import items, table

_patch = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Ref(NamedTuple):
    start: int
    """Where its line starts."""
    at: int | None
    """Which of the line's list; None: the line itself."""


class Outline:
    """As Gemini itself reads a file (see ``story``)."""

    def __init__(self) -> None:
        self.header: dict[str, Any] = {}
        self.refs: dict[str, Ref] = {}
        self.damaged = 0
        self.repeated = 0
        self._opened = False

    def read(self, file: IO[bytes]) -> Outline:
        for line in forwards(file):
            if line.text is None:
                self.damaged += 1
            else:
                self._add(line.start, line.text)
        return self

    def _add(self, start: int, raw: bytes) -> None:
        try:
            found, _ = held(raw)
        except ERRORS:
            self.damaged += 1
            return
        opened, self._opened = self._opened, False
        if isinstance(found, Message):
            self.refs[found.id or ""] = Ref(start, None)
        elif isinstance(found, str):
            ids = list(self.refs)
            kept = ids[: ids.index(found)] if found in self.refs else []
            self.refs = {key: self.refs[key] for key in kept}
        elif isinstance(found, Header):
            self.header |= _fields(raw)
            self._opened = found.startTime is not None
            self._list(start, found.messages, opened)

    def _list(self, start: int, said: list[Message] | None, opened: bool) -> None:
        if said is None or (opened and self.refs and all_context(said)):
            return
        self.repeated += bool(self.refs)
        self.refs = {one.id: Ref(start, at) for at, one in enumerate(said) if one.id}


def messages(file: IO[bytes], refs: Iterable[Ref]) -> Iterator[dict[str, Any]]:
    """The messages themselves, one line of the file at a time."""
    last, record = -1, dict[str, Any]()
    for ref in refs:
        if ref.start != last:
            last, record = ref.start, _record(file, ref.start)
        if ref.at is None:
            yield record
        else:
            said = items(table(record.get("$set", record)).get("messages"))
            yield table(said[ref.at]) if ref.at < len(said) else {}


def message_at(file: IO[bytes], start: int, n: int) -> str | None:
    """The id of the message that the nth entry of a line belongs to."""
    file.seek(start)
    try:
        found, _ = held(file.readline(LONGEST).strip())
    except ERRORS:
        return None
    if isinstance(found, Message):
        return found.id
    if not isinstance(found, Header):
        return None
    behind = len(of(msgspec.structs.replace(found, messages=None), "", start))
    for message in found.messages or ():
        behind += len(of(message, "", start))
        if n < behind:
            return message.id
    return None


def _record(file: IO[bytes], start: int) -> dict[str, Any]:
    file.seek(start)
    return record_of(file.readline(LONGEST + 1).rstrip(b"\n"))


def _fields(raw: bytes) -> dict[str, Any]:
    """All of a header or a patch but its messages, which may be many."""
    try:
        fields = _patch.decode(raw)
        fields = _patch.decode(fields["$set"]) if "$set" in fields else fields
        return {key: msgspec.json.decode(value) for key, value in fields.items() if key != "messages"}
    except ERRORS:
        return {}
