"""A session at a glance, from the first and the last 64 KB of its file.

What a session's lines amount to at a glance: who said how much, first and last, and what it took.

Most lines are told apart by how they begin, and few are decoded. The order of fields in which Gemini writes
them makes that possible; a line that begins otherwise is decoded, and counted all the same.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice

import msgspec

from segue.agents.base import HEAD, TAIL, StoredSession
from segue.agents.gemini import files
from segue.agents.gemini.entries import all_context, message_entries, salvage, summary_at
from segue.agents.gemini.schema import (
    ERRORS,
    Header,
    Message,
    Tokens,
    as_header,
    as_message,
    header,
    held,
    is_touch,
    ms,
)
from segue.core.transcript import Brief, Entry

_BEGIN = re.compile(
    rb'\{"id": ?"([^"\\]+)", ?"timestamp": ?"([^"\\]*)", ?"type": ?"(user|gemini)", ?"content": ?'
    rb'(?:\[\{"(?:text": ?"([^"\\]{0,17})|(\w+))|"([^"\\]{0,17}))?'
)
_CONTEXTS = (b"<session_context>", b"<hook_context>", b"<state_snapshot>")
_INSERTED = (b"Got it. Thanks fo", b"[The previous res")
"""How answers begin that Gemini itself may have put there."""


class Spent(msgspec.Struct, frozen=True):
    tokens: Tokens | None = None
    model: str | None = None


_spent = msgspec.json.Decoder(Spent)
KeptPrompt = bytes | Message


class Counts:
    """Fed with lines in their order; some may be missing in the middle."""

    def __init__(self) -> None:
        self.words: dict[str, bool] = {}
        """The messages that there are, and whether each has words."""
        self.answers: dict[str, KeptPrompt] = {}
        """All that was ever answered: what a summary replaced was paid for too."""
        self.first: KeptPrompt | None = None
        self.last: KeptPrompt | None = None
        self.created = self.kind = self.title = self.stamp = None  # type: str | None
        self.behind = 0
        """Bytes of what was said to the model after its last answer."""
        self.damaged = 0
        self._touch = self._newest = b""
        self._opened = False

    def add_all(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            if is_touch(line):
                self._touch = line
            elif line:
                self._add(line)

    def _add(self, line: bytes) -> None:
        begin = _BEGIN.match(line)
        if begin is None:
            self._decoded(line)
            return
        key, stamp, kind, part, other, words = begin.groups()
        self._opened = False
        self._newest = max(self._newest, stamp)
        if kind == b"user":
            said = other is None and not (part or words or b"").startswith(_CONTEXTS)
            self._heard(key.decode("utf-8", "replace"), said, line, len(line))
        elif (part or words or b"").startswith(_INSERTED) or (part is not None and b'"thought"' in line):
            self._decoded(line)
        else:
            self._answered(key.decode("utf-8", "replace"), part is not None or bool(words), line)

    def touched(self) -> str | None:
        """The newest time that is told."""
        self._at(max(self._newest, self._touch[24:48]).decode("ascii", "replace"))
        return self.stamp

    def _at(self, stamp: str | None) -> None:
        if stamp and (self.stamp is None or stamp > self.stamp):
            self.stamp = stamp

    def _decoded(self, line: bytes) -> None:
        try:
            found, _ = held(line)
        except ERRORS:
            self.damaged += 1
            return
        opened, self._opened = self._opened, False
        if isinstance(found, Message):
            self.message(found, len(line))
        elif isinstance(found, Header):
            self.header(found, opened)
        elif isinstance(found, str) and found in self.words:
            ids = list(self.words)
            for key in ids[ids.index(found) :]:
                del self.words[key]

    def header(self, header: Header, opened: bool = False) -> None:
        self.created = self.created or header.startTime
        self.kind, self.title = header.kind or self.kind, header.summary or self.title
        self._opened = header.startTime is not None
        if header.messages is not None and not (opened and self.words and all_context(header.messages)):
            self.words = {}
            summary = summary_at(header.messages)
            for at, message in enumerate(header.messages):
                if at != summary:
                    self.message(message, 0)
        self._at(header.lastUpdated)

    def message(self, message: Message, size: int) -> None:
        found = entries_of(message)
        said = any(one.kind in ("user", "assistant") and one.text and not one.inserted for one in found)
        self._at(message.timestamp)
        if message.type == "user":
            self._heard(message.id or "", said, message, size)
        elif message.type == "gemini":
            self._answered(message.id or "", said, message)

    def _heard(self, key: str, said: bool, kept: KeptPrompt, size: int) -> None:
        self.words[key] = said
        self.behind += size
        if said:
            self.first = self.first or kept
            self.last = kept

    def _answered(self, key: str, said: bool, kept: KeptPrompt) -> None:
        self.words[key] = said
        self.behind = 0
        if key not in self.answers or isinstance(kept, bytes) or kept.tokens is not None:
            self.answers[key] = kept  # what a resume writes again is without its tokens


def prompt_of(kept: KeptPrompt | None) -> str | None:
    """The words of a message that was kept."""
    try:
        message = held(kept)[0] if isinstance(kept, bytes) else kept
    except ERRORS:
        return None
    found = entries_of(message) if isinstance(message, Message) else []
    return next((one.text.strip() for one in found if one.kind == "user"), None)


def spent(kept: KeptPrompt) -> Spent:
    try:
        return _spent.decode(kept) if isinstance(kept, bytes) else Spent(kept.tokens, kept.model)
    except ERRORS:
        return Spent()


def entries_of(message: Message) -> list[Entry]:
    out: list[Entry] = []
    message_entries(message, 0, out)
    return out


_NEAR = 3
"""So many answers from the last one back are asked what they took."""
_SAMPLE = 20
"""So many lines from the first one on are counted in a file that is not looked at as a whole."""
_PROMPT, _ANSWER = b'"type":"user","content":[{"text":"', b'"type":"gemini"'
_OBJECT = b'\n      "id": "'
"""A message's first field, as versions that wrote one object indented it; text cannot hold such a line."""
_LAST, _HEAD_BYTES, _TITLE_BYTES = 16, 8 * 1024, 4096
_TITLE = re.compile(rb'\n  "summary": ("(?:[^"\\\n]|\\.)*")')


