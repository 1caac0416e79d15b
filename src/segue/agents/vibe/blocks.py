"""A message of 3.x, made of blocks, and the same message as 2.x writes it: one text.

Blocks are joined here as Vibe itself joins them for the model, so that a session that was cut and taken in
again sends the bytes it sent before.

The messages of a 3.x store as entries. A message is made of blocks, a chunk of messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

import msgspec

from segue.agents.base import damaged, entry_id
from segue.agents.vibe.anchors import Damaged
from segue.agents.vibe.folder import arguments, summary_of
from segue.core.transcript import Entry

_SEPARATOR = "\n\n"


class _Arguments(msgspec.Struct, frozen=True):
    raw: str = ""


class _Resource(msgspec.Struct, frozen=True):
    uri: str = ""
    text: str | None = None


class _Block(msgspec.Struct, frozen=True):
    """Any block: text, a file that was mentioned, a picture, reasoning, a tool call."""

    type: str
    text: str | None = None
    uri: str = ""
    resource: _Resource = _Resource()
    data: str = ""
    mime_type: str = msgspec.field(name="mimeType", default="")
    content: list[dict[str, Any]] = []
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)
    id: str = ""
    name: str = ""
    arguments: _Arguments = _Arguments()


class BlockMessage(msgspec.Struct, frozen=True):
    role: str
    content: msgspec.Raw = msgspec.Raw(b"[]")
    name: str | None = None
    tool_call_id: str | None = None


_blocks = msgspec.json.Decoder(list[_Block])


def text_of(message: BlockMessage) -> str:
    """What the message says in words."""
    return _text(_parts(message))


def as_line(message: BlockMessage) -> bytes | None:
    """None for a picture that a tool or the model showed: 2.x has no place for one."""
    parts = _parts(message)
    pictures = [part for part in parts if part.type == "image"]
    if pictures and message.role != "user":
        return None
    match message.role:
        case "user":
            written = {"content": _text(parts), **_images(pictures)}
        case "assistant":
            written = {"content": _text(parts) or None, **_thought(parts), **_calls(parts)}
        case "tool":
            written = {"content": _text(parts), "name": message.name, "tool_call_id": message.tool_call_id}
        case _:
            return None
    return msgspec.json.encode({"role": message.role, **written}) + b"\n"


def _parts(message: BlockMessage) -> list[_Block]:
    try:
        return _blocks.decode(message.content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged from error


def _text(parts: list[_Block]) -> str:
    return _SEPARATOR.join(found for part in parts if (found := _words(part)) is not None)


def _words(part: _Block) -> str | None:
    if part.type == "text":
        return part.text
    if part.type == "resource_link":
        return f"[resource: {part.uri}]"
    if part.type != "resource" or part.resource.text is None:
        return None
    fence = "````"
    while fence in part.resource.text:
        fence += "`"
    return f"Resource: {escape(part.resource.uri, quote=True)}\n{fence}\n{part.resource.text}\n{fence}"


def _images(pictures: list[_Block]) -> dict[str, Any]:
    images = [
        {"source": {"kind": "inline", "data": one.data}, "alias": "image", "mime_type": one.mime_type}
        for one in pictures
    ]
    return {"images": images} if images else {}


def _thought(parts: list[_Block]) -> dict[str, Any]:
    """Reasoning, and what a provider sent along with it that only the provider can read."""
    said: list[str] = []
    sealed: list[Any] = []
    for part in parts:
        if part.type == "reasoning":
            said += [str(piece.get("text") or "") for piece in part.content]
            sealed += (part.meta or {}).get("vibe_reasoning_payloads") or []
    thought: dict[str, Any] = {"reasoning_content": "".join(said)} if any(said) else {}
    return thought | ({"reasoning_payloads": sealed} if sealed else {})


def _calls(parts: list[_Block]) -> dict[str, Any]:
    calls = [
        {
            "id": part.id,
            "index": index,
            "function": {"name": part.name, "arguments": part.arguments.raw},
            "type": "function",
        }
        for index, part in enumerate(part for part in parts if part.type == "tool_call")
    ]
    return {"tool_calls": calls} if calls else {}


ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
NOTHING = msgspec.Raw(b"")
PREVIOUS = "<previous_user_messages>"
"""After a compaction: here prompts are said once more."""


class Arguments(msgspec.Struct, frozen=True):
    raw: str | None = None


class _Thought(msgspec.Struct, frozen=True):
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
            items = [item_of(raw) for raw in raws(body)]
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


def item_of(raw: msgspec.Raw | bytes) -> Item | None:
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
        return tuple(answer_entries(message.content, start))
    if message.role == "tool":
        return (
            Entry(
                id=entry_id(start),
                kind="result",
                text=words_of(message.content),
                tool=message.name or "",
                call=message.tool_call_id or "",
                failed=message.outcome not in (None, "success"),
                images=images_of(message.content),
            ),
        )
    return (Entry(id=entry_id(start), kind="unknown", label=message.role, restored=False),)


def _prompt(one: Item, start: int, again: bool) -> Entry:
    said = words_of(one.message.content)
    left = summary_of(said) if not one.opens else None
    return Entry(
        id=entry_id(start),
        kind="user" if left is None else "boundary",
        text=said if left is None else left,
        inserted=not one.opens,
        again=again and left is None,
        images=images_of(one.message.content),
    )


def answer_entries(blocks: Sequence[Block], start: int, at_ms: int | None = None) -> Iterator[Entry]:
    n = 0
    for block in blocks:
        entry = _piece(block, entry_id(start, n), at_ms)
        if entry is not None:
            yield entry
            n += 1
    if not n:
        yield Entry(id=entry_id(start), kind="assistant", at_ms=at_ms)


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


def words_of(blocks: Sequence[Block]) -> str:
    if len(blocks) == 1 and blocks[0].type == "text":
        return blocks[0].text or ""
    return "\n\n".join(said for block in blocks if (said := _said(block)))


def _said(block: Block) -> str | None:
    if block.type == "resource_link":
        return f"[resource: {block.uri}]"
    return block.resource.text if block.resource is not None else block.text


def images_of(blocks: Sequence[Block]) -> tuple[int, ...]:
    return tuple(len(block.data) for block in blocks if block.type == "image")


def as_told(value: Any) -> str:
    """A tool's structured output as text."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
