"""Reads a session forwards, as it was written, and backwards, as its current messages.

A message is written again when its calls have results (same id, next to each other), and a resume by the CLI
alone writes all of them again. Of two equal entries the earlier one counts, in both directions. Backwards,
reading ends at a list of all messages, because it supersedes what is before it, except if the list begins
with a summary: then the earlier messages are what a resume no longer restores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from segue.agents.base import Record, damaged
from segue.agents.gemini import schema
from segue.agents.gemini.entries import entries_of_line, summary_at
from segue.agents.gemini.history import WHOLE_BYTES, Fold, record_of, salvage
from segue.agents.gemini.schema import (
    NO_JSON,
    Header,
    Message,
    RawMessage,
    Rewind,
    all_context,
    as_message,
    is_touch,
    line_of,
    object_of,
)
from segue.agents.jsonl import LONGEST, Line, backwards, forwards, unreadable
from segue.core.json_values import as_items, as_table
from segue.core.transcript import Entry

_NEAR = 8
"""The most lines between a message and its repetition."""
_NOWHERE = -1


def forward(file: IO[bytes], start: int) -> Iterator[Record]:
    seen: set[int] = set()
    if start:
        for line in islice(backwards(file, start), _NEAR):
            seen.update(map(_key, _read(line)[1]))
    waiting: list[Record] = []
    last = ""
    for line in forwards(file, start):
        if not line.whole:
            break
        content, entries = _read(line)
        if isinstance(content, Message):
            # what seemed to be an empty answer was the first half of one that calls tools
            yield from _without_blanks(waiting) if content.id == last else waiting
            waiting, last = [], content.id or ""
        unknown = bool(start) and isinstance(content, Header)
        marked = [_marked(entry, seen, unknown) for entry in entries]
        waiting.append(Record(line.start, line.next, marked))
        if not any(map(_is_blank, marked)) and len(waiting) == 1:
            yield waiting.pop()
    yield from waiting


def _marked(entry: Entry, seen: set[int], unknown: bool) -> Entry:
    if not entry.native or _is_blank(entry):
        return entry
    key = _key(entry)
    if key in seen or unknown:
        return replace(entry, again=True)
    seen.add(key)
    return entry


def _key(entry: Entry) -> int:
    return hash((entry.native, entry.text))


def _is_blank(entry: Entry) -> bool:
    return entry.kind == "assistant" and not entry.text and not entry.images


def _without_blanks(records: Sequence[Record]) -> Iterator[Record]:
    for record in records:
        yield Record(record.start, record.next, [one for one in record.entries if not _is_blank(one)])


def _read(line: Line) -> tuple[schema.Line | None, list[Entry]]:
    """The content and the entries of a line; None if it only has a time or cannot be read."""
    if line.text is None:
        return None, [damaged(line.start, f"a line of more than {LONGEST >> 20} MB")]
    if is_touch(line.text):
        return None, []
    try:
        content = line_of(line.text)
    except NO_JSON:
        return None, [damaged(line.start, "a line that is not JSON")]
    return content, entries_of_line(content, line.start)


# --- backwards -------------------------------------------------------------------------------------


def backward(file: IO[bytes], end: int | None) -> Iterator[Record]:
    """Each message once, the newest one first."""
    shown: set[str] = set()
    now = _at(file, end)
    held_back = [Record(_NOWHERE, _NOWHERE, now.behind)]
    for record, is_message in _current(file, end, now):
        if is_message:
            keys = {_key(one) for one in record.entries if one.native}
            for newer in held_back:
                kept = [one for one in newer.entries if _key(one) not in keys]
                shown.update(one.native for one in kept if one.native)
                if kept and newer.start != _NOWHERE:
                    yield Record(newer.start, newer.next, kept)
            held_back = [Record(record.start, record.next, _once(record.entries, shown))]
        else:
            held_back.append(record)
    yield from (record for record in held_back if record.entries and record.start != _NOWHERE)


def _once(entries: Sequence[Entry], shown: set[str]) -> list[Entry]:
    """The entries without those that are repeated later, and without duplicates."""
    kept: dict[str, Entry] = {}
    for entry in entries:
        if entry.native not in shown:
            kept.setdefault(entry.native or entry.id, entry)
    return list(kept.values())


def _current(file: IO[bytes], end: int | None, now: _Now) -> Iterator[tuple[Record, bool]]:
    """The records that were neither rewound nor superseded, and whether each may repeat or replace others."""
    opening: Record | None = None
    for line in () if now.ended else backwards(file, end):
        content, entries = _read(line)
        if opening is not None:
            if not (isinstance(content, Header) and content.opens):
                return  # rewound to the beginning; after a header, it is only reopened
            if line.start == 0:
                yield opening, True
            opening = None
        if isinstance(content, Rewind):
            now.target = now.target or content.to
        elif isinstance(content, Message):
            entries = now.message(content, entries)
        messages = content.messages if isinstance(content, Header) else None
        if messages and all_context(messages) and not now.target:
            opening = Record(line.start, line.next, entries)
            continue
        if messages is not None and now.target:
            messages = _before(messages, now.target)
            now.target, entries = "", entries_of_line(Header(messages=messages), line.start)
        if entries and not now.target:
            shown = entries if now.restored else [replace(one, restored=False) for one in entries]
            yield Record(line.start, line.next, shown), isinstance(content, Message) or messages is not None
        if messages is not None:
            if summary_at(messages) is None:
                return
            now.restored = False


class _Now:
    """What is known when reading backwards: the target of a rewind, and whether a resume restores entries."""

    def __init__(self, target: str = "", ended: bool = False, restored: bool = True) -> None:
        self.target, self.ended, self.restored = target, ended, restored
        self.last: str | None = ""
        self.behind: list[Entry] = []
        """The entries where reading begins: they may replace earlier ones."""

    def message(self, message: Message, entries: list[Entry]) -> list[Entry]:
        again, self.last = message.id == self.last, message.id
        if self.target:
            self.target = "" if message.id == self.target else self.target
            return []
        return [one for one in entries if not _is_blank(one)] if again else entries


def _at(file: IO[bytes], end: int | None) -> _Now:
    """The state at the place where reading begins."""
    near = islice(forwards(file, end), _NEAR) if end is not None else ()
    line = next((line for line in near if line.text is None or not is_touch(line.text)), None)
    content, entries = _read(line) if line is not None else (None, [])
    if isinstance(content, Rewind):
        return _Now(target=content.to)
    if isinstance(content, Message):
        now = _Now()
        now.last, now.behind = content.id, entries
        return now
    messages = content.messages if isinstance(content, Header) else None
    if not messages or all_context(messages):
        return _Now()
    return _Now(ended=True) if summary_at(messages) is None else _Now(restored=False)


def _before(messages: list[Message], target: str) -> list[Message]:
    """The messages before the target. If it does not exist, Gemini removes everything."""
    return messages[: next((at for at, one in enumerate(messages) if one.id == target), 0)]


# --- one object, as versions before 0.39 wrote it ---------------------------------------------------


def object_records(path: Path) -> list[Record]:
    """All messages; their places are numbers, not bytes. If the file was cut off, the complete ones."""
    try:
        if path.stat().st_size > WHOLE_BYTES:
            return [_trouble(0, f"a file of more than {WHOLE_BYTES >> 20} MB in one object")]
        raw = path.read_bytes()
    except OSError as error:
        return [unreadable(0, error)]
    try:
        messages, whole = object_of(raw).messages or [], True
    except NO_JSON:
        messages, whole = [as_message(one) for one in salvage(raw)[1]], False
    records = [Record(at, at + 1, entries_of_line(one, at)) for at, one in enumerate(messages)]
    return records if whole else [*records, _trouble(len(records), "the file is cut off or not JSON")]


def _trouble(at: int, why: str) -> Record:
    return Record(at, at, (damaged(at, why),))


# --- where the messages are ------------------------------------------------------------------------


class Ref(NamedTuple):
    start: int
    """Where its line starts."""
    at: int | None
    """Its index in the line's list; None: it is the line itself."""


