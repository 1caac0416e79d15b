"""What a line of a rollout holds, as entries.

A rollout says most things twice: as items, which are what the model was sent and is sent again on a resume,
and as events for those who watch. The items count; of the events only what no item says.

What Codex notes beside the items of a rollout: where a session began, what happened to it, its name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from segue.agents.base import damaged, entry_id
from segue.agents.codex.schema import (
    ERRORS,
    PROJECT,
    Content,
    Item,
    Line,
    at_ms,
    is_inserted,
    item_of,
    line_of,
    message_text,
)
from segue.core.transcript import Entry

_PASSED = frozenset(
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
_QUIET = frozenset(("turn_context", "world_state", "token_usage_record", "security_risk_score"))


class _Failure(msgspec.Struct, frozen=True):
    message: str = ""


class _Goal(msgspec.Struct, frozen=True):
    objective: str = ""


class _Event(msgspec.Struct, frozen=True):
    type: str = ""
    message: Any = None
    thread_name: str | None = None
    reason: Any = None
    num_turns: int = 0
    error: _Failure | None = None
    goal: _Goal | None = None


class _Git(msgspec.Struct, frozen=True):
    branch: str | None = None
    commit_hash: str | None = None


class _Meta(msgspec.Struct, frozen=True):
    id: str = ""
    cwd: str = ""
    git: _Git | None = None


class _Compacted(msgspec.Struct, frozen=True):
    message: str = ""


_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_event = msgspec.json.Decoder(_Event)
_meta = msgspec.json.Decoder(_Meta)
_compacted = msgspec.json.Decoder(_Compacted)


def event_entries(payload: msgspec.Raw, start: int, when: int | None) -> Sequence[Entry]:
    try:
        found = _event.decode(payload)
    except _ERRORS:
        return (Entry(id=entry_id(start), kind="unknown", label="event_msg", at_ms=when, restored=False),)
    if found.type in _PASSED:
        return ()
    label, text = _told(found)
    if label:
        return (_state(start, label, text, when),)
    if found.type in ("task_complete", "turn_complete"):
        return ()
    return (Entry(id=entry_id(start), kind="unknown", label=found.type, at_ms=when, restored=False),)


def record_entries(kind: str, payload: msgspec.Raw, start: int, when: int | None) -> Sequence[Entry]:
    """A record that is neither an item nor an event."""
    if kind in _QUIET:
        return ()
    try:
        if kind == "compacted":
            text = _compacted.decode(payload).message
            return (Entry(id=entry_id(start), kind="boundary", text=text, at_ms=when),)
        if kind == "session_meta":
            return _session(_meta.decode(payload), start, when)
    except _ERRORS:
        pass
    return (Entry(id=entry_id(start), kind="unknown", label=kind, at_ms=when, restored=False),)


def _told(found: _Event) -> tuple[str, str]:
    """The label of a state, and its words; no label where it is none."""
    match found.type:
        case "thread_name_updated":
            return "title", found.thread_name or ""
        case "thread_rolled_back":
            return "rollback", f"turns taken back: {found.num_turns}"
        case "turn_aborted":
            return "interrupted", str(found.reason or "")
        case "task_complete" | "turn_complete" if found.error is not None:
            return "error", found.error.message
        case "error" | "stream_error" | "warning":
            return "error", str(found.message or "")
        case "thread_goal_updated":
            return "task", found.goal.objective if found.goal is not None else ""
        case "entered_review_mode" | "exited_review_mode":
            return "review", ""
    return "", ""


def _session(meta: _Meta, start: int, when: int | None) -> Sequence[Entry]:
    session = Entry(
        id=entry_id(start), kind="state", label="session", text=meta.cwd, native=meta.id, at_ms=when
    )
    if meta.git is None or not (meta.git.branch or meta.git.commit_hash):
        return (session,)
    text = " ".join(part for part in (meta.git.branch, meta.git.commit_hash) if part)
    return session, _state(start, "git snapshot", text, when, 1)


def _state(start: int, label: str, text: str, when: int | None, n: int = 0) -> Entry:
    return Entry(id=entry_id(start, n), kind="state", label=label, text=text, at_ms=when, restored=False)


_ECHO = re.compile(
    rb'"payload":{"type":"(?:item_completed|token_count|user_message|agent_message|agent_reasoning|'
    rb'task_started|turn_started|thread_settings_applied|exec_command_end)"'
)
"""The events that are most of a rollout: passed over unread."""
_EXIT = re.compile(r"(?:exited with code|Exit code:) (-?\d+)")
_OLD_EXIT = re.compile(r'"exit_code":\s*(-?\d+)')
_FAILED = ("aborted", "exec_command failed", "execution error", "failed in sandbox", "patch rejected")


_output = msgspec.json.Decoder(list[Content])
_any = msgspec.json.Decoder()


def entries(text: bytes, start: int) -> Sequence[Entry]:
    """One line. Pure; never raises."""
    line = line_of(text)
    if line is None:
        return (_unreadable(text, start),)
    if line.type == "response_item":
        return _of_item(line, line.payload, start)
    if line.type == "event_msg":
        return () if _ECHO.search(text, 0, 200) else event_entries(line.payload, start, at_ms(line.timestamp))
    if (
        line.type in _ITEMS and not memoryview(line.payload).nbytes
    ):  # as the first versions wrote it, without an envelope
        return _of_item(line, msgspec.Raw(text), start)
    return record_entries(line.type, line.payload, start, at_ms(line.timestamp))


def _unreadable(text: bytes, start: int) -> Entry:
    """Broken, or whole but of another shape than any rollout's."""
    try:
        _any.decode(text)
    except ERRORS:
        return damaged(start, "a line that is not whole")
    return Entry(id=entry_id(start), kind="unknown", restored=False)


