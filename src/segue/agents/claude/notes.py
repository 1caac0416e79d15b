"""What stands in a Claude session beside the messages: notes, attachments and notices, and what becomes of
them on a resume."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from segue.core.decoder import decode
from segue.core.loose import items, table
from segue.core.loose import text as words


class Note(NamedTuple):
    label: str
    restored: bool = True


NOTES: Mapping[str, Note] = {
    "custom-title": Note("title"),
    "ai-title": Note("title by the model", restored=False),
    "summary": Note("summary", restored=False),
    "last-prompt": Note("last prompt", restored=False),
    "tag": Note("tag"),
    "agent-name": Note("agent name"),
    "agent-color": Note("agent color"),
    "agent-setting": Note("agent setting"),
    "pr-link": Note("pull request"),
    "file-history-snapshot": Note("file history"),
    "file-history-delta": Note("file history"),
    "attribution-snapshot": Note("attribution"),
    "content-replacement": Note("replaced output"),
    "task-summary": Note("task"),
    "worktree-state": Note("worktree"),
    "progress": Note("progress", restored=False),
}
"""Records by their type."""

SILENT: Mapping[bytes, Note] = {
    b"queue-operation": Note("queue", restored=False),
    b"api-request": Note("request", restored=False),
    b"api-request-blob": Note("request", restored=False),
    b"api-request-shape": Note("request", restored=False),
    b"cost-state": Note("cost"),
    b"tools-used": Note("tools used"),
    b"atis-latch": Note("latch"),
    b"mode": Note("mode"),
}
"""Those without any words, which need not be decoded."""

_ATTACHED: Mapping[str, str] = {
    "instructions": "project instructions",
    "session_context": "git snapshot",
    "prompt_snapshot": "prompt snapshot",
    "todo": "task",
    "todo_reminder": "task",
    "task_reminder": "task",
    "task_status": "task",
}


def _value(raw: msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(raw) if len(bytes(raw)) else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class _Kind(msgspec.Struct, frozen=True):
    type: Any = None


def _kind(raw: msgspec.Raw) -> str:
    try:
        return words(decode(raw, _Kind).type) if len(bytes(raw)) else ""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""


def queued(attachment: msgspec.Raw) -> str | None:
    """What the user said while the agent was at work; None for any other attachment."""
    if _kind(attachment) != "queued_command":
        return None
    prompt = table(_value(attachment)).get("prompt")
    if isinstance(prompt, str):
        return prompt
    return "\n".join(words(table(block).get("text")) for block in items(prompt)).strip()


def attached(attachment: msgspec.Raw) -> tuple[str, str]:
    """The label of an attachment, and its words where they are the project's own."""
    kind = _kind(attachment)
    text = ""
    if kind == "instructions":
        files = items(table(_value(attachment)).get("files"))
        text = "\n".join(words(table(file).get("content")) for file in files)
    elif kind == "session_context":
        text = words(table(table(_value(attachment)).get("context")).get("gitStatus"))
    return _ATTACHED.get(kind, kind.replace("_", " ")), text


def notice(subtype: str, content: msgspec.Raw) -> tuple[str, str, bool]:
    """A record of the system: its label, its words, and whether a resume brings it back."""
    if subtype.endswith("compact_boundary"):
        return "compaction", "", True
    label = "command output" if subtype == "local_command" else subtype.replace("_", " ") or "notice"
    return label, words(_value(content)), subtype == "local_command"
