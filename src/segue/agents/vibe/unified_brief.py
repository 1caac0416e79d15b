"""A 3.x store at a glance: its small files, and the ends of its messages, found by searching for bytes.

The store is written in canonical JSON (sorted keys, no blanks), so what a message is can be told without
decoding it: within a string every quotation mark is escaped.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import msgspec

from segue.agents.reader import HEAD, TAIL, Stored
from segue.agents.vibe import items
from segue.agents.vibe.brief import titled, total
from segue.agents.vibe.folder import META
from segue.agents.vibe.meta import META_MOST, Meta, moment, read_meta
from segue.agents.vibe.store import ERRORS, Store, content, ends, opened
from segue.agents.vibe.unified_cut import KNOWN
from segue.core.transcript import Brief

T = TypeVar("T")
_BEGIN = b'{"message":{"content":'
_PROMPT = b'"role":"user"},"source":"history"'
_SAID = (b'"type":"text"}],"role":"assistant"', b'"type":"text"},{"arguments":')
_SILENT = b'{"text":"","type":"text"}],"role":"assistant"'
_ASKED = b'"method":"turn/start"'
_SHRUNK, _SHRUNK_WITHIN = b"<previous_user_messages>", 1024
"""A compaction puts this at the beginning: the prompts before it are no longer among the messages."""


class _Usage(msgspec.Struct, frozen=True, rename="camel"):
    input_tokens: int | None = None
    output_tokens: int | None = None


class _Session(msgspec.Struct, frozen=True, rename="camel"):
    title: str | None = None
    title_source: str | None = None
    preview: str | None = None
    created_at: int | None = None
    updated_at: int | None = None
    context_usage: _Usage | None = None
    token_usage: _Usage | None = None


class _Snapshot(msgspec.Struct, frozen=True):
    session: _Session = _Session()


class _Projection(msgspec.Struct, frozen=True):
    snapshot: _Snapshot = _Snapshot()


class _Pins(msgspec.Struct, frozen=True):
    active_model: str | None = None
    agent_name: str | None = None
    cwd: str | None = None


class _Identity(msgspec.Struct, frozen=True):
    depth: int = 0
    parent_session_id: str | None = None


class _Source(msgspec.Struct, frozen=True):
    session_id: str | None = None


class _Origin(msgspec.Struct, frozen=True):
    source: _Source = _Source()


class _Runtime(msgspec.Struct, frozen=True):
    session_metadata: _Pins = _Pins()
    identity: _Identity = _Identity()
    import_provenance: _Origin | None = None


class _Params(msgspec.Struct, frozen=True):
    message: list[items.Block] = []


class _Payload(msgspec.Struct, frozen=True):
    params: _Params | None = None


class _Reserved(msgspec.Struct, frozen=True):
    payload: _Payload = _Payload()


_projection = msgspec.json.Decoder(_Projection)
_runtime = msgspec.json.Decoder(_Runtime)
_reserved = msgspec.json.Decoder(_Reserved)


class _Dialogue(msgspec.Struct, frozen=True):
    first: str | None = None
    last: str | None = None
    count: int = 0
    estimated: bool = False


def brief(stored: Stored) -> Brief:
    try:
        store = opened(stored.path)
    except ERRORS as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return Brief(trouble=f"it cannot be read: {why}", last_used_ms=stored.changed_ns // 1_000_000)
    known = _or(lambda: read_meta(f"{store.folder}/{META}"), Meta())
    session = _or(
        lambda: _projection.decode(content(store.part("projection_state"), META_MOST)), _Projection()
    )
    runtime = _or(lambda: _runtime.decode(content(store.part("runtime_state"), META_MOST)), _Runtime())
    return _brief(store, known, session.snapshot.session, runtime, _dialogue(store), stored)


def _brief(
    store: Store, known: Meta, session: _Session, runtime: _Runtime, said: _Dialogue, stored: Stored
) -> Brief:
    pins, usage = runtime.session_metadata, session.context_usage or _Usage()
    origin = runtime.import_provenance
    first = _first(said, session)
    named = Meta(title=session.title or known.title, title_source=session.title_source or known.title_source)
    title, by = titled(named, first)
    spent = session.token_usage or _Usage()
    return Brief(
        cwd=(known.environment.working_directory if known.environment is not None else None) or pins.cwd,
        title=title,
        title_by=by,
        first_prompt=first,
        last_prompt=said.last or first,
        messages=said.count,
        messages_estimated=said.estimated,
        tokens=total(spent.input_tokens, spent.output_tokens),
        branch=known.git_branch,
        created_ms=session.created_at or moment(known.start_time),
        last_used_ms=_last_used(store, session, known) or stored.changed_ns // 1_000_000,
        model=pins.active_model or (known.config.active_model if known.config is not None else None),
        context=usage.input_tokens,
        after=usage.output_tokens or 0,
        tags=known.tags,
        agent_name=pins.agent_name,
        parent=runtime.identity.parent_session_id
        or known.parent_session_id
        or (origin.source.session_id if origin is not None else None),
        side=runtime.identity.depth > 0,
        empty=said.count == 0 and not said.estimated,
        trouble="its format is newer than any that is known" if store.minor > KNOWN else None,
    )


def _dialogue(store: Store) -> _Dialogue:
    """From the first chunk and the last ones, never more than the two windows."""
    files = store.messages()
    head = _ends(files[0], HEAD, 0) if files else b""
    tail = b""
    for path in reversed(files[1:]):
        tail = _ends(path, 0, TAIL - len(tail)) + tail
        if len(tail) >= TAIL:
            break
    seen, everything = len(head) + len(tail), sum(map(_size, files))
    count, pending = _count(head) + _count(tail), _pending(store)
    first = _text(head, head.find(_PROMPT))
    return _Dialogue(
        first or pending,
        pending or _text(tail, tail.rfind(_PROMPT)) or _text(head, head.rfind(_PROMPT)),
        (count if seen >= everything else round(count * everything / seen)) + (pending is not None),
        seen < everything or _SHRUNK in head[:_SHRUNK_WITHIN],
    )


def _ends(path: str, head: int, tail: int) -> bytes:
    return _or(lambda: ends(path, head, tail)[0], b"")


def _size(path: str) -> int:
    return _or(lambda: os.stat(path).st_size, 0)


def _count(window: bytes) -> int:
    return window.count(_PROMPT) + sum(map(window.count, _SAID)) - window.count(_SILENT)


def _text(window: bytes, at: int) -> str | None:
    """The prompt that ends at this place."""
    begin = window.rfind(_BEGIN, 0, at) if at >= 0 else -1
    if begin < 0:
        return None
    found = items.item(window[begin:at] + b'"role":"user"}}')
    return items.words(found.message.content).strip() if found is not None else None


def _pending(store: Store) -> str | None:
    """The prompt of a turn that did not end: the journal begins with it."""
    path = store.journal
    line, found, _ = _ends(path, HEAD, 0).partition(b"\n") if path is not None else (b"", b"", b"")
    if not found or _ASKED not in line:
        return None
    asked = _or(lambda: _reserved.decode(line), _Reserved()).payload.params
    return items.words(asked.message).strip() if asked is not None else None


def _first(said: _Dialogue, session: _Session) -> str | None:
    """The preview is the beginning of what was said first, also where a compaction took that away."""
    preview = (session.preview or "").strip()
    if said.first is not None and said.first.startswith(preview.rstrip("….")[:40]):
        return said.first
    return preview or said.first


def _last_used(store: Store, session: _Session, known: Meta) -> int | None:
    journal = _or(lambda: os.stat(store.journal or ""), None)
    grown = journal.st_mtime_ns // 1_000_000 if journal is not None and journal.st_size else 0
    return max(session.updated_at or 0, moment(known.end_time) or 0, grown) or None


def _or(read: Callable[[], T], otherwise: T) -> T:
    """What is damaged or missing counts as not said."""
    try:
        return read()
    except ERRORS:
        return otherwise
