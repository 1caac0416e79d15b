"""What is written as TOML is read as the same."""

import datetime
import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from segue.core.toml import toml_text

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
plain = st.one_of(
    texts,
    st.booleans(),
    st.integers(-(2**62), 2**62),
    st.floats(allow_nan=False),
    st.just(datetime.date(2026, 1, 2)),
)
values: st.SearchStrategy[Any] = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6
)
entries = st.dictionaries(texts, values, max_size=3)


@given(st.dictionaries(st.sampled_from(["a", "b_c"]), entries), st.dictionaries(texts, entries, max_size=3))
def test_tables_come_back_as_they_were(flat: dict[str, Any], named: dict[str, Any]) -> None:
    tables = flat | ({"accounts": named} if named else {})
    assert tomllib.loads(toml_text(tables, frozenset({"accounts"}))) == tables
