"""The prompts of a Claude session, in a part of its file: the first, the last, and how much was said.

Single values out of the beginning and the end of a session's file, found by their keys, not by decoding.

A window may begin or end in mid-line. A key is known by its quotes and its colon: in what somebody said,
quotes are escaped, so only a field can be found. Titles and directories come out as in the list of Claude's
own SDK, which looks for them in the same windows; a last value written with a space behind its colon counts
before one without, as it does there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import msgspec

from segue.agents.base import HEAD, TAIL
from segue.agents.claude import entries
from segue.agents.claude.entries import PUT_IN
from segue.core.json_values import as_items, as_table
from segue.core.json_values import as_text as words
from segue.core.prompt_parts import user_words

GLANCE = 2048
_TYPED, _MESSAGE = b'{"type":"', b'{"parentUuid":'
_KIND = len(_TYPED)
"""How the CLI's own lines begin: notes, and records of the chain."""
_ESCAPE = ord("\\")


class Windows(NamedTuple):
    """A file's two ends. Where they meet, both are the ``whole`` of it: to copy them would cost more than all
    that is looked for in them."""

    head: bytes
    tail: bytes
    whole: bytes | None
    size: int


def look_at(path: str) -> Windows:
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(opened).st_size
        if size <= HEAD + TAIL:
            whole = os.pread(opened, HEAD + TAIL, 0)
            return Windows(whole, whole, whole, len(whole))
        return Windows(os.pread(opened, HEAD, 0), os.pread(opened, TAIL, size - TAIL), None, size)
    finally:
        os.close(opened)


def notes(window: bytes, wanted: Sequence[bytes]) -> dict[bytes, bytes]:
    """The last line of each kind that is wanted, by how it begins; those of no known beginning under ``b""``.

    To look at the beginnings of lines is ten times as fast as to look for a key that is not there: messages
    are long, notes are short.
    """
    found: dict[bytes, bytes] = {}
    strange: list[bytes] = []
    end = len(window)
    while end > 0:
        start = window.rfind(b"\n", 0, end) + 1
        if window.startswith(_MESSAGE, start):
            pass
        elif window.startswith(_TYPED, start):
            for kind in wanted:
                if kind not in found and window.startswith(kind, start + _KIND):
                    found[kind] = window[start:end]
        elif end > start:
            strange.append(window[start:end])
        end = start - 1
    if strange:
        found[b""] = b"\n".join(reversed(strange))
    return found


def is_spaced(seen: Windows) -> bool:
    """Whether somebody else's JSON, with spaces behind its colons, is in it; a glance must do."""
    head, tail, mark = seen.head, seen.tail, b'": "'
    if head.find(mark, 0, GLANCE) >= 0 or tail.find(mark, max(len(tail) - GLANCE, 0)) >= 0:
        return True
    return tail is not head and tail.find(mark, 0, GLANCE) >= 0


def first_value(window: bytes, key: str, spaced: bool = True) -> str | None:
    for pattern in _patterns(key, spaced):
        at = window.find(pattern)
        if at >= 0:
            value = _string(window, at + len(pattern))
            if value is not None:
                return value or None
    return None


def last_value(window: bytes, key: str, spaced: bool = True) -> str | None:
    """None also where the last value is empty."""
    for pattern in _patterns(key, spaced)[::-1]:
        at = window.rfind(pattern)
        while at >= 0:
            value = _string(window, at + len(pattern))
            if value is not None:
                return value or None
            at = window.rfind(pattern, 0, at)
    return None


def line_at(window: bytes, at: int) -> tuple[int, int]:
    """Where the line around a place begins and ends."""
    end = window.find(b"\n", at)
    return window.rfind(b"\n", 0, at) + 1, len(window) if end < 0 else end


def places_of(window: bytes, pattern: bytes) -> Iterator[int]:
    at = window.find(pattern)
    while at >= 0:
        yield at
        at = window.find(pattern, at + len(pattern))


def places_back(window: bytes, pattern: bytes, start: int = 0) -> Iterator[int]:
    """The same from the end, which is also the faster way through a window."""
    at = window.rfind(pattern, start)
    while at >= 0:
        yield at
        at = window.rfind(pattern, start, at)


@cache
def _patterns(key: str, spaced: bool) -> tuple[bytes, ...]:
    patterns = (f'"{key}":"'.encode(), f'"{key}": "'.encode())
    return patterns if spaced else patterns[:1]


def _string(window: bytes, start: int) -> str | None:
    """The string that begins there; None where its end is not in the window."""
    end = window.find(b'"', start)
    while end >= 0:
        before = end
        while before > start and window[before - 1] == _ESCAPE:
            before -= 1
        if (end - before) % 2 == 0:
            return _unescaped(window[start:end])
        end = window.find(b'"', end + 1)
    return None


def _unescaped(text: bytes) -> str:
    if b"\\" in text:
        try:
            return msgspec.json.decode(b'"' + text + b'"', type=str)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
    return text.decode("utf-8", "replace")


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
        parent = parent or words(as_table(found.forked_from).get("sessionId")) or None
        for said in _texts(as_table(found.message).get("content")):
            typed = _COMMAND.search(said)
            if typed is not None:
                command = command or typed[1]
            elif not _is_put_in(said):
                return shorten(said), parent
    return command, parent


def last_prompt(tail: bytes, spaced: bool) -> str | None:
    """The last thing that a user said, shortened."""
    for pattern in _USER[: 1 + spaced]:
        for at in places_back(tail, pattern):
            text = _said(tail, at)
            if text:
                return shorten((user_words(text) or text).replace("\n", " ").strip())
    return None


def count_prompts(seen: Windows, spaced: bool) -> int:
    """How often somebody said something: counted in all of a file, or at its ends and carried over."""
    if seen.size <= EXACT:
        return _counted(seen.head, spaced)
    count = _counted(seen.head[:SAMPLE], spaced) + _counted(seen.tail[-SAMPLE:], spaced)
    return round(count * seen.size / (2 * SAMPLE))


def count_prompts_in(data: bytes) -> int:
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


def shorten(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST].rstrip() + "…"


def _users(head: bytes, spaced: bool) -> Iterator[tuple[int, int]]:
    """The lines that may hold a prompt, in their order."""
    found = list(places_of(head, b'"type": "user"')) if spaced else []
    plain = places_of(head, b'"type":"user"')
    done = 0
    for at in sorted((*found, *plain)) if found else plain:
        if at < done:
            continue
        start, end = line_at(head, at)
        done = end
        if not _is_no_prompt(head, start, end):
            yield start, end


def _is_no_prompt(data: bytes, start: int, end: int) -> bool:
    return any(data.find(mark, start, end) >= 0 for mark in _NOT_PROMPTS)


def _texts(content: object) -> Iterator[str]:
    blocks = [content] if isinstance(content, str) else [_text(block) for block in as_items(content)]
    for block in blocks:
        said = (user_words(block) or block).replace("\n", " ").strip()
        if said:
            yield said


def _text(block: object) -> str:
    found = as_table(block)
    return words(found.get("text")) if found.get("type") == "text" else ""


def _is_put_in(said: str) -> bool:
    return said.startswith(_PASSED_OVER) or bool(_INTERRUPTED.match(said) or _EDITOR.fullmatch(said))


def _said(data: bytes, at: int) -> str | None:
    """What the user's line around a place says; None where it was put in, or holds a tool's result."""
    if data.find(b'"tool_', at, at + 60) >= 0:
        return None
    start, end = line_at(data, at)
    if data.startswith(_REQUEST, start):
        return None
    for entry in entries.entries(data[start:end], 0):
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
    start, end = line_at(data, at)
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
