"""What makes a history whole again, whichever version wrote it: every call has its result, right behind it.

The rules are the providers': an assistant's calls are followed by their results and by nothing else, no
result comes without its call, no answer is empty. Pure but for the pieces, which come one by one.

A message of a 3.x store that is written anew, in the store's own form: JSON with sorted keys.

A message of a 2.x session that is written anew, as a line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from uuid import NAMESPACE_OID, uuid5

import msgspec

from segue.agents.base import RepairOptions
from segue.agents.vibe import blocks, folder
from segue.agents.vibe.folder import ATTACHMENTS
from segue.core.errors import Broken
from segue.core.transcript import Entry

INTERRUPTED = "The tool was interrupted; whether it did its work is not known."
TRIMMED = "[output left out: {} characters]"
NO_IMAGE = "[an image was left out: {} bytes]"
ROLES = ("user", "assistant", "tool", "system")
_DONE = {
    "damaged": ("a damaged record was dropped", "{} damaged records were dropped"),
    "closed": ("a call without a result was closed", "{} calls without a result were closed"),
    "loose": ("a result without a call was dropped", "{} results without a call were dropped"),
    "silent": ("an empty answer was dropped", "{} empty answers were dropped"),
    "images": ("an image was left out", "{} images were left out"),
    "trimmed": ("the output of a tool was left out", "the output of {} tools was left out"),
    "before": ("a message before the place was left out", "{} messages before the place were left out"),
}

Repairs = Counter[str]


class Piece(Protocol):
    """One message, as its version writes it."""

    @property
    def place(self) -> int: ...

    @property
    def role(self) -> str: ...

    @property
    def opens(self) -> bool:
        """The user said it."""
        ...

    @property
    def silent(self) -> bool:
        """Neither words nor calls nor images are in it."""
        ...

    @property
    def calls(self) -> Sequence[tuple[str, str]]:
        """The id and the tool of each call."""
        ...

    @property
    def call(self) -> str:
        """Of a result: the call it answers."""
        ...

    def written(self, mending: RepairOptions, done: Repairs) -> bytes:
        """The message, without what it shall be without."""
        ...

    def closing(self, call: str, tool: str) -> bytes:
        """A result for a call that has none."""
        ...


def repaired_pieces(pieces: Iterable[Piece | None], mending: RepairOptions, done: Repairs) -> Iterator[bytes]:
    """The messages of a history that can be sent; None stands for what could not be read."""
    since, started = _since(mending), mending.since is None
    waiting: dict[str, tuple[Piece, str]] = {}
    for piece in pieces:
        if piece is None or piece.role not in ROLES:
            done["damaged"] += 1
            continue
        started = started or (piece.opens and piece.place >= since)
        if not started:
            done["before"] += 1
            continue
        yield from _kept(piece, waiting, mending, done)
    yield from _closed(waiting, done)
    if not started:
        raise Broken("the user said nothing after that place")


def in_words(done: Repairs) -> tuple[str, ...]:
    return tuple(
        one if done[what] == 1 else many.format(done[what])
        for what, (one, many) in _DONE.items()
        if done[what]
    )


def _kept(
    piece: Piece, waiting: dict[str, tuple[Piece, str]], mending: RepairOptions, done: Repairs
) -> Iterator[bytes]:
    if piece.role == "tool":
        if waiting.pop(piece.call, None) is None:
            done["loose"] += 1
        else:
            done["trimmed"] += mending.trim
            yield piece.written(mending, done)
        return
    yield from _closed(waiting, done)
    if piece.role == "assistant" and piece.silent:
        done["silent"] += 1
        return
    if piece.role == "assistant":
        waiting.update((call, (piece, tool)) for call, tool in piece.calls)
    yield piece.written(mending, done)


def _closed(waiting: dict[str, tuple[Piece, str]], done: Repairs) -> Iterator[bytes]:
    for call, (piece, tool) in waiting.items():
        done["closed"] += 1
        yield piece.closing(call, tool)
    waiting.clear()


def _since(mending: RepairOptions) -> int:
    place = (mending.since or "0").partition(".")[0]
    if not place.isdecimal():
        raise Broken(f"{mending.since} is no place in a session of Vibe")
    return int(place)


class ItemPiece(msgspec.Struct, frozen=True):
    raw: bytes
    item: blocks.Item
    place: int
    turn: int

    @classmethod
    def of(cls, raw: bytes, place: int) -> ItemPiece | None:
        """None for what cannot be read, or not all of it."""
        try:
            turn = msgspec.json.decode(raw, type=dict[str, Any]).get("turn_index")
        except blocks.ERRORS:
            return None
        item = blocks.item_of(raw)
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
        return not (blocks.words_of(content).strip() or self.calls or blocks.images_of(content))

    @property
    def calls(self) -> Sequence[tuple[str, str]]:
        return [(block.id, block.name) for block in self.item.message.content if block.type == "tool_call"]

    @property
    def call(self) -> str:
        return self.item.message.tool_call_id or ""

    def written(self, mending: RepairOptions, done: Repairs) -> bytes:
        content = self.item.message.content
        if self.role == "tool" and mending.trim:
            done["images"] += len(blocks.images_of(content))
            return self._with([_text(TRIMMED.format(len(blocks.words_of(content))))])
        limit = 0 if mending.trim else mending.image_bytes
        if not any(size > limit for size in blocks.images_of(content)):
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


def as_shown(message: bytes, session: str, number: int, now_ms: int) -> Iterator[bytes]:
    """What a terminal shows of a message: what was said."""
    item = blocks.item_of(message)
    if item is None or item.message.role not in ("user", "assistant") or item.source != "history":
        return
    said = blocks.words_of(item.message.content)
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


class LinePiece(msgspec.Struct, frozen=True):
    raw: bytes
    line: folder.FolderLine
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

    def written(self, mending: RepairOptions, done: Repairs) -> bytes:
        changed: dict[str, Any] = {}
        if self.role == "tool" and mending.trim:
            changed["content"] = TRIMMED.format(len(self.line.words))
        if self.line.images:
            changed |= self._images(mending, done)
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

    def _images(self, mending: RepairOptions, done: Repairs) -> dict[str, Any]:
        """Those that stay, with the paths that they will have; and a line for each that does not."""
        whole = msgspec.json.decode(self.raw, type=dict[str, Any])
        kept, notes = [], []
        for shown, image in zip(whole["images"], self.line.images or (), strict=True):
            size = self._size(image)
            if mending.trim or size > mending.image_bytes:
                notes.append(NO_IMAGE.format(size))
            else:
                kept.append(self._moved(shown, image))
        if notes:
            done["images"] += len(notes)
            said = "\n".join((self.line.words, *notes)).strip()
            return {"images": kept or None, "content": said}
        return {"images": kept}

    def _size(self, image: folder.Image) -> int:
        try:
            return Path(image.source.path).stat().st_size if image.source.path else image.size
        except OSError:
            return 0

    def _moved(self, shown: Any, image: folder.Image) -> Any:
        """A picture beside the old session is copied, and found beside the new one."""
        path = Path(image.source.path)
        if not image.source.path or path.parent != (self.source / ATTACHMENTS).resolve():
            return shown
        there = str(self.target / ATTACHMENTS / path.name)
        return shown | {"source": shown["source"] | {"path": there}}


def line_piece(raw: bytes, place: int, source: Path, target: Path) -> LinePiece | None:
    """None for what cannot be read, or not all of it."""
    try:
        msgspec.json.decode(raw)
    except folder.ERRORS:
        return None
    line = folder.decoded(raw)
    return LinePiece(raw, line, place, source, target) if line is not None else None
