"""A rollout at a glance: from its beginning and its end, of which only the lines that matter are decoded.

What was said, found in the beginning and the end of a rollout by searching for bytes.

What is said stands in the file as JSON, so a quote in it is escaped: the keys searched for are found only
where they are keys.

The names that users gave to threads: ``session_index.jsonl``, a line for each naming; the last counts.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import msgspec

from segue.agents.base import HEAD, TAIL, StoredSession
from segue.agents.codex import rollouts
from segue.agents.codex.entries import entries
from segue.agents.codex.schema import ERRORS, INSERTED, at_ms, line_of
from segue.agents.codex.stream import Tokens
from segue.core.transcript import Brief, Entry, TitleBy

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


TITLES = "session_index.jsonl"
MOST_TITLES = 1 << 24
"""An index larger than this is read from its end."""


class Titles(msgspec.Struct, frozen=True):
    id: str = ""
    thread_name: str = ""


_naming = msgspec.json.Decoder(Titles)


def title_of(home: Path, thread: str) -> str | None:
    index = f"{home}/{TITLES}"
    try:
        found = os.stat(index)
    except OSError:
        return None
    return _names(index, found.st_mtime_ns, found.st_size).get(thread)


def titles(line: bytes) -> Titles:
    try:
        return _naming.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Titles()


@lru_cache(maxsize=8)
def _names(index: str, changed_ns: int, size: int) -> dict[str, str]:
    """The state of the file is part of the key, so that it is read again once somebody was named."""
    try:
        with Path(index).open("rb") as file:
            file.seek(max(0, size - MOST_TITLES))
            lines = file.read(MOST_TITLES).splitlines()
    except OSError:
        return {}
    found = (titles(line) for line in lines)
    return {one.id: one.thread_name for one in found if one.id and one.thread_name.strip()}


UNPACKED = 1 << 26
"""Of what is packed, the end is looked for within this many bytes."""
_BYTES_PER_TOKEN = 4


class _Git(msgspec.Struct, frozen=True):
    branch: str | None = None


class _Meta(msgspec.Struct, frozen=True):
    cwd: str | None = None
    timestamp: str | None = None
    cli_version: str | None = None
    source: Any = None
    thread_source: Any = None
    agent_nickname: str | None = None
    forked_from_id: str | None = None
    parent_thread_id: str | None = None
    git: _Git | None = None


class _Info(msgspec.Struct, frozen=True):
    total_token_usage: Tokens | None = None
    last_token_usage: Tokens | None = None
    model_context_window: int | None = None


class _Noted(msgspec.Struct, frozen=True):
    """What is read of ``turn_context``, ``token_count`` and ``thread_name_updated``."""

    cwd: str | None = None
    model: str | None = None
    info: _Info | None = None
    thread_name: str | None = None


class _Head(msgspec.Struct, frozen=True):
    type: str = ""
    payload: _Meta = _Meta()


class _Line(msgspec.Struct, frozen=True):
    payload: _Noted = _Noted()


_head = msgspec.json.Decoder(_Head)
_line = msgspec.json.Decoder(_Line)


def brief(stored: StoredSession) -> Brief:
    try:
        windows = _windows(stored)
    except OSError as error:
        changed = stored.changed_ns // 1_000_000
        return Brief(trouble=f"it cannot be read: {error.strerror or error}", last_used_ms=changed)
    meta = _meta(windows.head)
    first, last, count = dialogue(windows)
    title, by = _title(stored, windows, first or last)
    context = _last(windows, b'"type":"turn_context"') or _Noted()
    counted = _last(windows, b'"total_token_usage":{') or _Noted()
    info = counted.info or _Info()
    known = meta or _Meta()
    return Brief(
        cwd=known.cwd or context.cwd,
        title=title,
        title_by=by,
        first_prompt=first,
        last_prompt=last,
        messages=count if windows.whole else round(count * windows.size / (HEAD + TAIL)),
        messages_estimated=not windows.whole,
        tokens=info.total_token_usage.total_tokens if info.total_token_usage else None,
        branch=known.git.branch if known.git else None,
        created_ms=at_ms(known.timestamp),
        last_used_ms=_newest(windows.tail) or stored.changed_ns // 1_000_000,
        version=known.cli_version,
        model=context.model,
        context=_input(info),
        after=_after(windows.tail, info),
        window=info.model_context_window,
        agent_name=known.agent_nickname,
        parent=known.forked_from_id or known.parent_thread_id,
        side=known.thread_source == "subagent"
        or (isinstance(known.source, dict) and "subagent" in known.source),
        empty=windows.whole and not count,
        trouble=None if meta is not None else "its first line is damaged",
    )


def _windows(stored: StoredSession) -> Windows:
    if not stored.appends:
        with rollouts.opened(stored.path, UNPACKED) as file:
            return _ends(file, file.seek(0, 2))
    with open(stored.file, "rb", buffering=0) as file:  # half the time of Path.open
        return _ends(file, stored.size)


def _ends(file: IO[bytes], size: int) -> Windows:
    """``size`` may be of a moment ago; what has come meanwhile belongs to a later look."""
    file.seek(0)
    if size <= HEAD + TAIL:
        head = file.read(HEAD + TAIL)
        return Windows(head, head, size)
    head = file.read(HEAD)
    file.seek(size - TAIL)
    tail = file.read(TAIL)
    return Windows(head[: head.rfind(b"\n") + 1], tail[tail.find(b"\n") + 1 :], size)


def _meta(head: bytes) -> _Meta | None:
    end = head.find(b"\n")
    try:
        line = _head.decode(head[:end] if end >= 0 else head)
    except ERRORS:
        return None
    return line.payload if line.type == "session_meta" else None


def _title(stored: StoredSession, windows: Windows, prompt: str | None) -> tuple[str | None, TitleBy | None]:
    named = title_of(stored.home, stored.id)
    if named is None:
        noted = _in(windows.tail, b'"type":"thread_name_updated"')
        named = noted.thread_name if noted is not None else None
    if named:
        return named, "user"
    return (prompt, "prompt") if prompt is not None else (None, None)


def _last(windows: Windows, key: bytes) -> _Noted | None:
    """The last line with this key."""
    found = _in(windows.tail, key)
    return found if found is not None or windows.whole else _in(windows.head, key)


def _in(window: bytes, key: bytes) -> _Noted | None:
    at = window.rfind(key)
    if at < 0:
        return None
    end = window.find(b"\n", at)
    try:
        return _line.decode(window[window.rfind(b"\n", 0, at) + 1 : end if end >= 0 else len(window)]).payload
    except ERRORS:
        return None


def _newest(tail: bytes) -> int | None:
    """When the last whole line was written."""
    end = tail.rfind(b"\n")
    for _ in range(8):
        if end <= 0:
            break
        start = tail.rfind(b"\n", 0, end) + 1
        line = line_of(tail[start:end])
        if line is not None and (when := at_ms(line.timestamp)) is not None:
            return when
        end = start - 1
    return None


def _input(info: _Info) -> int | None:
    last = info.last_token_usage
    return last.input_tokens or last.total_tokens if last is not None else None


def _after(tail: bytes, info: _Info) -> int:
    """The answer, and about what came behind the request: what tools gave back, a prompt that failed."""
    counted, used = tail.rfind(b'"total_token_usage":{'), tail.rfind(b'"type":"token_usage_record"')
    at = min(counted, used) if used >= 0 else counted
    answer = info.last_token_usage.output_tokens if info.last_token_usage is not None else 0
    if at < 0:
        return answer
    size, item = 0, tail.find(b'"type":"response_item"', at)
    while item >= 0:
        end = tail.find(b"\n", item)
        end = end if end >= 0 else len(tail)
        size += end - item
        item = tail.find(b'"type":"response_item"', end)
    return answer + size // _BYTES_PER_TOKEN
