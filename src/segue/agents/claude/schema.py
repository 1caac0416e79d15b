"""A record of a Claude session to be written again: its fields as they stand, and what its blocks are.

The lines of a Claude session file, as far as Segue looks at them.

Each line is one record. Those that have a ``uuid`` form a chain by their ``parentUuid``; the messages among
them are of type ``user`` and ``assistant``. There are many other types, and more with every version: they
are passed over, as is what cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from segue.agents.jsonl import backwards
from segue.core.json_values import as_items, as_table, as_text

Fields = dict[str, msgspec.Raw]

_fields = msgspec.json.Decoder(Fields)
_BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Piece:
    """One record. Its message is decoded when it is first asked for, the rest is copied byte for byte."""

    def __init__(self, fields: Fields, kind: str) -> None:
        self.fields = fields
        self.type = kind
        self.uuid = self._string("uuid")
        self.parent = self._string("parentUuid")
        self.is_side = self._is("isSidechain")
        self._message: dict[str, Any] | None = None

    @property
    def is_link(self) -> bool:
        """Part of the chain: it has an id, or is a message that should have one."""
        return bool(self.uuid) or self.type in ("user", "assistant")

    @property
    def is_message(self) -> bool:
        return self.type in ("user", "assistant")

    @property
    def is_boundary(self) -> bool:
        return self.type == "system" and self._string("subtype").endswith("compact_boundary")

    @property
    def is_prompt(self) -> bool:
        """Said by a user: a session may begin with it."""
        if self.type != "user" or self._is("isMeta") or self._is("isCompactSummary"):
            return False
        return bool(self.content) and not self.results

    @property
    def has_parent_field(self) -> bool:
        return "parentUuid" in self.fields

    @property
    def message(self) -> dict[str, Any]:
        if self._message is None:
            self._message = as_table(_value(self.fields.get("message")))
        return self._message

    @property
    def answer(self) -> str:
        """What ties the blocks of one answer together."""
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

    def with_content(self, content: list[Any]) -> Piece:
        """The same with other blocks. What the CLI noted of a tool's output goes with the old ones."""
        fields = {name: value for name, value in self.fields.items() if name != "toolUseResult"}
        fields["message"] = msgspec.Raw(msgspec.json.encode({**self.message, "content": content}))
        return Piece(fields, self.type)

    def _ids(self, kind: str, block_type: str, key: str) -> set[str]:
        if self.type != kind or isinstance(self.content, str):
            return set()
        found = (as_table(block) for block in self.content)
        return {as_text(block.get(key)) for block in found if block.get("type") == block_type} - {""}

    def _string(self, name: str) -> str:
        return as_text(_value(self.fields.get(name)))

    def _is(self, name: str) -> bool:
        return bytes(self.fields.get(name, b"")) == b"true"


def piece(line: bytes) -> Piece | None:
    """A line as a record; None for what is none."""
    try:
        fields = _fields.decode(line)
    except _BROKEN:
        return None
    kind = as_text(_value(fields.get("type")))
    return Piece(fields, kind) if kind else None


def _value(raw: msgspec.Raw | None) -> Any:
    return None if raw is None else msgspec.json.decode(raw)


class _Attachment(msgspec.Struct, frozen=True):
    type: str = ""


class Record(msgspec.Struct, frozen=True, rename="camel"):
    """One line. What a message says is decoded only when it is asked for."""

    type: str = ""
    subtype: str | None = None
    uuid: str | None = None
    parent_uuid: str | None = None
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    permission_mode: str | None = None
    attachment: _Attachment | None = None
    message: msgspec.Raw = msgspec.Raw()

    @property
    def is_message(self) -> bool:
        """Part of the conversation itself, not of a subagent's."""
        return self.type in ("user", "assistant") and not self.is_sidechain and bool(self.uuid)

    @property
    def is_boundary(self) -> bool:
        """Here the CLI replaced what came before by a summary."""
        return self.type == "system" and (self.subtype or "").endswith("compact_boundary")

    @property
    def is_snapshot(self) -> bool:
        """The system prompt and the tools as they were sent: what a resume sends again, byte for byte."""
        return self.attachment is not None and self.attachment.type == "prompt_snapshot"

    @property
    def is_said(self) -> bool:
        """A message in somebody's words: no tool's result, and not put in by the CLI itself."""
        inserted = self.is_meta or self._message.get("model") == "<synthetic>"
        return self.is_message and not inserted and "tool_result" not in self.blocks

    @property
    def is_prompt(self) -> bool:
        """What a user asked, as opposed to a summary."""
        return self.type == "user" and self.is_said and not self.is_compact_summary

    @property
    def blocks(self) -> frozenset[str]:
        """The kinds of blocks a message is made of."""
        content = self._message.get("content")
        if isinstance(content, str):
            return frozenset({"text"})
        return frozenset(str(block.get("type")) for block in as_items(content) if isinstance(block, dict))

    @property
    def _message(self) -> dict[str, Any]:
        try:
            return as_table(msgspec.json.decode(self.message)) if bytes(self.message) else {}
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return {}


_decoder = msgspec.json.Decoder(Record)


def read_record(line: bytes) -> Record | None:
    """A line as a record; None for what is none, torn or unknown."""
    try:
        return _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def newest_first(path: Path) -> Iterator[Record]:
    """The records from the end of a file, read no further back than they are asked for."""
    with path.open("rb") as file:
        for line in backwards(file):
            record = read_record(line.text) if line.text is not None else None
            if record is not None:
                yield record
