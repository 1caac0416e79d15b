"""A session file, read whole: its header and the messages it amounts to.

A ``.jsonl`` holds a header, messages (a later one of the same id replaces the earlier) and patches: ``$set``
changes the header or replaces all messages, ``$rewindTo`` takes back a message and all after it. A ``.json``,
as versions before 0.39 wrote it, is one object. What cannot be read is passed over, as Gemini does.

Which messages a session of lines amounts to, without holding them: where each of them stands.

The end of a session file, read from its end: files may be huge.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, NoReturn

import msgspec

from segue.agents.gemini.entries import all_context, entries_of_line
from segue.agents.gemini.schema import (
    ECHO,
    ERRORS,
    Header,
    Message,
    RawMessage,
    answered,
    held,
    is_context,
    is_sent,
)
from segue.agents.jsonl import LONGEST, backwards, forwards
from segue.core.json_values import as_items, as_table

WHOLE_BYTES = 256 * 1024 * 1024
"""More than this is not read whole."""
KEPT_STATES = 3


class History(msgspec.Struct, frozen=True):
    header: dict[str, Any]
    messages: list[RawMessage]
    earlier: list[list[RawMessage]] = []
    """What stood in the session before answers were taken out of it (by a summary, or taken back)."""
    repeated: int = 0
    """How often all messages were written again with nothing lost: every resume may do it."""
    torn: bool = False
    """Left in mid-write: the last line is not complete, or what a resume repeats is missing."""

    def upto(self, anchor: str) -> list[RawMessage] | None:
        """The messages up to the anchor, and the results of calls that end there."""
        for messages in (self.messages, *reversed(self.earlier)):
            for at, message in enumerate(messages):
                if message["id"] == anchor:
                    return messages[: at + 1 + _results_behind(messages[at + 1 :])]
        return None


def read_history(path: Path) -> History | None:
    """None: the file is not there, too large, or not to be understood at all."""
    try:
        if path.stat().st_size > WHOLE_BYTES:
            return None
        raw = path.read_bytes()
        return _whole(raw) if path.suffix == ".json" else _lines(raw)
    except (OSError, ValueError, RecursionError):
        return None


def _whole(raw: bytes) -> History | None:
    record = _decode(raw)
    if not isinstance(record, dict):
        return None
    header = {key: value for key, value in record.items() if key != "messages"}
    return History(header, list(_by_id(record.get("messages")).values()))


def _lines(raw: bytes) -> History:
    fold = _Fold()
    for line in raw.split(b"\n"):
        fold.add(record_of(line))
    return History(
        fold.header,
        list(fold.messages.values()),
        fold.earlier[-KEPT_STATES:],
        fold.repeated,
        torn=fold.reopened or not raw.endswith(b"\n"),
    )


class _Fold:
    """The state of a session while its lines are read."""

    def __init__(self) -> None:
        self.header: dict[str, Any] = {}
        self.messages: dict[str, RawMessage] = {}
        self.earlier: list[list[RawMessage]] = []
        self.reopened = False
        self.repeated = 0
        self._opened = False

    def add(self, record: dict[str, Any]) -> None:
        opened, self._opened = self._opened, False
        if isinstance(record.get("$rewindTo"), str):
            ids = list(self.messages)
            at = ids.index(record["$rewindTo"]) if record["$rewindTo"] in self.messages else 0
            self._replace({key: self.messages[key] for key in ids[:at]})
        elif isinstance(record.get("id"), str):
            self.messages[record["id"]] = record
        elif isinstance(record.get("$set"), dict):
            self._patch(record["$set"], opened)
        elif isinstance(record.get("sessionId"), str):
            self._opened = True
            self._patch(record, opened)

    def _patch(self, patch: dict[str, Any], opened: bool) -> None:
        self.header |= {key: value for key, value in patch.items() if key != "messages"}
        if isinstance(patch.get("messages"), list):
            messages = _by_id(patch["messages"])
            # a resume opens the file anew with nothing but its context, a moment before it repeats the rest:
            # killed in between, all that was there is still the session
            self.reopened = bool(opened and self.messages and all(map(is_context, messages.values())))
            if not self.reopened:
                self._replace(messages)

    def _replace(self, messages: dict[str, RawMessage]) -> None:
        if any(
            message.get("type") == "gemini" and is_sent(message) and key not in messages
            for key, message in self.messages.items()
        ):
            self.earlier.append(list(self.messages.values()))
        elif self.messages:
            self.repeated += 1
        self.messages = messages


def _by_id(messages: Any) -> dict[str, RawMessage]:
    return {one["id"]: one for one in as_items(messages) if isinstance(as_table(one).get("id"), str)}


def _results_behind(messages: Iterable[RawMessage]) -> int:
    """How many messages at the beginning hold nothing but results."""
    count = 0
    for message in messages:
        if message.get("type") != "user" or not answered(message):
            break
        count += 1
    return count


def record_of(line: bytes) -> dict[str, Any]:
    try:
        return as_table(_decode(line))
    except ValueError:
        return {}


def _decode(raw: bytes) -> Any:
    """As JavaScript reads it: half a surrogate pair, as cut tool output may hold, is no reason to refuse."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return json.loads(raw.decode("utf-8", "replace"), parse_constant=_refuse)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


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
            said = as_items(as_table(record.get("$set", record)).get("messages"))
            yield as_table(said[ref.at]) if ref.at < len(said) else {}


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
    behind = len(entries_of_line(msgspec.structs.replace(found, messages=None), "", start))
    for message in found.messages or ():
        behind += len(entries_of_line(message, "", start))
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


