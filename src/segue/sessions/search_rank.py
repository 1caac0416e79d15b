"""How well a text answers a search: BM25, faded by age, with what was said before what tools put out. Pure.

How common a word is, is estimated from how far one has to go back for its newest rows: to count them all
would take longer than the search itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from segue.sessions.search_query import Term

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
