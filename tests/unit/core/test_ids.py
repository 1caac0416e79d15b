from __future__ import annotations

import pytest

from segue.core import ids
from segue.core.errors import Misuse


@pytest.mark.parametrize("key", ["a", "fix-auth", "team/app@v1.2~3", "A_b.c", "x" * 200, ".hidden", "a..b"])
def test_a_conversation_key_comes_back_as_it_is(key: str) -> None:
    assert ids.conversation_key(key) == key


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("fix the bug", 'did you forget the key? segue run KEY "fix the bug"'),
        ("", "is not a conversation key"),
        ("   ", "is not a conversation key"),
        ("x" * 201, "1 to 200"),
        ("a\nb", '"a b" is not'),
        ("a\n", "is not a conversation key"),
        ("schlüssel", "letters, digits"),
        ("-rf", "starts like an option"),
        ("--json", "starts like an option"),
        ("..", 'contains ".." as a path part'),
        ("a/../b", 'contains ".." as a path part'),
    ],
)
def test_what_is_no_key_is_refused_in_one_line(key: str, said: str) -> None:
    with pytest.raises(Misuse) as refused:
        ids.conversation_key(key)
    assert said in refused.value.message
    assert "\n" not in refused.value.message
    assert len(refused.value.message) < 300


def test_an_empty_key_is_not_suggested_as_a_prompt() -> None:
    with pytest.raises(Misuse) as refused:
        ids.conversation_key("")
    assert "segue run" not in refused.value.message


def test_a_uuid_is_made_canonical() -> None:
    assert ids.checked_uuid("0199A0B1-0000-7000-8000-0123456789AB") == "0199a0b1-0000-7000-8000-0123456789ab"


@pytest.mark.parametrize(
    "text",
    ["", "x", "0199a0b1000070008000012345678 9ab", "--resume", "0199a0b1-0000-7000-8000-0123456789ab\n"],
)
def test_what_is_no_uuid_is_refused(text: str) -> None:
    with pytest.raises(Misuse):
        ids.checked_uuid(text)


@pytest.mark.parametrize("text", ["abc", "2026:01:02-x.y", "A" * 200])
def test_a_native_id_comes_back_as_it_is(text: str) -> None:
    assert ids.native_id(text) == text


@pytest.mark.parametrize("text", ["", "-x", "../x", "a/b", "a..b", "a b", "a\0", "A" * 201, ".x"])
def test_a_native_id_is_never_a_flag_or_a_path(text: str) -> None:
    with pytest.raises(Misuse):
        ids.native_id(text)


def test_a_flag_holds_its_value() -> None:
    assert ids.flag("resume", "-x --y") == "--resume=-x --y"
    with pytest.raises(Misuse, match="NUL"):
        ids.flag("resume", "a\0b")


def test_ids_sort_by_time_and_differ_by_chance() -> None:
    early, late = ids.id_of(1_700_000_000_000, b"\xff" * 10), ids.id_of(1_700_000_000_001, b"\0" * 10)
    assert early < late
    assert len(early) == 26
    assert ids.conversation_key(early) == early == early.lower()
    assert ids.id_of(5, b"\0" * 10) != ids.id_of(5, b"\0" * 9 + b"\1")
    assert ids.id_of(0, b"\0" * 10) == "0" * 26
    assert ids.id_of((1 << 48) - 1, b"\xff" * 10) == "7" + "z" * 25


@pytest.mark.parametrize(("now", "size"), [(-1, 10), (1 << 48, 10), (0, 9), (0, 11)])
def test_an_id_takes_just_so_many_bits(now: int, size: int) -> None:
    with pytest.raises(ValueError, match="48 bits"):
        ids.id_of(now, b"\0" * size)


def test_a_session_is_shown_by_a_short_hash() -> None:
    shown = ids.short_id("0199a0b1-0000-7000-8000-0123456789ab")
    assert len(shown) == 8
    assert shown not in "0199a0b1-0000-7000-8000-0123456789ab"
    assert shown == ids.short_id("0199a0b1-0000-7000-8000-0123456789ab") != ids.short_id("x")
