"""The messages of a Claude session: what was said, thought, called and returned, block by block.

What stands in a Claude session beside the messages: notes, attachments and notices, and what becomes of
them on a resume.

One line of a Claude session as entries. Pure and tolerant: a line of any version, known or not.

Records with a ``uuid`` form the chain: messages, what was attached to them, and notices of the system. The
others are notes that the CLI keeps beside it, most of which say nothing that anybody would read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from segue.agents.base import damaged, entry_id
from segue.core.json_values import as_items, as_table, decode
from segue.core.json_values import as_text as words
from segue.core.transcript import Entry, Kind

SYNTHETIC = "<synthetic>"
"""The model's name in messages that the CLI wrote itself."""
PUT_IN = (
    *("<local-command-", "<bash-std", "<system-reminder>", "<task-notification>"),
    *("[Request interrupted by user", "Caveat: "),
)
_COMMAND = re.compile(r"<command-name>(.*?)</command-name>(?:.*?<command-args>(.*?)</command-args>)?", re.S)


class _Source(msgspec.Struct, frozen=True):
    data: msgspec.Raw = msgspec.Raw()
    """Never decoded: only its length is wanted."""


class _Part(msgspec.Struct, frozen=True):
    """A piece of a tool's output."""

    type: str = ""
    text: str | None = None
    source: _Source | None = None


class Block(msgspec.Struct, frozen=True):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    tool_use_id: str | None = None
    content: str | list[_Part] | None = None
    is_error: bool | None = None
    source: _Source | None = None


class Usage(msgspec.Struct, frozen=True):
    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens: int | None = None

    @property
    def taken_in(self) -> int:
        return sum(
            filter(None, (self.input_tokens, self.cache_read_input_tokens, self.cache_creation_input_tokens))
        )


class Message(msgspec.Struct, frozen=True):
    model: str | None = None
    content: str | list[Block] | None = None
    usage: Usage | None = None


def prompt_entries(message: Message, start: int, is_meta: bool, about: dict[str, Any]) -> Sequence[Entry]:
    """A user's record: the results of tools, or what was said; seldom both."""
    content = message.content
    if content is None or isinstance(content, str):
        return (_said(content or "", (), start, 0, is_meta, about),)
    found = [
        _result(block, start, n, about)
        for n, block in enumerate(block for block in content if block.type == "tool_result")
    ]
    texts = [block.text for block in content if block.type == "text" and block.text]
    images = tuple(_length(block.source) for block in content if block.type == "image")
    if texts or images or not found:
        found.append(_said("\n".join(texts), images, start, len(found), is_meta, about))
    return found


def _said(
    text: str, images: tuple[int, ...], start: int, n: int, is_meta: bool, about: dict[str, Any]
) -> Entry:
    inserted = is_meta or text.startswith(PUT_IN)
    typed = None if inserted else command_entries(text)
    return Entry(
        id=entry_id(start, n), kind="user", text=typed or text, images=images, inserted=inserted, **about
    )


def command_entries(text: str) -> str | None:
    """A command as it was typed, where a message is nothing but the CLI's form of it."""
    found = _COMMAND.search(text) if text.lstrip().startswith("<command-") else None
    return f"{found[1]} {found[2] or ''}".strip() if found else None


def _result(block: Block, start: int, n: int, about: dict[str, Any]) -> Entry:
    text, images = block.content or "", tuple[int, ...]()
    if not isinstance(text, str):
        images = tuple(_length(part.source) for part in text if part.type == "image")
        text = "\n".join(part.text for part in text if part.text)
    return Entry(
        id=entry_id(start, n),
        kind="result",
        text=text,
        call=block.tool_use_id or "",
        failed=bool(block.is_error),
        images=images,
        **about,
    )


def _length(source: _Source | None) -> int:
    return max(len(bytes(source.data)) - 2, 0) if source is not None else 0


def summary_entries(message: Message, start: int, about: dict[str, Any]) -> Entry:
    content = message.content
    if not isinstance(content, str):
        content = "\n".join(block.text for block in content or () if block.text)
    return Entry(id=entry_id(start), kind="boundary", text=content, inserted=True, **about)


def answer_entries(message: Message, start: int, failed: bool, about: dict[str, Any]) -> Sequence[Entry]:
    """An assistant's record: usually one block of an answer. Without any, it is an empty answer."""
    model, made_up = message.model, message.model == SYNTHETIC
    about["model"] = None if made_up else model
    if message.usage is not None and not made_up:
        about["tokens"] = message.usage.taken_in
    content = message.content
    if content is None or isinstance(content, str):
        content = [Block(type="text", text=content)]
    if not content:
        return (Entry(id=entry_id(start), kind="assistant", inserted=made_up, failed=failed, **about),)
    return [_block(block, start, n, made_up, failed, about) for n, block in enumerate(content)]


def _block(block: Block, start: int, n: int, made_up: bool, failed: bool, about: dict[str, Any]) -> Entry:
    here = entry_id(start, n)
    if block.type == "text":
        text = block.text or ""
        return Entry(id=here, kind="assistant", text=text, inserted=made_up, failed=failed, **about)
    if block.type == "tool_use":
        return Entry(
            id=here,
            kind="call",
            tool=block.name or "",
            input=block.input,
            call=block.id or "",
            **about,
        )
    if block.type in ("thinking", "redacted_thinking"):
        return Entry(id=here, kind="thinking", text=block.thinking or "", **about)
    return Entry(id=here, kind="unknown", label=block.type, **about)


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


