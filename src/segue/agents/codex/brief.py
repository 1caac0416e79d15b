"""A rollout at a glance: from its beginning and its end, of which only the lines that matter are decoded."""

from __future__ import annotations

from typing import IO, Any

import msgspec

from segue.agents.codex import files, names
from segue.agents.codex.dialogue import Windows, dialogue
from segue.agents.codex.items import ERRORS, at_ms, line_of
from segue.agents.codex.stream import Tokens
from segue.agents.reader import HEAD, TAIL, Stored
from segue.core.transcript import Brief, TitleBy

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


def brief(stored: Stored) -> Brief:
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


def _windows(stored: Stored) -> Windows:
    if not stored.appends:
        with files.opened(stored.path, UNPACKED) as file:
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


def _title(stored: Stored, windows: Windows, prompt: str | None) -> tuple[str | None, TitleBy | None]:
    named = names.name(stored.home, stored.id)
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
