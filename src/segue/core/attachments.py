"""Attachments: files that go with a message. What they are is judged by their bytes, never by their names."""

from __future__ import annotations

import re
from hashlib import sha256

import msgspec

from segue.core.errors import Misuse
from segue.core.model import Attached, NewAttachment
from segue.core.request import PDF, TEXT

MOST = 8
"""The most attachments of one message."""
LARGEST = 10 << 20
"""The most bytes of one attachment."""
ALL_LARGEST = 20 << 20
"""The most bytes of all attachments of one message."""
MOST_SENT = 20
"""The most files that one turn sends, those of earlier messages included."""
LONGEST_NAME = 120
"""The longest name, in characters."""
OTHER = "application/octet-stream"
_ENDINGS = {
    "image/png": (".png",),
    "image/jpeg": (".jpg", ".jpeg"),
    "image/gif": (".gif",),
    "image/webp": (".webp",),
    PDF: (".pdf",),
}
_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", PDF),
)


class Attachment(msgspec.Struct, frozen=True):
    """A file to attach that is in memory. ``media_type`` is checked against the bytes; it can be left out."""

    name: str
    data: bytes
    media_type: str | None = None


def media_type_of(data: bytes) -> str:
    """What the bytes are. Text: UTF-8 without control characters other than white space."""
    for beginning, known in _BEGINNINGS:
        if data.startswith(beginning):
            return known
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if b"\0" in data:
        return OTHER
    try:
        data.decode()
    except UnicodeDecodeError:
        return OTHER
    return TEXT


def checked(given: Attachment) -> NewAttachment:
    """The attachment with a safe name and its real type, or ``Misuse``."""
    name, size = safe_name(given.name), len(given.data)
    if not size:
        raise Misuse(f"the attachment {name} is empty")
    refuse_large(name, size)
    found = media_type_of(given.data)
    if given.media_type in _ENDINGS and given.media_type != found:
        raise Misuse(f"the attachment {name} is not {given.media_type}: its bytes are {found}")
    return NewAttachment(
        Attached(id=sha256(given.data).hexdigest(), name=name, media_type=found, bytes=size), given.data
    )


def refuse_large(name: str, size: int) -> None:
    if size > LARGEST:
        raise Misuse(
            f"the attachment {name} has {size_words(size)}; at most {size_words(LARGEST)} are accepted"
        )


def refuse_many(count: int, size: int) -> None:
    if count > MOST:
        raise Misuse(f"a message can have at most {MOST} attachments, not {count}")
    if size > ALL_LARGEST:
        limit = f"at most {size_words(ALL_LARGEST)} are accepted"
        raise Misuse(f"the attachments have {size_words(size)} together; {limit}")


def safe_name(name: str) -> str:
    """The last part of the name, without what could be taken for a path, an option or a control character."""
    last = re.split(r"[/\\]", name)[-1]
    shown = "".join(sign if sign.isprintable() else "_" for sign in last).strip().lstrip(".-")
    if len(shown) <= LONGEST_NAME:
        return shown or "attachment"
    stem, dot, ending = shown.rpartition(".")
    return shown[:LONGEST_NAME] if not dot or len(ending) > 10 else f"{stem[: LONGEST_NAME - 11]}.{ending}"


def file_name(number: int, attached: Attached) -> str:
    """The name of a copy for a CLI: letters, digits and dashes, with the ending that its type demands."""
    stem, dot, ending = attached.name.rpartition(".")
    endings = _ENDINGS.get(attached.media_type)
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", stem if dot else attached.name).strip("-") or "file"
    own = f".{ending.lower()}" if dot and re.fullmatch(r"[A-Za-z0-9]{1,10}", ending) else ""
    if endings is None:
        return f"{number}-{plain[:60]}{'.txt' if attached.media_type == TEXT and own in _BINARY else own}"
    return f"{number}-{plain[:60]}{own if own in endings else endings[0]}"


_BINARY = ("", *(ending for endings in _ENDINGS.values() for ending in endings))


def size_words(size: int) -> str:
    """``34 KB``."""
    if size < 1_000:
        return f"{size} bytes"
    return f"{size / 1_000:.0f} KB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"
