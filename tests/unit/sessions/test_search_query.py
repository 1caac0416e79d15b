"""What is typed becomes words; what is found becomes a line with its matches marked."""

from __future__ import annotations

import random
import sqlite3

import pytest

from segue.core.errors import Misuse
from segue.sessions.search.query import Term, fts, parsed
from segue.sessions.search.snippets import snippet

READ = {
    "one two": [Term(("one",)), Term(("two",))],
    '"one two" three': [Term(("one", "two")), Term(("three",))],
    "pars*": [Term(("pars",), open=True)],
    '"parse u"*': [Term(("parse", "u"), open=True)],
    "parse_url": [Term(("parse", "url"))],
    "foo.py": [Term(("foo", "py"))],
    'never "closed quote': [Term(("never",)), Term(("closed", "quote"))],
    "AND OR NOT NEAR(a b)": [Term((word,)) for word in ("AND", "OR", "NOT")]
    + [Term(("NEAR", "a")), Term(("b",))],
    "text:x -y ^z {q}": [Term(("text", "x")), Term(("y",)), Term(("z",)), Term(("q",))],
    "twice twice": [Term(("twice",))],
    "größer": [Term(("größer",))],
}


@pytest.mark.parametrize("text", READ)
def test_what_is_typed(text: str) -> None:
    assert list(parsed(text)) == READ[text]


@pytest.mark.parametrize("text", ["", "  ", '""', "***", "-> ?? ()", "_"])
def test_nothing_to_search_for(text: str) -> None:
    with pytest.raises(Misuse, match="no word"):
        parsed(text)


def test_no_input_is_an_error_of_syntax() -> None:
    rng = random.Random(4)
    pieces = [
        '"',
        "*",
        "(",
        ")",
        "AND",
        "NOT",
        "a",
        "b_c",
        "é",
        ":",
        "{",
        "}",
        "^",
        "+",
        "-",
        " ",
        "'",
        "\\",
        "\ud800",
        "文",
    ]
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE words USING fts5 (text, mark, content='')")
    tried = 0
    for _ in range(3_000):
        text = "".join(rng.choices(pieces, k=rng.randrange(1, 14)))
        try:
            terms = parsed(text)
        except Misuse:
            continue
        tried += 1
        database.execute("SELECT rowid FROM words WHERE words MATCH ?", (fts(terms),)).fetchall()
    database.close()
    assert tried > 2_000


SHOWN = [
    ("fix the Token now", "token", "fix the [Token] now"),
    ("call parse_url(x)", "parse_url", "call [parse_url](x)"),
    ("say parse URL", '"parse url"', "say [parse URL]"),
    ("a\n\n  b\tc", "b", "a [b] c"),
    ("xtoken tokenx token", "token", "xtoken tokenx [token]"),
    ("tokens here", "tok*", "[tok]ens here"),
    ("die Größe", "grosse", None),
    ("die Größe", "Große", "die [Größe]"),
    ("un café noir", "cafe", "un [café] noir"),
    ("nothing of it", "token", None),
    ("only one of them", "one two", None),
    ("\x1b[31mred\x1b[0m", "red", None),
    ("\x1b]0;x\x07 red", "red", "]0;x [red]"),
]


@pytest.mark.parametrize(("text", "query", "line"), SHOWN)
def test_a_snippet_marks_what_was_found(text: str, query: str, line: str | None) -> None:
    assert marked(text, query) == line


def test_a_snippet_shows_the_place_in_a_long_text() -> None:
    text = "start " + "filler words " * 400 + "the needle is here " + "and more words " * 400
    found = snippet(text, parsed("needle"))
    assert found is not None
    assert len(found.text) < 200
    assert [found.text[a:b] for a, b in found.highlights] == ["needle"]
    assert found.text.startswith("…")
    assert found.text.endswith("…")


def test_a_snippet_prefers_where_the_words_stand_together() -> None:
    text = "alpha " + "filler " * 200 + "alpha beta " + "filler " * 200 + "beta"
    line = marked(text, "alpha beta")
    assert line is not None
    assert "[alpha] [beta]" in line


def test_a_snippet_prefers_different_words_to_the_same_one_often() -> None:
    line = marked("the " * 40 + "filler " * 100 + "the needle " + "filler " * 100, "the needle")
    assert line is not None
    assert "[the] [needle]" in line


def test_highlights_hold_for_any_text() -> None:
    rng = random.Random(7)
    pieces = [
        "needle",
        "Needle",
        "é",
        "e\u0301",
        "\n",
        "\t",
        " ",
        "x",
        "文",
        "\x1b",
        "İ",
        "ß",
        "_",
        ".",
        "needles",
    ]
    terms = parsed("needle")
    for _ in range(2_000):
        text = "".join(rng.choices(pieces, k=rng.randrange(1, 80)))
        found = snippet(text, terms, width=60)
        if found is not None:
            assert all(found.text[a:b].lower() == "needle" for a, b in found.highlights), (text, found)
            assert found.highlights
            assert "\n" not in found.text
            assert "\x1b" not in found.text


def marked(text: str, query: str) -> str | None:
    found = snippet(text, parsed(query))
    if found is None:
        return None
    line = found.text
    for first, last in reversed(found.highlights):
        line = f"{line[:first]}[{line[first:last]}]{line[last:]}"
    return line
