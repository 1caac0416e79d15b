"""The lines of a Claude session file, as far as Segue looks at them.

Each line is one record. Those that have a ``uuid`` form a chain by their ``parentUuid``; the messages among
them are of type ``user`` and ``assistant``. There are many other types, and more with every version: they
are passed over, as is what cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from segue.agents.records import backwards
from segue.core.loose import items, table


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
        return frozenset(str(block.get("type")) for block in items(content) if isinstance(block, dict))

    @property
    def _message(self) -> dict[str, Any]:
        try:
            return table(msgspec.json.decode(self.message)) if bytes(self.message) else {}
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return {}


_decoder = msgspec.json.Decoder(Record)


def read(line: bytes) -> Record | None:
    """A line as a record; None for what is none, torn or unknown."""
    try:
        return _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def newest_first(path: Path) -> Iterator[Record]:
    """The records from the end of a file, read no further back than they are asked for."""
    with path.open("rb") as file:
        for line in backwards(file):
            record = read(line.text) if line.text is not None else None
            if record is not None:
                yield record
