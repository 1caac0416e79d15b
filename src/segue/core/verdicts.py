"""What a check says: its verdict, and the reason both in English and as data. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from segue.core.turn import Check, Clause, Mode

SESSION: tuple[Mode, ...] = ("resume", "branch")
CARRYING: tuple[Mode, ...] = ("graft", "replay", "recap")


class Said(msgspec.Struct, frozen=True):
    """A sentence, and what it is made of."""

    text: str = ""
    clauses: tuple[Clause, ...] = ()

    def __add__(self, more: Said) -> Said:
        return Said(self.text + more.text, self.clauses + more.clauses)


NOTHING = Said()


def say(text: str, code: str, **values: str | int | float) -> Said:
    """A sentence in English, and the same as data. ``code``: stable, because programs know it."""
    return Said(text, (Clause(code, values),))


def listed(parts: Iterable[Said], between: str) -> Said:
    """Several sentences in one."""
    known = list(parts)
    return Said(between.join(each.text for each in known), tuple(c for each in known for c in each.clauses))


def passed(name: str, said: Said = NOTHING) -> Check:
    return Check(name, "pass", (), said.text, said.clauses)


def skipped(name: str) -> Check:
    return Check(name, "skip")


def failed(name: str, bars: tuple[Mode, ...], why: Said) -> Check:
    return Check(name, "fail", bars, why.text, why.clauses)
