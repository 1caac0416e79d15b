"""The same values made of records whose fields have other types than they should: of whatever fits."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from segue.agents.gemini import message as tables
from segue.agents.gemini.shapes import (
    Call,
    Done,
    Header,
    Held,
    Inline,
    Message,
    Part,
    Response,
    Thought,
    Tokens,
)
from segue.core.loose import items, table, text, whole


def as_held(record: dict[str, Any]) -> tuple[Held, str]:
    if isinstance(record.get("$rewindTo"), str):
        return text(record["$rewindTo"]), ""
    if isinstance(record.get("id"), str):
        return as_message(record), ""
    if isinstance(record.get("$set"), dict):
        return as_header(record["$set"]), ""
    if isinstance(record.get("sessionId"), str):
        return as_header(record), ""
    return None, text(record.get("type")) or next(map(text, record), "")


def as_header(record: dict[str, Any]) -> Header:
    named = {key: text(record.get(key)) or None for key in ("sessionId", "startTime", "lastUpdated")}
    said = record.get("messages")
    return Header(
        **named,
        kind=text(record.get("kind")) or None,
        summary=text(record.get("summary")) or None,
        directories=[text(one) for one in items(record.get("directories"))] or None,
        memoryScratchpad=record.get("memoryScratchpad"),
        messages=[as_message(table(one)) for one in said] if isinstance(said, list) else None,
    )


def as_message(record: dict[str, Any]) -> Message:
    tokens = table(record.get("tokens"))
    return Message(
        id=text(record.get("id")) or None,
        timestamp=text(record.get("timestamp")) or None,
        type=text(record.get("type")) or None,
        content=_parts(record.get("content")),
        thoughts=[
            Thought(text(one.get("subject")), text(one.get("description")))
            for one in map(table, items(record.get("thoughts")))
        ],
        tokens=Tokens(whole(tokens.get("input")), whole(tokens.get("total"))) if tokens else None,
        model=text(record.get("model")) or None,
        toolCalls=[
            Done(**_call(one), status=text(one.get("status")), result=_parts(one.get("result")))
            for one in map(table, items(record.get("toolCalls")))
        ],
    )


def _call(record: dict[str, Any]) -> dict[str, Any]:
    return {"id": text(record.get("id")), "name": text(record.get("name")), "args": record.get("args")}


def _parts(content: Any) -> list[Part | str]:
    return [_part(one) for one in tables.parts({"content": content})]


def _part(part: dict[str, Any]) -> Part:
    answer = table(part.get("functionResponse"))
    data = text(table(part.get("inlineData")).get("data"))
    return Part(
        text=text(part.get("text")),
        thought=part.get("thought"),
        functionCall=Call(**_call(part["functionCall"])) if table(part.get("functionCall")) else None,
        functionResponse=Response(text(answer.get("id")), text(answer.get("name")), answer.get("response"))
        if answer
        else None,
        inlineData=Inline(msgspec.Raw(b'"' + b" " * len(data) + b'"')) if data else None,
    )


def clean(value: Any, raw: bytes) -> Any:
    """Text that can be written anywhere: half of a surrogate pair, which only an escape can be, cannot."""
    if b"\\ud" not in raw and b"\\uD" not in raw:
        return value
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
