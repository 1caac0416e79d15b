"""A record of a Claude session to be written again: its fields as they stand, and what its blocks are."""

from __future__ import annotations

from typing import Any

import msgspec

from segue.core.loose import items, table, text

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
            self._message = table(_value(self.fields.get("message")))
        return self._message

    @property
    def answer(self) -> str:
        """What ties the blocks of one answer together."""
        return text(self.message.get("id")) if self.type == "assistant" else ""

    @property
    def content(self) -> str | list[Any]:
        content = self.message.get("content")
        return content if isinstance(content, str) else items(content)

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
        found = (table(block) for block in self.content)
        return {text(block.get(key)) for block in found if block.get("type") == block_type} - {""}

    def _string(self, name: str) -> str:
        return text(_value(self.fields.get(name)))

    def _is(self, name: str) -> bool:
        return bytes(self.fields.get(name, b"")) == b"true"


def piece(line: bytes) -> Piece | None:
    """A line as a record; None for what is none."""
    try:
        fields = _fields.decode(line)
    except _BROKEN:
        return None
    kind = text(_value(fields.get("type")))
    return Piece(fields, kind) if kind else None


def _value(raw: msgspec.Raw | None) -> Any:
    return None if raw is None else msgspec.json.decode(raw)
