"""The JSON that an agent ends its answer with: the last fenced block, or the whole answer. Pure.

Where the CLI has an option for the form of answers, it asks the model again itself, and gives up after some
answers that do not have it. That is no failure of the turn for a flow, but an answer that cannot be read.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from segue.core.turn import Turn

_OPENING = re.compile(r"(`{3,}|~{3,})[ \t]*([\w+-]*)[ \t]*$")
LONGEST_REASON = 300
LONGEST_LINE = 1_000
"""A longer line does not open a block."""


class Unreadable(msgspec.Struct, frozen=True):
    """The answer does not contain what was asked for. ``reason``: why, in words."""

    reason: str


def answer_schema(required: str, properties: dict[str, Any]) -> str:
    """The JSON schema of an answer."""
    return msgspec.json.encode(object_schema(required, properties)).decode()


def object_schema(required: str, properties: dict[str, Any]) -> dict[str, Any]:
    """The JSON schema of an object with a property that it must have, and others."""
    return {"type": "object", "properties": properties, "required": [required]}


def without_form(turn: Turn) -> Unreadable | None:
    """If the agent's CLI gave up because no answer had the form that was asked for: that, as a reason."""
    failure = turn.failure
    return unreadable(failure.message) if failure is not None and failure.reason == "form" else None


def read_block(answer: str) -> Any:
    """What the block contains, or ``Unreadable``. Only the last JSON block counts, even if it is broken: an
    earlier one may be a quotation, or something that the agent has thought better of."""
    block = _block(answer)
    if block is None:
        return Unreadable("the answer has no JSON block")
    try:
        return msgspec.json.decode(block)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        return unreadable(f"the JSON block cannot be read: {error}")


def unreadable(reason: str) -> Unreadable:
    """With a reason that is not too long: it is said to the agent."""
    return Unreadable(reason[:LONGEST_REASON])


def _block(text: str) -> str | None:
    """The whole answer if it is an object, else the last fenced block that is meant as JSON."""
    whole = text.strip()
    if whole.startswith("{") and whole.endswith("}"):
        return whole
    blocks = _fenced(text)
    meant = [body for label, body in blocks if label == "json" or (not label and body.startswith("{"))]
    return meant[-1] if meant else None


def _fenced(text: str) -> list[tuple[str, str]]:
    """The fenced blocks: the label of each, and what is in it. One that is not closed does not count."""
    found: list[tuple[str, str]] = []
    fence, label, lines = "", "", list[str]()
    for line in text.splitlines():
        bare = line.strip()
        if fence and len(bare) >= len(fence) and set(bare) == {fence[0]}:
            found.append((label, "\n".join(lines).strip()))
            fence = ""
        elif fence:
            lines.append(line)
        elif len(bare) <= LONGEST_LINE and (opening := _OPENING.search(bare)):
            fence, label, lines = opening[1], opening[2].lower(), []
    return found
