"""What an attachment is, is told by its bytes; its name is only a name."""

from __future__ import annotations

import pytest
from tests.images import pdf, png

from segue.core.attachments import (
    ALL_LARGEST,
    LARGEST,
    MOST,
    Attachment,
    checked,
    file_name,
    media_type_of,
    refuse_many,
    safe_name,
    size_words,
)
from segue.core.errors import Misuse
from segue.core.model import Attached


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (png(), "image/png"),
        (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
        (b"GIF89a...", "image/gif"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\x10\0\0\0WAVEfmt ", "application/octet-stream"),
        (pdf(), "application/pdf"),
        ("größer\n".encode(), "text/plain"),
        (b"<svg onload='x'></svg>", "text/plain"),
        (b"a\0b", "application/octet-stream"),
        (b"\xe9", "application/octet-stream"),
    ],
)
def test_the_type_is_told_by_the_bytes(data: bytes, expected: str) -> None:
    assert media_type_of(data) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a b.png", "a b.png"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\a.png", "a.png"),
        ("..", "attachment"),
        ("", "attachment"),
        (".bashrc", "bashrc"),
        ("--image", "image"),
        ("a\nb\x1b[31m.png", "a_b_[31m.png"),
        ("x" * 300 + ".png", "x" * 109 + ".png"),
    ],
)
def test_a_name_is_the_last_part_of_a_path_and_harmless(name: str, expected: str) -> None:
    assert safe_name(name) == expected


@pytest.mark.parametrize(
    ("name", "media_type", "expected"),
    [
        ("a b,c.png", "image/png", "1-a-b-c.png"),
        ("photo.JPEG", "image/jpeg", "1-photo.jpeg"),
        ("photo.png", "image/jpeg", "1-photo.jpg"),
        ("notes", "text/plain", "1-notes.txt"),
        ("notes.md", "text/plain", "1-notes.md"),
        ("notes.png", "text/plain", "1-notes.txt"),
        ("@$(x).pdf", "application/pdf", "1-x.pdf"),
        ("ä.gif", "image/gif", "1-file.gif"),
    ],
)
def test_a_copy_is_named_for_the_cli(name: str, media_type: str, expected: str) -> None:
    assert file_name(1, Attached(name=name, media_type=media_type, bytes=1, id="x")) == expected


def test_limits_and_false_claims_are_refused() -> None:
    with pytest.raises(Misuse, match="is empty"):
        checked(Attachment("a.png", b""))
    with pytest.raises(Misuse, match="at most"):
        checked(Attachment("a.txt", b"x" * (LARGEST + 1)))
    with pytest.raises(Misuse, match="is not image/png: its bytes are text/plain"):
        checked(Attachment("a.png", b"<html>", "image/png"))
    with pytest.raises(Misuse, match="at most 8 attachments, not 9"):
        refuse_many(MOST + 1, 0)
    with pytest.raises(Misuse, match="together"):
        refuse_many(2, ALL_LARGEST + 1)
    claimed = checked(Attachment("data.json", b"{}", "application/json"))
    assert claimed.shown.media_type == "text/plain"


@pytest.mark.parametrize(("size", "words"), [(99, "99 bytes"), (34_200, "34 KB"), (2_500_000, "2.5 MB")])
def test_sizes_in_words(size: int, words: str) -> None:
    assert size_words(size) == words
