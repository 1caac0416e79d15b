"""What is searched and what for: entries and their words, the words that somebody types, and the rank. Pure.

In what is typed, quotes are phrases, ``word*`` is a beginning, the rest is literal. No input is an error of
syntax: everything reaches the index in quotes. The rank is BM25, faded by age, with what was said before what
tools put out. How common a word is, is estimated from how far one has to go back for its newest rows: to
count them all would take longer than the search itself.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Literal

import msgspec

from segue.core.errors import Misuse
from segue.core.transcript import Entry

In = Literal["text", "tool"]

HEAD, TAIL = 64 * 1024, 8 * 1024
"""Of longer texts only the beginning and the end are searched."""
_SAID = frozenset(("user", "assistant", "thinking", "boundary"))
_BLOB = re.compile(r"[A-Za-z0-9+/=_-]{256,}")
"""Encoded data: no words of anybody."""
_BLOCK = 128
_DEPTH = 8


def searched(entry: Entry) -> In | None:
    """Whether it belongs to what was said, to what tools did, or to nothing one would search."""
    if entry.inserted:
        return None
    if entry.kind in _SAID or (entry.kind == "state" and entry.label == "title"):
        return "text"
    return "tool" if entry.kind in ("call", "result") else None


def wording(entry: Entry) -> str:
    """All its words: of a call, the tool's name and what it was given."""
    if entry.kind != "call":
        return entry.text
    return "\n".join((entry.tool, *_leaves(entry.input), entry.text))


def indexed(text: str) -> str:
    """What of the words goes into the index."""
    if len(text) > HEAD + TAIL:
        text = f"{text[:HEAD]}\n{text[-TAIL:]}"
    if _may_hold_blob(text):
        text = _BLOB.sub(" ", text)
    return text if text.isascii() else storable(text)


def _may_hold_blob(text: str) -> bool:
    """A run of 256 covers a whole block of half its length; few other texts do, and those are searched."""
    for at in range(0, len(text) - _BLOCK, _BLOCK):
        block = text[at : at + _BLOCK]
        if " " not in block and "\n" not in block:
            return True
    return False


def storable(text: str) -> str:
    """A session may hold halves of characters, which no database takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def marks(agent: str, cwd: str | None, where: In) -> str:
    """Words of our own that every row carries beside its text, so that the index itself can narrow down."""
    return " ".join((f"k{where}", agent_mark(agent), cwd_mark(cwd or "")))


def agent_mark(agent: str) -> str:
    return f"a{_hashed(agent)}"


def cwd_mark(cwd: str) -> str:
    return f"d{_hashed(cwd)}"


def _hashed(text: str) -> str:
    return blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()


def _leaves(value: Any, depth: int = 0) -> Iterator[str]:
    """The texts in it, however nested; numbers too, for they are looked for as well."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple) and depth < _DEPTH:
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each, depth + 1)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


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


K1, B = 1.2, 0.75
TOOL_WORTH = 0.6
FADING_MS = 60 * 24 * 3_600_000
"""After so long a match has lost half of what age can take, which is half of its worth."""


class Scale(msgspec.Struct, frozen=True):
    """What the index as a whole is like."""

    rows: int
    length: float
    """Of a row's text, on average."""
    rates: Mapping[str, float]
    """By word: in which share of the rows it stands."""

    def rarity(self, term: Term) -> float:
        """The inverse document frequency; of a phrase, that of its rarest word."""
        rate = min((self.rates.get(word, 0.0) for word in term.words), default=0.0)
        count = rate * self.rows
        return math.log(1 + (self.rows - count + 0.5) / (count + 0.5))


def score(scale: Scale, counts: Sequence[tuple[Term, int]], length: int, *, tool: bool, age_ms: int) -> float:
    """``counts``: how often each term stands in the text."""
    norm = K1 * (1 - B + B * length / max(scale.length, 1.0))
    said = sum(scale.rarity(term) * count * (K1 + 1) / (count + norm) for term, count in counts)
    fresh = 0.5 + 0.5 * math.pow(0.5, max(age_ms, 0) / FADING_MS)
    return round(said * fresh * (TOOL_WORTH if tool else 1.0), 4)
