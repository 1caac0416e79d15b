"""The part of a text around a match, on one line, with the positions of the words in it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice

import msgspec

from segue.sessions.search.query import Term, folded

WIDTH = 160
BEFORE = 50
"""How many characters are shown before the first match."""
MOST = 50
_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]+")
"""Including control characters and bidirectional controls."""


Found = list[list[tuple[int, int]]]
"""For each term, the start and end of each match."""


class Snippet(msgspec.Struct, frozen=True):
    text: str
    highlights: tuple[tuple[int, int], ...]
    """Start and end of each matched word in the text."""


def snippet(text: str, terms: Sequence[Term], width: int = WIDTH) -> Snippet | None:
    """The part that shows most of the terms; None if one of them is not in the text."""
    found = find_words(text, terms)
    return shown_text(text, found, width) if found is not None else None


def find_words(text: str, terms: Sequence[Term]) -> Found | None:
    """Where each term matches, at most ``MOST`` times each; None if one does not match."""
    plain = text.lower()
    found = _spans(plain, terms) if len(plain) == len(text) else None
    if found is None and not text.isascii():
        found = _spans_folded(text, terms)
    return found


def shown_text(text: str, found: Found, width: int = WIDTH) -> Snippet:
    """The part that shows most of the matches."""
    spans = _apart(span for some in found for span in some)
    start, end = _window(text, _best(found, width - BEFORE), width)
    inside = [(first, last) for first, last in spans if start <= first and last <= end]
    return _shown(text, start, end, inside or [(spans[0][0], min(spans[0][1], end))])


def _apart(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans in order, without overlaps."""
    apart: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if not apart or first >= apart[-1][1]:
            apart.append((first, last))
    return apart


def _spans(plain: str, terms: Sequence[Term]) -> Found | None:
    found: Found = []
    for term in terms:
        spans = list(islice(_occurrences(plain, term), MOST))
        if not spans:
            return None
        found.append(spans)
    return found


def _occurrences(plain: str, term: Term) -> Iterator[tuple[int, int]]:
    """Search for the first word as plain text: one regular expression for all would be ten times slower."""
    first, rest = term.words[0].lower(), _following(term)
    at = plain.find(first)
    while at >= 0:
        after = at + len(first)
        if at == 0 or not plain[at - 1].isalnum():
            match = rest.match(plain, after)
            if match is not None:
                yield at, match.end()
        at = plain.find(first, after)


@lru_cache(maxsize=64)
def _following(term: Term) -> re.Pattern[str]:
    """Matches what follows the first word of a term."""
    more = "".join(r"[\W_]+" + re.escape(word.lower()) for word in term.words[1:])
    return re.compile(more + ("" if term.open else r"(?![^\W_])"))


def _spans_folded(text: str, terms: Sequence[Term]) -> Found | None:
    """The matches in a text with diacritics, as positions in the original text."""
    parts = [folded(char) for char in text]
    places = [at for at, part in enumerate(parts) for _ in part]
    plain = [Term(tuple(map(folded, term.words)), term.open) for term in terms]
    found = _spans("".join(parts), plain)
    if found is None:
        return None
    return [[(places[first], places[last - 1] + 1) for first, last in spans] for spans in found]


def _best(found: Found, reach: int) -> int:
    """The position with the most terms, and then the most matches, within reach; the first if several."""
    spans = sorted((*span, number) for number, some in enumerate(found) for span in some)
    best, most, last = spans[0][0], (0, 0), 0
    for number, (first, _, _) in enumerate(spans):
        last = max(last, number)
        while last < len(spans) and spans[last][1] <= first + reach:
            last += 1
        near = spans[number:last]
        seen = (len({term for _, _, term in near}), len(near))
        if seen > most:
            best, most = first, seen
    return best


def _window(text: str, at: int, width: int) -> tuple[int, int]:
    start = max(at - BEFORE, 0)
    end = min(start + width, len(text))
    start = max(min(start, end - width), 0)
    return _at_word(text, start, at), end


def _at_word(text: str, start: int, limit: int) -> int:
    """A start that does not split a word, if there is one nearby."""
    if start == 0:
        return 0
    space = _SPACE.search(text, start, min(start + 20, limit))
    return space.end() if space else start


def _shown(text: str, start: int, end: int, spans: Sequence[tuple[int, int]]) -> Snippet:
    """The part on one line, with the positions adjusted to the removed whitespace."""
    line = "…" if start > 0 else ""
    highlights: list[tuple[int, int]] = []
    at = start
    for first, last in spans:
        line += _one_line(text[at:first], line)
        begin = len(line)
        line += _one_line(text[first:last], line)
        highlights.append((begin, len(line)))
        at = last
    line += _one_line(text[at:end], line).rstrip()
    return Snippet(line + ("…" if end < len(text) else ""), tuple(highlights))


def _one_line(piece: str, before: str) -> str:
    piece = _SPACE.sub(" ", piece)
    return piece.lstrip() if not before or before[-1] in " …" else piece
