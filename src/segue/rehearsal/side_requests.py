"""Requests that a CLI makes besides the conversation: titles, topics, probes, routing, summaries.

They get a plausible answer. Their directives are never carried out, although they often quote a prompt that
has some.
"""

import re
from typing import Any

from msgspec import Struct

from segue.rehearsal import current_turn
from segue.rehearsal.current_turn import CurrentTurn
from segue.rehearsal.types import Ask
from segue.rehearsal.wire.common import compact

_SUMMARY = re.compile(
    r"Your task is to create a detailed summary of"
    r"|CONTEXT CHECKPOINT COMPACTION"
    r"|distilling chat history into a structured"
    r"|component that summarizes internal chat history",
)
_TITLE = re.compile(
    r"\b(?:concise|short|brief|succinct|descriptive|sentence-case|single-line)\b[^.\n]{0,40}\btitles?\b"
    r"|isNewTopic|You name git worktree folders",
    re.I,
)
_HELPER = re.compile(
    r"command_injection_detected|Extract any file paths that this command|concise turn summarizer"
    r"|next_speaker",
)


class Side(Struct, frozen=True):
    kind: str
    answer: str


def find_side(ask: Ask, turn: CurrentTurn) -> Side | None:
    """The kind of side request and its answer; None if the request belongs to the conversation."""
    wording = turn.whole if ask.tools else f"{ask.system}\n{turn.whole}"
    if _SUMMARY.search(wording):
        return Side("summary", _summary(ask))
    if ask.tools:
        return None
    if ask.schema is not None:
        return Side("json", compact(sample(ask.schema)))
    if _TITLE.search(ask.system):
        return Side("title", "Rehearsal")
    if _HELPER.search(ask.system):
        return Side("helper", "none")
    return Side("probe", "#") if ask.max_tokens == 1 else None


def _summary(ask: Ask) -> str:
    numbers = current_turn.numbers_in(ask.items)
    known = f" The user said: remember number {numbers[-1]}." if numbers else ""
    return f"<summary>A rehearsal took place.{known}</summary>"


def sample(schema: dict[str, Any]) -> Any:
    """The simplest value that matches a JSON schema."""
    if options := schema.get("enum"):
        return options[0]
    if "const" in schema:
        return schema["const"]
    for choice in ("anyOf", "oneOf"):
        if schema.get(choice):
            return sample(schema[choice][0])
    kind = schema.get("type", "object")
    kind = kind[0] if isinstance(kind, list) else kind
    properties: dict[str, Any] = schema.get("properties") or {}
    if kind.lower() == "object":
        required = schema.get("required") or list(properties)
        return {name: sample(properties.get(name) or {"type": "string"}) for name in required}
    plain: dict[str, Any] = {"string": "rehearsal", "number": 0, "integer": 0, "boolean": False, "array": []}
    return plain.get(kind.lower())
