"""A summary of a session of either version, from Vibe's own notes and both ends of its messages."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from segue.agents.base import HEAD, TAIL, StoredSession
from segue.agents.decoding import moment_ms
from segue.agents.vibe import blocks, folder, store, walk
from segue.agents.vibe.folder import MESSAGES
from segue.agents.vibe.meta import Config, Meta, RuntimeState, Session, SessionTokens, Stats, meta_or_trouble
from segue.agents.vibe.store import ERRORS, KNOWN_MINOR, Store
from segue.agents.windows import Ends, Window, brief_of, read_ends, troubled, unreadable_brief, windows_of
from segue.core.transcript import Brief, Entry, TitleBy
from segue.core.verdicts import say

T = TypeVar("T")
NEWER = say("its format is newer than the newest known one", "session.newer")
_NEXT = b',{"message":{"content":'
"""Where a message begins inside a chunk: Vibe writes JSON with sorted keys and without spaces."""
_NO_ENDS = Ends(b"", b"", 0)


def folder_brief(stored: StoredSession) -> Brief:
    meta, trouble = meta_or_trouble(stored.file)
    try:
        ends = read_ends(stored.path / MESSAGES)
    except OSError as error:
        return unreadable_brief(error)
    dialogue = brief_of(stored, windows_of(ends, folder.entries))
    stats, config = meta.stats or Stats(), meta.config or Config()
    title, title_by = _title(meta, dialogue.first_prompt)
    brief = replace(
        dialogue,
        cwd=meta.directory,
        title=title,
        title_by=title_by,
        tokens=_total(stats.session_prompt_tokens, stats.session_completion_tokens),
        cost_usd=stats.session_cost,
        branch=meta.git_branch,
        created_ms=moment_ms(meta.start_time),
        last_used_ms=moment_ms(meta.end_time) or dialogue.last_used_ms,
        model=config.active_model,
        context=stats.last_turn_prompt_tokens or None,
        after=stats.last_turn_completion_tokens or 0,
        window=config.window,
        tags=meta.tags,
        agent_name=meta.agent_profile.name if meta.agent_profile is not None else None,
        parent=meta.parent_session_id,
    )
    return brief if trouble is None else troubled(brief, trouble)


def store_brief(stored: StoredSession) -> Brief:
    try:
        opened = store.opened(stored.path)
    except ERRORS as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        known = Brief(last_used_ms=stored.changed_ns // 1_000_000)
        return troubled(known, say(f"it cannot be read: {why}", "session.unreadable", why=why))
    meta, _ = meta_or_trouble(stored.file)
    session = _or(opened.session, Session())
    runtime = _or(opened.runtime, RuntimeState())
    pins, identity = runtime.session_metadata, runtime.identity
    used, spent = session.context_usage or SessionTokens(), session.token_usage or SessionTokens()
    dialogue = _dialogue(stored, opened)
    first = _first_prompt(dialogue.first_prompt, session)
    named = Meta(title=session.title or meta.title, title_source=session.title_source or meta.title_source)
    title, title_by = _title(named, first)
    brief = replace(
        dialogue,
        cwd=meta.directory or pins.cwd,
        title=title,
        title_by=title_by,
        first_prompt=first,
        last_prompt=dialogue.last_prompt or first,
        tokens=_total(spent.input_tokens, spent.output_tokens),
        branch=meta.git_branch,
        created_ms=session.created_at or moment_ms(meta.start_time),
        last_used_ms=_last_used(opened, session, meta) or stored.changed_ns // 1_000_000,
        model=pins.active_model or (meta.config.active_model if meta.config is not None else None),
        context=used.input_tokens,
        after=used.output_tokens or 0,
        tags=meta.tags,
        agent_name=pins.agent_name,
        parent=identity.parent_session_id or meta.parent_session_id or runtime.imported_from,
        side=identity.depth > 0,
    )
    return troubled(brief, NEWER) if opened.minor > KNOWN_MINOR else brief


def _title(meta: Meta, first: str | None) -> tuple[str | None, TitleBy | None]:
    """The user's title, else Vibe's, which may be just the beginning of the first prompt."""
    if not meta.title:
        return (first, "prompt") if first else (None, None)
    if meta.title_source == "manual":
        return meta.title, "user"
    begins = first is not None and first.startswith(meta.title.rstrip("….")[:40])
    return meta.title, "prompt" if begins else "agent"


def _total(*parts: int | None) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _first_prompt(first: str | None, session: Session) -> str | None:
    """Vibe's preview is the beginning of the first prompt, even if a compaction removed that prompt."""
    preview = (session.preview or "").strip()
    if first is not None and first.startswith(preview.rstrip("….")[:40]):
        return first
    return preview or first


def _last_used(opened: Store, session: Session, meta: Meta) -> int | None:
    journal = _or(lambda: os.stat(opened.journal or ""), None)
    grown = journal.st_mtime_ns // 1_000_000 if journal is not None and journal.st_size else 0
    return max(session.updated_at or 0, moment_ms(meta.end_time) or 0, grown) or None


# --- the messages of a store -----------------------------------------------------------------------


def _dialogue(stored: StoredSession, opened: Store) -> Brief:
    """From the first chunk and the last ones, and from the journal of an unfinished turn."""
    files = opened.messages()
    first = _first_window(files[0]) if files else Window()
    room, last = TAIL, list[Window]()
    for path in reversed(files[1:]):
        last.insert(0, _last_window(path, room))
        room -= _size(path)
        if room <= 0:
            break
    size, seen = sum(map(_size, files)), first.size + sum(window.size for window in last)
    windows = (first, *last, Window()) if seen < size else (first, *last)
    chunks = brief_of(stored, windows, size)
    journal = brief_of(stored, (Window(list(_journal_entries(opened))),))
    compacted = any(entry.kind == "boundary" for entry in first.entries)
    return replace(
        chunks,
        first_prompt=chunks.first_prompt or journal.first_prompt,
        last_prompt=journal.last_prompt or chunks.last_prompt,
        messages=(chunks.messages or 0) + (journal.messages or 0),
        messages_estimated=chunks.messages_estimated or compacted,
        empty=chunks.empty and journal.empty and not compacted,
    )


def _first_window(path: str) -> Window:
    ends = _or(lambda: read_ends(Path(path), HEAD, 0), _NO_ENDS)
    if ends.whole:
        return _window(ends.head)
    begin, end = ends.head.find(b"[{"), ends.head.rfind(_NEXT)
    return _window(ends.head[begin:end] + b"]") if 0 <= begin < end else Window()


def _last_window(path: str, most: int) -> Window:
    ends = _or(lambda: read_ends(Path(path), 0, most), _NO_ENDS)
    if ends.whole:
        return _window(ends.head)
    begin = ends.tail.find(_NEXT)
    return _window(b"[" + ends.tail[begin + 1 :]) if begin >= 0 else Window()


def _window(body: bytes) -> Window:
    return Window([entry for _, found in blocks.of_chunk(body, 0) for entry in found], len(body))


def _journal_entries(opened: Store) -> Iterator[Entry]:
    if opened.journal is not None:
        ends = _or(lambda: read_ends(Path(opened.journal or ""), HEAD, 0), _NO_ENDS)
        for record in map(store.journal_record, ends.head.split(b"\n")[:-1]):
            yield from walk.journal_entries(record) if record is not None else ()


def _size(path: str) -> int:
    return _or(lambda: os.stat(path).st_size, 0)


def _or(read: Callable[[], T], otherwise: T) -> T:
    """The value that ``read`` returns, or ``otherwise`` if it is damaged or missing."""
    try:
        return read()
    except ERRORS:
        return otherwise
