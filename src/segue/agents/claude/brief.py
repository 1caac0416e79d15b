"""A Claude session at a glance, from the two ends of its file. Few lines are decoded, and those at most once.

The title is the one that Claude's own SDK shows: the user's, else the model's, else the prompt that the CLI
noted last (newer versions do), else the first one.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from segue.agents.base import StoredSession
from segue.agents.claude import prompts
from segue.agents.claude.entries import milliseconds
from segue.agents.claude.prompts import (
    EXACT,
    Windows,
    count_prompts,
    first_prompt,
    first_value,
    is_side,
    last_prompt,
    last_value,
    line_at,
    places_back,
)
from segue.core.prompt_parts import user_words
from segue.core.situation import tokens_of
from segue.core.transcript import Brief, TitleBy

_ANSWER = b'"role":"assistant"'
_TITLES: tuple[tuple[bytes, str, TitleBy], ...] = (
    (b'custom-title"', "customTitle", "user"),
    (b'ai-title"', "aiTitle", "agent"),
)
_NOTED, _SPENT, _TAG, _NAME = b'last-prompt"', b'cost-state"', b'tag"', b'agent-name"'
_IN_HEAD = tuple(kind for kind, _, _ in _TITLES)
_WANTED = (*_IN_HEAD, _NOTED, _SPENT, _TAG, _NAME)


class _Spent(msgspec.Struct, frozen=True, rename="camel"):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0

    @property
    def all(self) -> int:
        mine = self.input_tokens + self.output_tokens
        return mine + self.cache_read_input_tokens + self.cache_creation_input_tokens


class _Cost(msgspec.Struct, frozen=True):
    total: float | None = msgspec.field(name="totalCostUSD", default=None)
    by_model: dict[str, _Spent] = msgspec.field(name="modelUsage", default_factory=dict)


class _Usage(msgspec.Struct, frozen=True):
    input_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    output_tokens: int = 0


class _Said(msgspec.Struct, frozen=True):
    model: str | None = None
    usage: _Usage | None = None
    content: msgspec.Raw = msgspec.Raw()


class _Answer(msgspec.Struct, frozen=True):
    type: str = ""
    version: str | None = None
    message: _Said = _Said()


class _Compacted(msgspec.Struct, frozen=True, rename="camel"):
    post_tokens: int | None = None


class _Boundary(msgspec.Struct, frozen=True, rename="camel"):
    compact_metadata: _Compacted = _Compacted()


class _Load(msgspec.Struct, frozen=True):
    """What the last request took in, by which model, and what came behind."""

    version: str | None = None
    model: str | None = None
    context: int | None = None
    after: int = 0


_BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_answer = msgspec.json.Decoder(_Answer)
_boundary = msgspec.json.Decoder(_Boundary)
_cost = msgspec.json.Decoder(_Cost)


def brief(stored: StoredSession) -> Brief:
    try:
        seen = prompts.look_at(stored.file)
    except OSError as error:
        return Brief(
            last_used_ms=stored.changed_ns // 1_000_000,
            trouble=f"it cannot be read: {error.strerror or error}",
        )
    head, tail = seen.head, seen.tail
    spaced = prompts.is_spaced(seen)
    opening, parent = first_prompt(head, spaced)
    notes = prompts.notes(tail, _WANTED)
    noted = _value(notes, _NOTED, "lastPrompt")
    closing = user_words(noted or "") or last_prompt(tail, spaced)
    title, title_by = _title(seen, notes, noted, opening, spaced)
    load = _load(tail, spaced)
    cost = _spent(notes[_SPENT]) if _SPENT in notes else None
    tag = last_value(notes[_TAG], "tag") if _TAG in notes else None
    messages = count_prompts(seen, spaced)
    estimated = seen.size > EXACT
    if estimated:  # an estimate, but never below what is known
        messages = max(messages, bool(opening or closing) + bool(load.model))
    return Brief(
        cwd=first_value(head, "cwd", spaced),
        title=title,
        title_by=title_by,
        first_prompt=opening,
        last_prompt=closing or opening,
        messages=messages,
        messages_estimated=estimated,
        tokens=sum(each.all for each in cost.by_model.values()) if cost else None,
        cost_usd=cost.total if cost else None,
        branch=last_value(tail, "gitBranch", spaced) or first_value(head, "gitBranch", spaced),
        created_ms=milliseconds(first_value(head, "timestamp", spaced)),
        last_used_ms=milliseconds(last_value(tail, "timestamp", spaced)) or stored.changed_ns // 1_000_000,
        version=load.version or last_value(tail, "version", spaced) or first_value(head, "version", spaced),
        model=load.model,
        context=load.context,
        after=load.after,
        tags=(tag,) if tag else (),
        agent_name=last_value(notes[_NAME], "agentName") if _NAME in notes else None,
        parent=parent,
        side=is_side(head),
        empty=not (opening or closing or messages),
    )


def _value(notes: Mapping[bytes, bytes], kind: bytes, key: str) -> str | None:
    """What a note says; or a line that another than the CLI wrote."""
    lines = (notes[name] for name in (kind, b"") if name in notes)
    return next((value for line in lines if (value := last_value(line, key))), None)


def _title(
    seen: Windows, notes: Mapping[bytes, bytes], noted: str | None, opening: str | None, spaced: bool
) -> tuple[str | None, TitleBy | None]:
    ends = [notes]
    if seen.whole is None:
        ends.append(prompts.notes(seen.head, _IN_HEAD))
    for kind, key, by in _TITLES:
        for found in ends:
            title = _value(found, kind, key)
            if title:
                return title, by
    if noted:
        return noted, "prompt"
    summary = last_value(seen.tail, "summary", spaced)
    if summary:
        return summary, "agent"
    return (opening, "prompt") if opening else (None, None)


def _load(tail: bytes, spaced: bool) -> _Load:
    """From the newest answer of the model's own that tells its usage."""
    for pattern in (_ANSWER, b'"role": "assistant"') if spaced else (_ANSWER,):
        for at in places_back(tail, pattern):
            start, end = line_at(tail, at)
            try:
                found = _answer.decode(tail[start:end])
            except _BROKEN:
                continue
            said = found.message
            if found.type == "assistant" and said.usage is not None and said.model != "<synthetic>":
                return _behind(tail, end, found, said, said.usage)
    return _Load()


def _behind(tail: bytes, end: int, found: _Answer, said: _Said, usage: _Usage) -> _Load:
    """What came after an answer; a compaction there has changed all that came before."""
    context: int | None = (
        usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens
    )
    after = max(usage.output_tokens, tokens_of(len(bytes(said.content))))
    at = tail.rfind(b'"subtype":"compact_boundary"', end)
    if at >= 0:
        start, end = line_at(tail, at)
        try:
            context = _boundary.decode(tail[start:end]).compact_metadata.post_tokens
        except _BROKEN:
            context = None
        after = 0
    after += tokens_of(sum(map(_heard, tail[end + 1 :].split(b"\n"))))
    return _Load(found.version, said.model, context, after)


def _heard(text: bytes) -> int:
    """The bytes of a user's record that reach the model: those of its message."""
    at = text.find(b'"role":"user","content":')
    if at < 0 or text.startswith(b'{"type":"api-'):
        return 0
    end = text.find(b',"uuid":"', at)
    return (len(text) if end < 0 else end) - at


def _spent(note: bytes) -> _Cost | None:
    try:
        return _cost.decode(note)
    except _BROKEN:
        return None
