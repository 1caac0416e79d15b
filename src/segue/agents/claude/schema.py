"""The records of a Claude session file as types, and those of other files that name sessions.

A session file has one record per line. Records with a ``uuid`` form a chain by their ``parentUuid``; those of
type ``user`` and ``assistant`` are the messages. There are many other types, and more with every version.
If only a part of a record is used, that part has its own type, so that the rest is not decoded.
"""

from typing import Any

import msgspec

from segue.agents.decoding import DAMAGE
from segue.core.json_values import as_items, as_table, as_text

SYNTHETIC = "<synthetic>"
"""The model's name in messages that the CLI wrote itself."""


class Link(msgspec.Struct, frozen=True, rename="camel"):
    """What every record of the chain has."""

    type: str = ""
    subtype: str | None = None
    uuid: str | None = None
    parent_uuid: str | None = None
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None

    @property
    def is_boundary(self) -> bool:
        """Here the CLI replaced everything before by a summary."""
        return self.type == "system" and (self.subtype or "").endswith("compact_boundary")


class Attachment(msgspec.Struct, frozen=True):
    type: Any = None


class Record(Link, frozen=True, rename="camel"):
    """A record whose message is decoded only when needed."""

    permission_mode: str | None = None
    timestamp: str | None = None
    attachment: Attachment | None = None
    message: msgspec.Raw = msgspec.Raw()

    @property
    def is_message(self) -> bool:
        """Part of the conversation itself, not of a subagent's."""
        return self.type in ("user", "assistant") and not self.is_sidechain and bool(self.uuid)

    @property
    def is_snapshot(self) -> bool:
        """The system prompt and the tools as they were sent; a resume sends them again, byte for byte."""
        return self.attachment is not None and self.attachment.type == "prompt_snapshot"

    @property
    def is_said(self) -> bool:
        """A message of the user or the model: not a tool result, and not inserted by the CLI."""
        inserted = self.is_meta or self._message.get("model") == SYNTHETIC
        return self.is_message and not inserted and "tool_result" not in self.blocks

    @property
    def is_prompt(self) -> bool:
        """A message of the user, as opposed to a summary."""
        return self.type == "user" and self.is_said and not self.is_compact_summary

    @property
    def blocks(self) -> frozenset[str]:
        """The types of the message's blocks."""
        content = self._message.get("content")
        if isinstance(content, str):
            return frozenset({"text"})
        return frozenset(str(block.get("type")) for block in as_items(content) if isinstance(block, dict))

    @property
    def _message(self) -> dict[str, Any]:
        return as_table(value_of(self.message))


def value_of(raw: msgspec.Raw) -> Any:
    """The value of an undecoded part of a record; None if it is empty or damaged."""
    try:
        return msgspec.json.decode(raw) if len(bytes(raw)) else None
    except DAMAGE:
        return None


class Source(msgspec.Struct, frozen=True):
    """An image's data: never decoded, only its length is used."""

    data: msgspec.Raw = msgspec.Raw()

    @property
    def size(self) -> int:
        return max(len(bytes(self.data)) - 2, 0)


class OutputPart(msgspec.Struct, frozen=True):
    """A part of a tool's output."""

    type: str = ""
    text: str | None = None
    source: Source | None = None


class Block(msgspec.Struct, frozen=True):
    """A part of a message."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    tool_use_id: str | None = None
    content: str | list[OutputPart] | None = None
    is_error: bool | None = None
    source: Source | None = None


class Usage(msgspec.Struct, frozen=True):
    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens: int | None = None

    @property
    def prompt(self) -> int:
        """All input tokens of the request."""
        cached = (self.cache_read_input_tokens or 0) + (self.cache_creation_input_tokens or 0)
        return (self.input_tokens or 0) + cached


class MessageHead(msgspec.Struct, frozen=True):
    model: str | None = None
    usage: Usage | None = None


class Message(MessageHead, frozen=True):
    content: str | list[Block] | None = None
    stop_reason: str | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "\n".join(block.text or "" for block in self.content or ())


class FullRecord(Link, frozen=True, rename="camel"):
    timestamp: str | None = None
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

    @property
    def words(self) -> str:
        """The text of a note."""
        named = self.custom_title or self.ai_title or self.agent_name
        return named or self.last_prompt or self.summary or self.tag or ""


class UndecodedMessage(MessageHead, frozen=True):
    content: msgspec.Raw = msgspec.Raw()


class Answer(msgspec.Struct, frozen=True):
    """An assistant's record, for its usage."""

    type: str = ""
    version: str | None = None
    message: UndecodedMessage = UndecodedMessage()


class CompactMetadata(msgspec.Struct, frozen=True, rename="camel"):
    post_tokens: int | None = None


class Boundary(msgspec.Struct, frozen=True, rename="camel"):
    compact_metadata: CompactMetadata = CompactMetadata()


