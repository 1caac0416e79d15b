"""What a run left in its rollout, Codex's session file.

Only the rollout shows the last request's size, the model and its window, the running totals of a turn that
failed, and the calls that were refused or that the sandbox stopped at once: the stream does not contain them.
It can be huge, so it is read from its end, back to where this turn began.
"""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from segue.agents.codex.schema import (
    Compacted,
    Event,
    Item,
    Payload,
    TokenInfo,
    TokenUsageRecord,
    TurnContext,
    line_of,
    payload_of,
)
from segue.agents.codex.stream import Tokens
from segue.core.tools import DeniedTools
from segue.core.usage import Limit, Usage, since

TAILS = (1 << 20, 1 << 23, 1 << 26)
"""How many bytes of the end are read, in steps, until they include the turn's beginning."""

_COMMANDS = frozenset(("exec_command", "shell", "shell_command", "local_shell", "apply_patch"))
_RAN = ("Chunk ID:", "Wall time:")
_SANDBOX = 'exec_command failed: CreateProcess { message: "Codex(Sandbox(Denied'
_REJECTED = ("patch rejected", "approval policy is", "rejected")
_FAILED = re.compile(r"^(?:Process exited with code|Exit code:) [1-9]", re.M)
_READ_ONLY = re.compile(r"read-only file system", re.I)


_BOUNDS = ("task_started", "turn_started", "task_complete", "turn_complete")
"""Where a turn begins and ends."""


class Trace(msgspec.Struct):
    """What the rollout shows about one turn."""

    total: Usage | None = None
    """The session's running totals after the turn."""
    before: Usage | None = None
    """The running totals before it."""
    used: int | None = None
    window: int | None = None
    model: str | None = None
    requests: int = 0
    compacted: bool = False
    """Its history was replaced by a summary, which new versions do not show in the stream."""
    answered: str = ""
    """The answer, once the rollout says that the turn has ended with it."""
    error: Any = None
    """Codex's own name for the failure, if this version writes it."""
    blocked: DeniedTools = DeniedTools()
    """Commands that the sandbox stopped so soon that the stream does not show them."""
    stopped: DeniedTools = DeniedTools()
    """Commands that ran and failed because the file system was read-only."""
    rejected: DeniedTools = DeniedTools()
    """Calls refused before they ran, which the stream does not show either."""
    limits: dict[str, Limit] = {}
    """The account's usage limits, by window."""
    plan: str | None = None
    """The name of the account's plan."""


def trace(path: Path, started_ms: int) -> Trace | None:
    """What happened since ``started_ms``; ``None`` if the file cannot be read (it may be compressed)."""
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


def _split(texts: list[bytes], began: str) -> tuple[list[Payload], Usage | None]:
    """What this turn wrote, and the running totals before it."""
    turn: list[Payload] = []
    for text in reversed(texts):
        line = line_of(text)
        payload = payload_of(line) if line is not None else None
        if line is None or payload is None:
            continue
        if (line.timestamp or "") >= began:
            turn.append(payload)
        elif (total := _total(payload)) is not None:
            return turn[::-1], total.plain()
    return turn[::-1], None


def _fold(turn: list[Payload], before: Usage | None, whole: bool) -> Trace:
    """``before``: the totals in the file; a fork's are in its parent's file, and taken from its records."""
    if before is None:
        before = _inherited(turn) or (Usage(0, 0, 0, 0) if whole else None)
    trace = Trace(total=before, before=before)
    totals = {before}
    for payload in turn:
        match payload:
            case TurnContext():
                trace.model = payload.model or trace.model
            case Compacted():
                trace.compacted = True
            case Event():
                if payload.info is not None:
                    _count(trace, payload.info)
                    totals.add(trace.total)
                if payload.rate_limits is not None:
                    trace.limits |= {each.window: each for each in payload.rate_limits.limits()}
                    trace.plan = payload.rate_limits.plan_type or trace.plan
                if payload.type == "task_complete" and payload.error is not None:
                    trace.error = payload.error.codex_error_info
                if payload.type in _BOUNDS:
                    trace.answered = payload.last_agent_message or ""
    trace.requests = len(totals) - 1
    _refused(trace, turn)
    return trace


def _inherited(turn: list[Payload]) -> Usage | None:
    """The thread's totals less this turn's. They lack the turns of versions without such records."""
    for payload in turn:
        if isinstance(payload, TokenUsageRecord):
            share, thread = payload.turn_token_usage, payload.thread_token_usage
            if share is not None and thread is not None:
                return since(thread.plain(), share.plain())
    return None


def _count(trace: Trace, info: TokenInfo) -> None:
    if info.total_token_usage is not None:
        trace.total = info.total_token_usage.plain()
    if info.context is not None:
        trace.used = info.context
    trace.window = info.model_context_window or trace.window


def _total(payload: Payload) -> Tokens | None:
    info = payload.info if isinstance(payload, Event) else None
    return info.total_token_usage if info is not None else None


def _refused(trace: Trace, turn: list[Payload]) -> None:
    """Add the commands that were refused, or that the sandbox stopped."""
    events = (payload.item for payload in turn if isinstance(payload, Event))
    shown = {item.id for item in events if item is not None}
    items = [payload for payload in turn if isinstance(payload, Item)]
    calls = {item.call_id or "": _tool(item.name) for item in items if item.name in _COMMANDS}
    for item in items:
        call, output = item.call_id or "", _text(item.output)
        if call not in calls or not item.type.endswith("_output"):
            continue
        one = DeniedTools(1, (calls[call],))
        if call not in shown and (output.startswith(_SANDBOX) or (shown and _ended(output))):
            trace.blocked += one
        elif call not in shown and output.startswith(_REJECTED):
            trace.rejected += one
        elif _FAILED.search(output) and _READ_ONLY.search(output):
            trace.stopped += one


def _tool(name: str) -> str:
    """The tool's name in the stream."""
    return name if name == "apply_patch" else "shell"


def _ended(output: str) -> bool:
    """Whether it ran to its end; a running one has no item yet either."""
    return output.startswith(_RAN) and "\nProcess running with session ID" not in output[:200]


def _text(raw: msgspec.Raw) -> str:
    text = bytes(raw)
    return str(msgspec.json.decode(text)) if text.startswith(b'"') else ""


def _stamp(ms: int) -> str:
    """A time as rollouts write it, so that strings can be compared."""
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03d}Z"
