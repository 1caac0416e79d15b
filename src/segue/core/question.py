"""What an agent asks the user, as it is stored with its run and shown to everybody who can answer."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from segue.core.budget import ReachedBudget, reached_in_words
from segue.core.events import Permission, Question


class OpenQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked in a run, and nobody has answered yet."""

    id: str
    kind: Literal["question", "permission", "environment", "budget", "went_on"]
    """``environment``: the run cannot start before the variables that it names are set. ``budget``: it cannot
    start before the budget is raised. ``went_on``: a limit has parked it, and the user has written since: it
    goes on if the answer is ``go on``."""
    tool_use_id: str | None = None
    questions: Any = None
    """Of a question: what the agent's tool was called with."""
    tool: str | None = None
    """Of a permission: the tool that wants to run."""
    input: Any = None
    variables: tuple[str, ...] = ()
    """The names of the variables that are missing."""
    budget: ReachedBudget | None = None
    """The budget that was reached."""
    asked: int
    lapsed: bool = False
    """The run ended without an answer. The answer is sent as the next message of the conversation."""


def open_question(event: Question | Permission, now_ms: int) -> OpenQuestion:
    """The question of an event."""
    if isinstance(event, Question):
        return OpenQuestion(
            id=event.id,
            kind="question",
            tool_use_id=event.tool_id,
            questions=event.questions,
            asked=now_ms,
        )
    return OpenQuestion(
        id=event.id,
        kind="permission",
        tool_use_id=event.tool_id,
        tool=event.tool,
        input=event.input,
        asked=now_ms,
    )


GO_ON, DROP = "go on", "drop it"
"""The answers to the question about a parked run."""
WROTE_SINCE = "you wrote since this message was parked: go on with it, or drop it?"


def wrote_since(name: str, now_ms: int) -> OpenQuestion:
    """What the user is asked who writes while a run is parked by a limit."""
    return OpenQuestion(id=name, kind="went_on", asked=now_ms)


def question_words(asked: OpenQuestion) -> str:
    """What is asked, in words."""
    if asked.kind == "permission":
        return f"wants to use {asked.tool}"
    if asked.kind == "environment":
        return f"needs {', '.join(asked.variables)}"
    if asked.kind == "went_on":
        return WROTE_SINCE
    if asked.budget is not None:
        return reached_in_words(asked.budget)
    return next(filter(None, question_names(asked.questions)), "has a question")


def question_names(questions: Any) -> list[str]:
    """The texts of the questions that were asked, if they are in the known format."""
    if not isinstance(questions, list):
        return [""]
    return [str(each.get("question", "")) for each in questions if isinstance(each, dict)] or [""]
