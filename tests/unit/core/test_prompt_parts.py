"""A shortened text stays within its bytes, whole in its characters, and says what is missing."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.conversing import calm

from segue.core.prompt_parts import elide


def test_the_beginning_and_the_end_stay() -> None:
    shown = elide("a" * 5_000 + "z" * 5_000, 300)
    assert re.fullmatch(r"a+\n\[\.\.\. 9,\d\d\d bytes left out \.\.\.\]\nz+", shown)


def test_the_beginning_alone() -> None:
    assert re.fullmatch(
        r"a+\n\[\.\.\. 9,\d\d\d bytes left out \.\.\.\]", elide("a" * 10_000, 300, ending=False)
    )


@calm
@given(st.text(max_size=300), st.integers(0, 400), st.booleans())
def test_it_fits_and_its_figures_add_up(text: str, limit: int, ending: bool) -> None:
    shown = elide(text, limit, ending=ending)
    size = len(text.encode())
    assert len(shown.encode()) <= limit or (size <= limit and shown == text)
    mark = re.search(r"\n\[\.\.\. ([\d,]+) bytes left out \.\.\.\]\n?", shown)
    if shown != text and mark and "bytes left out" not in text:
        left_out = int(mark[1].replace(",", ""))
        assert len(shown.replace(mark[0], "").encode()) + left_out == size
