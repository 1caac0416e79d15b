"""A session file, read whole: its header and the messages it amounts to.

A ``.jsonl`` holds a header, messages (a later one of the same id replaces the earlier) and patches: ``$set``
changes the header or replaces all messages, ``$rewindTo`` takes back a message and all after it. A ``.json``,
as versions before 0.39 wrote it, is one object. What cannot be read is passed over, as Gemini does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from segue.agents.gemini.message import Message, answered, is_context, is_sent
from segue.core.loose import items, table

WHOLE_BYTES = 256 * 1024 * 1024
"""More than this is not read whole."""
KEPT_STATES = 3


class Story(msgspec.Struct, frozen=True):
    header: dict[str, Any]
    messages: list[Message]
    earlier: list[list[Message]] = []
    """What stood in the session before answers were taken out of it (by a summary, or taken back)."""
    repeated: int = 0
    """How often all messages were written again with nothing lost: every resume may do it."""
    torn: bool = False
    """Left in mid-write: the last line is not complete, or what a resume repeats is missing."""

    def upto(self, anchor: str) -> list[Message] | None:
        """The messages up to the anchor, and the results of calls that end there."""
        for messages in (self.messages, *reversed(self.earlier)):
            for at, message in enumerate(messages):
                if message["id"] == anchor:
                    return messages[: at + 1 + _results_behind(messages[at + 1 :])]
        return None


def read(path: Path) -> Story | None:
    """None: the file is not there, too large, or not to be understood at all."""
    try:
        if path.stat().st_size > WHOLE_BYTES:
            return None
        raw = path.read_bytes()
        return _whole(raw) if path.suffix == ".json" else _lines(raw)
    except (OSError, ValueError, RecursionError):
        return None


def _whole(raw: bytes) -> Story | None:
    record = _decode(raw)
    if not isinstance(record, dict):
        return None
    header = {key: value for key, value in record.items() if key != "messages"}
    return Story(header, list(_by_id(record.get("messages")).values()))


def _lines(raw: bytes) -> Story:
    fold = _Fold()
    for line in raw.split(b"\n"):
        fold.add(record_of(line))
    return Story(
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
        self.messages: dict[str, Message] = {}
        self.earlier: list[list[Message]] = []
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

    def _replace(self, messages: dict[str, Message]) -> None:
        if any(
            message.get("type") == "gemini" and is_sent(message) and key not in messages
            for key, message in self.messages.items()
        ):
            self.earlier.append(list(self.messages.values()))
        elif self.messages:
            self.repeated += 1
        self.messages = messages


def _by_id(messages: Any) -> dict[str, Message]:
    return {one["id"]: one for one in items(messages) if isinstance(table(one).get("id"), str)}


def _results_behind(messages: Iterable[Message]) -> int:
    """How many messages at the beginning hold nothing but results."""
    count = 0
    for message in messages:
        if message.get("type") != "user" or not answered(message):
            break
        count += 1
    return count


def record_of(line: bytes) -> dict[str, Any]:
    try:
        return table(_decode(line))
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
