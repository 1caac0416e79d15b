"""A summary of a session, from the first and the last 64 KB of its file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice

import msgspec
from msgspec.structs import replace

from segue.agents.base import StoredSession
from segue.agents.decoding import moment_ms
from segue.agents.gemini import files
from segue.agents.gemini.entries import entries_of, summary_at
from segue.agents.gemini.history import Fold, salvage
from segue.agents.gemini.schema import (
    NO_JSON,
    Header,
    Message,
    Rewind,
    Tokens,
    all_context,
    as_header,
    as_message,
    clean,
    line_of,
    object_of,
)
from segue.agents.windows import Ends, read_ends, troubled, unreadable_brief
from segue.core.json_values import as_table
from segue.core.transcript import Brief
from segue.core.verdicts import say

DAMAGED = say("its beginning is damaged or missing", "session.beginning")
_NEAR = 3
"""How many of the last answers are searched for their usage."""
_MESSAGE = re.compile(r'\{\s*"id"\s*:\s*"')
_TITLE, _TITLE_BYTES = re.compile(rb'\n  "summary": ("(?:[^"\\\n]|\\.)*")'), 4096
"""In one object, as its versions indented it: text cannot contain such a line."""


def brief(stored: StoredSession) -> Brief:
    try:
        ends = read_ends(stored.path)
    except OSError as error:
        changed_ms = stored.changed_ns // 1_000_000
        return replace(unreadable_brief(error), cwd=_directory(stored), last_used_ms=changed_ms)
    glance = _Glance()
    estimate = (_look_at_lines if stored.appends else _look_at_object)(ends, glance)
    answer = glance.last_paid()
    tokens = answer.tokens or Tokens()
    given = max(0, (tokens.total or 0) - (tokens.input or 0))
    count = sum(glance.messages.values())
    known = Brief(
        cwd=_directory(stored),
        title=glance.title or glance.first,
        title_by="agent" if glance.title else "prompt" if glance.first else None,
        first_prompt=glance.first,
        last_prompt=glance.last or glance.first,
        messages=count if estimate is None else estimate,
        messages_estimated=estimate is not None,
        tokens=glance.total() if ends.whole else None,
        created_ms=moment_ms(glance.created),
        last_used_ms=moment_ms(glance.stamp) or stored.changed_ns // 1_000_000,
        model=answer.model,
        context=tokens.input,
        after=given + glance.behind // 4 if tokens.input is not None else 0,
        side=glance.kind == "subagent",
        empty=ends.whole and not count and not glance.answers,
    )
    return known if glance.created is not None else troubled(known, DAMAGED)


def _directory(stored: StoredSession) -> str | None:
    return files.project_directory(os.path.dirname(os.path.dirname(stored.file)), stored.home)


class _Glance(Fold[bool]):
    """Whether each message has text, the first and the last prompt, and the usage.

    Gets the lines in their order; some in the middle may be missing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[str, Message] = {}
        """All answers, including those that a summary replaced: they were paid for too."""
        self.first = self.last = None  # type: str | None
        self.created = self.kind = self.title = self.stamp = None  # type: str | None
        self.behind = 0
        """Bytes of the messages after the model's last answer."""

    def add_lines(self, lines: Iterable[bytes]) -> None:
        for raw in filter(None, lines):
            try:
                line = line_of(raw)
            except NO_JSON:
                self.other()
                continue
            if isinstance(line, Message):
                self.message(line.id or "", self.look(line, len(raw)))
            elif isinstance(line, Header):
                self.add_header(line)
            elif isinstance(line, Rewind) and line.to in self.messages:
                self.rewind(line.to)
            else:
                self.other()

    def add_header(self, header: Header) -> None:
        self.created = self.created or header.startTime
        self.kind, self.title = header.kind or self.kind, header.summary or self.title
        self._touched(header.lastUpdated)
        messages, listed = header.messages or (), header.messages is not None
        context = all_context(messages)
        if self.header({} if listed else None, opens=header.opens, context=context):
            summary = summary_at(messages)
            self.add_messages(one for at, one in enumerate(messages) if at != summary)

    def add_messages(self, messages: Iterable[Message]) -> None:
        self.messages |= {one.id or "": self.look(one, 0) for one in messages}

    def look(self, message: Message, size: int) -> bool:
        entries = [one for one in entries_of(message) if one.kind in ("user", "assistant")]
        words = next((one.text.strip() for one in entries if one.text and not one.inserted), None)
        self._touched(message.timestamp)
        if message.type == "user":
            self.behind += size
            self.first, self.last = self.first or words, words or self.last
        elif message.type == "gemini":
            self.behind = 0
            # a resume writes answers again without their tokens
            if message.id not in self.answers or message.tokens is not None:
                self.answers[message.id or ""] = message
        return words is not None

    def last_paid(self) -> Message:
        for answer in islice(reversed(self.answers.values()), _NEAR):
            if answer.tokens is not None and answer.tokens.input:
                return answer
        return Message()

    def total(self) -> int | None:
        counts = [one.tokens.total for one in self.answers.values() if one.tokens is not None]
        return sum(filter(None, counts)) if counts else None

    def _touched(self, stamp: str | None) -> None:
        if stamp and (self.stamp is None or stamp > self.stamp):
            self.stamp = stamp


def _look_at_lines(ends: Ends, glance: _Glance) -> int | None:
    """The estimated number of messages; None if all of them are in the windows."""
    if ends.whole:
        glance.add_lines(ends.head.split(b"\n"))
        return None
    *head, _ = ends.head.split(b"\n")
    glance.add_lines(head)
    estimate = _estimate(glance, sum(map(len, head)) + len(head), ends.size)
    cut_off, *tail = ends.tail.split(b"\n")
    glance.add_messages(_whole_messages(cut_off))
    glance.add_lines(tail)
    return estimate


def _look_at_object(ends: Ends, glance: _Glance) -> int | None:
    try:
        glance.add_header(object_of(ends.head))
    except NO_JSON:
        header, messages = salvage(ends.head)
        glance.add_header(as_header(header | {"messages": messages}))
    if ends.whole:
        return None
    estimate = _estimate(glance, len(ends.head), ends.size)
    glance.add_messages(_whole_messages(ends.tail))
    with suppress(*NO_JSON):
        if title := _TITLE.search(ends.tail[-_TITLE_BYTES:]):
            glance.title = msgspec.json.decode(title[1], type=str)
    return estimate


def _estimate(glance: _Glance, seen: int, size: int) -> int:
    return round(sum(glance.messages.values()) * size / max(seen, 1))


def _whole_messages(piece: bytes) -> Sequence[Message]:
    """The complete messages in a piece of a list of messages."""
    text, decoder, end = piece.decode("utf-8", "replace"), json.JSONDecoder(), 0
    messages = []
    for begin in _MESSAGE.finditer(text):
        if begin.start() < end:
            continue
        try:
            record, end = decoder.raw_decode(text, begin.start())
        except (ValueError, RecursionError):
            continue
        if isinstance(as_table(record).get("type"), str):
            messages.append(as_message(clean(record, piece)))
    return messages
