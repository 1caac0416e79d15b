"""Open questions: what agents ask the user, and the answers, each given exactly once.

A question is stored with its run, so that everybody who sees the run can answer it, whichever process runs
it. If the run ended without an answer, the question has lapsed: the answer is sent as the next message.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from segue.agents.base import Answer
from segue.app.ready_turn import NOBODY, Options, ready_turn
from segue.app.run_shapes import OpenQuestion, ToolAnswer
from segue.app.workspace import Workspace
from segue.core.errors import Conflict, Gone, Misuse, NotFound
from segue.core.laws import Door
from segue.core.outcome import Failure
from segue.core.question import DROP, GO_ON, question_names
from segue.store.questions import QuestionRow
from segue.store.records import BEGUN, QUEUED, TurnRow
from segue.turns.liveness import liveness_of
from segue.turns.message import enqueue
from segue.turns.queued_run import take_out
from segue.turns.request import NONE

ALLOWED, DENIED = Answer(True), Answer(False, "the user does not allow it.")
ANSWERED = "this question has been answered"


def questions_of(workspace: Workspace, row: TurnRow) -> tuple[OpenQuestion, ...]:
    """What can be answered in a run, in the order in which it was asked."""
    asked = [each for each in workspace.store.questions(row.id) if each.state in ("open", "lapsed")]
    if not asked:
        return ()
    gone = _is_gone(workspace, row)
    return tuple(
        msgspec.structs.replace(_read(each), lapsed=each.state == "lapsed" or gone) for each in asked
    )


def continued_by(workspace: Workspace, run: str) -> str | None:
    """The run whose message answers a lapsed question of this one."""
    return next((each.next for each in workspace.store.questions(run) if each.next is not None), None)


def answer(workspace: Workspace, run: str, given: ToolAnswer) -> str | None:
    """Answer a question of a run. Returns the new run that the answer is sent with, if the question lapsed.

    Raises ``NotFound`` if nothing with that id was asked, ``Conflict`` if it has its answer, ``Gone`` if it
    cannot be answered any more.
    """
    store = workspace.store
    row = store.turn(run)
    if row is None:
        raise NotFound(f"there is no run {run}")
    asked = _named(store.questions(run), given.tool_use_id, run)
    if asked.state in ("answered", "told"):
        over = row.state not in BEGUN and asked.next is None
        raise Gone(_over(row)) if over else Conflict(ANSWERED)
    if asked.state == "over":
        raise Gone(_over(row))
    question = _read(asked)
    if question.kind == "environment":
        raise Misuse("set the variables that it names, and start the run again: segue answer RUN")
    if question.kind == "budget":
        from segue.app.budget_answers import answer_budget

        gone = asked.state == "lapsed" or _is_gone(workspace, row)
        return answer_budget(workspace, row, asked, question, given, gone=gone)
    if given.budget is not None:
        raise Misuse("budget is for a question about a budget")
    if question.kind == "went_on":
        _answer_parked(workspace, row, asked, given)
        return None
    told = _answer(question, given)
    if asked.state == "lapsed" or _is_gone(workspace, row):
        return _carried(workspace, row, asked, told)
    if not store.answer(run, asked.id, msgspec.json.encode(told).decode()):
        raise Conflict(ANSWERED)
    return None


def _answer_parked(workspace: Workspace, row: TurnRow, asked: QuestionRow, given: ToolAnswer) -> None:
    """The user wrote while a limit had parked the run: now it goes on, or is dropped."""
    store, texts = workspace.store, [given.content or "", *map(_text, (given.answers or {}).values())]
    said = {text.strip().lower() for text in texts} - {""}
    if said == {DROP} or (given.allow is False and not said):
        known = store.conversation_by_id(row.conversation)
        failure = Failure("cancelled", "you dropped it: you wrote since it was parked")
        if not take_out(store, row, known.key if known is not None else "", failure):
            raise Conflict(ANSWERED)
        return
    if said != {GO_ON} or given.allow is False:
        raise Misuse(f'answer "{GO_ON}" or "{DROP}"')
    failed = row.told.failure if row.told is not None else None
    limit_ms = failed.until if failed is not None and failed.until is not None else 0
    if not store.go_on_parked(row.id, asked.id, limit_ms if limit_ms > store.clock_ms() else None):
        raise Conflict(ANSWERED)


def _over(row: TurnRow) -> str:
    return f"the run {row.id} is {row.state}; its questions cannot be answered any more"


def _is_gone(workspace: Workspace, row: TurnRow) -> bool:
    """Whether the process that asked is gone: nobody would pass the answer on."""
    waits_for_it = row.state in BEGUN or (row.state == "queued" and row.via != QUEUED)
    return waits_for_it and liveness_of(workspace.store, row, workspace.host) != "alive"


def _read(row: QuestionRow) -> OpenQuestion:
    return msgspec.json.decode(row.question, type=OpenQuestion)


def _named(rows: Sequence[QuestionRow], name: str, run: str) -> QuestionRow:
    """The question of that id; the agent's own id of the tool call works as well."""
    for row in rows:
        if name in (row.id, _read(row).id, _read(row).tool_use_id):
            return row
    raise NotFound(f"the run {run} has not asked {name}")