class Outline(Fold[Ref]):
    """Where a file's current messages are, without loading them, and the header's fields."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, Any] = {}
        self.damaged = 0

    def read(self, file: IO[bytes]) -> Outline:
        for line in forwards(file):
            try:
                content = line_of(line.text) if line.text is not None else None
            except NO_JSON:
                content = None
            if content is None:
                self.damaged += 1
                self.other()
            else:
                self._add(content, line.start, line.text or b"")
        return self

    def _add(self, content: schema.Line, start: int, raw: bytes) -> None:
        if isinstance(content, Message):
            self.message(content.id or "", Ref(start, None))
        elif isinstance(content, Rewind):
            self.rewind(content.to)
        elif isinstance(content, Header):
            self.fields |= _fields(raw)
            listed = content.messages or ()
            refs = {one.id: Ref(start, at) for at, one in enumerate(listed) if one.id}
            has_list = content.messages is not None
            self.header(refs if has_list else None, opens=content.opens, context=all_context(listed))
        else:
            self.other()


_patch = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _fields(raw: bytes) -> dict[str, Any]:
    """The fields of a header or a patch without its messages, which can be many."""
    try:
        fields = _patch.decode(raw)
        fields = _patch.decode(fields["$set"]) if "$set" in fields else fields
        return {key: msgspec.json.decode(value) for key, value in fields.items() if key != "messages"}
    except NO_JSON:
        return {}


def messages_at(file: IO[bytes], refs: Iterable[Ref]) -> Iterator[RawMessage]:
    """The messages themselves, one line of the file at a time."""
    last, record = -1, dict[str, Any]()
    for ref in refs:
        if ref.start != last:
            file.seek(ref.start)
            last, record = ref.start, record_of(file.readline(LONGEST + 1).rstrip(b"\n"))
        if ref.at is None:
            yield record
        else:
            messages = as_items(as_table(record.get("$set", record)).get("messages"))
            yield as_table(messages[ref.at]) if ref.at < len(messages) else {}


def id_at(file: IO[bytes], start: int, n: int) -> str | None:
    """The id of the message that the nth entry of a line belongs to."""
    file.seek(start)
    try:
        content = line_of(file.readline(LONGEST).strip())
    except NO_JSON:
        return None
    if isinstance(content, Message):
        return content.id
    if not isinstance(content, Header):
        return None
    behind = len(entries_of_line(replace(content, messages=None), start))
    for message in content.messages or ():
        behind += len(entries_of_line(message, start))
        if n < behind:
            return message.id
    return None
