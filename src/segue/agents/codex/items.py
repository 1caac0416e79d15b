"""The lines of a rollout and the items in them, decoded: no more of them than anybody needs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
INSERTED = (
    *("<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<turn_aborted>"),
    *("<user_shell_command>", "<subagent_notification>", "<skill>", "<hook_prompt>", "<goal_context>"),
    *("<codex_internal_context>", "<recommended_plugins>"),
)
"""How messages begin that Codex puts in under the user's name; new versions also say it beside the text."""
PROJECT = "# AGENTS.md instructions"


class Content(msgspec.Struct, frozen=True):
    text: str | None = None
    image_url: msgspec.Raw = msgspec.Raw()


class _Kinds(msgspec.Struct, frozen=True):
    content_item_kinds: list[str] | None = None


class Item(msgspec.Struct, frozen=True):
    """The payload of a ``response_item``."""

    type: str = ""
    id: str | None = None
    role: str | None = None
    content: list[Content] | None = None
    summary: list[Content] | None = None
    name: str | None = None
    arguments: Any = None
    input: Any = None
    action: Any = None
    call_id: str | None = None
    output: msgspec.Raw = msgspec.Raw()
    result: msgspec.Raw = msgspec.Raw()
    internal_chat_message_metadata_passthrough: _Kinds | None = None


class Line(msgspec.Struct, frozen=True):
    timestamp: str | None = None
    type: str = ""
    payload: msgspec.Raw = msgspec.Raw()
    metadata: msgspec.Raw = msgspec.Raw()


_line = msgspec.json.Decoder(Line)
_item = msgspec.json.Decoder(Item)


def line_of(text: bytes) -> Line | None:
    """One line; None when it is damaged. What is passed over unread must be UTF-8 as well: Codex reads it."""
    try:
        if not text.isascii():
            text.decode()
        return _line.decode(text)
    except ERRORS:
        return None


def item_of(raw: msgspec.Raw) -> Item | None:
    """An item; None when it is none that anybody knows."""
    try:
        return _item.decode(raw)
    except ERRORS:
        return None


def at_ms(stamp: str | None) -> int | None:
    if stamp is None:
        return None
    try:
        return int(datetime.fromisoformat(stamp).timestamp() * 1000 + 0.5)
    except (ValueError, OverflowError, OSError):
        return None


def inserted(item: Item, text: str) -> bool:
    """Whether Codex put a message in under the user's name."""
    about = item.internal_chat_message_metadata_passthrough
    kinds = [kind for kind in (about and about.content_item_kinds) or () if kind != "unknown"]
    if kinds:
        return not any(kind.startswith("user") for kind in kinds)
    return text.startswith(INSERTED)


def said(parts: list[Content] | None) -> str:
    if not parts:
        return ""
    if len(parts) == 1:
        return parts[0].text or ""
    return "\n".join(part.text for part in parts if part.text)
