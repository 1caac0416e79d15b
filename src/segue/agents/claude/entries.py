"""A line of a Claude session as entries: messages block by block, attachments and notes.

Pure and tolerant: accepts a line of any version, known or not. Records with a ``uuid`` are messages,
attachments and system notices. The others are notes that the CLI keeps for itself; most have no text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from segue.agents.base import damaged, entry_id
from segue.agents.claude.schema import (
    SYNTHETIC,
    Attachment,
    Block,
    FullRecord,
    LooseRecord,
    Message,
    value_of,
)
from segue.agents.decoding import DAMAGE, moment_ms
from segue.core.json_values import as_items, as_table, as_text
from segue.core.transcript import Entry, Kind

INSERTED = (
    *("<local-command-", "<bash-std", "<system-reminder>", "<task-notification>"),
    *("[Request interrupted by user", "Caveat: "),
)
"""How messages begin that the CLI inserts in the user's name."""
_COMMAND = re.compile(r"<command-name>(.*?)</command-name>(?:.*?<command-args>(.*?)</command-args>)?", re.S)
_NOTE = b'{"type":"'


class Note(NamedTuple):
    label: str
    restored: bool = True


_NOTES: Mapping[str, Note] = {
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
"""Notes by the type of their record."""

_SILENT: Mapping[bytes, Note] = {
    b"queue-operation": Note("queue", restored=False),
    b"api-request": Note("request", restored=False),
    b"api-request-blob": Note("request", restored=False),
    b"api-request-shape": Note("request", restored=False),
    b"cost-state": Note("cost"),
    b"tools-used": Note("tools used"),
    b"atis-latch": Note("latch"),
    b"mode": Note("mode"),
}
"""Notes without text, which need not be decoded."""

_ATTACHED: Mapping[str, str] = {
    "instructions": "project instructions",
    "session_context": "git snapshot",
    "prompt_snapshot": "prompt snapshot",
    "todo": "task",
    "todo_reminder": "task",
    "task_reminder": "task",
    "task_status": "task",
}

_record = msgspec.json.Decoder(FullRecord)
_loose = msgspec.json.Decoder(LooseRecord)
_attachment = msgspec.json.Decoder(Attachment)


def entries(text: bytes, start: int) -> Sequence[Entry]:
    """The entries of a line; never raises."""
    silent = _silent(text, start)
    if silent is not None:
        return (silent,)
    try:
        record = _record.decode(text)
    except msgspec.ValidationError:
        return (_unexpected(text, start),)
    except DAMAGE:
        return (damaged(start, "it is not valid JSON"),)
    if record.type in ("user", "assistant") and record.message is not None:
        return _message(record, record.message, start)
    return (_other(record, start),)


def _silent(text: bytes, start: int) -> Entry | None:
    """A note without text, recognised by its beginning: there are many, and some are long."""
    if text.startswith(_NOTE) and text.endswith(b"}"):
        end = text.find(b'"', len(_NOTE), len(_NOTE) + 40)
        note = _SILENT.get(text[len(_NOTE) : end])
        if note is not None:
            return Entry(id=entry_id(start), kind="state", label=note.label, restored=note.restored)
    return None


def _unexpected(text: bytes, start: int) -> Entry:
    """An entry for JSON whose values have other types than expected."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
        record = _loose.decode(text)
    except msgspec.ValidationError:
        return Entry(id=entry_id(start), kind="unknown")
    except DAMAGE:
        return damaged(start, "it is not valid JSON")
    return Entry(
        id=entry_id(start),
        kind="unknown",
        label=as_text(record.type),
        native=as_text(record.uuid),
        parent=record.parent_uuid if isinstance(record.parent_uuid, str) else None,
        side=record.is_sidechain is True,
    )


def _message(record: FullRecord, message: Message, start: int) -> Sequence[Entry]:
    about: dict[str, Any] = {
        "at_ms": moment_ms(record.timestamp),
        "native": record.uuid or "",
        "parent": record.parent_uuid,
        "side": bool(record.is_sidechain),
    }
    if record.type == "assistant":
        return _answer(message, start, bool(record.is_api_error_message), about)
    if record.is_compact_summary:
        return (_summary(message, start, about),)
    return _prompt(message, start, bool(record.is_meta), about)


def _prompt(message: Message, start: int, is_meta: bool, about: dict[str, Any]) -> Sequence[Entry]:
    """A user's record: results of tools or a message, rarely both."""
    content = message.content
    if content is None or isinstance(content, str):
        return (_user_entry(content or "", (), entry_id(start), is_meta, about),)
    results = [block for block in content if block.type == "tool_result"]
    shown = [_result(block, entry_id(start, n), about) for n, block in enumerate(results)]
    texts = [block.text for block in content if block.type == "text" and block.text]
    images = tuple(_size(block) for block in content if block.type == "image")
    if texts or images or not shown:
        shown.append(_user_entry("\n".join(texts), images, entry_id(start, len(shown)), is_meta, about))
    return shown


def _user_entry(
    text: str, images: tuple[int, ...], own_id: str, is_meta: bool, about: dict[str, Any]
) -> Entry:
    inserted = is_meta or text.startswith(INSERTED)
    typed = None if inserted else _command(text)
    return Entry(id=own_id, kind="user", text=typed or text, images=images, inserted=inserted, **about)


def _command(text: str) -> str | None:
    """A command as it was typed, if the message is only the CLI's form of it."""
    match = _COMMAND.search(text) if text.lstrip().startswith("<command-") else None
    return f"{match[1]} {match[2] or ''}".strip() if match else None


def _result(block: Block, own_id: str, about: dict[str, Any]) -> Entry:
    text, images = block.content or "", tuple[int, ...]()
    if not isinstance(text, str):
        images = tuple(part.source.size if part.source else 0 for part in text if part.type == "image")
        text = "\n".join(part.text for part in text if part.text)
    return Entry(
        id=own_id,
        kind="result",
        text=text,
        call=block.tool_use_id or "",
        failed=bool(block.is_error),
        images=images,
        **about,
    )


def _size(image: Block) -> int:
    return image.source.size if image.source is not None else 0


def _summary(message: Message, start: int, about: dict[str, Any]) -> Entry:
    content = message.content
    if not isinstance(content, str):
        content = "\n".join(block.text for block in content or () if block.text)
    return Entry(id=entry_id(start), kind="boundary", text=content, inserted=True, **about)


def _answer(message: Message, start: int, failed: bool, about: dict[str, Any]) -> Sequence[Entry]:
    """An assistant's record: usually one block of an answer. Without blocks, it is an empty answer."""
    made_up = message.model == SYNTHETIC
    about["model"] = None if made_up else message.model
    if message.usage is not None and not made_up:
        about["tokens"] = message.usage.prompt
    content = message.content
    if content is None or isinstance(content, str):
        content = [Block(type="text", text=content)]
    if not content:
        return (Entry(id=entry_id(start), kind="assistant", inserted=made_up, failed=failed, **about),)
    return [_block(block, entry_id(start, n), made_up, failed, about) for n, block in enumerate(content)]


def _block(block: Block, own_id: str, made_up: bool, failed: bool, about: dict[str, Any]) -> Entry:
    if block.type == "text":
        text = block.text or ""
        return Entry(id=own_id, kind="assistant", text=text, inserted=made_up, failed=failed, **about)
    if block.type == "tool_use":
        call, tool = block.id or "", block.name or ""
        return Entry(id=own_id, kind="call", tool=tool, input=block.input, call=call, **about)
    if block.type in ("thinking", "redacted_thinking"):
        return Entry(id=own_id, kind="thinking", text=block.thinking or "", **about)
    return Entry(id=own_id, kind="unknown", label=block.type, **about)


def _other(record: FullRecord, start: int) -> Entry:
    kind: Kind = "state"
    if record.type == "attachment":
        kind, label, text, restored = *_attached(record.attachment), True
    elif record.type == "system":
        label, text, restored = _notice(record.subtype or "", record.content)
    elif record.type in _NOTES:
        (label, restored), text = _NOTES[record.type], record.words
    else:
        kind, label, text, restored = "unknown", record.type, "", True
    return Entry(
        id=entry_id(start),
        kind=kind,
        text=text,
        label=label,
        restored=restored,
        at_ms=moment_ms(record.timestamp),
        native=record.uuid or "",
        parent=record.parent_uuid,
        side=bool(record.is_sidechain),
    )


def _attached(attachment: msgspec.Raw) -> tuple[Kind, str, str]:
    """The kind of an attachment, its label, and its text if that comes from the user or the project."""
    kind = _kind(attachment)
    if kind == "queued_command":  # what the user typed while the agent was working
        return "user", "", _queued(as_table(value_of(attachment)).get("prompt"))
    text = ""
    if kind == "instructions":
        files = as_items(as_table(value_of(attachment)).get("files"))
        text = "\n".join(as_text(as_table(file).get("content")) for file in files)
    elif kind == "session_context":
        text = as_text(as_table(as_table(value_of(attachment)).get("context")).get("gitStatus"))
    return "state", _ATTACHED.get(kind, kind.replace("_", " ")), text


def _kind(attachment: msgspec.Raw) -> str:
    try:
        return as_text(_attachment.decode(attachment).type) if len(bytes(attachment)) else ""
    except DAMAGE:
        return ""


def _queued(prompt: object) -> str:
    if isinstance(prompt, str):
        return prompt
    return "\n".join(as_text(as_table(block).get("text")) for block in as_items(prompt)).strip()


def _notice(subtype: str, content: msgspec.Raw) -> tuple[str, str, bool]:
    """A system record: its label, its text, and whether a resume restores it."""
    if subtype.endswith("compact_boundary"):
        return "compaction", "", True
    label = "command output" if subtype == "local_command" else subtype.replace("_", " ") or "notice"
    return label, as_text(value_of(content)), subtype == "local_command"
