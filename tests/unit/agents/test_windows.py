"""The two ends of a file, and a session at a glance made of what stands there."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest

from segue.agents import decoding
from segue.agents.base import StoredSession, entry_id
from segue.agents.decoding import login_fingerprint, moment_ms
from segue.agents.windows import Ends, Window, brief_of, ends_of, lines_of, read_ends, windows_of
from segue.core.transcript import Entry
from segue.core.view import UNREADABLE


def stored(size: int) -> StoredSession:
    return StoredSession(id="x", home=Path("/h"), file="/h/x", size=size, changed_ns=9_000_000)


def user(text: str, start: int = 0, **more: object) -> Entry:
    return msgspec.convert({"id": entry_id(start), "kind": "user", "text": text, **more}, Entry)


@pytest.mark.parametrize(
    ("size", "head", "tail"),
    [(0, b"", b""), (6, b"abcdef", b""), (7, b"abcd", b"fg"), (9, b"abcd", b"hi")],
)
def test_the_ends_meet_or_leave_something_out(size: int, head: bytes, tail: bytes) -> None:
    ends = ends_of(io.BytesIO(b"abcdefghi"[:size]), 4, 2)
    assert (ends.head, ends.tail, ends.size, ends.whole) == (head, tail, size, not tail)
    assert ends.last == (tail or head)


def test_only_whole_lines_count_each_at_its_place(tmp_path: Path) -> None:
    text = b"one\n\ntwo\nthree\nfour\nfive"
    (tmp_path / "file").write_bytes(text)
    assert list(lines_of(read_ends(tmp_path / "file"))) == [
        *((0, b"one"), (5, b"two"), (9, b"three"), (15, b"four"))
    ]
    found = list(lines_of(ends_of(io.BytesIO(text), 7, 11)))
    assert found == [(0, b"one"), (15, b"four")]
    assert all(text[start:].startswith(line) for start, line in found)


def test_windows_hold_the_entries_of_either_end() -> None:
    ends = ends_of(io.BytesIO(b"a\nb\nc\nd\n"), 4, 4)
    assert ends.whole
    assert [
        window.size for window in windows_of(ends, lambda line, start: (user(line.decode(), start),))
    ] == [8]
    ends = ends_of(io.BytesIO(b"a\nb\nc\nd\ne\n"), 4, 4)
    head, tail = windows_of(ends, lambda line, start: (user(line.decode(), start),))
    assert [entry.id for entry in (*head.entries, *tail.entries)] == ["0.0", "2.0", "8.0"]
    assert (head.size, tail.size) == (4, 2)


def test_a_first_line_longer_than_the_first_window_leaves_that_empty() -> None:
    text = b"x" * 9 + b"\nfour\nfive\n"
    windows = windows_of(ends_of(io.BytesIO(text), 4, 11), lambda line, start: (user(line.decode(), start),))
    assert [[entry.text for entry in window.entries] for window in windows] == [[], ["four", "five"]]
    brief = brief_of(stored(len(text)), windows)
    assert (brief.first_prompt, brief.last_prompt, brief.messages_estimated) == (None, "five", True)


def test_a_brief_of_all_of_a_session_is_exact() -> None:
    entries = [
        user(" first ", at_ms=5),
        Entry(id="1.0", kind="assistant", text="yes", model="m", tokens=70, at_ms=6),
        user("context", inserted=True),
        user("second"),
    ]
    brief = brief_of(stored(100), [Window(entries, 100)])
    assert (brief.first_prompt, brief.last_prompt, brief.title_by) == ("first", "second", "prompt")
    assert (brief.messages, brief.messages_estimated, brief.empty) == (3, False, False)
    assert (brief.created_ms, brief.last_used_ms, brief.model, brief.context) == (5, 6, "m", 70)


def test_what_lies_between_the_windows_is_estimated() -> None:
    brief = brief_of(stored(1_000), [Window([user("a"), user("b")], 50), Window([user("y"), user("z")], 50)])
    assert (brief.messages, brief.messages_estimated) == (40, True)
    assert (brief.first_prompt, brief.last_prompt) == ("a", "z")
    later = brief_of(stored(1_000), [Window([], 50), Window([user("z")], 50)])
    assert (later.first_prompt, later.last_prompt, later.title) == (None, "z", None)


def test_a_session_in_which_nobody_spoke_is_empty() -> None:
    brief = brief_of(stored(0), windows_of(Ends(b"", b"", 0), lambda line, start: ()))
    assert (brief.empty, brief.messages, brief.last_used_ms) == (True, 0, 9)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-01-02T03:04:05.678Z", 1_767_323_045_678),
        ("2026-01-02T03:04:05.678901+00:00", 1_767_323_045_679),
        (None, None),
        ("", None),
        ("yesterday", None),
    ],
)
def test_moments(text: str | None, ms: int | None) -> None:
    assert moment_ms(text) == ms


class Login(msgspec.Struct, frozen=True):
    user: str | None = None


def fingerprint(path: Path) -> str | None:
    return login_fingerprint(path, Login, lambda login: login.user)


def test_a_login_is_told_by_its_hash(tmp_path: Path) -> None:
    path = tmp_path / "login.json"
    assert fingerprint(path) is None
    path.write_bytes(b'{"user": "ann"}')
    ann = fingerprint(path)
    assert ann is not None
    assert "ann" not in ann
    path.write_bytes(b'{"user": "bob"}')
    assert fingerprint(path) not in (None, ann)
    path.write_bytes(b"{}")
    assert fingerprint(path) is None


@pytest.mark.parametrize("broken", [b"", b'{"user": "an', b"\xff"])
def test_a_broken_login_file_is_read_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: bytes
) -> None:
    path = tmp_path / "login.json"
    path.write_bytes(b'{"user": "ann"}')
    ann = fingerprint(path)
    path.write_bytes(broken)
    monkeypatch.setattr(decoding, "REREAD_S", 0.0)
    assert fingerprint(path) == UNREADABLE
    monkeypatch.setattr("time.sleep", lambda _: path.write_bytes(b'{"user": "ann"}'))
    assert fingerprint(path) == ann
