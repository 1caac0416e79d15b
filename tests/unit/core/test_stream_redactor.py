"""Secrets in a stream of events, whole and in fragments."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from segue.core import events as ev
from segue.core.redact import MASK, Redactor, StreamRedactor

SECRET = "abcabcabd-secret"


def shown(pieces: list[str]) -> str:
    cleaning = StreamRedactor(Redactor([SECRET]))
    events = [event for piece in pieces for event in cleaning(ev.TextDelta(piece))] + cleaning.rest()
    assert all(isinstance(event, ev.TextDelta) for event in events)
    return "".join(event.text for event in events if isinstance(event, ev.TextDelta))


@given(
    st.lists(st.sampled_from(["abc", "a", SECRET, "abcabcabd", "-secret", " plain ", "x"]), max_size=8),
    st.data(),
)
def test_however_it_is_cut_the_text_is_that_of_the_whole(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=10)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert shown(pieces) == text.replace(SECRET, MASK)


def test_what_waits_comes_before_the_next_event() -> None:
    cleaning = StreamRedactor(Redactor([SECRET]))
    assert list(cleaning(ev.TextDelta("so abc"))) == [ev.TextDelta("so ")]
    assert list(cleaning(ev.Text("so abc"))) == [ev.TextDelta("abc"), ev.Text("so abc")]
