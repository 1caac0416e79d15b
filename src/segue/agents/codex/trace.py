"""What a run left in its rollout, Codex's session file.

Only the rollout knows the last request's size, the model and its window, the running totals of a turn that
failed, and the calls that were refused or that the sandbox stopped at once: those never reach the stream.
It may be huge, so it is read from its end, back to where this turn began.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from segue.agents.codex import rollouts
from segue.agents.codex.stream import Tokens
from segue.core.errors import Misuse
from segue.core.ids import checked_uuid
from segue.core.tools import DeniedTools
from segue.core.usage import Usage, since

TAILS = (1 << 20, 1 << 23, 1 << 26)
"""How many bytes of the end are read, until the turn's beginning is among them."""

_COMMANDS = frozenset(("exec_command", "shell", "shell_command", "local_shell", "apply_patch"))
_RAN = ("Chunk ID:", "Wall time:")
_SANDBOX = 'exec_command failed: CreateProcess { message: "Codex(Sandbox(Denied'
_REJECTED = ("patch rejected", "approval policy is", "rejected")
_FAILED = re.compile(r"^(?:Process exited with code|Exit code:) [1-9]", re.M)
_READ_ONLY = re.compile(r"read-only file system", re.I)


class _Info(msgspec.Struct, frozen=True):
    total_token_usage: Tokens | None = None
    last_token_usage: Tokens | None = None
    model_context_window: int | None = None


class _Item(msgspec.Struct, frozen=True):
    id: str = ""


class _Error(msgspec.Struct, frozen=True):
    codex_error_info: Any = None


class _Payload(msgspec.Struct, frozen=True):
    type: str = ""
    model: str | None = None
    info: _Info | None = None
    turn_token_usage: Tokens | None = None
    thread_token_usage: Tokens | None = None
    item: _Item | None = None
    error: _Error | None = None
    call_id: str = ""
    name: str = ""
    output: msgspec.Raw = msgspec.Raw()


class _Record(msgspec.Struct, frozen=True):
    timestamp: str = ""
    type: str = ""
    payload: _Payload = _Payload()


_record = msgspec.json.Decoder(_Record)


class Trace(msgspec.Struct):
    """What the rollout says about one turn."""

    total: Usage | None = None
    """The session's running totals after the turn."""
    before: Usage | None = None
    """The same before it."""
    used: int | None = None
    window: int | None = None
    model: str | None = None
    requests: int = 0
    compacted: bool = False
    """Its history was replaced by a summary, which new versions do not show in the stream."""
    error: Any = None
    """Codex's own name for the failure, where this version writes it."""
    blocked: DeniedTools = DeniedTools()
    """Commands that the sandbox stopped so soon that the stream does not show them."""
    stopped: DeniedTools = DeniedTools()
    """Commands that ran, and failed because they found everything read-only."""
    rejected: DeniedTools = DeniedTools()
    """Calls refused before they ran, which the stream does not show either."""


def find_trace(home: Path, session: str | None) -> Path | None:
    """The rollout of a session."""
    try:
        key = checked_uuid(session or "")
    except Misuse:
        return None
    return rollouts.newest_of(home, key)


def trace(path: Path, started_ms: int) -> Trace | None:
    """What happened since ``started_ms``; ``None`` when the file cannot be read (it may be compressed)."""
    if path.suffix != ".jsonl":
        return None
    began = _stamp(started_ms)
    for size in TAILS:
        try:
            lines, whole = _tail(path, size)
        except OSError:
            return None
        turn, before = _split(lines, began)
        if before is not None or whole:
            break
    return _fold(turn, before, whole)


def _tail(path: Path, size: int) -> tuple[list[bytes], bool]:
    with path.open("rb") as file:
        start = max(0, file.seek(0, 2) - size)
        file.seek(start)
        lines = file.read(size).split(b"\n")
    return (lines if start == 0 else lines[1:]), start == 0


def _split(lines: list[bytes], began: str) -> tuple[list[_Record], Usage | None]:
    """This turn's records, and the running totals that the turns before it left."""
    turn: list[_Record] = []
    for record in _backwards(lines):
        if record.timestamp >= began:
            turn.append(record)
        elif (total := _total(record)) is not None:
            return turn[::-1], total.plain()
    return turn[::-1], None


def _backwards(lines: list[bytes]) -> Iterator[_Record]:
    for line in reversed(lines):
        try:
            yield _record.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue


def _fold(turn: list[_Record], before: Usage | None, whole: bool) -> Trace:
    """``before``: the totals the file had; a fork's stand in its parent's, so its own records tell them."""
    if before is None:
        before = _inherited(turn) or (Usage(0, 0, 0, 0) if whole else None)
    found = Trace(total=before, before=before)
    totals = {before}
    for record in turn:
        payload = record.payload
        if record.type == "turn_context":
            found.model = payload.model or found.model
        if payload.info is not None:
            _count(found, payload.info)
            totals.add(found.total)
        if payload.type == "task_complete" and payload.error is not None:
            found.error = payload.error.codex_error_info
    found.compacted = any(record.type == "compacted" for record in turn)
    found.requests = len(totals) - 1
    _refused(found, turn)
    return found


def _inherited(turn: list[_Record]) -> Usage | None:
    """The thread's totals less this turn's. A version that did not write such records is missing in them."""
    for record in turn:
        share, thread = record.payload.turn_token_usage, record.payload.thread_token_usage
        if share is not None and thread is not None:
            return since(thread.plain(), share.plain())
    return None


def _count(found: Trace, info: _Info) -> None:
    if info.total_token_usage is not None:
        found.total = info.total_token_usage.plain()
    if info.last_token_usage is not None:
        found.used = info.last_token_usage.input_tokens or info.last_token_usage.total_tokens
    found.window = info.model_context_window or found.window


def _total(record: _Record) -> Tokens | None:
    return record.payload.info.total_token_usage if record.payload.info is not None else None


def _refused(found: Trace, turn: list[_Record]) -> None:
    """Commands that were refused, or that the sandbox stopped."""
    shown = {record.payload.item.id for record in turn if record.payload.item is not None}
    commands = (record.payload for record in turn if record.payload.name in _COMMANDS)
    calls = {call.call_id: _tool(call.name) for call in commands}
    for record in turn:
        call, output = record.payload.call_id, _text(record.payload.output)
        if call not in calls or not record.payload.type.endswith("_output"):
            continue
        one = DeniedTools(1, (calls[call],))
        if call not in shown and (output.startswith(_SANDBOX) or (shown and _ended(output))):
            found.blocked += one
        elif call not in shown and output.startswith(_REJECTED):
            found.rejected += one
        elif _FAILED.search(output) and _READ_ONLY.search(output):
            found.stopped += one


def _tool(name: str) -> str:
    """The tool by the name that the stream has for it."""
    return name if name == "apply_patch" else "shell"


def _ended(output: str) -> bool:
    """It ran to its end; one that still runs has no item yet either."""
    return output.startswith(_RAN) and "\nProcess running with session ID" not in output[:200]


def _text(raw: msgspec.Raw) -> str:
    text = bytes(raw)
    return str(msgspec.json.decode(text)) if text.startswith(b'"') else ""


def _stamp(ms: int) -> str:
    """A moment as rollouts write it, so that texts can be compared."""
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03d}Z"
