"""The messages of a session that is repaired, of either version: what each is, and how it is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from segue.agents.base import RepairOptions
from segue.agents.decoding import DAMAGE
from segue.agents.repair_words import IMAGE_LEFT_OUT, INTERRUPTED, OUTPUT_LEFT_OUT, Repairs
from segue.agents.vibe import blocks, folder
from segue.agents.vibe.folder import ATTACHMENTS
from segue.core.transcript import Entry


class Piece(Protocol):
    """One message, as its version writes it."""

    @property
    def place(self) -> int: ...

    @property
    def role(self) -> str: ...

    @property
    def opens(self) -> bool:
        """It is a prompt of the user."""
        ...

    @property
    def silent(self) -> bool:
        """It has neither text nor calls nor images."""
        ...

    @property
    def calls(self) -> Sequence[tuple[str, str]]:
        """The id and the tool of each call."""
        ...

    @property
    def call(self) -> str:
        """The call that a result belongs to."""
        ...

    def written(self, options: RepairOptions, done: Repairs) -> bytes:
        """The message without what is left out."""
        ...

    def closing(self, call: str, tool: str) -> bytes:
        """A result for a call that has none."""
        ...


class LinePiece(msgspec.Struct, frozen=True):
    """A message of a 2.x session, written as a line."""

    raw: bytes
    line: folder.Line
    place: int
    source: Path
    target: Path

    @property
    def role(self) -> str:
        return self.line.role

    @property
    def opens(self) -> bool:
        return self.line.opens

    @property
    def silent(self) -> bool:
        return not (self.line.words.strip() or self.line.tool_calls or self.line.images)

    @property
    def calls(self) -> Sequence[tuple[str, str]]:
        return [(call.id or "", call.function.name or "") for call in self.line.tool_calls or ()]

    @property
    def call(self) -> str:
        return self.line.tool_call_id or ""

    def written(self, options: RepairOptions, done: Repairs) -> bytes:
        changed: dict[str, Any] = {}
        if self.role == "tool" and options.trim:
            changed["content"] = OUTPUT_LEFT_OUT.format(len(self.line.words.encode()))
        if self.line.images:
            changed |= self._images(options, done)
        if not changed:
            return self.raw
        whole = msgspec.json.decode(self.raw, type=dict[str, Any])
        return msgspec.json.encode(
            {key: value for key, value in (whole | changed).items() if value is not None}
        )

    def closing(self, call: str, tool: str) -> bytes:
        result = {
            "role": "tool",
            "content": INTERRUPTED,
            "injected": False,
            "name": tool,
            "tool_call_id": call,
        }
        return msgspec.json.encode(result)

    def _images(self, options: RepairOptions, done: Repairs) -> dict[str, Any]:
        """The images that are kept, with their new paths, and a line of text for each that is not."""
        whole = msgspec.json.decode(self.raw, type=dict[str, Any])
        kept, notes = [], []
        for shown, image in zip(whole["images"], self.line.images or (), strict=True):
            size = self._size(image)
            if options.trim or size > options.image_bytes:
                notes.append(IMAGE_LEFT_OUT.format(size))
            else:
                kept.append(self._moved(shown, image))
        if notes:
            done["images"] += len(notes)
            text = "\n".join((self.line.words, *notes)).strip()
            return {"images": kept or None, "content": text}
        return {"images": kept}

    def _size(self, image: folder.Image) -> int:
        try:
            return Path(image.source.path).stat().st_size if image.source.path else image.size
        except OSError:
            return 0

    def _moved(self, shown: Any, image: folder.Image) -> Any:
        """The image with its new path: one beside the old session is copied to the new one."""
        path = Path(image.source.path)
        if not image.source.path or path.parent != (self.source / ATTACHMENTS).resolve():
            return shown
        there = str(self.target / ATTACHMENTS / path.name)
        return shown | {"source": shown["source"] | {"path": there}}


def line_piece(raw: bytes, place: int, source: Path, target: Path) -> LinePiece | None:
    """None if it cannot be decoded completely."""
    try:
        msgspec.json.decode(raw)
    except DAMAGE:
        return None
    line = folder.line_of(raw)
    return LinePiece(raw, line, place, source, target) if line is not None else None


class ItemPiece(msgspec.Struct, frozen=True):
    """A message of a 3.x store, written in the store's own form: JSON with sorted keys."""

    raw: bytes
    item: blocks.Item
    content: Sequence[blocks.Block]
    place: int

    @property
    def role(self) -> str:
        return self.item.role

    @property
    def opens(self) -> bool:
        return self.item.opens

    @property
    def silent(self) -> bool:
        return not (blocks.words_of(self.content).strip() or self.calls or blocks.images_of(self.content))

    @property
    def calls(self) -> Sequence[tuple[str, str]]:
        return [(block.id, block.name) for block in self.content if block.type == "tool_call"]

    @property
    def call(self) -> str:
        return self.item.message.tool_call_id or ""

    @property
    def turn(self) -> int:
        return self.item.turn_index if isinstance(self.item.turn_index, int) else 0

    def written(self, options: RepairOptions, done: Repairs) -> bytes:
        content = self.content
        if self.role == "tool" and options.trim:
            done["images"] += len(blocks.images_of(content))
            return self._with([_text(OUTPUT_LEFT_OUT.format(len(blocks.words_of(content).encode())))])
        limit = 0 if options.trim else options.image_bytes
        if not any(size > limit for size in blocks.images_of(content)):
            return self.raw
        whole = msgspec.json.decode(self.raw, type=dict[str, Any])["message"]["content"]
        kept = []
        for block, typed in zip(whole, content, strict=True):
            too_large = typed.type == "image" and blocks.image_size(typed) > limit
            done["images"] += too_large
            kept.append(_text(IMAGE_LEFT_OUT.format(blocks.image_size(typed))) if too_large else block)
        return self._with(kept)

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


def item_piece(raw: bytes, place: int) -> ItemPiece | None:
    """None if it cannot be decoded completely."""
    try:
        msgspec.json.decode(raw)
    except DAMAGE:
        return None
    item = blocks.item_of(raw)
    content = blocks.blocks_of(item.message.content) if item is not None else None
    return ItemPiece(raw, item, content, place) if item is not None and content is not None else None


def of_entries(entries: Sequence[Entry], names: Mapping[str, str], turn: int) -> bytes:
    """Entries of an unfinished turn's journal as the message that Vibe would have written."""
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