def _carried(workspace: Workspace, row: TurnRow, asked: QuestionRow, told: Answer) -> str | None:
    """Send the answer to a lapsed question as the next message, before all that waits. Returns its run."""
    store, question = workspace.store, _read(asked)
    if question.kind == "question" and not told.allow:
        if not store.drop_lapsed(row.id, asked.id) and not store.answer(row.id, asked.id, None):
            raise Conflict(ANSWERED)
        return None
    known = store.conversation_by_id(row.conversation)
    if known is None:
        raise NotFound("the conversation was deleted")
    options = {
        "agent": row.voice.agent,
        "account": row.account or NONE,
        "model": row.model or NONE,
        "role": row.voice.role or NONE,
        "cwd": row.cwd,
    }
    there = Workspace(workspace.env, Path(row.cwd), store, transport=workspace.transport)
    text = message_of(question, told)
    named = cast("Options", options)
    prepared = ready_turn(there, known.key, text, named, answers=True, door=Door.ANSWER).prepared
    # The message repeats what was asked, and thus the words that the asking session was given.
    ask = msgspec.structs.replace(prepared.ask, given=store.marks.of_runs([row.id]))
    prepared = msgspec.structs.replace(prepared, ask=ask)
    answered = msgspec.structs.replace(asked, answer=msgspec.json.encode(told).decode())
    new = enqueue(prepared, store, answers=answered)
    if told.always and question.tool is not None:
        store.allow_tool(row.conversation, row.voice, question.tool)
    store.reorder([new.id, *(each.id for each in store.line(row.conversation) if each.id != new.id)])
    return new.id


def message_of(question: OpenQuestion, told: Answer) -> str:
    """The answer to a lapsed question as a message to the agent."""
    if question.kind == "permission":
        wanted = f"to use {question.tool}: {msgspec.json.encode(question.input).decode()}"
        if told.allow:
            return f"You were interrupted while you waited for permission {wanted}\nIt is allowed now. Go on."
        return f"You were interrupted while you waited for permission {wanted}\nIt is refused: {told.message}"
    lines = [f"{name}\n{text}" if name else text for name, text in told.answers.items()]
    return "\n\n".join(["You were interrupted while you waited for my answer. This is it:", *lines])


def _answer(asked: OpenQuestion, given: ToolAnswer) -> Answer:
    if asked.kind == "permission":
        if given.allow is None and not given.always:
            raise Misuse("a permission takes allow: true or false, or always: true")
        if given.always and given.allow is False:
            raise Misuse("a permission takes allow: false or always: true, not both")
        if given.allow is False:
            return Answer(False, given.content or DENIED.message)
        return Answer(True, always=True) if given.always else ALLOWED
    if given.always:
        raise Misuse("always is for a permission; a question takes answers, or content")
    if given.allow is False:
        return Answer(False, given.content or NOBODY.message)
    if given.answers is not None:
        return Answer(True, answers={name: _text(value) for name, value in given.answers.items()})
    if given.content is not None:
        return Answer(True, answers=dict.fromkeys(question_names(asked.questions), given.content))
    raise Misuse("a question takes answers, or content")


def _text(value: Any) -> str:
    return (
        value
        if isinstance(value, str)
        else ", ".join(map(str, value))
        if isinstance(value, list)
        else str(value)
    )
