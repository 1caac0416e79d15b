"""The records of a 3.x store that has just been born: what a cut leaves of those of an older one.

What is not understood here is carried along as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from segue.core.decoder import decode

Record = dict[str, Any]


class Cut(msgspec.Struct, frozen=True):
    """What the new store is to be: how many messages it keeps, and how many prompts it leaves out."""

    session: str
    kept: int
    prompts_left_out: int
    cwd: str
    model: str | None


def checkpoint(old: Record) -> Record:
    """Nothing of the turn that ended last: what it answered, and how full the window was."""
    gone = ("last_finished_turn_id", "last_reported_context_tokens")
    return {key: value for key, value in old.items() if key not in gone} | {"turn": {"type": "idle"}}


def runtime(old: Record, cut: Cut) -> Record:
    """What the session is made under stays: plugins, settings, instructions. What it did is left out."""
    if old["subagents"] is not None and old["subagents"]["children"]:
        raise ValueError("it has sessions of its own under it")
    pins = {"root_session_id": cut.session, "parent_session_id": None, "cwd": cut.cwd}
    pins |= {"active_model": cut.model} if cut.model else {}
    lists = ("actions", "callbacks", "children", "command_receipts", "processes", "provider_operations")
    nothing: Record = {key: [] for key in (*lists, "submitted_process_notifications")}
    return (
        old
        | nothing
        | {
            "session_id": cut.session,
            "identity": _identity(cut.session),
            "session_metadata": old["session_metadata"] | pins,
            "import_provenance": None,
            "pending_transition": None,
            "subagents": None,
            "core_task_id": None,
            "core_last_input_id": 0,
            "snapshot_sequence": 0,
        }
    )


def _identity(session: str) -> Record:
    return {
        "depth": 0,
        "kind": "root",
        "parent_session_id": None,
        "root_session_id": session,
        "session_id": session,
    }


def projection(old: Record, cut: Cut) -> Record:
    """What a terminal shows of the session."""
    ids = {"id": cut.session, "rootSessionId": cut.session, "parentSessionId": None}
    session = old["snapshot"]["session"] | ids | {"contextUsage": None, "tokenUsage": None}
    snapshot = old["snapshot"] | {"session": session, "latestTurn": None}
    return old | {"session_id": cut.session, "snapshot": snapshot, "snapshot_sequence": 0, "watermark": 0}


def entries(shown: Sequence[bytes], cut: Cut, old_id: str) -> list[bytes]:
    """Counted from the end: after a compaction there are more of them than messages."""
    end, left = len(shown), cut.prompts_left_out
    while end and left:
        end -= 1
        entry = decode(shown[end], Record)
        left -= entry.get("type") == "message" and entry.get("role") == "user"
    return [piece.replace(old_id.encode(), cut.session.encode()) for piece in shown[:end]]
