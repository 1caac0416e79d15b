"""A repaired copy of a rollout, written line by line without what is broken in it.

The history that it continues is copied into it, so that it is self-contained. Its lines are no longer
numbered: Codex refuses numbers with gaps, and accepts lines without numbers. The first pass finds out which
calls were answered; the second writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from segue.agents.base import RepairedCopy, RepairOptions, StoredSession
from segue.agents.codex import rollouts
from segue.agents.codex.format import renamed
from segue.agents.codex.schema import Item, Line, item_of, line_of
from segue.agents.codex.trim import Trim
from segue.agents.decoding import DAMAGE
from segue.agents.repair_words import INTERRUPTED, Repairs, repaired_copy
from segue.core.errors import Broken, NotFound
from segue.core.ids import checked_uuid
from segue.core.json_values import as_table

_NO_TIME = "2000-01-01T00:00:00.000Z"
_RESULT_OF = {
    "function_call": "function_call_output",
    "local_shell_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "tool_search_call": "tool_search_output",
}
_RESULTS = frozenset(_RESULT_OF.values())


def repair(stored: StoredSession, new_id: str, options: RepairOptions) -> RepairedCopy:
    target = rollouts.rollout_path(stored.home, checked_uuid(new_id), datetime.now())
    if rollouts.newest_of(stored.home, new_id) is not None:
        raise Broken(f"a session {new_id} already exists")
    done = Repairs()
    try:
        rollouts.write_rollout(target, (text + b"\n" for text in _lines(stored, new_id, options, done)))
    except OSError as error:
        raise Broken(f"the session cannot be repaired: {error.strerror or error}") from error
    return repaired_copy(new_id, target, done)


def _lines(stored: StoredSession, new_id: str, options: RepairOptions, done: Repairs) -> Iterator[bytes]:
    since = _since(options)
    pairs = _Pairs()
    for read in _whole_lines(stored, Repairs()):
        pairs.learn(read.start, read.line)
    yield _head(stored, new_id, done)
    trim, start, spoken = Trim(options, done), _Beginning(since), False
    for read in _whole_lines(stored, done):
        if read.line.type == "session_meta":
            continue
        for passed in start.passed(read, done):
            item = item_of(passed.line)
            spoken = spoken or (item is not None and item.type == "message")
            for text in _repaired(passed, item, pairs, trim, done):
                yield renamed(text, passed.thread, new_id)
    if not spoken:
        raise Broken("it has no prompt after that event" if since is not None else "it is empty")


def _since(options: RepairOptions) -> int | None:
    if options.since is None:
        return None
    try:
        return int(options.since.partition(".")[0])
    except ValueError:
        raise NotFound(f'there is no event "{options.since}" in this session') from None


def _head(stored: StoredSession, new_id: str, done: Repairs) -> bytes:
    """The first line for the new session; if it is missing, it is made from the lines after it."""
    meta: dict[str, Any] = {}
    first: Line | None = None
    for read in _whole_lines(stored, Repairs()):
        first = first or read.line
        if read.line.type == "session_meta" and read.thread == stored.id:
            meta = _object(read.line.payload) or meta
            break
    else:
        done["head"] = 1
        meta = _from_context(stored)
    if first is None or not meta.get("cwd"):
        raise Broken("it does not name its directory: nothing can be saved")
    for gone in ("history_base", "forked_from_ordinal_exclusive", "subagent_history_start_ordinal"):
        meta.pop(gone, None)
    if "history_mode" in meta:
        meta["history_mode"] = "legacy"
    stamp = meta.get("timestamp") or first.timestamp or _NO_TIME
    meta = {"originator": "codex_exec", "cli_version": "0.0.0", **meta}
    meta |= {"id": new_id, "timestamp": stamp, "forked_from_id": stored.id}
    return msgspec.json.encode({"timestamp": stamp, "type": "session_meta", "payload": meta})


def _from_context(stored: StoredSession) -> dict[str, Any]:
    for read in _whole_lines(stored, Repairs()):
        if read.line.type == "turn_context":
            return {"cwd": _object(read.line.payload).get("cwd")}
    return {}


def _object(raw: msgspec.Raw) -> dict[str, Any]:
    try:
        return as_table(msgspec.json.decode(raw))
    except DAMAGE:
        return {}


def _repaired(
    read: _WholeLine, item: Item | None, pairs: _Pairs, trim: Trim, done: Repairs
) -> Iterator[bytes]:
    """A line or its replacement; after a call without a result, also a result."""
    if item is None:
        yield from trim.other(read.text, read.line)
    elif pairs.is_result(item) and not pairs.take(item):
        done["orphans"] += 1
    elif item.type == "message" and item.role == "assistant" and _is_empty(item):
        done["empty"] += 1
    elif pairs.is_call(item) and not pairs.ask(read.start, item):
        if not _pair_key(item):
            done["damaged"] += 1
            return
        done["closed"] += 1
        yield trim.item(read.text, item)
        yield _closing(item, read.line.timestamp or "")
    else:
        yield trim.item(read.text, item)


def _is_empty(item: Item) -> bool:
    return not item.text.strip() and not any(memoryview(c.image_url).nbytes for c in item.content or ())


class _WholeLine(NamedTuple):
    """A line of the session or of a rollout that it continues, at its place in the session."""

    start: int
    thread: str
    text: bytes
    line: Line


def _whole_lines(stored: StoredSession, done: Repairs) -> Iterator[_WholeLine]:
    """All intact lines, those of the rollouts that it continues first."""
    parts = [part for part in rollouts.parts(stored.home, stored.path) if part.path is not None]
    done["joined"] = len(parts) > 1
    stamp = ""
    for part in reversed(parts):
        thread = rollouts.thread_of(part.path) if part.path is not None else ""
        for place in rollouts.part_lines(part):
            line = _line(place.text)
            if line is None or place.text is None or not line.type:
                done["damaged"] += 1
                continue
            stamp = line.timestamp or stamp
            text = place.text if line.timestamp else _stamped(place.text, stamp, done)
            yield _WholeLine(place.start, thread, text, line)


def _line(text: bytes | None) -> Line | None:
    """The line, if it can be decoded completely."""
    try:
        msgspec.json.decode(text or b"")
    except DAMAGE:
        return None
    return line_of(text or b"")


def _stamped(text: bytes, stamp: str, done: Repairs) -> bytes:
    """The line with a time: Codex skips lines without one."""
    done["stamped"] += 1
    record = msgspec.json.decode(text)
    return msgspec.json.encode({**record, "timestamp": stamp or _NO_TIME})


class _Beginning:
    """Passes the lines from the first prompt at or after a place on, with the beginning of its turn.

    What Codex inserted before the very first prompt is kept: it would not insert it a second time.
    """

    def __init__(self, since: int | None) -> None:
        self.since, self.started, self.prompted = since, since is None, False
        self.held: list[_WholeLine] = []

    def passed(self, read: _WholeLine, done: Repairs) -> list[_WholeLine]:
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
    item = item_of(line)
    return item is not None and item.type == "message" and not _prompt(line)[1]


def _prompt(line: Line) -> tuple[bool, bool]:
    """Whether a line is a prompt, and whether it is a message of the dialogue."""
    item = item_of(line)
    if item is None or item.type != "message" or item.role not in ("user", "assistant"):
        return False, False
    if item.role == "assistant":
        return False, not line.is_summary
    return not item.is_inserted, not item.is_inserted


class _Pairs:
    """Finds out in one pass over the session which calls were answered; used by the second pass."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[int]] = {}
        self._answered: set[int] = set()
        self._asked: Counter[str] = Counter()

    def learn(self, start: int, line: Line) -> None:
        item = item_of(line)
        if item is None:
            return
        if item.type in _RESULT_OF:
            self._waiting.setdefault(_pair_key(item), []).append(start)
        elif self.is_result(item) and (calls := self._waiting.get(item.call_id or "")):
            self._answered.add(calls.pop(0))

    def is_call(self, item: Item) -> bool:
        return item.type in _RESULT_OF

    def is_result(self, item: Item) -> bool:
        return item.type in _RESULTS

    def ask(self, start: int, item: Item) -> bool:
        """Whether a call has a result anywhere in the session."""
        answered = start in self._answered or _by_provider(item)
        self._asked[_pair_key(item)] += answered
        return answered

    def take(self, item: Item) -> bool:
        """Whether a result belongs to an earlier call; true only once for each call."""
        if _by_provider(item):
            return True
        waiting = self._asked[item.call_id or ""] > 0
        self._asked[item.call_id or ""] -= waiting
        return waiting


def _pair_key(item: Item) -> str:
    """The id that links a result to its call; empty if there is none."""
    return item.call_id or (item.id if item.type == "local_shell_call" else "") or ""


def _by_provider(item: Item) -> bool:
    """Whether the provider itself searched for tools; such pairs have no id."""
    return item.type in ("tool_search_call", "tool_search_output") and not item.call_id


def _closing(item: Item, stamp: str) -> bytes:
    """A result for a call that never got one."""
    payload: dict[str, Any] = {"type": _RESULT_OF[item.type], "call_id": _pair_key(item)}
    if item.type == "tool_search_call":
        payload |= {"status": "completed", "execution": "client", "tools": []}
    else:
        payload["output"] = INTERRUPTED
    return msgspec.json.encode({"timestamp": stamp, "type": "response_item", "payload": payload})
