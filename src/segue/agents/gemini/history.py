"""The contents of a session file: its header and its messages.

A ``.jsonl`` contains a header, messages (a later one with the same id replaces the earlier) and patches:
``$set`` changes the header or replaces all messages, ``$rewindTo`` removes a message and all after it. A
``.json`` (versions before 0.39) is one object. What cannot be read is skipped, as Gemini does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

import msgspec

from segue.agents.gemini.forms import ECHO, answered, is_context, is_sent
from segue.agents.gemini.schema import RawMessage, clean
from segue.agents.jsonl import backwards
from segue.core.json_values import as_items, as_table

T = TypeVar("T")
WHOLE_BYTES = 256 * 1024 * 1024
"""A larger file is not read as a whole."""
_KEPT_STATES = 3
_SMALL_BYTES = 4 * 1024 * 1024
_FAR_BYTES = 64 * 1024 * 1024
"""How far from the end a message is searched for."""
_ID_CHARACTERS = 200
_LAST = re.compile(rb'\n {6}"id": "([^"\\]+)",\n {6}"timestamp": "[^"\\]*",\n {6}"type": "(?:user|gemini)"')
"""The beginning of a message as the versions with one object indented it; text cannot contain such lines."""


class Fold(Generic[T]):
    """The messages that result from the lines, by their ids; ``T`` is what a reader keeps of a message."""

    def __init__(self) -> None:
        self.messages: dict[str, T] = {}
        self.reopened = False
        """The last list of messages was only the context with which a resume begins."""
        self._opened = False

    def message(self, key: str, kept: T) -> None:
        self._opened = False
        self.messages[key] = kept

    def rewind(self, key: str) -> None:
        """Remove a message and all after it. If it does not exist, Gemini removes everything."""
        self._opened = False
        ids = list(self.messages)
        at = ids.index(key) if key in self.messages else 0
        self.replace({one: self.messages[one] for one in ids[:at]})

    def header(self, messages: dict[str, T] | None, *, opens: bool, context: bool) -> bool:
        """Add a header line (``opens``) or a patch. Return whether its list of messages, if any, counts.

        A resume reopens the file with only its context (``context``), a moment before it repeats the rest. If
        it was killed in between, the earlier messages are still the session.
        """
        opened, self._opened = self._opened, opens
        if messages is None:
            return False
        self.reopened = bool(opened and self.messages and context)
        if not self.reopened:
            self.replace(messages)
        return not self.reopened

    def other(self) -> None:
        """Any other line, or one that cannot be read."""
        self._opened = False

    def replace(self, messages: dict[str, T]) -> None:
        self.messages = messages


class History(msgspec.Struct, frozen=True):
    """A session that was read completely, and can be written again."""

    header: dict[str, Any]
    messages: list[RawMessage]
    earlier: list[list[RawMessage]] = []
    """The messages before answers were removed (by a summary, or a rewind)."""
    repeated: int = 0
    """How often all messages were written again without a loss: every resume may do that."""
    torn: bool = False
    """Writing was interrupted: the last line is incomplete, or what a resume repeats is missing."""

    def upto(self, anchor: str) -> list[RawMessage] | None:
        """The messages up to the anchor, with the results of its calls."""
        for messages in (self.messages, *reversed(self.earlier)):
            for at, message in enumerate(messages):
                if message["id"] == anchor:
                    return messages[: at + 1 + _results_behind(messages[at + 1 :])]
        return None


def read_history(path: Path) -> History | None:
    """None if the file is missing, too large, or has an unknown form."""
    try:
        if path.stat().st_size > WHOLE_BYTES:
            return None
        raw = path.read_bytes()
        return _of_object(raw) if path.suffix == ".json" else _of_lines(raw)
    except (OSError, ValueError, RecursionError):
        return None


def salvage(raw: bytes) -> tuple[dict[str, Any], list[RawMessage]]:
    """What can be read of an object that was cut off: its header, and the complete messages."""
    text, decoder = raw.decode("utf-8", "replace"), json.JSONDecoder()
    head, found, rest = text.partition('"messages"')
    try:
        header = as_table(json.loads(head.rstrip().rstrip(",") + "}")) if found else {}
    except (ValueError, RecursionError):
        header = {}
    messages: list[RawMessage] = []
    at = rest.find("[") + 1
    while at > 0:
        at = rest.find("{", at)
        try:
            one, at = decoder.raw_decode(rest, at) if at >= 0 else (None, -1)
        except (ValueError, RecursionError):
            break
        if isinstance(one, dict) and isinstance(one.get("id"), str):
            messages.append(one)
        if at >= 0 and not rest[at : at + 20].lstrip().startswith(","):
            break
    return clean(header, raw), clean(messages, raw)


def record_of(line: bytes) -> dict[str, Any]:
    try:
        return as_table(_decode(line))
    except ValueError:
        return {}


def _of_object(raw: bytes) -> History | None:
    record = _decode(raw)
    if not isinstance(record, dict):
        return None
    header = {key: value for key, value in record.items() if key != "messages"}
    return History(header, list(_by_id(record.get("messages")).values()))


def _of_lines(raw: bytes) -> History:
    fold = _RawFold()
    for line in raw.split(b"\n"):
        fold.add(record_of(line))
    return History(
        fold.fields,
        list(fold.messages.values()),
        fold.earlier[-_KEPT_STATES:],
        fold.repeated,
        torn=fold.reopened or not raw.endswith(b"\n"),
    )


class _RawFold(Fold[RawMessage]):
    """All messages, those that a summary or a rewind removed, and the header's fields."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, Any] = {}
        self.earlier: list[list[RawMessage]] = []
        self.repeated = 0

    def add(self, record: dict[str, Any]) -> None:
        if isinstance(record.get("$rewindTo"), str):
            self.rewind(record["$rewindTo"])
        elif isinstance(record.get("id"), str):
            self.message(record["id"], record)
        elif isinstance(record.get("$set"), dict):
            self._patch(record["$set"], opens=False)
        elif isinstance(record.get("sessionId"), str):
            self._patch(record, opens=True)
        else:
            self.other()

    def _patch(self, patch: dict[str, Any], *, opens: bool) -> None:
        self.fields |= {key: value for key, value in patch.items() if key != "messages"}
        listed = isinstance(patch.get("messages"), list)
        messages = _by_id(patch.get("messages"))
        context = all(map(is_context, messages.values()))
        self.header(messages if listed else None, opens=opens, context=context)

    def replace(self, messages: dict[str, RawMessage]) -> None:
        if any(
            message.get("type") == "gemini" and is_sent(message) and key not in messages
            for key, message in self.messages.items()
        ):
            self.earlier.append(list(self.messages.values()))
        elif self.messages:
            self.repeated += 1
        super().replace(messages)


