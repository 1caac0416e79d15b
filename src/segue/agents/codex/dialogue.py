"""What was said, found in the beginning and the end of a rollout by searching for bytes.

What is said stands in the file as JSON, so a quote in it is escaped: the keys searched for are found only
where they are keys.
"""

from __future__ import annotations

import msgspec

from segue.agents.codex.entries import entries
from segue.agents.codex.items import INSERTED
from segue.core.transcript import Entry

_MESSAGE = b'"payload":{"type":"message"'
_USER, _ASSISTANT = b'"role":"user"', b'"role":"assistant"'
_KINDS, _BY_USER, _SUMMARY = b'"content_item_kinds":[', b'"user.', b'"compaction_output":true'
_PUT_IN = tuple(begin.encode() for begin in INSERTED)
_HEADER = 300
"""Between the beginning of a message and its words there is no more than this."""


class Windows(msgspec.Struct, frozen=True):
    """The beginning and the end of a file: whole lines; one and the same where they meet."""

    head: bytes
    tail: bytes
    size: int

    @property
    def whole(self) -> bool:
        return self.head is self.tail

    def each(self) -> tuple[bytes, ...]:
        return (self.head,) if self.whole else (self.head, self.tail)


class _Scanned(msgspec.Struct, frozen=True):
    """How many messages a window has, said by whomever, and how many of them are the dialogue; and where the
    first and the last prompt lie."""

    all: int
    said: int
    first: int
    last: int


def dialogue(windows: Windows) -> tuple[str | None, str | None, int]:
    """The first prompt, the last, and how many messages there are in the windows."""
    scans = [(window, _scan(window)) for window in windows.each()]
    if not any(scan.all for _, scan in scans):
        return _slowly(windows)
    begin = scans[0][1].first
    first = _text(windows.head, begin)
    for window, scan in reversed(scans):
        if scan.last >= 0:
            same = window is windows.head and scan.last == begin
            return first, first if same else _text(window, scan.last), sum(one.said for _, one in scans)
    return first, None, sum(scan.said for _, scan in scans)


def _scan(window: bytes) -> _Scanned:
    parts = window.split(_MESSAGE)
    at, said, first, last = len(parts[0]), 0, -1, -1
    for part in parts[1:]:
        content = part.find(b'"content":', 0, _HEADER)
        head = part[:content] if content >= 0 else b""
        if _USER in head:
            if _prompted(part, content):
                said, last = said + 1, at
                first = first if first >= 0 else at
        elif _ASSISTANT in head and _answered(part, content):
            said += 1
        at += len(_MESSAGE) + len(part)
    return _Scanned(len(parts) - 1, said, first, last)


def _answered(part: bytes, content: int) -> bool:
    """Whether there are words in an agent's message, and it is not the summary of a compaction."""
    text = _text_at(part, content)
    if text < 0 or part[text : text + 1] == b'"':
        return False
    end = part.find(b"\n", text)
    return part.find(_SUMMARY, text, end if end >= 0 else len(part)) < 0


def _prompted(part: bytes, content: int) -> bool:
    """Whether a user's message is one: as new versions say beside the text, else by how the text begins."""
    text = _text_at(part, content)
    if text < 0:
        return False
    end = part.find(b"\n", text)
    kinds = part.rfind(_KINDS, text, end if end >= 0 else len(part))
    if kinds >= 0:
        close = part.find(b"]", kinds)
        if part.find(_BY_USER, kinds, close) >= 0:
            return True
        if part[kinds + len(_KINDS) : close] != b'"unknown"':
            return False
    return not part.startswith(_PUT_IN, text)


def _text_at(part: bytes, content: int) -> int:
    """Where the text of a message begins, if it has one: what follows it in the window has texts too."""
    text = part.find(b'"text":"', content)
    if text - content > _HEADER and 0 <= part.find(b"\n", content) < text:
        return -1
    return text + 8 if text >= 0 else -1


def _slowly(windows: Windows) -> tuple[str | None, str | None, int]:
    """The same for what is written in another way than Codex does."""
    found: list[Entry] = []
    for window in windows.each():
        for line in window.split(b"\n"):
            if line:
                found.extend(entry for entry in entries(line, 0) if entry.kind in ("user", "assistant"))
    words = [entry for entry in found if not entry.inserted and entry.text.strip()]
    prompts = [entry.text for entry in words if entry.kind == "user"]
    return (prompts[0], prompts[-1], len(words)) if prompts else (None, None, len(words))


def _text(window: bytes, at: int) -> str | None:
    """The words of the message at a place."""
    if at < 0:
        return None
    end = window.find(b"\n", at)
    line = window[window.rfind(b"\n", 0, at) + 1 : end if end >= 0 else len(window)]
    return next((entry.text for entry in entries(line, 0) if entry.text), None)