class ModelUsage(msgspec.Struct, frozen=True, rename="camel"):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0

    @property
    def all(self) -> int:
        own = self.input_tokens + self.output_tokens
        return own + self.cache_read_input_tokens + self.cache_creation_input_tokens


class CostState(msgspec.Struct, frozen=True):
    """The running totals of a session."""

    total: float | None = msgspec.field(name="totalCostUSD", default=None)
    by_model: dict[str, ModelUsage] = msgspec.field(name="modelUsage", default_factory=dict)

    @property
    def tokens(self) -> int:
        return sum(usage.all for usage in self.by_model.values())


class LooseRecord(msgspec.Struct, frozen=True, rename="camel"):
    type: Any = None
    uuid: Any = None
    parent_uuid: Any = None
    is_sidechain: Any = None


class LoosePrompt(LooseRecord, frozen=True, rename="camel"):
    message: Any = None
    forked_from: Any = None


Fields = dict[str, msgspec.Raw]
_fields = msgspec.json.Decoder(Fields)


def fields_of(line: bytes) -> Fields | None:
    """The fields of a record as they are written; None for a damaged line."""
    try:
        return _fields.decode(line)
    except DAMAGE:
        return None


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


class RawRecord:
    """A record to be copied: unchanged fields stay the same, byte for byte."""

    def __init__(self, fields: Fields, kind: str) -> None:
        self.fields = fields
        self.type = kind
        self.uuid = self._string("uuid")
        self.parent = self._string("parentUuid")
        self.is_side = self._is("isSidechain")
        self._message: dict[str, Any] | None = None

    @classmethod
    def read(cls, line: bytes) -> "RawRecord | None":
        """A line as a record; None if it is not a record, or cannot be decoded completely."""
        try:
            kind = as_table(msgspec.json.decode(line)).get("type")
            return cls(_fields.decode(line), kind) if kind and isinstance(kind, str) else None
        except DAMAGE:
            return None

    @property
    def is_link(self) -> bool:
        """Part of the chain: it has an id, or is a message that should have one."""
        return bool(self.uuid) or self.is_message

    @property
    def is_message(self) -> bool:
        return self.type in ("user", "assistant")

    @property
    def is_prompt(self) -> bool:
        """A message of the user, with which a session can begin."""
        if self.type != "user" or self._is("isMeta") or self._is("isCompactSummary"):
            return False
        return bool(self.content) and not self.results

    @property
    def has_parent_field(self) -> bool:
        return "parentUuid" in self.fields

    @property
    def timestamp(self) -> str:
        return self._string("timestamp")

    @property
    def message(self) -> dict[str, Any]:
        if self._message is None:
            self._message = as_table(value_of(self.fields.get("message", msgspec.Raw())))
        return self._message

    @property
    def answer(self) -> str:
        """The id that the blocks of one answer share."""
        return as_text(self.message.get("id")) if self.type == "assistant" else ""

    @property
    def content(self) -> str | list[Any]:
        content = self.message.get("content")
        return content if isinstance(content, str) else as_items(content)

    @property
    def calls(self) -> set[str]:
        return self._ids("assistant", "tool_use", "id")

    @property
    def results(self) -> set[str]:
        return self._ids("user", "tool_result", "tool_use_id")

    def with_content(self, content: list[Any]) -> "RawRecord":
        """The same record with other blocks, without the CLI's own copy of the tool's output."""
        fields = {name: value for name, value in self.fields.items() if name != "toolUseResult"}
        fields["message"] = raw({**self.message, "content": content})
        return RawRecord(fields, self.type)

    def _ids(self, kind: str, block_type: str, key: str) -> set[str]:
        if self.type != kind or isinstance(self.content, str):
            return set()
        blocks = (as_table(block) for block in self.content)
        return {as_text(block.get(key)) for block in blocks if block.get("type") == block_type} - {""}

    def _string(self, name: str) -> str:
        return as_text(value_of(self.fields.get(name, msgspec.Raw())))

    def _is(self, name: str) -> bool:
        return bytes(self.fields.get(name, b"")) == b"true"


class OauthAccount(msgspec.Struct, frozen=True, rename="camel"):
    account_uuid: str = ""
    organization_uuid: str | None = None


class Settings(msgspec.Struct, frozen=True, rename="camel"):
    """``.claude.json``: who is logged in."""

    oauth_account: OauthAccount | None = None


class UserSettings(msgspec.Struct, frozen=True, rename="camel"):
    """``settings.json`` in the home."""

    cleanup_period_days: Any = None
    env: dict[str, msgspec.Raw] | None = None
    """Variables for the CLI; undecoded, because some are secrets."""
    api_key_helper: Any = None


class HistoryLine(msgspec.Struct, frozen=True, rename="camel"):
    """A line of ``history.jsonl``, and an entry of the index."""

    session_id: str | None = None


class SessionIndex(msgspec.Struct, frozen=True):
    """``sessions-index.json``."""

    entries: list[msgspec.Raw] = []
