"""A message of 3.x, made of blocks, and the same message as 2.x writes it: one text.

Blocks are joined here as Vibe itself joins them for the model, so that a session that was cut and taken in
again sends the bytes it sent before.
"""

from __future__ import annotations

from html import escape
from typing import Any

import msgspec

from segue.agents.vibe.told import Damaged

_SEPARATOR = "\n\n"


class _Arguments(msgspec.Struct, frozen=True):
    raw: str = ""


class _Resource(msgspec.Struct, frozen=True):
    uri: str = ""
    text: str | None = None


class _Block(msgspec.Struct, frozen=True):
    """Any block: text, a file that was mentioned, a picture, reasoning, a tool call."""

    type: str
    text: str | None = None
    uri: str = ""
    resource: _Resource = _Resource()
    data: str = ""
    mime_type: str = msgspec.field(name="mimeType", default="")
    content: list[dict[str, Any]] = []
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)
    id: str = ""
    name: str = ""
    arguments: _Arguments = _Arguments()


class Message(msgspec.Struct, frozen=True):
    role: str
    content: msgspec.Raw = msgspec.Raw(b"[]")
    name: str | None = None
    tool_call_id: str | None = None


_blocks = msgspec.json.Decoder(list[_Block])


def text(message: Message) -> str:
    """What the message says in words."""
    return _text(_parts(message))


def line(message: Message) -> bytes | None:
    """None for a picture that a tool or the model showed: 2.x has no place for one."""
    parts = _parts(message)
    pictures = [part for part in parts if part.type == "image"]
    if pictures and message.role != "user":
        return None
    match message.role:
        case "user":
            written = {"content": _text(parts), **_images(pictures)}
        case "assistant":
            written = {"content": _text(parts) or None, **_thought(parts), **_calls(parts)}
        case "tool":
            written = {"content": _text(parts), "name": message.name, "tool_call_id": message.tool_call_id}
        case _:
            return None
    return msgspec.json.encode({"role": message.role, **written}) + b"\n"


def _parts(message: Message) -> list[_Block]:
    try:
        return _blocks.decode(message.content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged from error


def _text(parts: list[_Block]) -> str:
    return _SEPARATOR.join(found for part in parts if (found := _words(part)) is not None)


def _words(part: _Block) -> str | None:
    if part.type == "text":
        return part.text
    if part.type == "resource_link":
        return f"[resource: {part.uri}]"
    if part.type != "resource" or part.resource.text is None:
        return None
    fence = "````"
    while fence in part.resource.text:
        fence += "`"
    return f"Resource: {escape(part.resource.uri, quote=True)}\n{fence}\n{part.resource.text}\n{fence}"


def _images(pictures: list[_Block]) -> dict[str, Any]:
    images = [
        {"source": {"kind": "inline", "data": one.data}, "alias": "image", "mime_type": one.mime_type}
        for one in pictures
    ]
    return {"images": images} if images else {}


def _thought(parts: list[_Block]) -> dict[str, Any]:
    """Reasoning, and what a provider sent along with it that only the provider can read."""
    said: list[str] = []
    sealed: list[Any] = []
    for part in parts:
        if part.type == "reasoning":
            said += [str(piece.get("text") or "") for piece in part.content]
            sealed += (part.meta or {}).get("vibe_reasoning_payloads") or []
    thought: dict[str, Any] = {"reasoning_content": "".join(said)} if any(said) else {}
    return thought | ({"reasoning_payloads": sealed} if sealed else {})


def _calls(parts: list[_Block]) -> dict[str, Any]:
    calls = [
        {
            "id": part.id,
            "index": index,
            "function": {"name": part.name, "arguments": part.arguments.raw},
            "type": "function",
        }
        for index, part in enumerate(part for part in parts if part.type == "tool_call")
    ]
    return {"tool_calls": calls} if calls else {}
