"""A rollout at a glance: from the entries in its beginning and its end, and what Codex notes beside them.

The title is the name that the user gave to the thread, in ``session_index.jsonl`` or in the rollout itself;
else it is the first prompt.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

from segue.agents.base import HEAD, TAIL, StoredSession
from segue.agents.codex import rollouts
from segue.agents.codex.entries import line_entries
from segue.agents.codex.schema import (
    DAMAGE,
    Event,
    Line,
    Meta,
    ThreadName,
    TokenInfo,
    TurnContext,
    at_ms,
    line_of,
    payload_of,
)
from segue.core.json_values import decode
from segue.core.transcript import Brief, Entry, TitleBy

NAMES = "session_index.jsonl"
"""A line for each naming of a thread; the last one counts."""
MOST_NAMES = 1 << 24
"""An index larger than this is read from its end."""
UNPACKED = 1 << 26
"""Of what is packed, the end is looked for within this many bytes."""
_BYTES_PER_TOKEN = 4
T = TypeVar("T")


class _Windows(NamedTuple):
    """The beginning and the end of a file: whole lines. Where they meet, all is in the head."""

    head: bytes
    tail: bytes
    size: int

    @property
    def is_whole(self) -> bool:
        return self.size <= HEAD + TAIL


def brief(stored: StoredSession) -> Brief:
    try:
        windows = _windows(stored)
    except OSError as error:
        changed = stored.changed_ns // 1_000_000
        return Brief(trouble=f"it cannot be read: {error.strerror or error}", last_used_ms=changed)
    head, tail = _lines(windows.head), _lines(windows.tail)
    opening = _entries(head)
    entries = [*opening, *_entries(tail)]
    first, last = next(_prompts(opening), None), next(_prompts(reversed(entries)), None)
    count = sum(1 for entry in entries if _is_said(entry))
    title, title_by = _title(stored, entries, first or last)
    meta = _meta(windows.head)
    about = meta or Meta()
    newest = [line for _, line in (*head, *tail)][::-1]
    context = next(_payloads(newest, TurnContext), TurnContext())
    info = next(_token_infos(newest), TokenInfo())
    return Brief(
        cwd=about.cwd or context.cwd,
        title=title,
        title_by=title_by,
        first_prompt=first,
        last_prompt=last,
        messages=count if windows.is_whole else round(count * windows.size / (HEAD + TAIL)),
        messages_estimated=not windows.is_whole,
        tokens=info.total_token_usage.total_tokens if info.total_token_usage else None,
        branch=about.git.branch if about.git else None,
        created_ms=at_ms(about.timestamp),
        last_used_ms=next(_times(newest), stored.changed_ns // 1_000_000),
        version=about.cli_version,
        model=context.model,
        context=info.context,
        after=_after(newest if windows.is_whole else newest[: len(tail)], info),
        window=info.model_context_window,
        agent_name=about.agent_nickname,
        parent=about.forked_from_id or about.parent_thread_id,
        side=about.is_subagent,
        empty=windows.is_whole and not count,
        trouble=None if meta is not None else "its first line is damaged",
    )


def thread_name(text: bytes) -> ThreadName:
    """A line of the index of names; empty where it is none."""
    try:
        return decode(text, ThreadName)
    except DAMAGE:
        return ThreadName()


def _windows(stored: StoredSession) -> _Windows:
    if not stored.appends:
        with rollouts.opened(stored.path, UNPACKED) as file:
            return _ends(file, file.seek(0, 2))
    with open(stored.file, "rb", buffering=0) as file:  # half the time of Path.open
        return _ends(file, stored.size)


def _ends(file: IO[bytes], size: int) -> _Windows:
    """``size`` may be of a moment ago; what has come meanwhile belongs to a later look."""
    file.seek(0)
    if size <= HEAD + TAIL:
        return _Windows(file.read(HEAD + TAIL), b"", size)
    head = file.read(HEAD)
    file.seek(size - TAIL)
    tail = file.read(TAIL)
    return _Windows(head[: head.rfind(b"\n") + 1], tail[tail.find(b"\n") + 1 :], size)


def _lines(window: bytes) -> list[tuple[bytes, Line]]:
    """The lines that are whole, each with its text."""
    lines = ((text, line_of(text)) for text in window.split(b"\n") if text)
    return [(text, line) for text, line in lines if line is not None]


def _entries(lines: Iterable[tuple[bytes, Line]]) -> list[Entry]:
    return [entry for text, line in lines for entry in line_entries(line, text, 0)]


def _prompts(entries: Iterable[Entry]) -> Iterator[str]:
    return (entry.text for entry in entries if entry.kind == "user" and _is_said(entry))


def _is_said(entry: Entry) -> bool:
    return entry.kind in ("user", "assistant") and not entry.inserted and bool(entry.text.strip())


def _meta(head: bytes) -> Meta | None:
    line = line_of(head.partition(b"\n")[0])
    return next(_payloads([line], Meta), None) if line is not None else None


def _payloads(lines: Iterable[Line], kind: type[T]) -> Iterator[T]:
    """Those of one kind, decoded as they are asked for."""
    return (payload for line in lines if isinstance(payload := payload_of(line), kind))


def _token_infos(lines: Iterable[Line]) -> Iterator[TokenInfo]:
    for event in _payloads((line for line in lines if line.type == "event_msg"), Event):
        if event.info is not None and event.info.total_token_usage is not None:
            yield event.info


def _times(lines: Iterable[Line]) -> Iterator[int]:
    return (at for line in lines if (at := at_ms(line.timestamp)) is not None)


def _after(newest: Sequence[Line], info: TokenInfo) -> int:
    """The answer, and about what came after the request: what tools gave back, a prompt that failed.

    New versions write two records of a request's tokens; what stands between them came after it as well.
    """
    size, counted = 0, None
    for line in newest:
        if line.type == "response_item":
            size += memoryview(line.payload).nbytes
        elif line.type == "token_usage_record" and counted is not None:
            counted = size
            break
        elif any(_token_infos([line])):
            if counted is not None:
                break
            counted = size
    answer = info.last_token_usage.output_tokens if info.last_token_usage is not None else 0
    return answer + (counted or 0) // _BYTES_PER_TOKEN


def _title(
    stored: StoredSession, entries: Sequence[Entry], prompt: str | None
) -> tuple[str | None, TitleBy | None]:
    named = _name_of(stored.home, stored.id)
    if named is None:
        titles = (
            entry.text for entry in reversed(entries) if (entry.kind, entry.label) == ("state", "title")
        )
        named = next(titles, None)
    if named:
        return named, "user"
    return (prompt, "prompt") if prompt is not None else (None, None)


def _name_of(home: Path, thread: str) -> str | None:
    index = f"{home}/{NAMES}"
    try:
        status = os.stat(index)
    except OSError:
        return None
    return _names(index, status.st_mtime_ns, status.st_size).get(thread)


@lru_cache(maxsize=8)
def _names(index: str, changed_ns: int, size: int) -> dict[str, str]:
    """The state of the file is part of the key, so that it is read again once a thread was named."""
    try:
        with Path(index).open("rb") as file:
            file.seek(max(0, size - MOST_NAMES))
            lines = file.read(MOST_NAMES).splitlines()
    except OSError:
        return {}
    names = (thread_name(line) for line in lines)
    return {name.id: name.thread_name for name in names if name.id and name.thread_name.strip()}
