"""What a session's lines amount to at a glance: who said how much, first and last, and what it took.

Most lines are told apart by how they begin, and few are decoded. The order of fields in which Gemini writes
them makes that possible; a line that begins otherwise is decoded, and counted all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from segue.agents.gemini.entries import all_context, of_message, summary_at
from segue.agents.gemini.lines import ERRORS, held, is_touch
from segue.agents.gemini.shapes import Header, Message, Tokens
from segue.core.transcript import Entry

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
Kept = bytes | Message


class Gist:
    """Fed with lines in their order; some may be missing in the middle."""

    def __init__(self) -> None:
        self.words: dict[str, bool] = {}
        """The messages that there are, and whether each has words."""
        self.answers: dict[str, Kept] = {}
        """All that was ever answered: what a summary replaced was paid for too."""
        self.first: Kept | None = None
        self.last: Kept | None = None
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

    def _heard(self, key: str, said: bool, kept: Kept, size: int) -> None:
        self.words[key] = said
        self.behind += size
        if said:
            self.first = self.first or kept
            self.last = kept

    def _answered(self, key: str, said: bool, kept: Kept) -> None:
        self.words[key] = said
        self.behind = 0
        if key not in self.answers or isinstance(kept, bytes) or kept.tokens is not None:
            self.answers[key] = kept  # what a resume writes again is without its tokens


def prompt(kept: Kept | None) -> str | None:
    """The words of a message that was kept."""
    try:
        message = held(kept)[0] if isinstance(kept, bytes) else kept
    except ERRORS:
        return None
    found = entries_of(message) if isinstance(message, Message) else []
    return next((one.text.strip() for one in found if one.kind == "user"), None)


def spent(kept: Kept) -> Spent:
    try:
        return _spent.decode(kept) if isinstance(kept, bytes) else Spent(kept.tokens, kept.model)
    except ERRORS:
        return Spent()


def entries_of(message: Message) -> list[Entry]:
    out: list[Entry] = []
    of_message(message, 0, out)
    return out
