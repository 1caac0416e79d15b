"""A summary of a rollout, from the entries at its beginning and its end and from Codex's own notes.

The title is the name that the user gave to the thread, in ``session_index.jsonl`` or in the rollout itself,
or else the first prompt.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from segue.agents.base import StoredSession
from segue.agents.codex import rollouts
from segue.agents.codex.entries import entries
from segue.agents.codex.schema import (
    Event,
    Line,
    Meta,
    ThreadName,
    TokenInfo,
    TurnContext,
    line_of,
    payload_of,
)
from segue.agents.decoding import DAMAGE, moment_ms
from segue.agents.windows import (
    Ends,
    Window,
    brief_of,
    ends_of,
    lines_of,
    read_ends,
    troubled,
    unreadable_brief,
    windows_of,
)
from segue.core.json_values import decode
from segue.core.transcript import Brief, TitleBy
from segue.core.verdicts import say

DAMAGED = say("its first line is damaged", "session.first_line")
NAMES = "session_index.jsonl"
"""One line each time a thread was named; the last one counts."""
MOST_NAMES = 1 << 24
"""Only this many bytes at the end of the index are read."""
UNPACKED = 1 << 26
"""A packed rollout is unpacked up to this size to find its end."""
_BYTES_PER_TOKEN = 4
T = TypeVar("T")


def brief(stored: StoredSession) -> Brief:
    try:
        ends = _ends(stored)
    except OSError as error:
        return replace(unreadable_brief(error), last_used_ms=stored.changed_ns // 1_000_000)
    windows = windows_of(ends, entries)
    dialogue = brief_of(stored, windows, ends.size)
    title, title_by = _title(stored, windows, dialogue.first_prompt or dialogue.last_prompt)
    lines = [(start, line_of(text)) for start, text in lines_of(ends)]
    newest = [line for _, line in reversed(lines) if line is not None]
    meta = _meta(ends.head)
    about = meta or Meta()
    context = next(_payloads(newest, TurnContext), TurnContext())
    info = next(_token_infos(newest), TokenInfo())
    in_tail = sum(1 for start, line in lines if line is not None and start >= len(ends.head))
    known = replace(
        dialogue,
        cwd=about.cwd or context.cwd,
        title=title,
        title_by=title_by,
        messages_estimated=not ends.whole,
        tokens=info.total_token_usage.total_tokens if info.total_token_usage else None,
        branch=about.git.branch if about.git else None,
        created_ms=moment_ms(about.timestamp),
        last_used_ms=next(_times(newest), dialogue.last_used_ms),
        version=about.cli_version,
        model=context.model,
        context=info.context,
        after=_after(newest if ends.whole else newest[:in_tail], info),
        window=info.model_context_window,
        agent_name=about.agent_nickname,
        parent=about.forked_from_id or about.parent_thread_id,
        side=about.is_subagent,
        empty=ends.whole and not dialogue.messages,
    )
    return known if meta is not None else troubled(known, DAMAGED)


def thread_name(text: bytes) -> ThreadName:
    """A line of the index of names; empty if it is damaged."""
    try:
        return decode(text, ThreadName)
    except DAMAGE:
        return ThreadName()


def _ends(stored: StoredSession) -> Ends:
    if stored.appends:
        return read_ends(stored.path)
    with rollouts.opened(stored.path, UNPACKED) as file:
        return ends_of(file)


def _meta(head: bytes) -> Meta | None:
    line = line_of(head.partition(b"\n")[0])
    return next(_payloads([line], Meta), None) if line is not None else None


def _payloads(lines: Iterable[Line], kind: type[T]) -> Iterator[T]:
    """The payloads of one kind, decoded lazily."""
    return (payload for line in lines if isinstance(payload := payload_of(line), kind))


def _token_infos(lines: Iterable[Line]) -> Iterator[TokenInfo]:
    for event in _payloads((line for line in lines if line.type == "event_msg"), Event):
        if event.info is not None and event.info.total_token_usage is not None:
            yield event.info


def _times(lines: Iterable[Line]) -> Iterator[int]:
    return (at for line in lines if (at := moment_ms(line.timestamp)) is not None)


def _after(newest: Sequence[Line], info: TokenInfo) -> int:
    """The size of the answer and, roughly, of what came after it: tool results, a prompt that failed.

    New versions write two records of a request's tokens; what is between them came after it as well.
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
    stored: StoredSession, windows: Sequence[Window], prompt: str | None
) -> tuple[str | None, TitleBy | None]:
    named = _name_of(stored.home, stored.id)
    if named is None:
        states = [entry for window in windows for entry in window.entries if entry.kind == "state"]
        named = next((state.text for state in reversed(states) if state.label == "title"), None)
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
    """The file's state is part of the cache key, so that it is read again after a thread was named."""
    try:
        with Path(index).open("rb") as file:
            file.seek(max(0, size - MOST_NAMES))
            lines = file.read(MOST_NAMES).splitlines()
    except OSError:
        return {}
    names = (thread_name(line) for line in lines)
    return {name.id: name.thread_name for name in names if name.id and name.thread_name.strip()}
