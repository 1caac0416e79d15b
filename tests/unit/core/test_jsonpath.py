"""The minimal JSON path."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.core.json_values import Scalar, Step, fulfills, look_up, path_steps

RECORD = {
    "type": "message",
    "ok": True,
    "n": 1,
    "message": {"content": [{"text": "one"}, {"text": "two"}], "a.b": 7, "it's": 8, "no": None},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$", ()),
        ("$.a", ("a",)),
        ("a.b", ("a", "b")),
        ("$.a.b[0].c", ("a", "b", 0, "c")),
        ("$.a[-1]", ("a", -1)),
        ('$["a.b"]', ("a.b",)),
        ("$['a b'].x", ("a b", "x")),
        ("$[0][1]", (0, 1)),
        ("session-id", ("session-id",)),
        ("$set", ("$set",)),
        ("$.$set", ("$set",)),
    ],
)
def test_a_path_becomes_steps(path: str, found: tuple[Step, ...]) -> None:
    assert path_steps(path) == found


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$", RECORD),
        ("type", "message"),
        ("$.message.content[0].text", "one"),
        ("$.message.content[-1].text", "two"),
        ("$.message.content[2].text", None),
        ("$.message.content[-3]", None),
        ('$.message["a.b"]', 7),
        ('$.message["it\'s"]', 8),
        ("$.message.no", None),
        ("$.message.no.deeper", None),
        ("$.type[0]", None),
        ("$[0]", None),
        ("$.message.content.text", None),
    ],
)
def test_looking_finds_one_place_or_nothing(path: str, found: Any) -> None:
    assert look_up(RECORD, path) == found


@pytest.mark.parametrize(
    ("path", "rest"),
    [
        ("$.", "."),
        ("$.a..b", "..b"),
        ("$.a[*]", "[*]"),
        ("$.a[?(@.b)]", "[?(@.b)]"),
        ("$.a[0", "[0"),
        ("$.a b", " b"),
        ("", "."),
        ("1a", ".1a"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_place(path: str, rest: str) -> None:
    with pytest.raises(ValueError, match="is not a JSON path") as raised:
        path_steps(path)
    assert f'cannot read "{rest}"' in str(raised.value)


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        ({}, True),
        ({"type": "message"}, True),
        ({"type": "message", "$.message.content[0].text": "one"}, True),
        ({"type": "message", "$.message.content[0].text": "two"}, False),
        ({"missing": "x"}, False),
        ({"ok": True}, True),
        ({"ok": 1}, False),
        ({"n": True}, False),
        ({"n": 1}, True),
    ],
)
def test_a_record_fulfils_all_conditions_or_not(when: dict[str, Scalar], holds: bool) -> None:
    assert fulfills(RECORD, when) is holds


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=2), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(JSON, st.lists(st.sampled_from([".a", ".b", ".c", "[0]", "[-1]", "[2]", '["ab"]']), max_size=4))
def test_looking_never_fails(value: Any, path: list[str]) -> None:
    look_up(value, "$" + "".join(path))


@given(st.text().filter(lambda name: '"' not in name))
def test_any_name_without_quotes_can_be_quoted(name: str) -> None:
    assert look_up({name: "here"}, f'$["{name}"]') == "here"
