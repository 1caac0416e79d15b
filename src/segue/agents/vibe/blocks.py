"""The messages of a 3.x store, made of blocks: as types, as entries, and as lines of 2.x.

The terminal's view of a session and the journal contain the same blocks (see ``store``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

import msgspec

from segue.agents.base import damaged, entry_id
from segue.agents.decoding import DAMAGE
from segue.agents.vibe.anchors import Damaged
from segue.agents.vibe.folder import arguments, summary_of
from segue.core.json_values import as_items, as_table
from segue.core.transcript import Entry

HISTORY = "history"
"""The source of a turn's own messages; a message that Vibe inserted has another one."""
_SEPARATOR = "\n\n"
_EMPTY_TEXT, _EMPTY_LIST = msgspec.Raw(b'""'), msgspec.Raw(b"[]")
_PREVIOUS = "<previous_user_messages>"
"""After a compaction: from here on, prompts are repeated."""


class _Arguments(msgspec.Struct, frozen=True):
    raw: str | None = None


class _Resource(msgspec.Struct, frozen=True):
    uri: str = ""
    text: str | None = None


class _Thought(msgspec.Struct, frozen=True):
    text: str | None = None


class Block(msgspec.Struct, frozen=True):
    """Text, a file that was mentioned, a picture, reasoning, or a tool call."""

    type: str = ""
    text: str | None = None
    uri: str = ""
    data: msgspec.Raw = _EMPTY_TEXT
    mime_type: str | None = msgspec.field(name="mimeType", default=None)
    resource: _Resource | None = None
    content: list[_Thought] | None = None
    meta: Any = msgspec.field(name="_meta", default=None)
    id: str = ""
    name: str = ""
    arguments: _Arguments | None = None
    arguments_json: str | None = None
    """In the journal, instead of ``arguments``."""


class Message(msgspec.Struct, frozen=True):
    role: str = ""
    content: msgspec.Raw = _EMPTY_LIST
    name: str | None = None
    tool_call_id: str | None = None
    outcome: Any = None


class Item(msgspec.Struct, frozen=True):
    """A message in a chunk."""

    message: Message
    source: str = HISTORY
    turn_index: Any = None

    @property
    def role(self) -> str:
        return self.message.role

    @property
    def opens(self) -> bool:
        return self.role == "user" and self.source == HISTORY

    def text(self) -> str:
        return sent_text(self.message.content)

    def line(self) -> bytes | None:
        return as_line(self.message)


class _Context(msgspec.Struct, frozen=True):
    messages: list[msgspec.Raw] = []


class _Inline(msgspec.Struct, frozen=True):
    """A checkpoint that contains its messages itself."""

    context: _Context = _Context()


_blocks = msgspec.json.Decoder(list[Block])
_raws = msgspec.json.Decoder(list[msgspec.Raw])
_item = msgspec.json.Decoder(Item)
_items = msgspec.json.Decoder(list[Item])
_inline = msgspec.json.Decoder(_Inline)


def raws_of(body: bytes) -> list[msgspec.Raw]:
    """The messages of a chunk, or of a checkpoint that contains them. Raises one of ``DAMAGE``."""
    if body.lstrip()[:1] == b"{":
        return _inline.decode(body).context.messages
    return _raws.decode(body)


def items_of(body: bytes) -> list[Item]:
    """The messages of a chunk or a checkpoint, decoded."""
    return [_item.decode(raw) for raw in raws_of(body)] if body.lstrip()[:1] == b"{" else _items.decode(body)


def item_of(raw: msgspec.Raw | bytes) -> Item | None:
    try:
        return _item.decode(raw)
    except DAMAGE:
        return None


def blocks_of(content: msgspec.Raw) -> list[Block] | None:
    """The blocks of a message; None if they cannot be read."""
    try:
        return _blocks.decode(content)
    except DAMAGE:
        return None


# --- as they are sent to the model -----------------------------------------------------------------


def sent_text(content: msgspec.Raw) -> str:
    """Joined as Vibe joins blocks for the model, so that a session that was cut sends the same bytes."""
    return _joined(_decoded(content))


def as_line(message: Message) -> bytes | None:
    """The message as 2.x writes it; None for an image from a tool or the model, which 2.x cannot store."""
    content = _decoded(message.content)
    pictures = [block for block in content if block.type == "image"]
    if pictures and message.role != "user":
        return None
    match message.role:
        case "user":
            written = {"content": _joined(content), **_images(pictures)}
        case "assistant":
            written = {"content": _joined(content) or None, **_thought(content), **_calls(content)}
        case "tool":
            named = {"name": message.name, "tool_call_id": message.tool_call_id}
            written = {"content": _joined(content), **named}
        case _:
            return None
    return msgspec.json.encode({"role": message.role, **written}) + b"\n"


def _decoded(content: msgspec.Raw) -> list[Block]:
    blocks = blocks_of(content)
    if blocks is None or not all(block.type for block in blocks):
        raise Damaged
    return blocks


def _joined(blocks: Sequence[Block]) -> str:
    return _SEPARATOR.join(text for block in blocks if (text := _sent(block)) is not None)


