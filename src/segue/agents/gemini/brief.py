"""A session at a glance, from the first and the last 64 KB of its file."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from itertools import islice

import msgspec

from segue.agents.gemini import projects
from segue.agents.gemini.document import salvaged
from segue.agents.gemini.drifted import as_header, as_message
from segue.agents.gemini.gist import Gist, Spent, prompt, spent
from segue.agents.gemini.lines import ERRORS, header, ms
from segue.agents.gemini.shapes import Header, Tokens
from segue.agents.reader import HEAD, TAIL, Stored
from segue.core.transcript import Brief

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


def brief(stored: Stored) -> Brief:
    changed_ms = stored.changed_ns // 1_000_000
    try:
        seen = _windows(stored)
    except OSError as error:
        trouble = f"it cannot be read: {error.strerror or error}"
        return Brief(cwd=_directory(stored), last_used_ms=changed_ms, trouble=trouble)
    gist = Gist()
    about = (_lines if stored.appends else _object)(seen, gist)
    return _told(stored, seen, gist, about)


def _windows(stored: Stored) -> _Windows:
    opened = os.open(stored.file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(opened).st_size
        if size <= HEAD + TAIL:
            return _Windows(os.read(opened, HEAD + TAIL), b"", size)
        return _Windows(os.read(opened, HEAD), os.pread(opened, TAIL, size - TAIL), size)
    finally:
        os.close(opened)


def _told(stored: Stored, seen: _Windows, gist: Gist, about: int | None) -> Brief:
    first, last = prompt(gist.first), prompt(gist.last)
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


def _last_paid(gist: Gist) -> tuple[Spent, Tokens]:
    for kept in islice(reversed(gist.answers.values()), _NEAR):
        found = spent(kept)
        if found.tokens is not None and found.tokens.input:
            return found, found.tokens
    return Spent(), Tokens()


def _total(gist: Gist) -> int | None:
    known = [one.tokens.total for kept in gist.answers.values() if (one := spent(kept)).tokens is not None]
    return sum(filter(None, known)) if known else None


def _directory(stored: Stored) -> str | None:
    return projects.directory(os.path.dirname(os.path.dirname(stored.file)), stored.home)


# --- lines -----------------------------------------------------------------------------------------


def _lines(seen: _Windows, gist: Gist) -> int | None:
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


def _object(seen: _Windows, gist: Gist) -> int | None:
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
    known, messages = salvaged(raw)
    return msgspec.structs.replace(as_header(known), messages=[as_message(one) for one in messages])
