"""The messages of a Claude session: what was said, thought, called and returned, block by block."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from segue.agents.reader import place
from segue.core.transcript import Entry

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


def prompt(message: Message, start: int, is_meta: bool, about: dict[str, Any]) -> Sequence[Entry]:
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
    typed = None if inserted else command(text)
    return Entry(
        id=place(start, n), kind="user", text=typed or text, images=images, inserted=inserted, **about
    )


def command(text: str) -> str | None:
    """A command as it was typed, where a message is nothing but the CLI's form of it."""
    found = _COMMAND.search(text) if text.lstrip().startswith("<command-") else None
    return f"{found[1]} {found[2] or ''}".strip() if found else None


def _result(block: Block, start: int, n: int, about: dict[str, Any]) -> Entry:
    text, images = block.content or "", tuple[int, ...]()
    if not isinstance(text, str):
        images = tuple(_length(part.source) for part in text if part.type == "image")
        text = "\n".join(part.text for part in text if part.text)
    return Entry(
        id=place(start, n),
        kind="result",
        text=text,
        call=block.tool_use_id or "",
        failed=bool(block.is_error),
        images=images,
        **about,
    )


def _length(source: _Source | None) -> int:
    return max(len(bytes(source.data)) - 2, 0) if source is not None else 0


def summary(message: Message, start: int, about: dict[str, Any]) -> Entry:
    content = message.content
    if not isinstance(content, str):
        content = "\n".join(block.text for block in content or () if block.text)
    return Entry(id=place(start), kind="boundary", text=content, inserted=True, **about)


def answer(message: Message, start: int, failed: bool, about: dict[str, Any]) -> Sequence[Entry]:
    """An assistant's record: usually one block of an answer. Without any, it is an empty answer."""
    model, made_up = message.model, message.model == SYNTHETIC
    about["model"] = None if made_up else model
    if message.usage is not None and not made_up:
        about["tokens"] = message.usage.taken_in
    content = message.content
    if content is None or isinstance(content, str):
        content = [Block(type="text", text=content)]
    if not content:
        return (Entry(id=place(start), kind="assistant", inserted=made_up, failed=failed, **about),)
    return [_block(block, start, n, made_up, failed, about) for n, block in enumerate(content)]


def _block(block: Block, start: int, n: int, made_up: bool, failed: bool, about: dict[str, Any]) -> Entry:
    here = place(start, n)
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