def _sent(block: Block) -> str | None:
    if block.type == "text":
        return block.text
    if block.type == "resource_link":
        return f"[resource: {block.uri}]"
    if block.type != "resource" or block.resource is None or block.resource.text is None:
        return None
    fence = "````"
    while fence in block.resource.text:
        fence += "`"
    return f"Resource: {escape(block.resource.uri, quote=True)}\n{fence}\n{block.resource.text}\n{fence}"


def _images(pictures: Sequence[Block]) -> dict[str, Any]:
    images = [
        {"source": {"kind": "inline", "data": one.data}, "alias": "image", "mime_type": one.mime_type or ""}
        for one in pictures
    ]
    return {"images": images} if images else {}


def _thought(blocks: Sequence[Block]) -> dict[str, Any]:
    """Reasoning, and the encrypted payloads that a provider sent with it."""
    texts: list[str] = []
    payloads: list[Any] = []
    for block in blocks:
        if block.type == "reasoning":
            texts += [piece.text or "" for piece in block.content or ()]
            payloads += as_items(as_table(block.meta).get("vibe_reasoning_payloads"))
    thought: dict[str, Any] = {"reasoning_content": "".join(texts)} if any(texts) else {}
    return thought | ({"reasoning_payloads": payloads} if payloads else {})


def _calls(blocks: Sequence[Block]) -> dict[str, Any]:
    calls = [
        {
            "id": block.id,
            "index": index,
            "function": {"name": block.name, "arguments": (block.arguments or _Arguments()).raw or ""},
            "type": "function",
        }
        for index, block in enumerate(block for block in blocks if block.type == "tool_call")
    ]
    return {"tool_calls": calls} if calls else {}


# --- as entries ------------------------------------------------------------------------------------


def of_chunk(body: bytes, start: int) -> list[tuple[int, Sequence[Entry]]]:
    """The entries of a chunk (or of a checkpoint that contains its messages), each with its place."""
    try:
        items: Sequence[Item | None] = _items.decode(body)
    except DAMAGE:
        try:
            items = [item_of(raw) for raw in raws_of(body)]
        except DAMAGE as error:
            return [(start, (damaged(start, f"a chunk that cannot be read: {error}"),))]
    placed: list[tuple[int, Sequence[Entry]]] = []
    again = False
    for place, item in enumerate(items, start):
        content = blocks_of(item.message.content) if item is not None else None
        if item is None or content is None:
            placed.append((place, (damaged(place, "not a Vibe message"),)))
            continue
        placed.append((place, _entries(item, content, place, again)))
        if item.role == "user" and not item.opens:
            again = any(_PREVIOUS in (block.text or "") for block in content)
    return placed


def _entries(item: Item, content: Sequence[Block], start: int, again: bool) -> Sequence[Entry]:
    message = item.message
    if message.role == "user":
        return (_prompt(item, content, start, again),)
    if message.role == "assistant":
        return tuple(answer_entries(content, start))
    if message.role == "tool":
        return (
            Entry(
                id=entry_id(start),
                kind="result",
                text=words_of(content),
                tool=message.name or "",
                call=message.tool_call_id or "",
                failed=message.outcome not in (None, "success"),
                images=images_of(content),
            ),
        )
    return (Entry(id=entry_id(start), kind="unknown", label=message.role, restored=False),)


def _prompt(item: Item, content: Sequence[Block], start: int, again: bool) -> Entry:
    words = words_of(content)
    summary = summary_of(words) if not item.opens else None
    return Entry(
        id=entry_id(start),
        kind="user" if summary is None else "boundary",
        text=words if summary is None else summary,
        inserted=not item.opens,
        again=again and summary is None,
        images=images_of(content),
    )


def answer_entries(blocks: Sequence[Block], start: int, at_ms: int | None = None) -> Iterator[Entry]:
    n = 0
    for block in blocks:
        entry = _answer_entry(block, entry_id(start, n), at_ms)
        if entry is not None:
            yield entry
            n += 1
    if not n:
        yield Entry(id=entry_id(start), kind="assistant", at_ms=at_ms)


def _answer_entry(block: Block, where: str, at_ms: int | None) -> Entry | None:
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
        return Entry(id=where, kind="assistant", images=(image_size(block),), at_ms=at_ms)
    return Entry(id=where, kind="unknown", label=block.type, at_ms=at_ms)


def words_of(blocks: Sequence[Block]) -> str:
    """The text of blocks as it is shown."""
    if len(blocks) == 1 and blocks[0].type == "text":
        return blocks[0].text or ""
    return _SEPARATOR.join(text for block in blocks if (text := _shown(block)))


def _shown(block: Block) -> str | None:
    if block.type == "resource_link":
        return f"[resource: {block.uri}]"
    return block.resource.text if block.resource is not None else block.text


def images_of(blocks: Sequence[Block]) -> tuple[int, ...]:
    return tuple(image_size(block) for block in blocks if block.type == "image")


def image_size(block: Block) -> int:
    """The size of the data in the file, where it is text, without the quotes."""
    return len(block.data) - 2


def output_text(value: Any) -> str:
    """A tool's structured output as text."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
