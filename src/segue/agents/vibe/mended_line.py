"""A message of a 2.x session that is written anew, as a line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from segue.agents.base import Mending
from segue.agents.vibe import lines
from segue.agents.vibe.folder import ATTACHMENTS
from segue.agents.vibe.mending import INTERRUPTED, NO_IMAGE, TRIMMED, Done


class LinePiece(msgspec.Struct, frozen=True):
    raw: bytes
    line: lines.Line
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

    def written(self, mending: Mending, done: Done) -> bytes:
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

    def _images(self, mending: Mending, done: Done) -> dict[str, Any]:
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

    def _size(self, image: lines.Image) -> int:
        try:
            return Path(image.source.path).stat().st_size if image.source.path else image.size
        except OSError:
            return 0

    def _moved(self, shown: Any, image: lines.Image) -> Any:
        """A picture beside the old session is copied, and found beside the new one."""
        path = Path(image.source.path)
        if not image.source.path or path.parent != (self.source / ATTACHMENTS).resolve():
            return shown
        there = str(self.target / ATTACHMENTS / path.name)
        return shown | {"source": shown["source"] | {"path": there}}


def piece(raw: bytes, place: int, source: Path, target: Path) -> LinePiece | None:
    """None for what cannot be read, or not all of it."""
    try:
        msgspec.json.decode(raw)
    except lines.ERRORS:
        return None
    line = lines.decoded(raw)
    return LinePiece(raw, line, place, source, target) if line is not None else None
