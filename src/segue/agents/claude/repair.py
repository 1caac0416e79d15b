"""A copy of a Claude session that the CLI can resume: read twice, record by record, never held in memory.

The first pass finds out which calls have a result. The second writes the copy: damaged and duplicate records
are left out, a record whose parent is missing is linked to the one before it, and a call without a result
gets one that says so, after the answer it belongs to. Notes about earlier requests and the running totals
belong to the old session and are not copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any

import msgspec

from segue.agents.base import RepairedCopy, RepairOptions, StoredSession
from segue.agents.claude.schema import Fields, RawRecord, raw
from segue.agents.jsonl import forwards
from segue.agents.repair_words import IMAGE_LEFT_OUT, INTERRUPTED, OUTPUT_LEFT_OUT, Repairs, repaired_copy
from segue.core.errors import Broken, NotFound
from segue.core.json_values import as_items, as_table, as_text
from segue.system import clock
from segue.system.files import whole_file

_NOT_COPIED = frozenset({"cost-state", "api-request", "api-request-blob", "api-request-shape"})
_OF_THE_WHOLE = frozenset({"custom-title", "ai-title", "agent-name", "agent-color", "tag", "mode"})
"""Notes that apply to the whole session, wherever they are in it."""
_COPIED_FIELDS = ("userType", "entrypoint", "cwd", "version", "gitBranch", "slug")
_NO_TIME = "2000-01-01T00:00:00.000Z"


def repair(stored: StoredSession, new_id: str, options: RepairOptions) -> RepairedCopy:
    start = _since(options)
    calls, results, first = _survey(stored.path, start)
    if first is None:
        where = " after that event" if start else ""
        raise Broken(f"session {stored.id} cannot be repaired: it has no messages{where}")
    counts = Repairs()
    chain = _Chain(new_id, calls - results, counts)
    messages = _Messages(calls, options, counts)
    target = stored.path.with_name(f"{new_id}.jsonl")
    try:
        with stored.path.open("rb") as old, whole_file(target) as new:
            _copy(old, new, (start, first), chain, messages, counts)
    except OSError as error:
        raise Broken(f"session {stored.id} cannot be repaired: {error.strerror or error}") from error
    return repaired_copy(new_id, target, counts)


def _since(options: RepairOptions) -> int:
    try:
        return int((options.since or "0").partition(".")[0])
    except ValueError:
        raise NotFound(f'there is no event "{options.since}" in this session') from None


def _survey(path: Path, start: int) -> tuple[set[str], set[str], int | None]:
    """The ids of calls and of results from a place on, and where the copy begins: at a user's prompt."""
    calls: set[str] = set()
    results: set[str] = set()
    first: int | None = None
    try:
        with path.open("rb") as file:
            for at, record in _records(file):
                if record is None or at < start or record.is_side:
                    continue
                if first is None and (record.is_prompt or (not start and record.is_link)):
                    first = at
                if first is not None:
                    calls |= record.calls
                    results |= record.results
    except OSError as error:
        raise Broken(f"cannot read the session: {error.strerror or error}") from error
    return calls, results, first


def _copy(
    old: IO[bytes],
    new: IO[bytes],
    begin: tuple[int, int],
    chain: _Chain,
    messages: _Messages,
    counts: Repairs,
) -> None:
    start, first = begin
    for at, record in _records(old):
        if record is None:
            counts["damaged"] += at >= start
        elif at < first and record.type not in _OF_THE_WHOLE:
            counts["records_before"] += record.is_link
        elif record.type not in _NOT_COPIED:
            repaired = messages.repaired(record) if record.is_link else record
            for fields in chain.linked(record, repaired):
                new.write(msgspec.json.encode(fields) + b"\n")
    for fields in chain.closed():
        new.write(msgspec.json.encode(fields) + b"\n")


def _records(file: IO[bytes]) -> Iterator[tuple[int, RawRecord | None]]:
    """Every line's place and record; None for a line that is not a record."""
    for line in forwards(file):
        yield line.start, None if line.text is None else RawRecord.read(line.text)


class _Messages:
    """Repairs the blocks of messages: nothing empty, no result without its call, no image that the provider
    would refuse and, if requested, no tool output at all. Expects the records in their order."""

    def __init__(self, calls: set[str], options: RepairOptions, counts: Repairs) -> None:
        self._calls = calls
        self._options = options
        self._counts = counts
        self._returned: set[str] = set()

    def repaired(self, record: RawRecord) -> RawRecord | None:
        """The record to write; None if nothing of it remains."""
        if not record.is_message or record.is_side:
            return record
        if record.type == "assistant":
            return record if self._says_something(record) else None
        return self._user(record)

    def _says_something(self, record: RawRecord) -> bool:
        content = record.content
        blocks = [content] if isinstance(content, str) else content
        says = any(_is_something(block) for block in blocks)
        self._counts["empty"] += not says
        return says

    def _user(self, record: RawRecord) -> RawRecord | None:
        if isinstance(record.content, str) or not record.content:
            return record
        blocks = [self._block(block) for block in record.content if self._belongs(block)]
        if not blocks:
            return None
        return record if blocks == record.content else record.with_content(blocks)

    def _belongs(self, block: Any) -> bool:
        """Whether it is the first result of a known call, or not a result."""
        if as_table(block).get("type") != "tool_result":
            return True
        call = as_text(as_table(block).get("tool_use_id"))
        fits = call in self._calls and call not in self._returned
        self._returned.add(call)
        self._counts["orphans"] += not fits
        return fits

    def _block(self, block: Any) -> Any:
        fields = as_table(block)
        if fields.get("type") == "tool_result":
            return self._result(fields)
        return self._image(block)

    def _result(self, block: dict[str, Any]) -> dict[str, Any]:
        content = block.get("content")
        if not self._options.trim:
            if isinstance(content, str) or content is None:
                return block
            return {**block, "content": [self._image(part) for part in as_items(content)]}
        size = _size(content)
        note = OUTPUT_LEFT_OUT.format(size)
        if size <= len(note):
            return block
        self._counts["outputs"] += 1
        return {**block, "content": note}

    def _image(self, block: Any) -> Any:
        fields = as_table(block)
        if fields.get("type") != "image":
            return block
        size = _image_size(fields)
        if not self._options.trim and size <= self._options.image_bytes:
            return block
        self._counts["images"] += 1
        return {"type": "text", "text": IMAGE_LEFT_OUT.format(size)}


