"""The rehearsal agent's sessions on disk: listed, read, repaired, removed. They have no index."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from segue.agents.base import (
    RepairedCopy,
    RepairOptions,
    SessionArchive,
    StoredSession,
    WindowRules,
    damaged,
    entry_id,
)
from segue.agents.decoding import DAMAGE
from segue.agents.jsonl import JsonlArchive, forwards
from segue.agents.rehearsal import format as session_format
from segue.agents.rehearsal.format import Line, read_line
from segue.agents.repair_words import INTERRUPTED, OUTPUT_LEFT_OUT, Repairs, repaired_copy
from segue.agents.windows import brief_of, read_ends, troubled, unreadable_brief, windows_of
from segue.core.errors import Broken, NotFound
from segue.core.transcript import Brief, Entry
from segue.core.verdicts import say


class _Call(msgspec.Struct, frozen=True):
    name: str = ""
    input: Any = None


_call = msgspec.json.Decoder(_Call)


def decoded(text: bytes) -> Line | None:
    try:
        return read_line(text)
    except DAMAGE:
        return None


class RehearsalArchive(JsonlArchive):
    window_rules = WindowRules(reserved=0, compacts_at=None, window=200_000)
    """The window of ``segue.rehearsal.agent.tools``, repeated here so that the agent need not be loaded."""

    def stored(self, home: Path) -> Iterator[StoredSession]:
        try:
            with os.scandir(home / "sessions") as listing:
                for item in listing:
                    if item.name.endswith(".jsonl") and not item.name.startswith("."):
                        stored = session_format.stored_file(home, Path(item.path))
                        if stored is not None:
                            yield stored
        except OSError:
            return

    def brief(self, stored: StoredSession) -> Brief:
        try:
            ends = read_ends(stored.path)
        except OSError as error:
            return unreadable_brief(error)
        header = decoded(ends.head.partition(b"\n")[0])
        if header is None or header.type != "session":
            known = Brief(last_used_ms=stored.changed_ns // 1_000_000)
            return troubled(known, say("its header is damaged", "session.header"))
        return msgspec.structs.replace(
            brief_of(stored, windows_of(ends, self.entries)),
            cwd=header.cwd,
            created_ms=header.created_ms,
            model=header.model,
            parent=header.parent,
            window=self.window_rules.window,
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


def _entry(line: Line, start: int) -> Entry:
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
    except DAMAGE:
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
        raise Broken(f"{stored.path} leads outside its home through a link, and is not deleted")
    for path in (stored.path, stored.path.with_suffix(".lock")):
        with suppress(FileNotFoundError):
            path.unlink()


def repair(stored: StoredSession, new_id: str, options: RepairOptions) -> RepairedCopy:
    target = stored.path.with_name(f"{new_id}.jsonl")
    if target.exists():
        raise Broken(f"a session {new_id} already exists")
    done = Repairs()
    try:
        session_format.write_lines(target, _lines(stored, new_id, options, done))
    except OSError as error:
        raise Broken(f"the session cannot be repaired: {error.strerror or error}") from error
    return repaired_copy(new_id, target, done)


def _lines(stored: StoredSession, new_id: str, options: RepairOptions, done: Repairs) -> Iterator[bytes]:
    since = _since(options)
    with stored.path.open("rb") as file:
        lines = forwards(file)
        head = next(lines, None)
        header = _whole(head.text) if head is not None and head.text is not None else None
        if head is None or head.text is None or header is None or header.type != "session":
            raise Broken("its header is damaged: nothing can be saved")
        yield session_format.renamed(head.text, id=new_id, parent=stored.id)
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
            yield from _kept(line, place.text or b"", waiting, options, done)
        yield from _closed(waiting, done)
    if not started:
        raise Broken("it has no prompt after that event")


def _whole(text: bytes) -> Line | None:
    """The line, if it can be decoded completely."""
    try:
        msgspec.json.decode(text)
    except DAMAGE:
        return None
    return decoded(text)


def _since(options: RepairOptions) -> int:
    place = (options.since or "0").partition(".")[0]
    if not place.isdecimal():
        raise NotFound(f'there is no event "{options.since}" in this session')
    return int(place)


def _kept(
    line: Line, raw: bytes, waiting: list[Line], options: RepairOptions, done: Repairs
) -> Iterator[bytes]:
    """The line to write, preceded by results for calls that are still open when the dialogue continues."""
    if line.kind == "result":
        call = next((one for one in waiting if one.call_id == line.call_id), None)
        if call is None:
            done["orphans"] += 1
            return
        waiting.remove(call)
        done["outputs"] += options.trim
        size = len(line.text.encode("utf-8", "replace"))
        yield session_format.renamed(raw, text=OUTPUT_LEFT_OUT.format(size)) if options.trim else raw
    elif line.kind == "call":
        waiting.append(line)
        yield raw
    elif line.role == "assistant" and not line.text.strip():
        done["empty"] += 1
    else:
        yield from _closed(waiting, done)
        yield raw


def _closed(waiting: list[Line], done: Repairs) -> Iterator[bytes]:
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
