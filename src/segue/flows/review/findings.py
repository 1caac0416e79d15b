"""What the reviewer has found, over all rounds, and whether the rounds still change anything."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from segue.flows.review.verdict import Finding, Verdict


class Findings(msgspec.Struct, frozen=True):
    """``known``: those of the task, in the order in which they came. ``outside``: other topics."""

    known: tuple[Finding, ...] = ()
    outside: tuple[Finding, ...] = ()

    @property
    def open(self) -> tuple[Finding, ...]:
        return tuple(each for each in self.known if each.state == "open")

    @property
    def resolved(self) -> tuple[Finding, ...]:
        return tuple(each for each in self.known if each.state == "resolved")


class Mark(msgspec.Struct, frozen=True):
    """How things stood at the end of a round: the tree, and the ids of what was open."""

    tree: str
    open: tuple[str, ...]


def merged(before: Findings, verdict: Verdict) -> Findings:
    """The findings after a verdict.

    What is resolved stays resolved, even if it is raised again. What is open stays open until the reviewer
    says that it is resolved. A finding without an id gets one.
    """
    known = {each.id: each for each in before.known}
    outside = {each.id: each for each in before.outside}
    settled = {_plain(each.text) for each in before.resolved}
    for said in verdict.findings:
        old = known.get(said.id) if said.id else _alike(said, known)
        if old is not None:
            known[old.id] = _changed(old, said)
        elif said.id in outside or said.state == "outside":
            new = said if said.id else _named(said, "outside", outside)
            outside[new.id] = msgspec.structs.replace(new, state="outside")
        elif said.text and _plain(said.text) not in settled:
            new = said if said.id else _named(said, "f", known)
            known[new.id] = new
    return Findings(tuple(known.values()), tuple(outside.values()))


def stalled(marks: Sequence[Mark], rounds: int) -> bool:
    """Whether neither the tree nor the open findings changed in the last ``rounds`` rounds."""
    last = marks[-(rounds + 1) :]
    return len(last) == rounds + 1 and all(each == last[0] for each in last)


def mark(tree: str, findings: Findings) -> Mark:
    return Mark(tree, tuple(sorted(each.id for each in findings.open)))


def _changed(old: Finding, said: Finding) -> Finding:
    if old.state == "resolved":
        return old
    resolved = said.state == "resolved"
    return Finding(old.id, said.text or old.text, said.severity, "resolved" if resolved else "open")


def _alike(said: Finding, known: dict[str, Finding]) -> Finding | None:
    return next((each for each in known.values() if _plain(each.text) == _plain(said.text)), None)


def _named(said: Finding, prefix: str, taken: dict[str, Finding]) -> Finding:
    number = next(n for n in range(1, len(taken) + 2) if f"{prefix}{n}" not in taken)
    return msgspec.structs.replace(said, id=f"{prefix}{number}")


def _plain(text: str) -> str:
    return " ".join(text.lower().split())
