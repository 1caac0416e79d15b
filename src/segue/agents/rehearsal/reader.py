"""The rehearsal agent's sessions, for those who only look: a header line, then one line per message.

The agent writes its lines in one way only (compact, fields in their order), so a brief counts by searching
for bytes; what others wrote differently is still read, only not counted as fast.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from segue.agents.reader import HEAD, TAIL, Allowance, Lines, Reader, Stored, damaged, place
from segue.core.errors import Misuse
from segue.core.keys import native_id
from segue.core.transcript import Brief, Entry

ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_PROMPT, _ANSWER = b'"kind":"text","role":"user"', b'"kind":"text","role":"assistant"'
_SILENT = _ANSWER + b',"text":""'


class Line(msgspec.Struct, frozen=True):
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


_line = msgspec.json.Decoder(Line)
_call = msgspec.json.Decoder(_Call)


def decoded(text: bytes) -> Line | None:
    try:
        return _line.decode(text)
    except ERRORS:
        return None


class RehearsalReader(Lines):
    allowance = Allowance(reserved=0, compacts_at=None, window=200_000)
    """The window of ``segue.rehearsal.agent.spend``, restated so that looking does not load the agent."""

    def stored(self, home: Path) -> Iterator[Stored]:
        try:
            with os.scandir(home / "sessions") as listing:
                for item in listing:
                    if item.name.endswith(".jsonl") and not item.name.startswith("."):
                        found = _stored(home, Path(item.path), item.name.removesuffix(".jsonl"))
                        if found is not None:
                            yield found
        except OSError:
            return

    def find(self, home: Path, session: str) -> Stored | None:
        try:
            return _stored(home, home / "sessions" / f"{native_id(session)}.jsonl", session)
        except Misuse:
            return None

    def brief(self, stored: Stored) -> Brief:
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
            window=self.allowance.window,
            empty=count == 0 and not estimated,
        )

    def entries(self, text: bytes, start: int) -> Sequence[Entry]:
        line = decoded(text)
        if line is None:
            return (damaged(start, "not a record of the rehearsal agent"),)
        if line.type == "message":
            return (_entry(line, start),)
        if line.type == "session":
            return (Entry(id=place(start), kind="state", label="session", text=line.system, native=line.id),)
        return (Entry(id=place(start), kind="unknown", label=line.type, restored=False),)

    def files(self, stored: Stored) -> Sequence[Path]:
        return (stored.path,)

    def expires_ms(self, stored: Stored, brief: Brief) -> int | None:
        """The agent never takes a session away."""
        return None


READER: Reader = RehearsalReader()


def _stored(home: Path, path: Path, session: str) -> Stored | None:
    try:
        found = path.stat()
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return Stored(id=session, home=home, file=str(path), size=found.st_size, changed_ns=found.st_mtime_ns)


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


def _entry(line: Line, start: int) -> Entry:
    if line.kind == "text":
        return Entry(
            id=place(start),
            kind="user" if line.role == "user" else "assistant",
            text=line.text,
            at_ms=line.time_ms,
            native=line.id,
        )
    if line.kind == "result":
        return Entry(
            id=place(start),
            kind="result",
            text=line.text,
            at_ms=line.time_ms,
            native=line.id,
            call=line.call_id,
        )
    if line.kind != "call":
        return Entry(id=place(start), kind="unknown", label=line.kind, restored=False)
    try:
        asked = _call.decode(line.text)
    except ERRORS:
        asked = _Call(input=line.text)
    return Entry(
        id=place(start),
        kind="call",
        at_ms=line.time_ms,
        native=line.id,
        tool=asked.name,
        input=asked.input,
        call=line.call_id,
    )
