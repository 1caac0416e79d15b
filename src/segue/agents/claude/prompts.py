"""The prompts of a Claude session, in a part of its file: the first, the last, and how much was said."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from segue.agents.claude import lines
from segue.agents.claude.messages import PUT_IN
from segue.agents.claude.windows import Windows, is_spaced, line, places, places_back
from segue.core.carried import own
from segue.core.loose import items, table
from segue.core.loose import text as words

LONGEST = 200
"""Characters of a prompt that are shown."""
EXACT, SAMPLE = 64 * 1024, 16 * 1024
"""Up to which size all messages are counted, and how much of either end of a longer file is looked at."""
_USER = (b'"role":"user"', b'"role": "user"')
_ROLE = (b'"role":"', b'"role": "')
_FORMS = (b'"role":"user","content":[{"type":"text","text":"', b'"role":"user","content":"')
_NO_WORDS = (b'"', *(mark.encode() for mark in PUT_IN))
_REQUEST = b'{"type":"api-'
_NOT_PROMPTS = (
    *(b'"tool_result"', b'"isMeta":true', b'"isMeta": true'),
    *(b'"isCompactSummary":true', b'"isCompactSummary": true'),
)
_PASSED_OVER = ("<local-command-stdout>", "<session-start-hook>", "<tick>", "<goal>")
_INTERRUPTED = re.compile(r"\[Request interrupted by user[^\]]*\]")
_EDITOR = re.compile(
    r"\s*(?:<ide_opened_file>.*</ide_opened_file>|<ide_selection>.*</ide_selection>)\s*", re.S
)
_COMMAND = re.compile(r"<command-name>(.*?)</command-name>")


class _Prompt(msgspec.Struct, frozen=True, rename="camel"):
    type: object = None
    message: object = None
    forked_from: object = None


_prompt = msgspec.json.Decoder(_Prompt)


def first_prompt(head: bytes, spaced: bool) -> tuple[str | None, str | None]:
    """The first thing that a user said, shortened, by the rules of Claude's SDK; and the session that this
    one was forked from. A command is taken only where nothing else was said."""
    command, parent = None, None
    for start, end in _users(head, spaced):
        try:
            found = _prompt.decode(head[start:end])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        if found.type != "user":
            continue
        parent = parent or words(table(found.forked_from).get("sessionId")) or None
        for said in _texts(table(found.message).get("content")):
            typed = _COMMAND.search(said)
            if typed is not None:
                command = command or typed[1]
            elif not _is_put_in(said):
                return shortened(said), parent
    return command, parent


def last_prompt(tail: bytes, spaced: bool) -> str | None:
    """The last thing that a user said, shortened."""
    for pattern in _USER[: 1 + spaced]:
        for at in places_back(tail, pattern):
            text = _said(tail, at)
            if text:
                return shortened((own(text) or text).replace("\n", " ").strip())
    return None


def counted(seen: Windows, spaced: bool) -> int:
    """How often somebody said something: counted in all of a file, or at its ends and carried over."""
    if seen.size <= EXACT:
        return _counted(seen.head, spaced)
    count = _counted(seen.head[:SAMPLE], spaced) + _counted(seen.tail[-SAMPLE:], spaced)
    return round(count * seen.size / (2 * SAMPLE))


def counted_in(data: bytes) -> int:
    """How often somebody said something in a file that is there as a whole."""
    return _counted(data, is_spaced(Windows(data, data, data, len(data))))


def _counted(data: bytes, spaced: bool) -> int:
    count = 0
    for role in _ROLE[: 1 + spaced]:
        size, at = len(role), data.find(role)
        while at >= 0:
            who = data[at + size : at + size + 1]
            if who == b"u":
                count += _spoke(data, at)
            elif who == b"a":
                count += _answered(data, at)
            at = data.find(role, at + size)
    return count


def is_side(head: bytes) -> bool:
    """Whether the first record is a subagent's."""
    end = head.find(b"\n")
    record = head if end < 0 else head[:end]
    return b'"isSidechain":true' in record or b'"isSidechain": true' in record


def shortened(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST].rstrip() + "…"


def _users(head: bytes, spaced: bool) -> Iterator[tuple[int, int]]:
    """The lines that may hold a prompt, in their order."""
    found = list(places(head, b'"type": "user"')) if spaced else []
    plain = places(head, b'"type":"user"')
    done = 0
    for at in sorted((*found, *plain)) if found else plain:
        if at < done:
            continue
        start, end = line(head, at)
        done = end
        if not _is_no_prompt(head, start, end):
            yield start, end


def _is_no_prompt(data: bytes, start: int, end: int) -> bool:
    return any(data.find(mark, start, end) >= 0 for mark in _NOT_PROMPTS)


def _texts(content: object) -> Iterator[str]:
    blocks = [content] if isinstance(content, str) else [_text(block) for block in items(content)]
    for block in blocks:
        said = (own(block) or block).replace("\n", " ").strip()
        if said:
            yield said


def _text(block: object) -> str:
    found = table(block)
    return words(found.get("text")) if found.get("type") == "text" else ""


def _is_put_in(said: str) -> bool:
    return said.startswith(_PASSED_OVER) or bool(_INTERRUPTED.match(said) or _EDITOR.fullmatch(said))


def _said(data: bytes, at: int) -> str | None:
    """What the user's line around a place says; None where it was put in, or holds a tool's result."""
    if data.find(b'"tool_', at, at + 60) >= 0:
        return None
    start, end = line(data, at)
    if data.startswith(_REQUEST, start):
        return None
    for entry in lines.entries(data[start:end], 0):
        if entry.kind == "user" and not (entry.inserted or entry.side):
            return entry.text
    return None


def _spoke(data: bytes, at: int) -> bool:
    """Whether ``_said`` would find words. In the usual forms that is seen without decoding anything."""
    if data.find(b'"tool_', at, at + 60) >= 0:
        return False
    words_at = next((at + len(form) for form in _FORMS if data.startswith(form, at)), -1)
    if words_at < 0:
        return bool(_said(data, at))
    if data.startswith(_NO_WORDS, words_at):
        return False
    start, end = line(data, at)
    if data.startswith(_REQUEST, start) or data.find(b'"isSidechain":true', start, at) >= 0:
        return False
    return data.find(b'"isMeta":true', at, end) < 0 and data.find(b'"isCompactSummary":true', at, end) < 0


def _answered(data: bytes, at: int) -> bool:
    """Whether an answer has words of the model's own. They come first in its content, or not at all."""
    content = data.find(b'"content":', at, at + 400)
    if content < 0 or data.find(b'"text"', content, content + 30) < 0:
        return False
    start = data.rfind(b"\n", 0, at) + 1
    if data.startswith(_REQUEST, start) or data.find(b'"<synthetic>"', start, content) >= 0:
        return False
    return data.find(b'"isSidechain":true', start, at) < 0
