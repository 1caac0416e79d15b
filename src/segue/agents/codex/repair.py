"""All lines of a session that are whole, with those it goes on from.

Where a repaired session begins, when it shall not begin where the old one did.

Calls and their results in a rollout: which belong together, and what stands alone.

What is left out of a repaired rollout: images that are too large, and on demand all images and all that
tools gave back.

A rollout written anew without what is broken in it, line by line.

What it goes on from is written into it, so that it stands alone. Its lines are not numbered any more: Codex
refuses numbers with gaps, and takes lines without.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from segue.agents.base import RepairedCopy, RepairOptions, StoredSession
from segue.agents.codex import format as session_format
from segue.agents.codex import rollouts
from segue.agents.codex.rollouts import ancestry
from segue.agents.codex.schema import ERRORS, Item, Line, is_inserted, item_of, line_of, message_text
from segue.agents.jsonl import forwards
from segue.core.errors import Broken
from segue.core.ids import checked_uuid


class WholeRollout(NamedTuple):
    """A line of the session or of what it goes on from, at its place in the session (see the reader)."""

    start: int
    thread: str
    text: bytes
    line: Line


def whole_lines(stored: StoredSession, done: Counter[str]) -> Iterator[WholeRollout]:
    """All lines that are whole, those it goes on from first."""
    parts = list(ancestry(stored.home, stored.path))
    done["joined"] = len(parts) > 1
    shift = -sum(end or 0 for _, end in parts)
    stamp = ""
    for path, end in reversed(parts):
        thread = rollouts.thread_of(path)
        with rollouts.opened(path) as file:
            for place in forwards(file):
                if end is not None and place.start >= end:
                    break
                line = _line(place.text)
                if line is None or place.text is None or not line.type:
                    done["damaged"] += 1
                    continue
                stamp = line.timestamp or stamp
                text = place.text if line.timestamp else _stamped(place.text, stamp, done)
                yield WholeRollout(place.start + shift, thread, text, line)
        shift += end or 0


def _line(text: bytes | None) -> Line | None:
    """Only what can be read to its last value."""
    try:
        msgspec.json.decode(text or b"")
    except ERRORS:
        return None
    return line_of(text or b"")


def _stamped(text: bytes, stamp: str, done: Counter[str]) -> bytes:
    """Codex passes over lines that do not say when."""
    done["stamped"] += 1
    record = msgspec.json.decode(text)
    return msgspec.json.encode({**record, "timestamp": stamp or "2000-01-01T00:00:00.000Z"})


class Beginning:
    """Passes lines on from the first prompt at or after a place, with what its turn began with.

    What Codex put in before the first prompt of all stays: it would not put it in again.
    """

    def __init__(self, since: int | None) -> None:
        self.since, self.started, self.prompted = since, since is None, False
        self.held: list[WholeRollout] = []

    def passed(self, read: WholeRollout, done: Counter[str]) -> list[WholeRollout]:
        if self.started:
            return [read]
        prompt, message = _prompt(read.line)
        if prompt and read.start >= (self.since or 0):
            self.started = True
            return [*self.held, read]
        self.prompted = self.prompted or prompt
        done["before"] += message
        context = read.line.type in ("turn_context", "world_state") or _is_context(read.line)
        if not self.prompted:
            return [read] if context else []
        if b'"task_started"' in read.text[:200]:
            self.held = [read]
        elif self.held:
            self.held = [*self.held, read] if context or read.line.type == "event_msg" else []
        return []


def _is_context(line: Line) -> bool:
    item = item_of(line.payload) if line.type == "response_item" else None
    return item is not None and item.type == "message" and not _prompt(line)[1]


def _prompt(line: Line) -> tuple[bool, bool]:
    """Whether a line is a prompt, and whether it is anything that was said."""
    item = item_of(line.payload) if line.type == "response_item" else None
    if item is None or item.type != "message" or item.role not in ("user", "assistant"):
        return False, False
    if item.role == "assistant":
        return False, b'"compaction_output":true' not in bytes(line.metadata)
    put_in = is_inserted(item, message_text(item.content))
    return not put_in, not put_in


INTERRUPTED = "The tool was interrupted; whether it did its work is not known."
_RESULT_OF = {
    "function_call": "function_call_output",
    "local_shell_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "tool_search_call": "tool_search_output",
}
_RESULTS = frozenset(_RESULT_OF.values())


class Pairs:
    """Learns in one pass over the session which calls were answered; tells in a second one what to do."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[int]] = {}
        self._answered: set[int] = set()
        self._asked: Counter[str] = Counter()

    def learn(self, start: int, line: Line) -> None:
        item = item_of(line.payload) if line.type == "response_item" else None
        if item is None:
            return
        if item.type in _RESULT_OF:
            self._waiting.setdefault(pair_key(item), []).append(start)
        elif self.is_result(item) and (calls := self._waiting.get(item.call_id or "")):
            self._answered.add(calls.pop(0))

    def is_call(self, item: Item) -> bool:
        return item.type in _RESULT_OF

    def is_result(self, item: Item) -> bool:
        return item.type in _RESULTS

    def ask(self, start: int, item: Item) -> bool:
        """A call: whether it is ever answered."""
        answered = start in self._answered or _by_provider(item)
        self._asked[pair_key(item)] += answered
        return answered

    def take(self, item: Item) -> bool:
        """A result: whether its call has come before; only once for each call."""
        if _by_provider(item):
            return True
        waiting = self._asked[item.call_id or ""] > 0
        self._asked[item.call_id or ""] -= waiting
        return waiting