class _Windows(msgspec.Struct, frozen=True):
    head: bytes
    tail: bytes
    """Empty where the head is all there is."""
    size: int


def brief(stored: StoredSession) -> Brief:
    changed_ms = stored.changed_ns // 1_000_000
    try:
        seen = _windows(stored)
    except OSError as error:
        trouble = f"it cannot be read: {error.strerror or error}"
        return Brief(cwd=_directory(stored), last_used_ms=changed_ms, trouble=trouble)
    gist = Counts()
    about = (_lines if stored.appends else _object)(seen, gist)
    return _told(stored, seen, gist, about)


def _windows(stored: StoredSession) -> _Windows:
    opened = os.open(stored.file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(opened).st_size
        if size <= HEAD + TAIL:
            return _Windows(os.read(opened, HEAD + TAIL), b"", size)
        return _Windows(os.read(opened, HEAD), os.pread(opened, TAIL, size - TAIL), size)
    finally:
        os.close(opened)


def _told(stored: StoredSession, seen: _Windows, gist: Counts, about: int | None) -> Brief:
    first, last = prompt_of(gist.first), prompt_of(gist.last)
    said = any(gist.words.values())
    answer, tokens = _last_paid(gist)
    context = tokens.input
    given = max(0, (tokens.total or 0) - (context or 0))
    started = gist.created is not None
    return Brief(
        cwd=_directory(stored),
        title=gist.title or first,
        title_by="agent" if gist.title else "prompt" if first else None,
        first_prompt=first,
        last_prompt=last or first,
        messages=sum(gist.words.values()) if about is None else about,
        messages_estimated=about is not None,
        tokens=_total(gist) if not seen.tail else None,
        created_ms=ms(gist.created),
        last_used_ms=ms(gist.touched()) or stored.changed_ns // 1_000_000,
        model=answer.model,
        context=context,
        after=given + gist.behind // 4 if context is not None else 0,
        side=gist.kind == "subagent",
        empty=not seen.tail and not said and not gist.answers,
        trouble=None if started else "its beginning is damaged or missing",
    )


def _last_paid(gist: Counts) -> tuple[Spent, Tokens]:
    for kept in islice(reversed(gist.answers.values()), _NEAR):
        found = spent(kept)
        if found.tokens is not None and found.tokens.input:
            return found, found.tokens
    return Spent(), Tokens()


def _total(gist: Counts) -> int | None:
    known = [one.tokens.total for kept in gist.answers.values() if (one := spent(kept)).tokens is not None]
    return sum(filter(None, known)) if known else None


def _directory(stored: StoredSession) -> str | None:
    return files.project_directory(os.path.dirname(os.path.dirname(stored.file)), stored.home)


# --- lines -----------------------------------------------------------------------------------------


def _lines(seen: _Windows, gist: Counts) -> int | None:
    """How many messages there are about, where only some of them are counted."""
    if not seen.tail:
        *head, end = seen.head.split(b"\n")
        gist.add_all(head)
        gist.add_all([end] if end.endswith(b"}") else [])
        return None
    head = seen.head.split(b"\n", _SAMPLE)[:-1]
    sample = sum(map(len, head)) + 1
    gist.add_all(head)
    about, first = round(sum(gist.words.values()) * seen.size / sample), gist.first
    begin = _needed(seen.tail)
    gist.last = None if begin else _inside(seen.tail[: seen.tail.find(b"\n")])
    *lines, end = seen.tail[begin or seen.tail.find(b"\n") + 1 :].split(b"\n")
    gist.add_all(lines)
    gist.add_all([end] if end.endswith(b"}") else [])
    gist.first = first or gist.first
    return about


def _needed(tail: bytes) -> int:
    """Where the line begins from which on there are words of the user's and an answer; 0: nowhere."""
    prompt, answer = tail.rfind(_PROMPT), tail.rfind(_ANSWER)
    at = min(prompt, answer)
    return tail.rfind(b"\n", 0, at) + 1 if at >= 0 else 0


def _inside(piece: bytes) -> bytes | None:
    """The last prompt in a piece of a line that holds all messages, as a line of its own."""
    at = piece.rfind(_PROMPT)
    begin, end = piece.rfind(b'{"id":"', 0, max(at, 0)), piece.find(b'"}]}', at)
    return piece[begin : end + 4] if at >= 0 and begin >= 0 and end >= 0 else None


# --- one object ------------------------------------------------------------------------------------


def _object(seen: _Windows, gist: Counts) -> int | None:
    if not seen.tail:
        try:
            gist.header(header(seen.head))
        except ERRORS:
            gist.header(_cut_off(seen.head))
        return None
    gist.header(_cut_off(seen.head[:_HEAD_BYTES]))
    about = round(sum(gist.words.values()) * seen.size / _HEAD_BYTES)
    begin = len(seen.tail)
    for _ in range(_LAST):
        begin = at if (at := seen.tail.rfind(_OBJECT, 0, begin)) >= 0 else begin
    for message in _cut_off(b'{"messages":[{' + seen.tail[begin:]).messages or ():
        gist.message(message, 0)
    with suppress(*ERRORS):
        if found := _TITLE.search(seen.tail[-_TITLE_BYTES:]):
            gist.title = msgspec.json.decode(found[1], type=str)
    return about


def _cut_off(raw: bytes) -> Header:
    known, messages = salvage(raw)
    return msgspec.structs.replace(as_header(known), messages=[as_message(one) for one in messages])