def _by_id(messages: Any) -> dict[str, RawMessage]:
    return {one["id"]: one for one in as_items(messages) if isinstance(as_table(one).get("id"), str)}


def _results_behind(messages: Iterable[RawMessage]) -> int:
    """How many messages at the beginning contain only results."""
    count = 0
    for message in messages:
        if message.get("type") != "user" or not answered(message):
            break
        count += 1
    return count


def _decode(raw: bytes) -> Any:
    """As JavaScript reads it: half a surrogate pair, as in truncated tool output, is accepted."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return json.loads(raw.decode("utf-8", "replace"), parse_constant=_refuse)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


# --- only the end: files can be huge ---------------------------------------------------------------


def last_id(path: Path) -> str | None:
    """The id of the last message that is sent; repeated results are part of their message."""
    try:
        found = _end_of_object(path) if path.suffix == ".json" else _end_of_lines(path)
    except (OSError, RecursionError):
        return None
    found = found and found.removesuffix(ECHO)
    return found if found and len(found) <= _ID_CHARACTERS else None


def _end_of_object(path: Path) -> str | None:
    if path.stat().st_size <= _SMALL_BYTES:
        return _end_of_history(path)
    with path.open("rb") as file:
        file.seek(-_SMALL_BYTES, 2)
        data = file.read()
    heads = _LAST.findall(data)
    if not heads:
        return _end_of_history(path)
    return heads[-1].decode("utf-8", "replace") if data.rstrip().endswith(b"}") else None


def _end_of_history(path: Path) -> str | None:
    history = read_history(path)
    return _last_sent(history.messages) if history else None


def _end_of_lines(path: Path) -> str | None:
    """The id from the last line that shows it. A half-written line is ignored."""
    opening = False
    with path.open("rb") as file:
        size = file.seek(0, 2)
        for line in backwards(file):
            if size - line.start > _FAR_BYTES:
                return None
            record = record_of(line.text or b"")
            if opening and "sessionId" not in record:
                return None  # rewound to the beginning; after a header, it is only reopened
            opening = False
            messages = as_table(record.get("$set")).get("messages")
            if "$rewindTo" in record:
                return _end_of_history(path)
            if isinstance(messages, list):
                opening = all(map(is_context, map(as_table, messages)))
            found = _last_sent([record] if messages is None else as_items(messages))
            if found is not None:
                return found
    return None


def _last_sent(messages: list[Any]) -> str | None:
    sent = filter(is_sent, map(as_table, reversed(messages)))
    return next((one["id"] for one in sent if isinstance(one.get("id"), str)), None)