def _of_item(line: Line, payload: msgspec.Raw, start: int) -> Sequence[Entry]:
    item = item_of(payload)
    make = _ITEMS.get(item.type) if item is not None else None
    if item is None or make is None:
        return (Entry(id=entry_id(start), kind="unknown", label=item.type if item else line.type),)
    return make(item, line, start)


def _message(item: Item, line: Line, start: int) -> Sequence[Entry]:
    text, when = message_text(item.content), at_ms(line.timestamp)
    images = _images(item.content)
    if item.role == "user":
        put_in = is_inserted(item, text)
        entry = Entry(
            id=entry_id(start),
            kind="user",
            text=text,
            at_ms=when,
            native=item.id or "",
            inserted=put_in,
            label="project instructions" if put_in and text.startswith(PROJECT) else "",
            images=images,
        )
    elif item.role != "assistant":
        entry = Entry(id=entry_id(start), kind="state", label="instructions", text=text, at_ms=when)
    elif b'"compaction_output":true' in bytes(line.metadata):
        entry = Entry(
            id=entry_id(start), kind="state", label="summary", text=text, at_ms=when, restored=False
        )
    else:
        entry = Entry(
            id=entry_id(start), kind="assistant", text=text, at_ms=when, native=item.id or "", images=images
        )
    return (entry,)


def _from_agent(item: Item, line: Line, start: int) -> Sequence[Entry]:
    """What another agent of the same session said to this one."""
    text = message_text(item.content)
    return (Entry(id=entry_id(start), kind="user", text=text, at_ms=at_ms(line.timestamp), inserted=True),)


def _reasoning(item: Item, line: Line, start: int) -> Sequence[Entry]:
    text = message_text(item.summary) or message_text(item.content)
    if not text:
        return ()
    when = at_ms(line.timestamp)
    return (Entry(id=entry_id(start), kind="thinking", text=text, at_ms=when, native=item.id or ""),)


def _call(item: Item, line: Line, start: int) -> Sequence[Entry]:
    asked = item.arguments if item.arguments is not None else item.input
    if isinstance(asked, str) and asked.startswith("{"):
        with suppress(*ERRORS):
            asked = _any.decode(asked)
    return (
        Entry(
            id=entry_id(start),
            kind="call",
            at_ms=at_ms(line.timestamp),
            native=item.id or "",
            tool=item.name or item.type.removesuffix("_call"),
            input=asked if asked is not None else item.action,
            call=item.call_id or item.id or "",
        ),
    )


def _hosted(item: Item, line: Line, start: int) -> Sequence[Entry]:
    """A call that the provider answered by itself: there is no other record of its result."""
    (call,) = _call(item, line, start)
    size = memoryview(item.result).nbytes
    images = (size - 2,) if size > 2 else ()
    return call, Entry(id=entry_id(start, 1), kind="result", at_ms=call.at_ms, call=call.call, images=images)


def _result(item: Item, line: Line, start: int) -> Sequence[Entry]:
    text, images = _given(item.output)
    return (
        Entry(
            id=entry_id(start),
            kind="result",
            text=text,
            at_ms=at_ms(line.timestamp),
            native=item.id or "",
            call=item.call_id or "",
            failed=_failed(text),
            images=images,
        ),
    )


def _summary(item: Item, line: Line, start: int) -> Sequence[Entry]:
    return (Entry(id=entry_id(start), kind="state", label="summary", at_ms=at_ms(line.timestamp)),)


def _snapshot(item: Item, line: Line, start: int) -> Sequence[Entry]:
    return (Entry(id=entry_id(start), kind="state", label="git snapshot", at_ms=at_ms(line.timestamp)),)


def _given(raw: msgspec.Raw) -> tuple[str, tuple[int, ...]]:
    """What a tool gave back: a text, or several parts of text and images."""
    try:
        first = bytes(memoryview(raw)[:1])
        if first == b"[":
            parts = _output.decode(raw)
            return message_text(parts), _images(parts)
        whole = _any.decode(raw) if first else ""
    except ERRORS:
        return "", ()
    if isinstance(whole, dict):
        whole = whole.get("content")
    return whole if isinstance(whole, str) else "", ()


def _images(parts: list[Content] | None) -> tuple[int, ...]:
    if not parts:
        return ()
    sizes = [memoryview(part.image_url).nbytes for part in parts]
    return tuple(size - 2 for size in sizes if size > 2)


def _failed(text: str) -> bool:
    code = _EXIT.search(text, 0, 300)
    if code is None and text.startswith('{"output":'):
        code = _OLD_EXIT.search(text, max(0, len(text) - 200))
    return code[1] != "0" if code is not None else text.startswith(_FAILED)


_ITEMS = {
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
