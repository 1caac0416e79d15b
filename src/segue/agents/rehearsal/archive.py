"""The rehearsal agent's sessions, for those who only look: a header line, then one line per message.

The agent writes its lines in one way only (compact, fields in their order), so a brief counts by searching
for bytes; what others wrote differently is still read, only not counted as fast.

Taking a session of the rehearsal agent away: its file and its lock. There is no index.

A session of the rehearsal agent written anew without what is broken in it, line by line.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from segue.agents.base import (
    HEAD,
    TAIL,
    RepairedCopy,
    RepairOptions,
    SessionArchive,
    StoredSession,
    WindowRules,
    damaged,
    entry_id,
)
from segue.agents.jsonl import JsonlArchive, forwards
from segue.agents.rehearsal import format as session_format
from segue.core.errors import Broken
from segue.core.transcript import Brief, Entry

ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_PROMPT, _ANSWER = b'"kind":"text","role":"user"', b'"kind":"text","role":"assistant"'
_SILENT = _ANSWER + b',"text":""'


class ArchiveLine(msgspec.Struct, frozen=True):
    """Any line: the header's fields, and a message's."""

    type: str = ""
    id: str = ""
    cwd: str | None = None
    model: str | None = None
    created_ms: int | None = None
    system: str = ""
    parent: str | None = None
    kind: str = ""
    role: str = ""
    text: str = ""
    call_id: str = ""
    time_ms: int | None = None


class _Call(msgspec.Struct, frozen=True):
    name: str = ""
    input: Any = None


_line = msgspec.json.Decoder(ArchiveLine)
_call = msgspec.json.Decoder(_Call)


def decoded(text: bytes) -> ArchiveLine | None:
    try:
        return _line.decode(text)
    except ERRORS:
        return None


class RehearsalArchive(JsonlArchive):
    window_rules = WindowRules(reserved=0, compacts_at=None, window=200_000)
    """The window of ``segue.rehearsal.agent.tools``, restated so that looking does not load the agent."""

    def stored(self, home: Path) -> Iterator[StoredSession]:
        try:
            with os.scandir(home / "sessions") as listing:
                for item in listing:
                    if item.name.endswith(".jsonl") and not item.name.startswith("."):
                        found = session_format.stored_file(home, Path(item.path))
                        if found is not None:
                            yield found
        except OSError:
            return

    def brief(self, stored: StoredSession) -> Brief:
        try:
            head, tail = _ends(stored.path)
        except OSError as error:
            return Brief(trouble=f"it cannot be read: {error.strerror or error}")
        header = decoded(head.partition(b"\n")[0])
        if header is None or header.type != "session":
            return Brief(trouble="its header is damaged", last_used_ms=stored.changed_ns // 1_000_000)
        first, last = _said(head, head.find(_PROMPT)), _said(tail, tail.rfind(_PROMPT))
        count, estimated = _count(head, tail, stored.size)
        return Brief(
            cwd=header.cwd,
            title=first,
            title_by="prompt" if first is not None else None,
            first_prompt=first,
            last_prompt=last or first,
            messages=count,
            messages_estimated=estimated,
            created_ms=header.created_ms,
            last_used_ms=_newest(tail) or stored.changed_ns // 1_000_000,
            model=header.model,
            parent=header.parent,
            window=self.window_rules.window,
            empty=count == 0 and not estimated,
        )

    def entries(self, text: bytes, start: int) -> Sequence[Entry]:
        line = decoded(text)
        if line is None:
            return (damaged(start, "not a record of the rehearsal agent"),)
        if line.type == "message":
            return (_entry(line, start),)
        if line.type == "session":
            return (
                Entry(id=entry_id(start), kind="state", label="session", text=line.system, native=line.id),
            )
        return (Entry(id=entry_id(start), kind="unknown", label=line.type, restored=False),)

    def files(self, stored: StoredSession) -> Sequence[Path]:
        return (stored.path,)

    def repair(self, stored: StoredSession, new_id: str, options: RepairOptions) -> RepairedCopy:
        return repair(stored, new_id, options)

    def remove(self, stored: StoredSession) -> None:
        remove(stored)


ARCHIVE: SessionArchive = RehearsalArchive()


def _ends(path: Path) -> tuple[bytes, bytes]:
    """The beginning and the end of a file; the same bytes twice where they meet."""
    with path.open("rb", buffering=0) as file:
        head = file.read(HEAD + TAIL)
        size = file.seek(0, 2)
        if size <= HEAD + TAIL:
            return head, head
        file.seek(size - TAIL)
        return head[:HEAD], file.read(TAIL)


def _said(window: bytes, at: int) -> str | None:
    """The text of the message whose line has this byte; None where the line is not all in the window."""
    if at < 0:
        return None
    end = window.find(b"\n", at)
    line = decoded(window[window.rfind(b"\n", 0, at) + 1 : end if end >= 0 else len(window)])
    return line.text.strip() if line is not None else None


def _newest(tail: bytes) -> int | None:
    end = tail.rfind(b"\n")
    line = decoded(tail[tail.rfind(b"\n", 0, end) + 1 : end]) if end >= 0 else None
    return line.time_ms if line is not None else None


def _count(head: bytes, tail: bytes, size: int) -> tuple[int, bool]:
    seen = head if head is tail else head + tail
    count = seen.count(_PROMPT) + seen.count(_ANSWER) - seen.count(_SILENT)
    whole = head is tail
    return (count, False) if whole else (round(count * size / len(seen)), True)


def _entry(line: ArchiveLine, start: int) -> Entry:
    if line.kind == "text":
        return Entry(
            id=entry_id(start),
            kind="user" if line.role == "user" else "assistant",
            text=line.text,
            at_ms=line.time_ms,
            native=line.id,
        )
    if line.kind == "result":
        return Entry(
            id=entry_id(start),
            kind="result",
            text=line.text,
            at_ms=line.time_ms,
            native=line.id,
            call=line.call_id,
        )
    if line.kind != "call":
        return Entry(id=entry_id(start), kind="unknown", label=line.kind, restored=False)
    try:
        asked = _call.decode(line.text)
    except ERRORS:
        asked = _Call(input=line.text)
    return Entry(
        id=entry_id(start),
        kind="call",
        at_ms=line.time_ms,
        native=line.id,
        tool=asked.name,
        input=asked.input,
        call=line.call_id,
    )


def remove(stored: StoredSession) -> None:
    if not stored.path.parent.resolve().is_relative_to(stored.home.resolve()):
        raise Broken(f"{stored.path} lies outside of its home: it is left alone")
    for path in (stored.path, stored.path.with_suffix(".lock")):
        with suppress(FileNotFoundError):
            path.unlink()


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


def repair(stored: StoredSession, new_id: str, mending: RepairOptions) -> RepairedCopy:
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
    return RepairedCopy(session=new_id, path=target, done=tuple(_told(done)))


def _lines(stored: StoredSession, new_id: str, mending: RepairOptions, done: Counter[str]) -> Iterator[bytes]:
    since = _since(mending)
    with stored.path.open("rb") as file:
        lines = forwards(file)
        head = next(lines, None)
        header = _whole(head.text) if head is not None and head.text is not None else None
        if head is None or head.text is None or header is None or header.type != "session":
            raise Broken("its header is damaged: nothing of it can be saved")
        yield session_format.renamed(head.text, id=new_id, parent=stored.id)
        waiting: list[ArchiveLine] = []
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


def _whole(text: bytes) -> ArchiveLine | None:
    """A line that can be read, all of it."""
    try:
        msgspec.json.decode(text)
    except ERRORS:
        return None
    return decoded(text)


def _since(mending: RepairOptions) -> int:
    place = (mending.since or "0").partition(".")[0]
    if not place.isdecimal():
        raise Broken(f"{mending.since} is no place in a session of the rehearsal agent")
    return int(place)


def _kept(
    line: ArchiveLine, raw: bytes, waiting: list[ArchiveLine], mending: RepairOptions, done: Counter[str]
) -> Iterator[bytes]:
    """The line, and before it what the calls still wait for when others go on."""
    if line.kind == "result":
        call = next((one for one in waiting if one.call_id == line.call_id), None)
        if call is None:
            done["loose"] += 1
            return
        waiting.remove(call)
        done["trimmed"] += mending.trim
        yield session_format.renamed(raw, text=TRIMMED.format(len(line.text))) if mending.trim else raw
    elif line.kind == "call":
        waiting.append(line)
        yield raw
    elif line.role == "assistant" and not line.text.strip():
        done["silent"] += 1
    else:
        yield from _closed(waiting, done)
        yield raw


def _closed(waiting: list[ArchiveLine], done: Counter[str]) -> Iterator[bytes]:
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
