"""A rollout written anew without what is broken in it, line by line.

What it goes on from is written into it, so that it stands alone. Its lines are not numbered any more: Codex
refuses numbers with gaps, and takes lines without.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from segue.agents.base import Mended, Mending
from segue.agents.codex import anchors, files
from segue.agents.codex.beginning import Beginning
from segue.agents.codex.items import ERRORS, Item, Line, item_of, said
from segue.agents.codex.pairs import Pairs, closing, key
from segue.agents.codex.trimming import Trim
from segue.agents.codex.whole import Read, whole_lines
from segue.agents.reader import Stored
from segue.core.errors import Broken
from segue.core.keys import uuid

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


def repair(stored: Stored, new_id: str, mending: Mending) -> Mended:
    target = files.place(stored.home, uuid(new_id), datetime.now())
    if files.newest(stored.home, new_id) is not None:
        raise Broken(f"there is already a session {new_id}")
    done: Counter[str] = Counter()
    try:
        files.write(target, (text + b"\n" for text in _lines(stored, new_id, mending, done)))
    except OSError as error:
        raise Broken(f"the session cannot be repaired: {error.strerror or error}") from error
    told = (forms[done[what] != 1].format(done[what]) for what, forms in _DONE.items() if done[what])
    return Mended(session=new_id, path=target, done=tuple(told))


def _lines(stored: Stored, new_id: str, mending: Mending, done: Counter[str]) -> Iterator[bytes]:
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
                yield anchors.renamed(text, kept.thread, new_id)
    if not spoken:
        raise Broken("nothing was said by the user after that place" if since is not None else "it is empty")


def _since(mending: Mending) -> int | None:
    if mending.since is None:
        return None
    try:
        return int(mending.since.partition(".")[0])
    except ValueError:
        raise Broken(f"{mending.since} is no place in a session of Codex") from None


def _head(stored: Stored, new_id: str, done: Counter[str]) -> bytes:
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


def _from_context(stored: Stored) -> dict[str, Any]:
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


def _kept(read: Read, item: Item | None, pairs: Pairs, trim: Trim, done: Counter[str]) -> Iterator[bytes]:
    """A line, or what stands for it; and what a call without a result needs."""
    if item is None:
        yield from trim.noted(read.text, read.line)
    elif pairs.is_result(item) and not pairs.take(item):
        done["loose"] += 1
    elif item.type == "message" and item.role == "assistant" and _silent(item):
        done["silent"] += 1
    elif pairs.is_call(item) and not pairs.ask(read.start, item):
        if not key(item):
            done["damaged"] += 1
            return
        done["closed"] += 1
        yield trim.item(read.text, item)
        yield closing(item, read.line.timestamp or "")
    else:
        yield trim.item(read.text, item)


def _silent(item: Item) -> bool:
    return not said(item.content).strip() and not any(
        memoryview(c.image_url).nbytes for c in item.content or ()
    )
