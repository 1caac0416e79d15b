"""What the wires share: canonical JSON, server-sent events, and the text of any content."""

from typing import Any

import msgspec

from segue.rehearsal.types import Call, Frame, Part, Text, Thought


def canonical(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def event(data: Any, *, name: str = "", beat: bool = False) -> Frame:
    head = f"event: {name}\n" if name else ""
    return Frame(head.encode() + b"data: " + msgspec.json.encode(data) + b"\n\n", beat)


def compact(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def text_of(content: Any) -> str:
    """The text of a string, a block, or a list of blocks."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, map(text_of, content)))
    if isinstance(content, dict):
        return text_of(content.get("text") or content.get("content") or content.get("output") or "")
    return ""


def said(part: Part) -> str:
    """The text of a part that counts as output."""
    match part:
        case Text(text) | Thought(text):
            return text
        case Call(tool, arguments):
            return compact({"name": tool.name, "input": arguments})
