"""The messages of a 3.x store as entries. A message is made of blocks, a chunk of messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from segue.agents.reader import damaged, place
from segue.agents.vibe.lines import arguments, summary
from segue.core.transcript import Entry

ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
NOTHING = msgspec.Raw(b"")
PREVIOUS = "<previous_user_messages>"
"""After a compaction: here prompts are said once more."""


class Arguments(msgspec.Struct, frozen=True):
    raw: str | None = None


class _Thought(msgspec.Struct, frozen=True):
    text: str | None = None


class _Resource(msgspec.Struct, frozen=True):
    uri: str = ""
    text: str | None = None


class Block(msgspec.Struct, frozen=True):
    """Any block; in the journal a call has its arguments under another name."""

    type: str = ""
    text: str | None = None
    uri: str = ""
    data: msgspec.Raw = NOTHING
    resource: _Resource | None = None
    content: list[_Thought] | None = None
    id: str = ""
    name: str = ""
    arguments: Arguments | None = None
    arguments_json: str | None = None


class Message(msgspec.Struct, frozen=True):
    role: str = ""
    content: list[Block] = []
    name: str | None = None
    tool_call_id: str | None = None
    outcome: str | None = None


class Item(msgspec.Struct, frozen=True):
    message: Message
    source: str = "history"

    @property
    def opens(self) -> bool:
        return self.message.role == "user" and self.source == "history"


class _Context(msgspec.Struct, frozen=True):
    messages: list[msgspec.Raw] = []


class _Inline(msgspec.Struct, frozen=True):
    """A checkpoint that holds its messages itself."""

    context: _Context = _Context()


_items = msgspec.json.Decoder(list[Item])
_raws = msgspec.json.Decoder(list[msgspec.Raw])
_item = msgspec.json.Decoder(Item)
_inline = msgspec.json.Decoder(_Inline)


def of_chunk(body: bytes, start: int) -> list[tuple[int, Sequence[Entry]]]:
    """The messages of a chunk (or of a checkpoint that holds them itself), each with its place."""
    try:
        items: Sequence[Item | None] = _items.decode(body)
    except ERRORS:
        try:
            items = [item(raw) for raw in raws(body)]
        except ERRORS as error:
            return [(start, (damaged(start, f"a chunk that cannot be read: {error}"),))]
    found = []
    again = False
    for n, one in enumerate(items):
        found.append((start + n, entries(one, start + n, again=again)))
        if one is not None and one.message.role == "user" and one.source != "history":
            again = any(PREVIOUS in (block.text or "") for block in one.message.content)
    return found


def raws(body: bytes) -> list[msgspec.Raw]:
    """Raises one of ``ERRORS``."""
    if body.lstrip()[:1] == b"{":
        return _inline.decode(body).context.messages
    return _raws.decode(body)


def item(raw: msgspec.Raw | bytes) -> Item | None:
    try:
        return _item.decode(raw)
    except ERRORS:
        return None


def entries(one: Item | None, start: int, *, again: bool = False) -> Sequence[Entry]:
    if one is None:
        return (damaged(start, "not a message of Vibe"),)
    message = one.message
    if message.role == "user":
        return (_prompt(one, start, again),)
    if message.role == "assistant":
        return tuple(answer(message.content, start))
    if message.role == "tool":
        return (
            Entry(
                id=place(start),
                kind="result",
                text=words(message.content),
                tool=message.name or "",
                call=message.tool_call_id or "",
                failed=message.outcome not in (None, "success"),
                images=images(message.content),
            ),
        )
    return (Entry(id=place(start), kind="unknown", label=message.role, restored=False),)


def _prompt(one: Item, start: int, again: bool) -> Entry:
    said = words(one.message.content)
    left = summary(said) if not one.opens else None
    return Entry(
        id=place(start),
        kind="user" if left is None else "boundary",
        text=said if left is None else left,
        inserted=not one.opens,
        again=again and left is None,
        images=images(one.message.content),
    )


def answer(blocks: Sequence[Block], start: int, at_ms: int | None = None) -> Iterator[Entry]:
    n = 0
    for block in blocks:
        entry = _piece(block, place(start, n), at_ms)
        if entry is not None:
            yield entry
            n += 1
    if not n:
        yield Entry(id=place(start), kind="assistant", at_ms=at_ms)


def _piece(block: Block, where: str, at_ms: int | None) -> Entry | None:
    if block.type == "text":
        return Entry(id=where, kind="assistant", text=block.text, at_ms=at_ms) if block.text else None
    if block.type == "reasoning":
        said = "".join(one.text or "" for one in block.content or ()) or block.text or ""
        return Entry(id=where, kind="thinking", text=said, at_ms=at_ms)
    if block.type == "tool_call":
        given = block.arguments.raw if block.arguments is not None else block.arguments_json
        return Entry(
            id=where, kind="call", tool=block.name, input=arguments(given), call=block.id, at_ms=at_ms
        )
    if block.type == "image":
        return Entry(id=where, kind="assistant", images=(len(block.data),), at_ms=at_ms)
    return Entry(id=where, kind="unknown", label=block.type, at_ms=at_ms)


def words(blocks: Sequence[Block]) -> str:
    if len(blocks) == 1 and blocks[0].type == "text":
        return blocks[0].text or ""
    return "\n\n".join(said for block in blocks if (said := _said(block)))


def _said(block: Block) -> str | None:
    if block.type == "resource_link":
        return f"[resource: {block.uri}]"
    return block.resource.text if block.resource is not None else block.text


def images(blocks: Sequence[Block]) -> tuple[int, ...]:
    return tuple(len(block.data) for block in blocks if block.type == "image")


def told(value: Any) -> str:
    """A tool's structured output as text."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