def pair_key(item: Item) -> str:
    """What ties a result to a call; empty: nothing does."""
    return item.call_id or (item.id if item.type == "local_shell_call" else "") or ""


def _by_provider(item: Item) -> bool:
    """The provider searched for tools by itself; such pairs have no id."""
    return item.type in ("tool_search_call", "tool_search_output") and not item.call_id


def closing(item: Item, stamp: str) -> bytes:
    """The result of a call that never got one."""
    payload: dict[str, Any] = {"type": _RESULT_OF[item.type], "call_id": pair_key(item)}
    if item.type == "tool_search_call":
        payload |= {"status": "completed", "execution": "client", "tools": []}
    else:
        payload["output"] = INTERRUPTED
    return msgspec.json.encode({"timestamp": stamp, "type": "response_item", "payload": payload})


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
    """Counts what it leaves out, each once: of what is said twice the item counts."""

    def __init__(self, mending: RepairOptions, done: Counter[str]) -> None:
        self._trim = mending.trim
        self._limit = 0 if mending.trim else mending.image_bytes
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

    def noted(self, text: bytes, line: Line) -> Iterator[bytes]:
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


_DONE = {
    "damaged": ("a damaged line was dropped", "{} damaged lines were dropped"),
    "stamped": ("a line got the time it was missing", "{} lines got the time they were missing"),
    "closed": ("a call without a result was closed", "{} calls without a result were closed"),
    "loose": ("a result without a call was dropped", "{} results without a call were dropped"),
    "silent": ("an empty answer was dropped", "{} empty answers were dropped"),
    "images": ("an image was replaced by a line of text", "{} images were replaced by a line of text"),
    "trimmed": ("the output of a tool was left out", "the output of {} tools was left out"),
    "before": ("a message before the place was left out", "{} messages before the place were left out"),
    "head": ("the first line was written anew", "the first line was written anew"),
    "joined": ("what it goes on from was written into it",) * 2,
}


def repair(stored: StoredSession, new_id: str, mending: RepairOptions) -> RepairedCopy:
    target = rollouts.rollout_path(stored.home, checked_uuid(new_id), datetime.now())
    if rollouts.newest_of(stored.home, new_id) is not None:
        raise Broken(f"there is already a session {new_id}")
    done: Counter[str] = Counter()
    try:
        rollouts.write_rollout(target, (text + b"\n" for text in _lines(stored, new_id, mending, done)))
    except OSError as error:
        raise Broken(f"the session cannot be repaired: {error.strerror or error}") from error
    told = (forms[done[what] != 1].format(done[what]) for what, forms in _DONE.items() if done[what])
    return RepairedCopy(session=new_id, path=target, done=tuple(told))


