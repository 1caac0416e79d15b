"""A line of a rollout as entries. Pure and tolerant.

A rollout contains most things twice: as items, which the model was sent and is sent again on a resume, and as
events for display. The items are used; of the events, only those that no item repeats.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import msgspec

from segue.agents.base import damaged, entry_id
from segue.agents.codex.schema import (
    PROJECT,
    Compacted,
    Content,
    Event,
    Item,
    Line,
    Meta,
    joined_text,
    line_of,
    payload_of,
)
from segue.agents.decoding import DAMAGE, moment_ms
from segue.core.json_values import decode
from segue.core.transcript import Entry

_ECHOES = frozenset(
    (
        *("item_completed", "item_started", "token_count", "user_message", "agent_message"),
        *("agent_reasoning", "agent_reasoning_raw_content", "agent_reasoning_section_break"),
        *("task_started", "turn_started", "thread_settings_applied", "context_compacted"),
        *("exec_command_end", "patch_apply_end", "mcp_tool_call_end", "web_search_end"),
        *("image_generation_end", "view_image_tool_call", "dynamic_tool_call_response"),
        *("sub_agent_activity", "collab_agent_spawn_end", "collab_agent_interaction_end"),
        *("collab_waiting_end", "collab_close_end", "collab_resume_end", "undo_completed"),
    )
)
"""Events that repeat an item, or contain nothing to show."""
_ECHO = re.compile(
    rb'"payload":{"type":"(?:item_completed|token_count|user_message|agent_message|agent_reasoning|'
    rb'task_started|turn_started|thread_settings_applied|exec_command_end)"'
)
"""The most frequent of them, which are skipped without decoding."""
_SILENT = frozenset(("turn_context", "world_state", "token_usage_record", "security_risk_score"))
_EXIT = re.compile(r"(?:exited with code|Exit code:) (-?\d+)")
_OLD_EXIT = re.compile(r'"exit_code":\s*(-?\d+)')
_FAILED = ("aborted", "exec_command failed", "execution error", "failed in sandbox", "patch rejected")

_output = msgspec.json.Decoder(list[Content])
_any = msgspec.json.Decoder()


def entries(text: bytes, start: int) -> Sequence[Entry]:
    """The entries of a line; never raises."""
    line = line_of(text)
    if line is None:
        return (_unreadable(text, start),)
    if line.type in _SILENT or (line.type == "event_msg" and _ECHO.search(text, 0, 200)):
        return ()
    payload = _bare_item(text) if _is_bare(line) else payload_of(line)
    match payload:
        case Item():
            return _of_item(payload, line, start)
        case Event():
            return _of_event(payload, line, start)
        case Meta():
            return _of_meta(payload, line, start)
        case Compacted():
            at = moment_ms(line.timestamp)
            return (Entry(id=entry_id(start), kind="boundary", text=payload.message, at_ms=at),)
    if line.type == "response_item" or _is_bare(line):
        return (Entry(id=entry_id(start), kind="unknown", label=line.type),)
    return (_unknown(line.type, line, start),)


def _is_bare(line: Line) -> bool:
    """An item without an envelope, as the first versions wrote it."""
    return line.type in _ITEMS and not memoryview(line.payload).nbytes


def _bare_item(text: bytes) -> Item | None:
    try:
        return decode(text, Item)
    except DAMAGE:
        return None


def _unreadable(text: bytes, start: int) -> Entry:
    """An entry for a line that is broken, or has another shape than the lines of a rollout."""
    try:
        _any.decode(text)
    except DAMAGE:
        return damaged(start, "a line that is incomplete")
    return Entry(id=entry_id(start), kind="unknown", restored=False)


def _unknown(label: str, line: Line, start: int) -> Entry:
    at = moment_ms(line.timestamp)
    return Entry(id=entry_id(start), kind="unknown", label=label, at_ms=at, restored=False)


def _state(label: str, text: str, line: Line, start: int, n: int = 0) -> Entry:
    at = moment_ms(line.timestamp)
    return Entry(id=entry_id(start, n), kind="state", label=label, text=text, at_ms=at, restored=False)


def _of_meta(meta: Meta, line: Line, start: int) -> Sequence[Entry]:
    session = Entry(
        id=entry_id(start),
        kind="state",
        label="session",
        text=meta.cwd or "",
        native=meta.id,
        at_ms=moment_ms(line.timestamp),
    )
    git = " ".join(part for part in (meta.git.branch, meta.git.commit_hash) if part) if meta.git else ""
    return (session, _state("git snapshot", git, line, start, 1)) if git else (session,)


def _of_event(event: Event, line: Line, start: int) -> Sequence[Entry]:
    if event.type in _ECHOES:
        return ()
    label, text = _label_and_text(event)
    if label:
        return (_state(label, text, line, start),)
    if event.type in ("task_complete", "turn_complete"):
        return ()
    return (_unknown(event.type, line, start),)


def _label_and_text(event: Event) -> tuple[str, str]:
    """The label and the text of a state; an empty label if the event is not one."""
    match event.type:
        case "thread_name_updated":
            return "title", event.thread_name or ""
        case "thread_rolled_back":
            return "rollback", f"turns rolled back: {event.num_turns}"
        case "turn_aborted":
            return "interrupted", str(event.reason or "")
        case "task_complete" | "turn_complete" if event.error is not None:
            return "error", event.error.message
        case "error" | "stream_error" | "warning":
            return "error", str(event.message or "")
        case "thread_goal_updated":
            return "task", event.goal.objective if event.goal is not None else ""
        case "entered_review_mode" | "exited_review_mode":
            return "review", ""
    return "", ""


def _of_item(item: Item, line: Line, start: int) -> Sequence[Entry]:
    make = _ITEMS.get(item.type)
    if make is None:
        return (Entry(id=entry_id(start), kind="unknown", label=item.type),)
    return make(item, line, start)


def _message(item: Item, line: Line, start: int) -> Sequence[Entry]:
    own, at, text = entry_id(start), moment_ms(line.timestamp), item.text
    native, images = item.id or "", _images(item.content)
    if item.role == "user":
        inserted = item.is_inserted
        entry = Entry(
            id=own,
            kind="user",
            text=text,
            at_ms=at,
            native=native,
            inserted=inserted,
            label="project instructions" if inserted and text.startswith(PROJECT) else "",
            images=images,
        )
    elif item.role != "assistant":
        entry = Entry(id=own, kind="state", label="instructions", text=text, at_ms=at)
    elif line.is_summary:
        entry = Entry(id=own, kind="state", label="summary", text=text, at_ms=at, restored=False)
    else:
        entry = Entry(id=own, kind="assistant", text=text, at_ms=at, native=native, images=images)
    return (entry,)


def _from_agent(item: Item, line: Line, start: int) -> Sequence[Entry]:
    """A message from another agent of the same session."""
    at = moment_ms(line.timestamp)
    return (Entry(id=entry_id(start), kind="user", text=item.text, at_ms=at, inserted=True),)


def _reasoning(item: Item, line: Line, start: int) -> Sequence[Entry]:
    text = joined_text(item.summary) or item.text
    if not text:
        return ()
    at = moment_ms(line.timestamp)
    return (Entry(id=entry_id(start), kind="thinking", text=text, at_ms=at, native=item.id or ""),)


def _call(item: Item, line: Line, start: int) -> Sequence[Entry]:
    arguments = item.arguments if item.arguments is not None else item.input
    if isinstance(arguments, str) and arguments.startswith("{"):
        with suppress(*DAMAGE):
            arguments = _any.decode(arguments)
    return (
        Entry(
            id=entry_id(start),
            kind="call",
            at_ms=moment_ms(line.timestamp),
            native=item.id or "",
            tool=item.name or item.type.removesuffix("_call"),
            input=arguments if arguments is not None else item.action,
            call=item.call_id or item.id or "",
        ),
    )


def _hosted(item: Item, line: Line, start: int) -> Sequence[Entry]:
    """A call that the provider answered itself: there is no other record of its result."""
    (call,) = _call(item, line, start)
    size = memoryview(item.result).nbytes
    images = (size - 2,) if size > 2 else ()
    return call, Entry(id=entry_id(start, 1), kind="result", at_ms=call.at_ms, call=call.call, images=images)


def _result(item: Item, line: Line, start: int) -> Sequence[Entry]:
    text, images = _output_of(item)
    return (
        Entry(
            id=entry_id(start),
            kind="result",
            text=text,
            at_ms=moment_ms(line.timestamp),
            native=item.id or "",
            call=item.call_id or "",
            failed=_has_failed(text),
            images=images,
        ),
    )


def _summary(item: Item, line: Line, start: int) -> Sequence[Entry]:
    return (Entry(id=entry_id(start), kind="state", label="summary", at_ms=moment_ms(line.timestamp)),)


def _snapshot(item: Item, line: Line, start: int) -> Sequence[Entry]:
    return (Entry(id=entry_id(start), kind="state", label="git snapshot", at_ms=moment_ms(line.timestamp)),)


def _output_of(item: Item) -> tuple[str, tuple[int, ...]]:
    """The output of a tool: a text, or several parts of text and images."""
    try:
        first = bytes(memoryview(item.output)[:1])
        if first == b"[":
            parts = _output.decode(item.output)
            return joined_text(parts), _images(parts)
        output = _any.decode(item.output) if first else ""
    except DAMAGE:
        return "", ()
    if isinstance(output, dict):
        output = output.get("content")
    return output if isinstance(output, str) else "", ()


def _images(parts: list[Content] | None) -> tuple[int, ...]:
    return tuple(part.image_size for part in parts if part.image_size) if parts else ()


def _has_failed(text: str) -> bool:
    code = _EXIT.search(text, 0, 300)
    if code is None and text.startswith('{"output":'):
        code = _OLD_EXIT.search(text, max(0, len(text) - 200))
    return code[1] != "0" if code is not None else text.startswith(_FAILED)


_ITEMS: Mapping[str, Callable[[Item, Line, int], Sequence[Entry]]] = {
    "message": _message,
    "agent_message": _from_agent,
    "reasoning": _reasoning,
    "function_call": _call,
    "custom_tool_call": _call,
    "local_shell_call": _call,
    "tool_search_call": _call,
    "web_search_call": _hosted,
    "image_generation_call": _hosted,
    "function_call_output": _result,
    "custom_tool_call_output": _result,
    "tool_search_output": _result,
    "compaction": _summary,
    "compaction_summary": _summary,
    "context_compaction": _summary,
    "ghost_snapshot": _snapshot,
}
