"""A message of a 3.x store that is written anew, in the store's own form: JSON with sorted keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import msgspec

from segue.agents.base import Mending
from segue.agents.vibe import items
from segue.agents.vibe.mending import INTERRUPTED, NO_IMAGE, TRIMMED, Done
from segue.core.transcript import Entry


class ItemPiece(msgspec.Struct, frozen=True):
    raw: bytes
    item: items.Item
    place: int
    turn: int

    @classmethod
    def of(cls, raw: bytes, place: int) -> ItemPiece | None:
        """None for what cannot be read, or not all of it."""
        try:
            turn = msgspec.json.decode(raw, type=dict[str, Any]).get("turn_index")
        except items.ERRORS:
            return None
        item = items.item(raw)
        return cls(raw, item, place, turn if isinstance(turn, int) else 0) if item is not None else None

    @property
    def role(self) -> str:
        return self.item.message.role

    @property
    def opens(self) -> bool:
        return self.item.opens

    @property
    def silent(self) -> bool:
        content = self.item.message.content
        return not (items.words(content).strip() or self.calls or items.images(content))

    @property
    def calls(self) -> Sequence[tuple[str, str]]:
        return [(block.id, block.name) for block in self.item.message.content if block.type == "tool_call"]

    @property
    def call(self) -> str:
        return self.item.message.tool_call_id or ""

    def written(self, mending: Mending, done: Done) -> bytes:
        content = self.item.message.content
        if self.role == "tool" and mending.trim:
            done["images"] += len(items.images(content))
            return self._with([_text(TRIMMED.format(len(items.words(content))))])
        limit = 0 if mending.trim else mending.image_bytes
        if not any(size > limit for size in items.images(content)):
            return self.raw
        whole = msgspec.json.decode(self.raw, type=dict[str, Any])["message"]["content"]
        left = []
        for block, typed in zip(whole, content, strict=True):
            too_large = typed.type == "image" and len(typed.data) > limit
            done["images"] += too_large
            left.append(_text(NO_IMAGE.format(len(typed.data))) if too_large else block)
        return self._with(left)

    def closing(self, call: str, tool: str) -> bytes:
        return _encoded(
            {
                "message": {
                    "content": [_text(INTERRUPTED)],
                    "name": tool,
                    "outcome": "failure",
                    "role": "tool",
                    "tool_call_id": call,
                },
                "source": "history",
                "turn_index": self.turn,
            }
        )

    def _with(self, content: list[Any]) -> bytes:
        whole = msgspec.json.decode(self.raw, type=dict[str, Any])
        return _encoded(whole | {"message": whole["message"] | {"content": content}})


def of_entries(entries: Sequence[Entry], names: Mapping[str, str], turn: int) -> bytes:
    """What the journal tells of an unfinished turn, as the message that Vibe would have made of it."""
    first = entries[0]
    message: dict[str, Any] = {
        "role": "assistant",
        "content": [block for one in entries for block in _blocks(one)],
    }
    if first.kind == "user":
        message["role"] = "user"
    elif first.kind == "result":
        outcome = "failure" if first.failed else "success"
        tool = {"name": names.get(first.call, ""), "outcome": outcome, "tool_call_id": first.call}
        message |= {"role": "tool", **tool}
    return _encoded({"message": message, "source": "history", "turn_index": turn})


def shown(message: bytes, session: str, number: int, now_ms: int) -> Iterator[bytes]:
    """What a terminal shows of a message: what was said."""
    item = items.item(message)
    if item is None or item.message.role not in ("user", "assistant") or item.source != "history":
        return
    said = items.words(item.message.content)
    if not said:
        return
    user = item.message.role == "user"
    name = uuid5(NAMESPACE_OID, f"{session}/{number}")
    entry: dict[str, Any] = {
        "content": [_text(said)],
        "createdAt": now_ms,
        "generationStatus": "completed",
        "id": f"{item.message.role}-{name}",
        "inputEntryId": None,
        "relatedEntryId": None,
        "role": item.message.role,
        "sessionId": session,
        "source": "turn_start" if user else "harness",
        "turnId": f"turn-{name.hex}",
        "type": "message",
        "updatedAt": now_ms,
    }
    yield _encoded(entry if user else entry | {"outcome": {"type": "committed"}})


def _blocks(entry: Entry) -> Iterator[dict[str, Any]]:
    if entry.kind == "call":
        raw = msgspec.json.encode(entry.input).decode()
        given = {"raw": raw, "type": "json", "value": entry.input}
        yield {"arguments": given, "id": entry.call, "name": entry.tool, "type": "tool_call"}
    elif entry.kind != "thinking" and entry.text:
        yield _text(entry.text)


def _text(text: str) -> dict[str, Any]:
    return {"text": text, "type": "text"}


def _encoded(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")
