"""The searchable text of entries, the query, and the rank. Pure.

In a query, quotes make a phrase, ``word*`` matches the beginning of a word, and the rest is literal. No query
is a syntax error: everything is quoted for the index. The rank is BM25, reduced by age, with what was said
before the output of tools. How common a word is, is estimated from how far back its newest rows go: counting
all of them would take longer than the search itself.
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
"""Only the beginning and the end of longer texts are searched."""
_SAID = frozenset(("user", "assistant", "thinking", "boundary"))
_BLOB = re.compile(r"[A-Za-z0-9+/=_-]{256,}")
"""Encoded data, not words."""
_BLOCK = 128
_DEPTH = 8


def searched(entry: Entry) -> In | None:
    """Whether it belongs to what was said, to what tools did, or is not searched."""
    if entry.inserted:
        return None
    if entry.kind in _SAID or (entry.kind == "state" and entry.label == "title"):
        return "text"
    return "tool" if entry.kind in ("call", "result") else None


def wording(entry: Entry) -> str:
    """The text of an entry; of a call, the tool's name and its input."""
    if entry.kind != "call":
        return entry.text
    return "\n".join((entry.tool, *_leaves(entry.input), entry.text))


def indexed(text: str) -> str:
    """The part of a text that goes into the index."""
    if len(text) > HEAD + TAIL:
        text = f"{text[:HEAD]}\n{text[-TAIL:]}"
    if _may_hold_blob(text):
        text = _BLOB.sub(" ", text)
    return text if text.isascii() else storable(text)


def _may_hold_blob(text: str) -> bool:
    """Whether a block has no space: a run of 256 characters covers a whole block of 128. Few other texts do,
    so the regular expression runs rarely."""
    for at in range(0, len(text) - _BLOCK, _BLOCK):
        block = text[at : at + _BLOCK]
        if " " not in block and "\n" not in block:
            return True
    return False


def storable(text: str) -> str:
    """The text without lone surrogates, which a session may contain but no database accepts."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def marks(agent: str, cwd: str | None, where: In) -> str:
    """Additional words in every row, so that the index itself can filter by agent, directory and kind."""
    return " ".join((f"k{where}", agent_mark(agent), cwd_mark(cwd or "")))


def agent_mark(agent: str) -> str:
    return f"a{_hashed(agent)}"


def cwd_mark(cwd: str) -> str:
    return f"d{_hashed(cwd)}"


def _hashed(text: str) -> str:
    return blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()


def _leaves(value: Any, depth: int = 0) -> Iterator[str]:
    """The texts and numbers in a value, at any depth up to a limit."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple) and depth < _DEPTH:
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each, depth + 1)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


_PART = re.compile(r'"([^"]*)"?(\*?)|([^\s"]+)')
_WORD = re.compile(r"[^\W_]+(?:[\u0300-\u036f]+[^\W_]*)*")
"""A word as the index defines it: letters and digits, with their combining marks."""
_LONGEST = 2_000
_MOST = 32


class Term(msgspec.Struct, frozen=True):
    """Consecutive words. ``open``: the last one is only the beginning of a word."""

    words: tuple[str, ...]
    open: bool = False

    @property
    def fts(self) -> str:
        return f'"{" ".join(self.words)}"{" *" if self.open else ""}'


def parsed(text: str) -> tuple[Term, ...]:
    """The terms of a query, all of which must match. Raises ``Misuse`` if it has no words."""
    terms: dict[Term, None] = {}
    clean = text[:_LONGEST].encode("utf-8", "replace").decode()
    for found in _PART.finditer(clean):
        said = found[3] if found[3] is not None else found[1]
        open_ended = bool(found[2]) or (found[3] or "").endswith("*")
        if words := tuple(_WORD.findall(said)):
            terms[Term(words, open_ended)] = None
    if not terms:
        raise Misuse('there are no words to search for; try: segue sessions search "some words"')
    return tuple(terms)[:_MOST]


def fts(terms: Sequence[Term]) -> str:
    """The FTS5 query for all terms, in the column with what was said and done."""
    return f"text : ({' AND '.join(term.fts for term in terms)})"


def folded(text: str) -> str:
    """The text as the index compares it: lower case, without diacritics."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFD", text)
    return "".join(char for char in apart if not unicodedata.combining(char)).lower()


K1, B = 1.2, 0.75
TOOL_WORTH = 0.6
FADING_MS = 60 * 24 * 3_600_000
"""Age can reduce a score by at most half; after this time, it is reduced by half of that."""


class Scale(msgspec.Struct, frozen=True):
    """Statistics of the whole index."""

    rows: int
    length: float
    """The average length of a row's text."""
    rates: Mapping[str, float]
    """By word: the share of rows that contain it."""

    def rarity(self, term: Term) -> float:
        """The inverse document frequency; of a phrase, that of its rarest word."""
        rate = min((self.rates.get(word, 0.0) for word in term.words), default=0.0)
        count = rate * self.rows
        return math.log(1 + (self.rows - count + 0.5) / (count + 0.5))


def score(scale: Scale, counts: Sequence[tuple[Term, int]], length: int, *, tool: bool, age_ms: int) -> float:
    """The rank of a match. ``counts``: how often each term is in the text."""
    norm = K1 * (1 - B + B * length / max(scale.length, 1.0))
    said = sum(scale.rarity(term) * count * (K1 + 1) / (count + norm) for term, count in counts)
    fresh = 0.5 + 0.5 * math.pow(0.5, max(age_ms, 0) / FADING_MS)
    return round(said * fresh * (TOOL_WORTH if tool else 1.0), 4)
