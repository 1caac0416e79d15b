"""The hand-off: what a tier leaves to the next one, if that cannot continue its session. Pure.

A JSON document with a fixed shape and a bounded size. The outgoing tier writes most of it with its signal;
what it did not say is taken from its answer and its tool calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from segue.flows.escalation_signal import CheckFound, Signal

LONGEST_TEXT = 2_000
"""The most of one entry, in characters."""
CUT = " […]"


class ToolRun(msgspec.Struct, frozen=True):
    """A tool call, and how it ended."""

    tool: str
    call: str
    ok: bool | None = None
    output: str = ""


class HandOff(msgspec.Struct, frozen=True, kw_only=True):
    """What the next tier is given."""

    schema: int = 1
    tier: int
    """The tier that hands over."""
    name: str
    reason: str = ""
    failure: str | None = None
    """Why the tier did not come to its end, if so."""
    source: Literal["tier", "transcript"] = "transcript"
    """Who wrote it: the tier itself, or it was taken from its answer and its tool calls."""
    failed_checks: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    checks: tuple[CheckFound, ...] = ()
    done: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    tools: tuple[ToolRun, ...] = ()
    answer: str = ""
    earlier: tuple[HandOff, ...] = ()
    """Those of the tiers before, the newest first."""
    shortened: bool = False
    """Something was left out because it was too long."""


def hand_off(
    tier: int,
    name: str,
    *,
    signal: Signal | None,
    answer: str,
    tools: Sequence[ToolRun],
    failure: str | None = None,
    earlier: HandOff | None = None,
    most: int,
) -> HandOff:
    """The document, with at most ``most`` bytes as JSON."""
    said = signal if signal is not None else Signal(escalate=True)
    written = bool(said.findings or said.checks or said.done or said.failed)
    before = (earlier, *earlier.earlier) if earlier is not None else ()
    document = HandOff(
        tier=tier,
        name=name,
        reason=_short(said.reason),
        failure=_short(failure) if failure else None,
        source="tier" if written else "transcript",
        failed_checks=tuple(map(_short, said.failed_checks)),
        findings=tuple(map(_short, said.findings)),
        checks=tuple(CheckFound(_short(c.name), _short(c.result), _short(c.detail)) for c in said.checks),
        done=tuple(map(_short, said.done)),
        failed=tuple(map(_short, said.failed)),
        questions=tuple(map(_short, said.questions)),
        tools=tuple(ToolRun(t.tool, _short(t.call, 500), t.ok, _short(t.output, 500)) for t in tools),
        answer="" if written else answer,
        earlier=tuple(msgspec.structs.replace(each, earlier=()) for each in before),
    )
    return _bounded(document, most)


def encoded(document: HandOff) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document), indent=2)


def _bounded(document: HandOff, most: int) -> HandOff:
    """Leave out what matters least until it fits: outputs, earlier tiers, tool calls, then the rest by
    halves."""
    if _size(document) <= most:
        return document
    document = msgspec.structs.replace(document, shortened=True)
    bare = tuple(ToolRun(each.tool, _short(each.call, 120), each.ok) for each in document.tools)
    for smaller in (
        {"tools": bare},
        {"tools": bare[-20:], "earlier": tuple(_bare(each) for each in document.earlier)},
        {"tools": bare[-5:], "earlier": ()},
        {"tools": (), "earlier": ()},
    ):
        document = msgspec.structs.replace(document, **smaller)
        if _size(document) <= most:
            return document
    length = LONGEST_TEXT
    while _size(document) > most and length > 4:
        length //= 2
        document = _halved(document, length)
    return document


def _halved(document: HandOff, length: int) -> HandOff:
    """Shorter entries, and fewer of them."""
    names = ("failed_checks", "findings", "done", "failed", "questions")
    lists = {name: tuple(_short(e, length) for e in getattr(document, name)[: length // 4]) for name in names}
    checks = tuple(
        CheckFound(_short(c.name, length), _short(c.result, length), _short(c.detail, length))
        for c in document.checks[: length // 4]
    )
    return msgspec.structs.replace(
        document,
        answer=_tail(document.answer, length * 4),
        reason=_short(document.reason, length),
        failure=_short(document.failure, length) if document.failure else None,
        checks=checks,
        **lists,
    )


def _bare(document: HandOff) -> HandOff:
    return msgspec.structs.replace(document, tools=(), answer=_tail(document.answer, LONGEST_TEXT))


def _size(document: HandOff) -> int:
    return len(encoded(document))


def _short(text: str, most: int = LONGEST_TEXT) -> str:
    return text if len(text) <= most else text[: max(most - len(CUT), 0)] + CUT


def _tail(text: str, most: int) -> str:
    """The end of an answer says most."""
    return text if len(text) <= most else CUT.strip() + " " + text[-most:]
