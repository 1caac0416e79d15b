"""A 2.x session at a glance: what its ``meta.json`` says, and the beginning and the end of its messages.

A 3.x store at a glance: its small files, and the ends of its messages, found by searching for bytes.

The store is written in canonical JSON (sorted keys, no blanks), so what a message is can be told without
decoding it: within a string every quotation mark is escaped.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import msgspec

from segue.agents.base import HEAD, TAIL, StoredSession
from segue.agents.vibe import blocks, folder, meta
from segue.agents.vibe.folder import MESSAGES, META
from segue.agents.vibe.meta import META_MOST, Config, Meta, Stats, moment, read_meta
from segue.agents.vibe.store import ERRORS, Store, content, ends, opened
from segue.agents.vibe.store_writer import KNOWN
from segue.core.transcript import Brief, TitleBy


def _both(*beginnings: bytes) -> tuple[bytes, ...]:
    """As Vibe writes it, and as we do: without blanks."""
    return (*beginnings, *(one.replace(b" ", b"") for one in beginnings))


_ASKED = _both(b'{"role": "user", "content": "')
_SAID = _both(b'{"role": "assistant", "content": "')
_SILENT = _both(b'{"role": "assistant", "content": ""')
_OTHERS = _both(b'{"role": "tool"', b'{"role": "system"', b'{"role": "assistant", "content": null')
_PUT_IN = _both(b'"injected": true')
"""How the lines of a session begin, and the mark of a message that nobody said."""


def folder_brief(stored: StoredSession) -> Brief:
    known, trouble = meta.known(stored.file)
    try:
        seen, size = ends(f"{stored.file}/{MESSAGES}", HEAD, TAIL)
    except OSError as error:
        return Brief(trouble=f"it cannot be read: {error.strerror or error}")
    whole = size <= HEAD + TAIL
    count = _count(seen)
    first, last = _first(seen[: size if whole else HEAD]), _last(seen if whole else seen[HEAD:])
    stats, config = known.stats or Stats(), known.config or Config()
    title, by = title_of(known, first)
    return Brief(
        cwd=known.environment.working_directory if known.environment is not None else None,
        title=title,
        title_by=by,
        first_prompt=first,
        last_prompt=last or first,
        messages=count if whole else round(count * size / len(seen)),
        messages_estimated=not whole,
        tokens=total_of(stats.session_prompt_tokens, stats.session_completion_tokens),
        cost_usd=stats.session_cost,
        branch=known.git_branch,
        created_ms=meta.moment(known.start_time),
        last_used_ms=meta.moment(known.end_time) or stored.changed_ns // 1_000_000,
        model=config.active_model,
        context=stats.last_turn_prompt_tokens or None,
        after=stats.last_turn_completion_tokens or 0,
        window=config.window,
        tags=known.tags,
        agent_name=known.agent_profile.name if known.agent_profile is not None else None,
        parent=known.parent_session_id,
        empty=whole and count == 0,
        trouble=trouble,
    )


def title_of(known: Meta, first: str | None) -> tuple[str | None, TitleBy | None]:
    """What the user called it; else what Vibe did, which may be just the beginning of the first prompt."""
    if not known.title:
        return (first, "prompt") if first else (None, None)
    if known.title_source == "manual":
        return known.title, "user"
    begins = first is not None and first.startswith(known.title.rstrip("….")[:40])
    return known.title, "prompt" if begins else "agent"


def total_of(*parts: int | None) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _count(seen: bytes) -> int:
    """Prompts and answers with words. Lines of the usual form are counted without being decoded."""
    count, at, size = 0, 0, len(seen)
    while at < size:
        end = seen.find(b"\n", at)
        end = end if end >= 0 else size
        if seen.startswith(_SAID, at):
            count += not seen.startswith(_SILENT, at)
        elif seen.startswith(_ASKED, at):
            count += seen.find(_PUT_IN[0], at, end) < 0 and seen.find(_PUT_IN[1], at, end) < 0
        elif not seen.startswith(_OTHERS, at):
            line = folder.decoded(seen[at:end])
            count += line is not None and (line.opens or (line.role == "assistant" and bool(line.words)))
        at = end + 1
    return count


def _first(window: bytes) -> str | None:
    at = 0
    while 0 <= at < len(window):
        end = window.find(b"\n", at)
        found = _prompt(window[at : end if end >= 0 else len(window)])
        if found is not None or end < 0:
            return found
        at = end + 1
    return None


def _last(window: bytes) -> str | None:
    end = len(window)
    while end > 0:
        at = window.rfind(b"\n", 0, end)
        found = _prompt(window[at + 1 : end])
        if found is not None:
            return found
        end = at
    return None


def _prompt(text: bytes) -> str | None:
    if text.startswith((*_SAID, *_OTHERS)):
        return None
    line = folder.decoded(text)
    return line.words.strip() if line is not None and line.opens else None


T = TypeVar("T")
_BEGIN = b'{"message":{"content":'
_PROMPT = b'"role":"user"},"source":"history"'
_STORE_SAID = (b'"type":"text"}],"role":"assistant"', b'"type":"text"},{"arguments":')
_STORE_SILENT = b'{"text":"","type":"text"}],"role":"assistant"'
_STORE_ASKED = b'"method":"turn/start"'
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
    message: list[blocks.Block] = []


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


def store_brief(stored: StoredSession) -> Brief:
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
    store: Store, known: Meta, session: _Session, runtime: _Runtime, said: _Dialogue, stored: StoredSession
) -> Brief:
    pins, usage = runtime.session_metadata, session.context_usage or _Usage()
    origin = runtime.import_provenance
    first = _store_first(said, session)
    named = Meta(title=session.title or known.title, title_source=session.title_source or known.title_source)
    title, by = title_of(named, first)
    spent = session.token_usage or _Usage()
    return Brief(
        cwd=(known.environment.working_directory if known.environment is not None else None) or pins.cwd,
        title=title,
        title_by=by,
        first_prompt=first,
        last_prompt=said.last or first,
        messages=said.count,
        messages_estimated=said.estimated,
        tokens=total_of(spent.input_tokens, spent.output_tokens),
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
    count, pending = _store_count(head) + _store_count(tail), _pending(store)
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


def _store_count(window: bytes) -> int:
    return window.count(_PROMPT) + sum(map(window.count, _STORE_SAID)) - window.count(_STORE_SILENT)


def _text(window: bytes, at: int) -> str | None:
    """The prompt that ends at this place."""
    begin = window.rfind(_BEGIN, 0, at) if at >= 0 else -1
    if begin < 0:
        return None
    found = blocks.item_of(window[begin:at] + b'"role":"user"}}')
    return blocks.words_of(found.message.content).strip() if found is not None else None


def _pending(store: Store) -> str | None:
    """The prompt of a turn that did not end: the journal begins with it."""
    path = store.journal
    line, found, _ = _ends(path, HEAD, 0).partition(b"\n") if path is not None else (b"", b"", b"")
    if not found or _STORE_ASKED not in line:
        return None
    asked = _or(lambda: _reserved.decode(line), _Reserved()).payload.params
    return blocks.words_of(asked.message).strip() if asked is not None else None


def _store_first(said: _Dialogue, session: _Session) -> str | None:
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
