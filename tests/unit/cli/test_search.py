"""A match among other words: what is around it is seen, however long the line is."""

from __future__ import annotations

import pytest

from segue.cli.sessions.search import mark_words
from segue.sessions.search.search import Hit


def hit(snippet: str, *words: str) -> Hit:
    places = tuple((snippet.index(word), snippet.index(word) + len(word)) for word in words)
    return Hit(
        agent="claude",
        account=None,
        session="s",
        path="p",
        cwd=None,
        place="0",
        kind="user",
        at=None,
        snippet=snippet,
        highlights=places,
        score=1.0,
    )


BEFORE, BEHIND = " ".join(["before"] * 20), " ".join(["behind"] * 20)


@pytest.mark.parametrize(
    ("snippet", "words", "room", "seen"),
    [
        ("all of it", ["of"], 40, "all [of] it"),
        (f"the token {BEHIND}", ["token"], 22, "the [token] behind be…"),
        (f"{BEFORE} token {BEHIND}", ["token"], 32, "…e before [token] behind behind…"),
        (f"{BEFORE} token", ["token"], 32, "…e before [token]"),
        (f"one {BEHIND} two", ["one", "two"], 24, "[one] behind behind b…"),
        (f"{BEFORE} words", [], 20, "before before befor…"),
    ],
)
def test_what_is_around_the_first_match_is_shown(
    snippet: str, words: list[str], room: int, seen: str
) -> None:
    assert mark_words(hit(snippet, *words), room, colour=False) == seen
