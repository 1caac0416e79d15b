"""What a repaired rollout leaves out: images that are too large; if asked for, all images and tool output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from segue.agents.base import RepairOptions
from segue.agents.codex.schema import Item, Line

OUTPUT = "[output left out: {} characters]"
IMAGE = "[an image of {} KB was left out]"
_DATA = "data:image/"
_KEPT_EVENTS = (
    *(b"task_started", b"task_complete", b"turn_started", b"turn_complete", b"turn_aborted"),
    *(b"user_message", b"agent_message", b"token_count", b"thread_rolled_back", b"thread_name_updated"),
)
_KEPT = tuple(b'"payload":{"type":"%s"' % kind for kind in _KEPT_EVENTS)
_SHOWN = (b'"item":{"type":"UserMessage"', b'"item":{"type":"AgentMessage"')


class Trim:
    """Counts each thing that it leaves out once: of what is said twice, the item counts."""

    def __init__(self, options: RepairOptions, done: Counter[str]) -> None:
        self._trim = options.trim
        self._limit = 0 if options.trim else options.image_bytes
        self._done = done

    def item(self, text: bytes, item: Item) -> bytes:
        if item.type == "image_generation_call" and memoryview(item.result).nbytes > self._limit + 2:
            return self._unmade(text)
        record = msgspec.json.decode(text) if self._trim and item.type.endswith("_output") else None
        if record is not None:
            self._done["trimmed"] += 1
            payload = record["payload"]
            if "tools" in payload:
                payload["tools"] = []
            if "output" in payload:
                payload["output"] = OUTPUT.format(_length(payload["output"]))
            return msgspec.json.encode(record)
        return self._pictured(text, self._done)

    def other(self, text: bytes, line: Line) -> Iterator[bytes]:
        """A line that is no item. Of the events only those stay that the dialogue needs."""
        if self._trim and line.type == "event_msg":
            begin = text[:200]
            if not any(kept in begin for kept in _KEPT) and not any(kept in text[:600] for kept in _SHOWN):
                return
        yield self._pictured(text, Counter())

    def _unmade(self, text: bytes) -> bytes:
        """A picture that was made, as the words that there was one."""
        self._done["images"] += 1
        record = msgspec.json.decode(text)
        note = IMAGE.format(len(str(record["payload"].get("result"))) >> 10)
        said = [{"type": "output_text", "text": note}]
        record["payload"] = {"type": "message", "role": "assistant", "content": said}
        return msgspec.json.encode(record)

    def _pictured(self, text: bytes, done: Counter[str]) -> bytes:
        """A line without the images that are too large in it."""
        if len(text) <= self._limit or _DATA.encode() not in text:
            return text
        before = done["images"]
        record = self._without(msgspec.json.decode(text), done)
        return msgspec.json.encode(record) if done["images"] > before else text

    def _without(self, value: Any, done: Counter[str]) -> Any:
        if isinstance(value, list):
            return [part for part in (self._part(one, done) for one in value) if part is not None]
        if isinstance(value, dict):
            return {key: self._without(one, done) for key, one in value.items()}
        return value

    def _part(self, one: Any, done: Counter[str]) -> Any:
        """A member of a list: a part of a message, or, in an event, an image alone."""
        values = one.values() if isinstance(one, dict) else (one,)
        large = next((v for v in values if isinstance(v, str) and self._is_large(v)), None)
        if large is None:
            return self._without(one, done)
        done["images"] += 1
        note = IMAGE.format(len(large) >> 10)
        if not isinstance(one, dict):
            return None
        if one.get("type") == "image":
            return {"type": "text", "text": note, "text_elements": []}
        return {"type": "input_text", "text": note}

    def _is_large(self, value: str) -> bool:
        return value.startswith(_DATA) and len(value) > self._limit


def _length(output: Any) -> int:
    if isinstance(output, str):
        return len(output)
    parts = output if isinstance(output, list) else [output]
    return sum(
        len(str(part.get("text") or part.get("content") or "")) for part in parts if isinstance(part, dict)
    )