SMALL_BYTES = 4 * 1024 * 1024
FAR_BYTES = 64 * 1024 * 1024
"""How far from the end a message is looked for."""
ID_CHARACTERS = 200

_LAST = re.compile(rb'\n {6}"id": "([^"\\]+)",\n {6}"timestamp": "[^"\\]*",\n {6}"type": "(?:user|gemini)"')
"""A message's head, as the versions that wrote one object indented it; text cannot hold such lines."""


def last_id(path: Path) -> str | None:
    """The id of the last message that is sent; results that repeat a record are part of that message."""
    try:
        found = _of_object(path) if path.suffix == ".json" else _of_lines(path)
    except (OSError, RecursionError):
        return None
    found = found and found.removesuffix(ECHO)
    return found if found and len(found) <= ID_CHARACTERS else None


def _of_object(path: Path) -> str | None:
    if path.stat().st_size <= SMALL_BYTES:
        return _of_story(path)
    with path.open("rb") as file:
        file.seek(-SMALL_BYTES, 2)
        data = file.read()
    heads = _LAST.findall(data)
    if not heads:
        return _of_story(path)
    return heads[-1].decode("utf-8", "replace") if data.rstrip().endswith(b"}") else None


def _of_story(path: Path) -> str | None:
    story = read_history(path)
    return _last(story.messages) if story else None


def _of_lines(path: Path) -> str | None:
    """From the last line back to the first that tells."""
    opening = False
    with path.open("rb") as file:
        for line in _backwards(file):
            record = record_of(line)
            if opening and "sessionId" not in record:
                return None  # taken back to the beginning; behind a header, it is only opened anew
            opening = False
            said = as_table(record.get("$set")).get("messages")
            if "$rewindTo" in record:
                return _of_story(path)
            if isinstance(said, list):
                opening = all(map(is_context, map(as_table, said)))
            found = _last([record] if said is None else as_items(said))
            if found is not None:
                return found
    return None


def _last(messages: list[Any]) -> str | None:
    sent = filter(is_sent, map(as_table, reversed(messages)))
    return next((one["id"] for one in sent if isinstance(one.get("id"), str)), None)


def _backwards(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file, the last one first; what follows the last line break is a line in the making."""
    size = file.seek(0, 2)
    for line in backwards(file):
        if size - line.start > FAR_BYTES:
            return
        yield line.text or b""
