"""What Segue says about a turn, both in English and as data: the reasons of checks, and notices. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from segue.core.turn import Check, Clause, Mode, Turn

SESSION: tuple[Mode, ...] = ("resume", "branch")
CARRYING: tuple[Mode, ...] = ("graft", "replay", "recap")


class Said(msgspec.Struct, frozen=True):
    """A sentence, and what it is made of."""

    text: str = ""
    clauses: tuple[Clause, ...] = ()

    def __add__(self, more: Said) -> Said:
        return listed((self, more), "")


NOTHING = Said()


def say(text: str, code: str, **values: str | int | float) -> Said:
    """A sentence in English, and the same as data. ``code``: stable, because programs know it."""
    return Said(text, (Clause(code, values),))


def listed(parts: Iterable[Said], between: str) -> Said:
    """Several sentences in one, without empty ones. If one is in somebody else's words, so is the whole."""
    known = [each for each in parts if each.text]
    text = between.join(each.text for each in known)
    if not all(each.clauses for each in known):
        return Said(text)
    return Said(text, tuple(c for each in known for c in each.clauses))


def reason_of(check: Check) -> Said:
    return Said(check.detail, check.clauses)


def with_notices(turn: Turn, notices: Sequence[Said]) -> Turn:
    """The turn with these notices instead of its own."""
    texts, clauses = tuple(each.text for each in notices), tuple(each.clauses for each in notices)
    return msgspec.structs.replace(turn, notices=texts, notice_clauses=clauses)


def notices_of(turn: Turn) -> list[Said]:
    texts, clauses = turn.notices, turn.notice_clauses
    if len(clauses) != len(texts):  # older versions told none
        return [Said(text) for text in texts]
    return list(map(Said, texts, clauses))


def passed(name: str, said: Said = NOTHING) -> Check:
    return Check(name, "pass", (), said.text, said.clauses)


def skipped(name: str) -> Check:
    return Check(name, "skip")


def failed(name: str, bars: tuple[Mode, ...], why: Said) -> Check:
    return Check(name, "fail", bars, why.text, why.clauses)
