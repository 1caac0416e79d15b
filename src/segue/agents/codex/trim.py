"""What a repaired rollout leaves out: images that are too large; if requested, all images and tool output."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from segue.agents.base import RepairOptions
from segue.agents.codex.schema import Item, Line
from segue.agents.repair_words import IMAGE_LEFT_OUT, OUTPUT_LEFT_OUT, Repairs

_DATA = "data:image/"
_KEPT_EVENTS = (
    *(b"task_started", b"task_complete", b"turn_started", b"turn_complete", b"turn_aborted"),
    *(b"user_message", b"agent_message", b"token_count", b"thread_rolled_back", b"thread_name_updated"),
)
_KEPT = tuple(b'"payload":{"type":"%s"' % kind for kind in _KEPT_EVENTS)
_SHOWN = (b'"item":{"type":"UserMessage"', b'"item":{"type":"AgentMessage"')


class Trim:
    """Trims lines. What a rollout contains twice is counted once, in its item."""

    def __init__(self, options: RepairOptions, done: Repairs) -> None:
        self._trim = options.trim
        self._limit = 0 if options.trim else options.image_bytes
        self._done = done

    def item(self, text: bytes, item: Item) -> bytes:
        if item.type == "image_generation_call" and memoryview(item.result).nbytes > self._limit + 2:
            return self._without_made_image(text)
        record = msgspec.json.decode(text) if self._trim and item.type.endswith("_output") else None
        if record is not None:
            self._done["outputs"] += 1
            payload = record["payload"]
            if "tools" in payload:
                payload["tools"] = []
            if "output" in payload:
                payload["output"] = OUTPUT_LEFT_OUT.format(_size(payload["output"]))
            return msgspec.json.encode(record)
        return self._without_images(text, self._done)

    def other(self, text: bytes, line: Line) -> Iterator[bytes]:
        """A line that is not an item. Of the events, only those that the dialogue needs are kept."""
        if self._trim and line.type == "event_msg":
            begin = text[:200]
            if not any(kept in begin for kept in _KEPT) and not any(kept in text[:600] for kept in _SHOWN):
                return
        yield self._without_images(text, Repairs())

    def _without_made_image(self, text: bytes) -> bytes:
        """A generated image, replaced by a message that says so."""
        self._done["images"] += 1
        record = msgspec.json.decode(text)
        note = IMAGE_LEFT_OUT.format(len(str(record["payload"].get("result"))))
        said = [{"type": "output_text", "text": note}]
        record["payload"] = {"type": "message", "role": "assistant", "content": said}
        return msgspec.json.encode(record)

    def _without_images(self, text: bytes, done: Repairs) -> bytes:
        """A line without the images that are too large."""
        if len(text) <= self._limit or _DATA.encode() not in text:
            return text
        before = done["images"]
        record = self._trimmed(msgspec.json.decode(text), done)
        return msgspec.json.encode(record) if done["images"] > before else text

    def _trimmed(self, value: Any, done: Repairs) -> Any:
        if isinstance(value, list):
            return [part for part in (self._part(one, done) for one in value) if part is not None]
        if isinstance(value, dict):
            return {key: self._trimmed(one, done) for key, one in value.items()}
        return value

    def _part(self, one: Any, done: Repairs) -> Any:
        """A member of a list: a part of a message, or, in an event, an image alone."""
        values = one.values() if isinstance(one, dict) else (one,)
        large = next((v for v in values if isinstance(v, str) and self._is_large(v)), None)
        if large is None:
            return self._trimmed(one, done)
        done["images"] += 1
        note = IMAGE_LEFT_OUT.format(len(large))
        if not isinstance(one, dict):
            return None
        if one.get("type") == "image":
            return {"type": "text", "text": note, "text_elements": []}
        return {"type": "input_text", "text": note}

    def _is_large(self, value: str) -> bool:
        return value.startswith(_DATA) and len(value) > self._limit


def _size(output: Any) -> int:
    """The bytes of text in a tool's output."""
    if isinstance(output, str):
        return len(output.encode("utf-8", "replace"))
    parts = output if isinstance(output, list) else [output]
    texts = (part.get("text") or part.get("content") or "" for part in parts if isinstance(part, dict))
    return sum(len(str(text).encode("utf-8", "replace")) for text in texts)