def queued_entries(attachment: msgspec.Raw) -> str | None:
    """What the user said while the agent was at work; None for any other attachment."""
    if _kind(attachment) != "queued_command":
        return None
    prompt = as_table(_value(attachment)).get("prompt")
    if isinstance(prompt, str):
        return prompt
    return "\n".join(words(as_table(block).get("text")) for block in as_items(prompt)).strip()


def attachment_entries(attachment: msgspec.Raw) -> tuple[str, str]:
    """The label of an attachment, and its words where they are the project's own."""
    kind = _kind(attachment)
    text = ""
    if kind == "instructions":
        files = as_items(as_table(_value(attachment)).get("files"))
        text = "\n".join(words(as_table(file).get("content")) for file in files)
    elif kind == "session_context":
        text = words(as_table(as_table(_value(attachment)).get("context")).get("gitStatus"))
    return _ATTACHED.get(kind, kind.replace("_", " ")), text


def notice_entries(subtype: str, content: msgspec.Raw) -> tuple[str, str, bool]:
    """A record of the system: its label, its words, and whether a resume brings it back."""
    if subtype.endswith("compact_boundary"):
        return "compaction", "", True
    label = "command output" if subtype == "local_command" else subtype.replace("_", " ") or "notice"
    return label, words(_value(content)), subtype == "local_command"


BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a decoder raises for a line that is no JSON."""


class Line(msgspec.Struct, frozen=True, rename="camel"):
    """A record, as far as entries are made of it."""

    type: str = ""
    subtype: str | None = None
    uuid: str | None = None
    parent_uuid: str | None = None
    timestamp: str | None = None
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    message: Message | None = None
    attachment: msgspec.Raw = msgspec.Raw()
    content: msgspec.Raw = msgspec.Raw()
    custom_title: str | None = None
    ai_title: str | None = None
    agent_name: str | None = None
    last_prompt: str | None = None
    summary: str | None = None
    tag: str | None = None


class _Bare(msgspec.Struct, frozen=True, rename="camel"):
    """What is left where a record has the right names with values of other types."""

    type: Any = None
    uuid: Any = None
    parent_uuid: Any = None
    is_sidechain: Any = None


_line = msgspec.json.Decoder(Line)
_bare = msgspec.json.Decoder(_Bare)
_NOTE = b'{"type":"'


def entries(text: bytes, start: int) -> Sequence[Entry]:
    """What a line holds; never raises."""
    silent = _silent(text, start)
    if silent is not None:
        return silent
    try:
        line = _line.decode(text)
    except msgspec.ValidationError:
        return _strange(text, start)
    except BROKEN:
        return (damaged(start, "it is not valid JSON"),)
    if line.type in ("user", "assistant") and line.message is not None:
        return _message(line, line.message, start)
    return (_other(line, start),)


def _silent(text: bytes, start: int) -> Sequence[Entry] | None:
    """Notes without words are known by their beginning; some are long, and there are many."""
    if text.startswith(_NOTE) and text.endswith(b"}"):
        end = text.find(b'"', len(_NOTE), len(_NOTE) + 40)
        note = SILENT.get(text[len(_NOTE) : end])
        if note is not None:
            return (Entry(id=entry_id(start), kind="state", label=note.label, restored=note.restored),)
    return None


def _message(line: Line, message: Message, start: int) -> Sequence[Entry]:
    about: dict[str, Any] = {
        "at_ms": milliseconds(line.timestamp),
        "native": line.uuid or "",
        "parent": line.parent_uuid,
        "side": bool(line.is_sidechain),
    }
    if line.type == "assistant":
        return answer_entries(message, start, bool(line.is_api_error_message), about)
    if line.is_compact_summary:
        return (summary_entries(message, start, about),)
    return prompt_entries(message, start, bool(line.is_meta), about)


def _other(line: Line, start: int) -> Entry:
    kind: Kind
    queued = queued_entries(line.attachment) if line.type == "attachment" else None
    if queued is not None:
        kind, label, text, restored = "user", "", queued, True
    elif line.type == "attachment":
        kind, label, text, restored = "state", *attachment_entries(line.attachment), True
    elif line.type == "system":
        kind, label, text, restored = "state", *notice_entries(line.subtype or "", line.content)
    elif line.type in NOTES:
        note = NOTES[line.type]
        kind, label, text, restored = "state", note.label, _words(line), note.restored
    else:
        kind, label, text, restored = "unknown", line.type, "", True
    return Entry(
        id=entry_id(start),
        kind=kind,
        text=text,
        label=label,
        restored=restored,
        at_ms=milliseconds(line.timestamp),
        native=line.uuid or "",
        parent=line.parent_uuid,
        side=bool(line.is_sidechain),
    )


def _words(line: Line) -> str:
    return (
        line.custom_title
        or line.ai_title
        or line.agent_name
        or line.last_prompt
        or line.summary
        or line.tag
        or ""
    )


def _strange(text: bytes, start: int) -> Sequence[Entry]:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
        bare = _bare.decode(text)
    except msgspec.ValidationError:
        return (Entry(id=entry_id(start), kind="unknown"),)
    except BROKEN:
        return (damaged(start, "it is not valid JSON"),)
    entry = Entry(
        id=entry_id(start),
        kind="unknown",
        label=bare.type if isinstance(bare.type, str) else "",
        native=bare.uuid if isinstance(bare.uuid, str) else "",
        parent=bare.parent_uuid if isinstance(bare.parent_uuid, str) else None,
        side=bare.is_sidechain is True,
    )
    return (entry,)


def milliseconds(timestamp: str | None) -> int | None:
    """An ISO time as milliseconds since 1970; None where it is none."""
    if not timestamp:
        return None
    try:
        return round(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None
