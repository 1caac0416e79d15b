"""The prompts in a part of a Claude session's file: the first, the last, and the number of messages."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from segue.agents.claude.entries import INSERTED, entries
from segue.agents.claude.scan import is_spaced, line_at, places_back, places_of
from segue.agents.claude.schema import LoosePrompt
from segue.agents.decoding import DAMAGE
from segue.agents.windows import Ends
from segue.core.json_values import as_items, as_table, as_text
from segue.core.prompt_parts import user_words

LONGEST = 200
"""The number of characters of a prompt that are shown."""
SAMPLE = 16 * 1024
"""How much of each end is examined for an estimate, if a file is not read as a whole."""
_USER = (b'"role":"user"', b'"role": "user"')
_ROLE = (b'"role":"', b'"role": "')
_FORMS = (b'"role":"user","content":[{"type":"text","text":"', b'"role":"user","content":"')
_RESULT = b'"role":"user","content":[{"tool_use_id":'
_NO_WORDS = (b'"', *(mark.encode() for mark in INSERTED))
_REQUEST = b'{"type":"api-'
_NOT_PROMPTS = (
    *(b'"tool_result"', b'"isMeta":true', b'"isMeta": true'),
    *(b'"isCompactSummary":true', b'"isCompactSummary": true'),
)
_SKIPPED = ("<local-command-stdout>", "<session-start-hook>", "<tick>", "<goal>")
_INTERRUPTED = re.compile(r"\[Request interrupted by user[^\]]*\]")
_EDITOR = re.compile(
    r"\s*(?:<ide_opened_file>.*</ide_opened_file>|<ide_selection>.*</ide_selection>)\s*", re.S
)
_COMMAND = re.compile(r"<command-name>(.*?)</command-name>")
_prompt = msgspec.json.Decoder(LoosePrompt)


def first_prompt(head: bytes, spaced: bool) -> tuple[str | None, str | None]:
    """The first prompt, shortened, by the rules of Claude's SDK, and the session that this one was forked
    from. A command is used only if there is no other prompt."""
    command, parent = None, None
    for start, end in _user_lines(head, spaced):
        try:
            record = _prompt.decode(head[start:end])
        except DAMAGE:
            continue
        if record.type != "user":
            continue
        parent = parent or as_text(as_table(record.forked_from).get("sessionId")) or None
        for text in _texts(as_table(record.message).get("content")):
            typed = _COMMAND.search(text)
            if typed is not None:
                command = command or typed[1]
            elif not _is_skipped(text):
                return shorten(text), parent
    return command, parent


def last_prompt(tail: bytes, spaced: bool) -> str | None:
    """The last prompt, shortened."""
    for pattern in _USER[: 1 + spaced]:
        for at in places_back(tail, pattern):
            text = _user_text(tail, at)
            if text:
                return shorten((user_words(text) or text).replace("\n", " ").strip())
    return None


def count_messages(ends: Ends, spaced: bool) -> int:
    """The number of messages: counted in a whole file, or estimated from its ends."""
    if ends.whole:
        return _count(ends.head, spaced)
    count = _count(ends.head[:SAMPLE], spaced) + _count(ends.last[-SAMPLE:], spaced)
    return round(count * ends.size / (2 * SAMPLE))


def count_all_messages(data: bytes) -> int:
    """The number of messages in a whole file."""
    return _count(data, is_spaced(Ends(data, b"", len(data))))


def is_side(head: bytes) -> bool:
    """Whether the first record is a subagent's."""
    end = head.find(b"\n")
    record = head if end < 0 else head[:end]
    return b'"isSidechain":true' in record or b'"isSidechain": true' in record


def shorten(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST].rstrip() + "…"


def _user_lines(head: bytes, spaced: bool) -> Iterator[tuple[int, int]]:
    """The lines that may contain a prompt, in their order."""
    others = list(places_of(head, b'"type": "user"')) if spaced else []
    plain = places_of(head, b'"type":"user"')
    done = 0
    for at in sorted((*others, *plain)) if others else plain:
        if at < done:
            continue
        start, end = line_at(head, at)
        done = end
        if not any(head.find(mark, start, end) >= 0 for mark in _NOT_PROMPTS):
            yield start, end


def _texts(content: object) -> Iterator[str]:
    blocks = [content] if isinstance(content, str) else [_text(block) for block in as_items(content)]
    for block in blocks:
        text = (user_words(block) or block).replace("\n", " ").strip()
        if text:
            yield text


def _text(block: object) -> str:
    fields = as_table(block)
    return as_text(fields.get("text")) if fields.get("type") == "text" else ""


def _is_skipped(text: str) -> bool:
    return text.startswith(_SKIPPED) or bool(_INTERRUPTED.match(text) or _EDITOR.fullmatch(text))


def _user_text(data: bytes, at: int) -> str | None:
    """The text of the user's line around a place; None if it was inserted or is a tool's result."""
    if data.find(b'"tool_', at, at + 60) >= 0:
        return None
    start, end = line_at(data, at)
    if data.startswith(_REQUEST, start):
        return None
    for entry in entries(data[start:end], 0):
        if entry.kind == "user" and not (entry.inserted or entry.side):
            return entry.text
    return None


def _count(data: bytes, spaced: bool) -> int:
    """A record is one line, and the role in its message comes first: the rest of the line is skipped."""
    count = 0
    for role in _ROLE[: 1 + spaced]:
        size, at = len(role), data.find(role)
        while at >= 0:
            who, end = data[at + size : at + size + 1], data.find(b"\n", at)
            if who == b"u":
                count += _is_prompt(data, at)
            elif who == b"a":
                count += _is_answer(data, at)
            at = data.find(role, end) if end >= 0 else -1
    return count


def _is_prompt(data: bytes, at: int) -> bool:
    """Whether ``_user_text`` would find text. The usual forms are recognised without decoding."""
    if data.startswith(_RESULT, at) or data.find(b'"tool_', at, at + 60) >= 0:
        return False
    words_at = next((at + len(form) for form in _FORMS if data.startswith(form, at)), -1)
    if words_at < 0:
        return bool(_user_text(data, at))
    if data.startswith(_NO_WORDS, words_at):
        return False
    start, end = line_at(data, at)
    if data.startswith(_REQUEST, start) or data.find(b'"isSidechain":true', start, at) >= 0:
        return False
    return data.find(b'"isMeta":true', at, end) < 0 and data.find(b'"isCompactSummary":true', at, end) < 0


def _is_answer(data: bytes, at: int) -> bool:
    """Whether an answer has text of the model. Text comes first in the content, or not at all."""
    content = data.find(b'"content":', at, at + 400)
    if content < 0 or data.find(b'"text"', content, content + 30) < 0:
        return False
    start = data.rfind(b"\n", 0, at) + 1
    if data.startswith(_REQUEST, start) or data.find(b'"<synthetic>"', start, content) >= 0:
        return False
    return data.find(b'"isSidechain":true', start, at) < 0
