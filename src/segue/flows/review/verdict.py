"""The reviewer's verdict: the JSON at the end of its answer."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from segue.flows.answer_block import Unreadable, answer_schema, object_schema, read_block, unreadable

FindingState = Literal["open", "resolved", "outside"]
"""``outside``: a topic that is not part of the task. It is kept in a list, and nobody works on it."""
_STATES: dict[str, FindingState] = {
    **dict.fromkeys(("resolved", "fixed", "closed", "done"), "resolved"),
    **dict.fromkeys(("outside", "out_of_scope", "out of scope"), "outside"),
}


class Finding(msgspec.Struct, frozen=True):
    """Something that the reviewer has found. Its id stays the same in all rounds."""

    id: str
    text: str
    severity: str = "major"
    state: FindingState = "open"


class Verdict(msgspec.Struct, frozen=True):
    """What the reviewer says about the work."""

    verdict: Literal["approve", "reject"]
    findings: tuple[Finding, ...] = ()
    notes: str = ""
    context_reset: bool = False
    """The coder is on a wrong track: it should start over, in a new session."""


_FINDING = object_schema(
    "text",
    {
        "id": {"type": "string"},
        "text": {"type": "string"},
        "severity": {"type": "string"},
        "state": {"type": "string", "enum": ["open", "resolved", "outside"]},
    },
)
SCHEMA = answer_schema(
    "verdict",
    {
        "verdict": {"type": "string", "enum": ["approve", "reject"]},
        "findings": {"type": "array", "items": _FINDING},
        "notes": {"type": "string"},
        "context_reset": {"type": "boolean"},
    },
)


class _FindingSaid(msgspec.Struct):
    id: str | int = ""
    text: str = ""
    severity: str = "major"
    state: str = "open"


class _Said(msgspec.Struct):
    verdict: Literal["approve", "reject"]
    findings: tuple[_FindingSaid, ...] = ()
    notes: str | None = None
    context_reset: bool = False


def parse(text: str) -> Verdict | Unreadable:
    """The verdict of an answer."""
    plain = read_block(text)
    return plain if isinstance(plain, Unreadable) else _checked(plain)


def _checked(plain: Any) -> Verdict | Unreadable:
    try:
        said = msgspec.convert(plain, _Said)
    except msgspec.ValidationError as error:
        return unreadable(f"the JSON block is no verdict: {error}")
    notes = (said.notes or "").strip()
    findings = tuple(_finding(each) for each in said.findings if each.text.strip() or str(each.id).strip())
    if said.verdict == "reject" and not findings and not notes:
        return Unreadable("it rejects without a finding or a note")
    return Verdict(said.verdict, findings, notes, said.context_reset)


def _finding(said: _FindingSaid) -> Finding:
    state = _STATES.get(said.state.strip().lower(), "open")
    return Finding(str(said.id).strip(), said.text.strip(), said.severity.strip() or "major", state)
