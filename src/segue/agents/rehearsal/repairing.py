"""A session of the rehearsal agent written anew without what is broken in it, line by line."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from segue.agents.base import Mended, Mending
from segue.agents.reader import Stored
from segue.agents.records import forwards
from segue.agents.rehearsal import disk
from segue.agents.rehearsal.reader import ERRORS, Line, decoded
from segue.core.errors import Broken

INTERRUPTED = "The tool was interrupted; whether it did its work is not known."
TRIMMED = "[output left out: {} characters]"
_DONE = {
    "damaged": ("a damaged line was dropped", "{} damaged lines were dropped"),
    "closed": ("a call without a result was closed", "{} calls without a result were closed"),
    "loose": ("a result without a call was dropped", "{} results without a call were dropped"),
    "silent": ("an empty answer was dropped", "{} empty answers were dropped"),
    "trimmed": ("the output of a tool was left out", "the output of {} tools was left out"),
    "before": ("a message before the place was left out", "{} messages before the place were left out"),
}


def repair(stored: Stored, new_id: str, mending: Mending) -> Mended:
    target = stored.path.with_name(f"{new_id}.jsonl")
    if target.exists():
        raise Broken(f"there is already a session {new_id}")
    done: Counter[str] = Counter()
    beside = target.with_name(f".{new_id}.{os.getpid()}.part")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.writelines(line + b"\n" for line in _lines(stored, new_id, mending, done))
        beside.rename(target)
    except OSError as error:
        raise Broken(f"the session cannot be repaired: {error.strerror or error}") from error
    finally:
        with suppress(FileNotFoundError):
            beside.unlink()
    return Mended(session=new_id, path=target, done=tuple(_told(done)))


def _lines(stored: Stored, new_id: str, mending: Mending, done: Counter[str]) -> Iterator[bytes]:
    since = _since(mending)
    with stored.path.open("rb") as file:
        lines = forwards(file)
        head = next(lines, None)
        header = _whole(head.text) if head is not None and head.text is not None else None
        if head is None or head.text is None or header is None or header.type != "session":
            raise Broken("its header is damaged: nothing of it can be saved")
        yield disk.renamed(head.text, id=new_id, parent=stored.id)
        waiting: list[Line] = []
        started = not since
        for place in lines:
            line = _whole(place.text) if place.text is not None and place.whole else None
            if line is None or line.type != "message":
                done["damaged"] += 1
                continue
            started = started or (place.start >= since and line.kind == "text" and line.role == "user")
            if not started:
                done["before"] += 1
                continue
            yield from _kept(line, place.text or b"", waiting, mending, done)
        yield from _closed(waiting, done)
    if not started:
        raise Broken("nothing was said by the user after that place")


def _whole(text: bytes) -> Line | None:
    """A line that can be read, all of it."""
    try:
        msgspec.json.decode(text)
    except ERRORS:
        return None
    return decoded(text)


def _since(mending: Mending) -> int:
    place = (mending.since or "0").partition(".")[0]
    if not place.isdecimal():
        raise Broken(f"{mending.since} is no place in a session of the rehearsal agent")
    return int(place)


def _kept(
    line: Line, raw: bytes, waiting: list[Line], mending: Mending, done: Counter[str]
) -> Iterator[bytes]:
    """The line, and before it what the calls still wait for when others go on."""
    if line.kind == "result":
        call = next((one for one in waiting if one.call_id == line.call_id), None)
        if call is None:
            done["loose"] += 1
            return
        waiting.remove(call)
        done["trimmed"] += mending.trim
        yield disk.renamed(raw, text=TRIMMED.format(len(line.text))) if mending.trim else raw
    elif line.kind == "call":
        waiting.append(line)
        yield raw
    elif line.role == "assistant" and not line.text.strip():
        done["silent"] += 1
    else:
        yield from _closed(waiting, done)
        yield raw


def _closed(waiting: list[Line], done: Counter[str]) -> Iterator[bytes]:
    for call in waiting:
        done["closed"] += 1
        yield msgspec.json.encode(
            {
                "type": "message",
                "id": f"{call.id}-closed",
                "kind": "result",
                "role": "user",
                "text": INTERRUPTED,
                "call_id": call.call_id,
                "time_ms": call.time_ms or 0,
            }
        )
    waiting.clear()


def _told(done: Counter[str]) -> Iterator[str]:
    for what, (one, many) in _DONE.items():
        if done[what]:
            yield one if done[what] == 1 else many.format(done[what])
