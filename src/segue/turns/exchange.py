"""Export and import of conversations: Markdown to read, JSON to read and to import.

An export names the session of an answer only by a short hash: with the id itself, a reader could continue the
session.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from segue.config.schema import is_name
from segue.core.attachments import Attachment, size_words
from segue.core.errors import Misuse
from segue.core.ids import conversation_key, short_id
from segue.core.json_values import decode
from segue.core.model import Message, MessageKind, NewAttachment, Voice
from segue.core.turn import status_of
from segue.core.usage import Usage
from segue.core.view import mark_parts, old_account_mark
from segue.store.records import Conversation, LogRow
from segue.store.store import Store
from segue.system import clock
from segue.turns.request import LONGEST

SCHEMA = 1
BOM = b"\xef\xbb\xbf"
"""The byte order mark that some editors put before a text."""
LATER = {"adopt": "its Segue was killed, its agent still runs", "recover": "not recorded yet"}
"""Remarks for a turn that is not settled."""
LATEST_MS = 1 << 48
"""Times beyond this do not fit an id."""


class AttachmentLine(msgspec.Struct, frozen=True, kw_only=True):
    """An attachment, with its bytes as base64. An import judges it by its bytes."""

    name: str
    media_type: str = ""
    size: int = msgspec.field(default=0, name="bytes")
    id: str = ""
    data: bytes


class Line(msgspec.Struct, frozen=True, kw_only=True, rename={"sender": "from"}):
    """One message. The fields about its turn are for readers; an import does not need them."""

    sender: Literal["user", "assistant"]
    text: str
    attachments: tuple[AttachmentLine, ...] = ()
    agent: str
    role: str | None = None
    account: str | None = None
    created: int = 0
    edited: int | None = None
    blank: bool = False
    kind: MessageKind = "said"
    under: tuple[str, ...] = ()
    mode: str | None = None
    status: str | None = None
    state: str | None = None
    recovery: str | None = None
    model: str | None = None
    session: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    cost_estimated: bool | None = None


class Export(msgspec.Struct, frozen=True, kw_only=True):
    schema: int
    key: str
    created: int = 0
    forked_from: str | None = None
    messages: tuple[Line, ...] = ()


def export_of(store: Store, conversation: Conversation) -> Export:
    under = {message.id: message.under for message in store.messages(conversation.id)}
    rows = store.log(conversation.id)
    return Export(
        schema=SCHEMA,
        key=conversation.key,
        created=conversation.created_ms,
        forked_from=conversation.forked_from,
        messages=tuple(_line(row, under.get(row.id, ()), _attachments(store, row)) for row in rows),
    )


def json(export: Export) -> str:
    """As JSON, made message by message: nothing else in the process could run while all of it is encoded."""
    if not export.messages:
        return _pretty(export) + "\n"
    begin = _pretty(msgspec.structs.replace(export, messages=())).removesuffix("[]\n}")
    lines = ",\n".join("    " + _pretty(line).replace("\n", "\n    ") for line in export.messages)
    return f"{begin}[\n{lines}\n  ]\n}}\n"


def _pretty(value: Export | Line) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def markdown(export: Export) -> str:
    """The dialogue for readers: a heading for each message, its text unchanged."""
    parts = [f"# {export.key}"]
    for number, line in enumerate(export.messages, 1):
        name = f"{line.agent} ({line.role})" if line.role else line.agent
        who = f"you → {name}" if line.sender == "user" else name
        unanswered = line.state or line.status or "" if line.sender == "user" and line.status != "ok" else ""
        later = LATER.get(line.recovery or "", "")
        notes = (line.mode or "", _money(line), "edited" if line.edited else "", unanswered, later)
        remarks = " · ".join(note for note in notes if note)
        parts.append(f"## #{number} {who}" + (f" · {remarks}" if remarks else ""))
        parts.append(line.text.strip("\n"))
        parts += [f"Attached: {each.name} ({size_words(each.size)})" for each in line.attachments]
    return "\n\n".join(parts) + "\n"


def _money(line: Line) -> str:
    usd, sign = line.cost_usd, "~$" if line.cost_estimated else "$"
    return "" if usd is None else f"{sign}{usd:.3f}" if usd >= 0.001 or usd == 0 else f"< {sign}0.001"


def read(data: bytes) -> Export:
    """An export, or ``Misuse`` that says what is wrong with it."""
    try:
        export = decode(data.removeprefix(BOM), Export)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Misuse(f"this is not an export of a conversation (segue export KEY --json): {error}") from None
    if export.schema != SCHEMA:
        raise Misuse(f"this export has schema {export.schema}; this version of Segue reads {SCHEMA}")
    if not export.messages:
        raise Misuse("this export has no messages")
    for number, line in enumerate(export.messages, 1):
        wrong = _wrong(line)
        if wrong:
            raise Misuse(f"message {number} of this export {wrong}")
    return export


def _wrong(line: Line) -> str:
    """Why a message cannot be imported; empty if it can."""
    if not line.text.strip():
        return "has no text"
    if not is_name(line.agent):
        return f'names the agent "{line.agent[:60]}", which is not a valid name'
    if line.account is not None and not is_name(line.account):
        return f'names the account "{line.account[:60]}", which is not a valid name'
    if line.role is not None and not (0 < len(line.role) <= LONGEST and line.role.isprintable()):
        return f"names the role {line.role[:60]!r}, which is not a valid name"
    return "" if 0 <= line.created < LATEST_MS else f"has the time {line.created}, which is not valid"


def take_in(store: Store, export: Export, key: str | None) -> Conversation:
    """A new conversation from an export; its agents have no sessions in it yet."""
    now = clock.now_ms()
    wanted = conversation_key(key if key is not None else export.key)
    last = export.messages[-1]
    conversation = Conversation(
        id=_id(now),
        key=wanted,
        agent=last.agent,
        account=last.account or "",
        role=last.role or "",
        created_ms=now,
        updated_ms=now,
    )
    said = list(_messages(export.messages, now))
    files = {
        message.id: _files(line)
        for (message, _), line in zip(said, export.messages, strict=True)
        if line.attachments
    }
    store.add(conversation, said, [line.created or now for line in export.messages], files)
    return conversation


def _files(line: Line) -> tuple[NewAttachment, ...]:
    """The attachments of a message that is imported, checked like those of a new one."""
    from segue.turns.attachments import load

    return load([Attachment(each.name, each.data) for each in line.attachments], Path(), {})


def _messages(lines: Iterable[Line], now: int) -> Iterable[tuple[Message, str]]:
    for line in lines:
        yield (
            Message(
                id=_id(line.created or now),
                sender=line.sender,
                voice=Voice(line.agent, line.role or ""),
                account=line.account or "",
                under=_under(line),
                blank=line.blank,
                kind=line.kind,
                size=len(line.text.encode()),
            ),
            line.text,
        )


def _under(line: Line) -> tuple[str, ...]:
    """The marks of a message. An older export has none, or has no logins."""
    own = line.agent, line.account or ""
    named = any(mark_parts(each)[:2] == own for each in line.under)
    return tuple(sorted({*line.under, *(() if named else (old_account_mark(*own),))}))


def _attachments(store: Store, row: LogRow) -> tuple[AttachmentLine, ...]:
    return tuple(
        AttachmentLine(
            name=each.name,
            media_type=each.media_type,
            size=each.bytes,
            id=each.id,
            data=store.attachment_data(each.id) or b"",
        )
        for each in row.attachments
    )


def _line(row: LogRow, under: tuple[str, ...], attachments: tuple[AttachmentLine, ...]) -> Line:
    turn = row.turn.told if row.turn is not None and row.sender == "assistant" else None
    return Line(
        sender=row.sender,
        text=row.text,
        attachments=attachments,
        agent=row.voice.agent,
        role=row.voice.role or None,
        account=row.account or None,
        created=row.created_ms,
        edited=row.edited_ms,
        blank=row.blank,
        kind=row.kind,
        under=under,
        mode=turn.mode if turn is not None else None,
        status=status_of(row.turn.state) if row.turn is not None else None,
        state=row.turn.state if row.turn is not None else None,
        recovery=row.turn.recovery if row.turn is not None else None,
        model=turn.model if turn is not None else None,
        session=short_id(turn.session_id) if turn is not None and turn.session_id else None,
        usage=turn.usage if turn is not None else None,
        cost_usd=turn.cost_usd if turn is not None else None,
        cost_estimated=turn.cost_estimated if turn is not None else None,
    )


def _id(ms: int) -> str:
    return clock.new_id(ms)
