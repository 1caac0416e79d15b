"""What becomes of a message's blocks in a repaired Claude session: nothing empty, nothing without its other
half, no image that the provider would refuse; and, where asked for, no tool output at all."""

from __future__ import annotations

from collections import Counter
from typing import Any

from segue.agents.base import Mending
from segue.agents.claude.pieces import Piece
from segue.core.loose import items, table, text

LEFT_OUT = "[The output of this tool call, {} bytes, was left out.]"
IMAGE_LEFT_OUT = "[An image of {} bytes was left out.]"


class Mender:
    """Goes through the records in their order, and counts what it does."""

    def __init__(self, calls: set[str], mending: Mending, counts: Counter[str]) -> None:
        self._calls = calls
        self._mending = mending
        self._counts = counts
        self._returned: set[str] = set()

    def mended(self, found: Piece) -> Piece | None:
        """The record as it is to be written; None where nothing of it is left."""
        if not found.is_message or found.is_side:
            return found
        if found.type == "assistant":
            return found if self._says_something(found) else None
        return self._user(found)

    def _says_something(self, found: Piece) -> bool:
        content = found.content
        blocks = [content] if isinstance(content, str) else content
        says = any(_is_something(block) for block in blocks)
        self._counts["empty"] += not says
        return says

    def _user(self, found: Piece) -> Piece | None:
        if isinstance(found.content, str) or not found.content:
            return found
        blocks = [block for block in found.content if self._belongs(block)]
        new = [self._block(block) for block in blocks]
        if not new:
            return None
        return found if new == found.content else found.with_content(new)

    def _belongs(self, block: Any) -> bool:
        """Whether it is no result, or the first one of a call."""
        if table(block).get("type") != "tool_result":
            return True
        call = text(table(block).get("tool_use_id"))
        fits = call in self._calls and call not in self._returned
        self._returned.add(call)
        self._counts["orphans"] += not fits
        return fits

    def _block(self, block: Any) -> Any:
        found = table(block)
        if found.get("type") == "tool_result":
            return self._result(found)
        return self._image(block) if found.get("type") == "image" else block

    def _result(self, block: dict[str, Any]) -> dict[str, Any]:
        content = block.get("content")
        if not self._mending.trim:
            if isinstance(content, str) or content is None:
                return block
            return {**block, "content": [self._image(part) for part in items(content)]}
        size = _size(content)
        note = LEFT_OUT.format(size)
        if size <= len(note):
            return block
        self._counts["outputs"] += 1
        return {**block, "content": note}

    def _image(self, block: Any) -> Any:
        found = table(block)
        if found.get("type") != "image":
            return block
        size = len(text(table(found.get("source")).get("data")))
        if not self._mending.trim and size <= self._mending.image_bytes:
            return block
        self._counts["images"] += 1
        return {"type": "text", "text": IMAGE_LEFT_OUT.format(size)}


def _is_something(block: Any) -> bool:
    if isinstance(block, str):
        return bool(block.strip())
    found = table(block)
    return bool(found) and (found.get("type") != "text" or bool(text(found.get("text")).strip()))


def _size(content: Any) -> int:
    if isinstance(content, str):
        return len(content.encode("utf-8", "replace"))
    parts = [table(part) for part in items(content)]
    return sum(
        len(text(part.get("text"))) + len(text(table(part.get("source")).get("data"))) for part in parts
    )
