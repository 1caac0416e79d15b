"""What Codex notes beside the items of a rollout: where a session began, what happened to it, its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from segue.agents.reader import place
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


def event(payload: msgspec.Raw, start: int, when: int | None) -> Sequence[Entry]:
    try:
        found = _event.decode(payload)
    except _ERRORS:
        return (Entry(id=place(start), kind="unknown", label="event_msg", at_ms=when, restored=False),)
    if found.type in _PASSED:
        return ()
    label, text = _told(found)
    if label:
        return (_state(start, label, text, when),)
    if found.type in ("task_complete", "turn_complete"):
        return ()
    return (Entry(id=place(start), kind="unknown", label=found.type, at_ms=when, restored=False),)


def record(kind: str, payload: msgspec.Raw, start: int, when: int | None) -> Sequence[Entry]:
    """A record that is neither an item nor an event."""
    if kind in _QUIET:
        return ()
    try:
        if kind == "compacted":
            text = _compacted.decode(payload).message
            return (Entry(id=place(start), kind="boundary", text=text, at_ms=when),)
        if kind == "session_meta":
            return _session(_meta.decode(payload), start, when)
    except _ERRORS:
        pass
    return (Entry(id=place(start), kind="unknown", label=kind, at_ms=when, restored=False),)


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
    session = Entry(id=place(start), kind="state", label="session", text=meta.cwd, native=meta.id, at_ms=when)
    if meta.git is None or not (meta.git.branch or meta.git.commit_hash):
        return (session,)
    text = " ".join(part for part in (meta.git.branch, meta.git.commit_hash) if part)
    return session, _state(start, "git snapshot", text, when, 1)


def _state(start: int, label: str, text: str, when: int | None, n: int = 0) -> Entry:
    return Entry(id=place(start, n), kind="state", label=label, text=text, at_ms=when, restored=False)
