"""What somebody types to search, as words: quotes are phrases, ``word*`` is a beginning, the rest is literal.

No input is an error of syntax: everything reaches the index in quotes. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import msgspec

from segue.core.errors import Misuse

_PART = re.compile(r'"([^"]*)"?(\*?)|([^\s"]+)')
_WORD = re.compile(r"[^\W_]+(?:[\u0300-\u036f]+[^\W_]*)*")
"""A word as the index knows it: letters and digits, with the marks that combine with them."""
_LONGEST = 2_000
_MOST = 32


class Term(msgspec.Struct, frozen=True):
    """Words in a row. ``open``: the last one may go on."""

    words: tuple[str, ...]
    open: bool = False

    @property
    def fts(self) -> str:
        return f'"{" ".join(self.words)}"{" *" if self.open else ""}'


def parsed(text: str) -> tuple[Term, ...]:
    """The terms, all of which must be found. Raises ``Misuse`` where there is not one word."""
    terms: dict[Term, None] = {}
    clean = text[:_LONGEST].encode("utf-8", "replace").decode()
    for found in _PART.finditer(clean):
        said = found[3] if found[3] is not None else found[1]
        open_ended = bool(found[2]) or (found[3] or "").endswith("*")
        if words := tuple(_WORD.findall(said)):
            terms[Term(words, open_ended)] = None
    if not terms:
        raise Misuse('there is no word to search for; try: segue sessions search "some words"')
    return tuple(terms)[:_MOST]


def fts(terms: Sequence[Term]) -> str:
    """All of them, in the column that holds what was said and done."""
    return f"text : ({' AND '.join(term.fts for term in terms)})"


def folded(text: str) -> str:
    """As the index compares: without case, and without the marks above and below letters."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFD", text)
    return "".join(char for char in apart if not unicodedata.combining(char)).lower()
