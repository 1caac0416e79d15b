"""A session of either version at a glance: what Vibe noted of it, and both ends of its messages."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from segue.agents.base import HEAD, TAIL, StoredSession
from segue.agents.vibe import blocks, folder, store, walk
from segue.agents.vibe.folder import MESSAGES
from segue.agents.vibe.meta import (
    Config,
    Meta,
    RuntimeState,
    Session,
    SessionTokens,
    Stats,
    meta_or_trouble,
    moment,
)
from segue.agents.vibe.store import ERRORS, KNOWN_MINOR, Store
from segue.core.transcript import Brief, Entry, TitleBy

T = TypeVar("T")
_NEXT = b',{"message":{"content":'
"""Where a message begins inside a chunk: Vibe writes JSON with sorted keys and no blanks."""


class _Window(msgspec.Struct, frozen=True):
    """A part of the messages: what stands there, and in how many bytes."""

    entries: Sequence[Entry] = ()
    size: int = 0


class _Dialogue(msgspec.Struct, frozen=True):
    first: str | None = None
    last: str | None = None
    messages: int = 0
    estimated: bool = False


def folder_brief(stored: StoredSession) -> Brief:
    meta, trouble = meta_or_trouble(stored.file)
    try:
        dialogue = _dialogue(_line_windows(f"{stored.file}/{MESSAGES}"), stored.size)
    except OSError as error:
        return Brief(trouble=f"it cannot be read: {error.strerror or error}")
    stats, config = meta.stats or Stats(), meta.config or Config()
    title, title_by = _title(meta, dialogue.first)
    return Brief(
        cwd=meta.directory,
        title=title,
        title_by=title_by,
        first_prompt=dialogue.first,
        last_prompt=dialogue.last or dialogue.first,
        messages=dialogue.messages,
        messages_estimated=dialogue.estimated,
        tokens=_total(stats.session_prompt_tokens, stats.session_completion_tokens),
        cost_usd=stats.session_cost,
        branch=meta.git_branch,
        created_ms=moment(meta.start_time),
        last_used_ms=moment(meta.end_time) or stored.changed_ns // 1_000_000,
        model=config.active_model,
        context=stats.last_turn_prompt_tokens or None,
        after=stats.last_turn_completion_tokens or 0,
        window=config.window,
        tags=meta.tags,
        agent_name=meta.agent_profile.name if meta.agent_profile is not None else None,
        parent=meta.parent_session_id,
        empty=not dialogue.estimated and dialogue.messages == 0,
        trouble=trouble,
    )


def store_brief(stored: StoredSession) -> Brief:
    try:
        opened = store.opened(stored.path)
    except ERRORS as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return Brief(trouble=f"it cannot be read: {why}", last_used_ms=stored.changed_ns // 1_000_000)
    meta, _ = meta_or_trouble(stored.file)
    session = _or(opened.session, Session())
    runtime = _or(opened.runtime, RuntimeState())
    pins, identity = runtime.session_metadata, runtime.identity
    used, spent = session.context_usage or SessionTokens(), session.token_usage or SessionTokens()
    dialogue = _store_dialogue(opened)
    first = _first_prompt(dialogue, session)
    named = Meta(title=session.title or meta.title, title_source=session.title_source or meta.title_source)
    title, title_by = _title(named, first)
    return Brief(
        cwd=meta.directory or pins.cwd,
        title=title,
        title_by=title_by,
        first_prompt=first,
        last_prompt=dialogue.last or first,
        messages=dialogue.messages,
        messages_estimated=dialogue.estimated,
        tokens=_total(spent.input_tokens, spent.output_tokens),
        branch=meta.git_branch,
        created_ms=session.created_at or moment(meta.start_time),
        last_used_ms=_last_used(opened, session, meta) or stored.changed_ns // 1_000_000,
        model=pins.active_model or (meta.config.active_model if meta.config is not None else None),
        context=used.input_tokens,
        after=used.output_tokens or 0,
        tags=meta.tags,
        agent_name=pins.agent_name,
        parent=identity.parent_session_id or meta.parent_session_id or runtime.imported_from,
        side=identity.depth > 0,
        empty=dialogue.messages == 0 and not dialogue.estimated,
        trouble="its format is newer than any that is known" if opened.minor > KNOWN_MINOR else None,
    )


def _title(meta: Meta, first: str | None) -> tuple[str | None, TitleBy | None]:
    """What the user called it; else what Vibe did, which may be just the beginning of the first prompt."""
    if not meta.title:
        return (first, "prompt") if first else (None, None)
    if meta.title_source == "manual":
        return meta.title, "user"
    begins = first is not None and first.startswith(meta.title.rstrip("….")[:40])
    return meta.title, "prompt" if begins else "agent"


def _total(*parts: int | None) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _first_prompt(dialogue: _Dialogue, session: Session) -> str | None:
    """The preview is the beginning of what was said first, also where a compaction took that away."""
    preview = (session.preview or "").strip()
    if dialogue.first is not None and dialogue.first.startswith(preview.rstrip("….")[:40]):
        return dialogue.first
    return preview or dialogue.first


def _last_used(opened: Store, session: Session, meta: Meta) -> int | None:
    journal = _or(lambda: os.stat(opened.journal or ""), None)
    grown = journal.st_mtime_ns // 1_000_000 if journal is not None and journal.st_size else 0
    return max(session.updated_at or 0, moment(meta.end_time) or 0, grown) or None


# --- the dialogue ----------------------------------------------------------------------------------


def _dialogue(windows: Sequence[_Window], size: int) -> _Dialogue:
    """What is in the windows, carried over to a session of that size."""
    entries = [entry for window in windows for entry in window.entries]
    prompts = [entry.text.strip() for entry in entries if entry.kind == "user" and not entry.inserted]
    count = len(prompts) + sum(entry.kind == "assistant" and bool(entry.text) for entry in entries)
    seen = sum(window.size for window in windows)
    return _Dialogue(
        first=prompts[0] if prompts and windows[0].entries else None,
        last=prompts[-1] if prompts else None,
        messages=count if seen >= size else round(count * size / max(seen, 1)),
        estimated=seen < size,
    )


def _line_windows(path: str) -> Sequence[_Window]:
    head, tail, size = _ends(path)
    if not tail:
        return (_Window(_of_lines(head.split(b"\n")), size),)
    *first, _ = head.split(b"\n")
    _, *last = tail.split(b"\n")
    return tuple(_Window(_of_lines(lines), sum(map(len, lines)) + len(lines)) for lines in (first, last))


def _of_lines(lines: Iterable[bytes]) -> list[Entry]:
    return [entry for line in lines if line for entry in folder.entries(line, 0)]


def _store_dialogue(opened: Store) -> _Dialogue:
    """From the first chunk and the last ones, and from the journal of a turn that did not end."""
    files = opened.messages()
    windows = [_chunk_window(files[0], HEAD, at_end=False)] if files else [_Window()]
    room, last = TAIL, list[_Window]()
    for path in reversed(files[1:]):
        last.insert(0, _chunk_window(path, room, at_end=True))
        room -= _size(path)
        if room <= 0:
            break
    said = _dialogue([*windows, *last], sum(map(_size, files)))
    pending = _dialogue([_Window(list(_pending(opened)))], 0)
    compacted = any(entry.kind == "boundary" for entry in windows[0].entries)
    return _Dialogue(
        first=said.first or pending.first,
        last=pending.last or said.last,
        messages=said.messages + pending.messages,
        estimated=said.estimated or compacted,
    )


def _chunk_window(path: str, most: int, *, at_end: bool) -> _Window:
    head, tail, size = _or(lambda: _ends(path, 0 if at_end else most, most if at_end else 0), (b"", b"", 0))
    body = head or tail
    if len(body) < size and at_end:
        body = b"[" + body[body.find(_NEXT) + 1 :] if _NEXT in body else b""
    elif len(body) < size:
        body = body[body.find(b"[{") : body.rfind(_NEXT)] + b"]" if _NEXT in body else b""
    entries = [entry for _, found in blocks.of_chunk(body, 0) for entry in found] if body else []
    return _Window(entries, len(body))


def _pending(opened: Store) -> Iterable[Entry]:
    if opened.journal is None:
        return
    head, _, _ = _or(lambda: _ends(opened.journal or "", HEAD, 0), (b"", b"", 0))
    for record in map(store.journal_record, head.split(b"\n")[:-1]):
        yield from walk.journal_entries(record) if record is not None else ()


def _ends(path: str, head: int = HEAD, tail: int = TAIL) -> tuple[bytes, bytes, int]:
    """The beginning of a file, its end (nothing, where the beginning is all there is), and its size."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(file).st_size
        if size <= head + tail:
            return os.read(file, size), b"", size
        first = os.read(file, head) if head else b""
        return first, os.pread(file, tail, size - tail), size
    finally:
        os.close(file)


def _size(path: str) -> int:
    return _or(lambda: os.stat(path).st_size, 0)


def _or(read: Callable[[], T], otherwise: T) -> T:
    """What is damaged or missing counts as not said."""
    try:
        return read()
    except ERRORS:
        return otherwise