def _is_something(block: Any) -> bool:
    if isinstance(block, str):
        return bool(block.strip())
    fields = as_table(block)
    return bool(fields) and (fields.get("type") != "text" or bool(as_text(fields.get("text")).strip()))


def _size(content: Any) -> int:
    if isinstance(content, str):
        return len(content.encode("utf-8", "replace"))
    parts = [as_table(part) for part in as_items(content)]
    return sum(len(as_text(part.get("text"))) + _image_size(part) for part in parts)


def _image_size(part: dict[str, Any]) -> int:
    return len(as_text(as_table(part.get("source")).get("data")))


class _Chain:
    """The chain of parents, linked record by record.

    A parent that was left out is replaced by its own parent, a missing one by the record before. A record
    that is explicitly without a parent stays a beginning: the CLI marks a compaction this way, and a prompt
    that replaced the first one.
    """

    def __init__(self, session: str, open_calls: set[str], counts: Repairs) -> None:
        self._session = session
        self._open = open_calls
        self._counts = counts
        self._instead: dict[str, str | None] = {}
        """What to follow instead of a record: its parent if it was left out, the last result if closed."""
        self._seen: set[str] = set()
        self._last: dict[bool, str | None] = {False: None, True: None}
        """The newest record of the dialogue, and of side chains."""
        self._pending: list[tuple[RawRecord, str]] = []
        """Calls to close when their answer ends, each with its record."""
        self._time: str | None = None

    def linked(self, old: RawRecord, new: RawRecord | None) -> Iterator[Fields]:
        """The record to write, preceded by what closes the answer before it."""
        if not old.is_link:
            yield self._renamed(dict(old.fields))
            return
        if old.uuid in self._seen or old.uuid in self._instead:
            self._counts["duplicates"] += 1
            return
        if not old.is_side and not self._is_same_answer(old):
            yield from self.closed()
        parent = self._parent(old)
        if new is None:
            if old.uuid:
                self._instead[old.uuid] = parent
            return
        yield self._with_parent(new, parent)

    def closed(self) -> Iterator[Fields]:
        """The missing results of the answer that has just ended."""
        for record, call in self._pending:
            own, after = clock.new_uuid(), self._last[False]
            block = {"type": "tool_result", "tool_use_id": call, "content": INTERRUPTED, "is_error": True}
            fields: Fields = {
                "parentUuid": raw(after),
                "isSidechain": raw(False),
                **{name: record.fields[name] for name in _COPIED_FIELDS if name in record.fields},
                "sessionId": raw(self._session),
                "type": raw("user"),
                "message": raw({"role": "user", "content": [block]}),
                "uuid": raw(own),
                "timestamp": raw(self._later()),
            }
            if after:
                self._instead[after] = own
            self._last[False] = own
            self._seen.add(own)
            self._counts["closed"] += 1
            yield fields
        self._pending = []

    def _is_same_answer(self, old: RawRecord) -> bool:
        """Whether it is another block of the answer whose calls are still open."""
        return bool(self._pending) and bool(old.answer) and self._pending[0][0].answer == old.answer

    def _parent(self, old: RawRecord) -> str | None:
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

    def _with_parent(self, new: RawRecord, parent: str | None) -> Fields:
        fields = dict(new.fields)
        own = new.uuid or clock.new_uuid()
        fields["uuid"], fields["parentUuid"] = raw(own), raw(parent)
        self._time = new.timestamp or self._later()
        fields["timestamp"] = raw(self._time)
        self._seen.add(own)
        self._last[new.is_side] = own
        if not new.is_side:
            self._pending += [(new, call) for call in sorted(new.calls & self._open)]
        return self._renamed(fields)

    def _renamed(self, fields: Fields) -> Fields:
        if "sessionId" in fields:
            fields["sessionId"] = raw(self._session)
        return fields

    def _later(self) -> str:
        """A time just after the previous record: older versions sort by time."""
        try:
            now = datetime.fromisoformat(self._time or _NO_TIME)
        except ValueError:
            now = datetime.fromisoformat(_NO_TIME)
        self._time = (now + timedelta(milliseconds=1)).isoformat(timespec="milliseconds")[:23] + "Z"
        return self._time