def _lines(stored: StoredSession, new_id: str, mending: RepairOptions, done: Counter[str]) -> Iterator[bytes]:
    since, counted = _since(mending), Counter[str]()
    pairs = Pairs()
    for read in whole_lines(stored, counted):
        pairs.learn(read.start, read.line)
    yield _head(stored, new_id, done)
    trim, start, spoken = Trim(mending, done), Beginning(since), False
    for read in whole_lines(stored, done):
        if read.line.type == "session_meta":
            continue
        for kept in start.passed(read, done):
            item = item_of(kept.line.payload) if kept.line.type == "response_item" else None
            spoken = spoken or (item is not None and item.type == "message")
            for text in _kept(kept, item, pairs, trim, done):
                yield session_format.renamed(text, kept.thread, new_id)
    if not spoken:
        raise Broken("nothing was said by the user after that place" if since is not None else "it is empty")


def _since(mending: RepairOptions) -> int | None:
    if mending.since is None:
        return None
    try:
        return int(mending.since.partition(".")[0])
    except ValueError:
        raise Broken(f"{mending.since} is no place in a session of Codex") from None


def _head(stored: StoredSession, new_id: str, done: Counter[str]) -> bytes:
    """The first line as another session's; what is missing in it is taken from the lines behind it."""
    meta: dict[str, Any] = {}
    first: Line | None = None
    for read in whole_lines(stored, Counter()):
        first = first or read.line
        if read.line.type == "session_meta" and read.thread == stored.id:
            meta = _object(read.line.payload) or meta
            break
    else:
        done["head"] = 1
        meta = _from_context(stored)
    if first is None or not meta.get("cwd"):
        raise Broken("it does not say in which directory it was: nothing of it can be saved")
    for gone in ("history_base", "forked_from_ordinal_exclusive", "subagent_history_start_ordinal"):
        meta.pop(gone, None)
    if "history_mode" in meta:
        meta["history_mode"] = "legacy"
    stamp = meta.get("timestamp") or first.timestamp or "2000-01-01T00:00:00.000Z"
    meta = {"originator": "codex_exec", "cli_version": "0.0.0", **meta}
    meta |= {"id": new_id, "timestamp": stamp, "forked_from_id": stored.id}
    return msgspec.json.encode({"timestamp": stamp, "type": "session_meta", "payload": meta})


def _from_context(stored: StoredSession) -> dict[str, Any]:
    for read in whole_lines(stored, Counter()):
        if read.line.type == "turn_context":
            return {"cwd": _object(read.line.payload).get("cwd")}
    return {}


def _object(raw: msgspec.Raw) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(raw)
    except ERRORS:
        return {}
    return found if isinstance(found, dict) else {}


def _kept(
    read: WholeRollout, item: Item | None, pairs: Pairs, trim: Trim, done: Counter[str]
) -> Iterator[bytes]:
    """A line, or what stands for it; and what a call without a result needs."""
    if item is None:
        yield from trim.noted(read.text, read.line)
    elif pairs.is_result(item) and not pairs.take(item):
        done["loose"] += 1
    elif item.type == "message" and item.role == "assistant" and _silent(item):
        done["silent"] += 1
    elif pairs.is_call(item) and not pairs.ask(read.start, item):
        if not pair_key(item):
            done["damaged"] += 1
            return
        done["closed"] += 1
        yield trim.item(read.text, item)
        yield closing(item, read.line.timestamp or "")
    else:
        yield trim.item(read.text, item)


def _silent(item: Item) -> bool:
    return not message_text(item.content).strip() and not any(
        memoryview(c.image_url).nbytes for c in item.content or ()
    )
