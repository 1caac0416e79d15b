"""A summary of a Claude session from both ends of its file. Few lines are decoded, and none of them twice.

The title is the one that Claude's own SDK shows: the user's, else the model's, else the last prompt that the
CLI noted (newer versions only), else the first prompt.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from segue.agents.base import StoredSession
from segue.agents.claude import prompts
from segue.agents.claude.scan import (
    first_value,
    is_spaced,
    last_notes,
    last_value,
    line_at,
    places_back,
)
from segue.agents.claude.schema import SYNTHETIC, Answer, Boundary, CostState, Usage
from segue.agents.decoding import DAMAGE, moment_ms
from segue.agents.windows import Ends, ends_of, unreadable_brief
from segue.core.prompt_parts import user_words
from segue.core.situation import tokens_of
from segue.core.transcript import Brief, TitleBy

_ANSWER = (b'"role":"assistant"', b'"role": "assistant"')
_TITLES: tuple[tuple[bytes, str, TitleBy], ...] = (
    (b'custom-title"', "customTitle", "user"),
    (b'ai-title"', "aiTitle", "agent"),
)
_LAST_PROMPT, _COST, _TAG, _NAME = b'last-prompt"', b'cost-state"', b'tag"', b'agent-name"'
_IN_HEAD = tuple(kind for kind, _, _ in _TITLES)
_IN_TAIL = (*_IN_HEAD, _LAST_PROMPT, _COST, _TAG, _NAME)

_answer = msgspec.json.Decoder(Answer)
_boundary = msgspec.json.Decoder(Boundary)
_cost = msgspec.json.Decoder(CostState)


class _Load(msgspec.Struct, frozen=True):
    """The input of the last request, its model, and how much came after it."""

    version: str | None = None
    model: str | None = None
    context: int | None = None
    after: int = 0


def brief(stored: StoredSession) -> Brief:
    try:
        with open(stored.file, "rb", buffering=0) as file:  # faster than Path.open
            ends = ends_of(file)
    except OSError as error:
        return replace(unreadable_brief(error), last_used_ms=stored.changed_ns // 1_000_000)
    head, tail, spaced = ends.head, ends.last, is_spaced(ends)
    opening, parent = prompts.first_prompt(head, spaced)
    notes = last_notes(tail, _IN_TAIL)
    noted = _value(notes, _LAST_PROMPT, "lastPrompt")
    closing = user_words(noted or "") or prompts.last_prompt(tail, spaced)
    title, title_by = _title(ends, notes, noted, opening, spaced)
    load, cost = _load(tail, spaced), _cost_state(notes.get(_COST))
    tag = last_value(notes.get(_TAG, b""), "tag")
    messages, estimated = prompts.count_messages(ends, spaced), not ends.whole
    if estimated:  # never less than what is known to exist
        messages = max(messages, bool(opening or closing) + bool(load.model))
    return Brief(
        cwd=first_value(head, "cwd", spaced),
        title=title,
        title_by=title_by,
        first_prompt=opening,
        last_prompt=closing or opening,
        messages=messages,
        messages_estimated=estimated,
        tokens=cost.tokens if cost else None,
        cost_usd=cost.total if cost else None,
        branch=last_value(tail, "gitBranch", spaced) or first_value(head, "gitBranch", spaced),
        created_ms=moment_ms(first_value(head, "timestamp", spaced)),
        last_used_ms=moment_ms(last_value(tail, "timestamp", spaced)) or stored.changed_ns // 1_000_000,
        version=load.version or last_value(tail, "version", spaced) or first_value(head, "version", spaced),
        model=load.model,
        context=load.context,
        after=load.after,
        tags=(tag,) if tag else (),
        agent_name=last_value(notes.get(_NAME, b""), "agentName"),
        parent=parent,
        side=prompts.is_side(head),
        empty=not (opening or closing or messages),
    )


def _value(notes: Mapping[bytes, bytes], kind: bytes, key: str) -> str | None:
    """The value in a note, or in a line that another program wrote."""
    lines = (notes[name] for name in (kind, b"") if name in notes)
    return next((value for line in lines if (value := last_value(line, key))), None)


def _title(
    ends: Ends, notes: Mapping[bytes, bytes], noted: str | None, opening: str | None, spaced: bool
) -> tuple[str | None, TitleBy | None]:
    places = [notes] if ends.whole else [notes, last_notes(ends.head, _IN_HEAD)]
    for kind, key, by in _TITLES:
        for place in places:
            title = _value(place, kind, key)
            if title:
                return title, by
    if noted:
        return noted, "prompt"
    summary = last_value(ends.last, "summary", spaced)
    if summary:
        return summary, "agent"
    return (opening, "prompt") if opening else (None, None)


def _load(tail: bytes, spaced: bool) -> _Load:
    """From the newest answer of the model that has usage."""
    for pattern in _ANSWER[: 1 + spaced]:
        for at in places_back(tail, pattern):
            start, end = line_at(tail, at)
            try:
                record = _answer.decode(tail[start:end])
            except DAMAGE:
                continue
            usage = record.message.usage
            if record.type == "assistant" and usage is not None and record.message.model != SYNTHETIC:
                return _load_of(record, usage, tail, end)
    return _Load()


def _load_of(record: Answer, usage: Usage, tail: bytes, end: int) -> _Load:
    """Includes what came after the answer. A compaction after it replaced everything before."""
    context: int | None = usage.prompt
    after = max(usage.output_tokens or 0, tokens_of(len(bytes(record.message.content))))
    at = tail.rfind(b'"subtype":"compact_boundary"', end)
    if at >= 0:
        start, end = line_at(tail, at)
        try:
            context = _boundary.decode(tail[start:end]).compact_metadata.post_tokens
        except DAMAGE:
            context = None
        after = 0
    after += tokens_of(sum(map(_user_bytes, tail[end + 1 :].split(b"\n"))))
    return _Load(record.version, record.message.model, context, after)


def _user_bytes(line: bytes) -> int:
    """The bytes of a user's record that the model gets: those of its message."""
    at = line.find(b'"role":"user","content":')
    if at < 0 or line.startswith(b'{"type":"api-'):
        return 0
    end = line.find(b',"uuid":"', at)
    return (len(line) if end < 0 else end) - at


def _cost_state(note: bytes | None) -> CostState | None:
    try:
        return _cost.decode(note) if note is not None else None
    except DAMAGE:
        return None
