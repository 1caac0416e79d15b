"""``segue answer``: answer what an agent asks, whichever process runs it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click
import msgspec

from segue.app.run_shapes import OpenQuestion, RunShown, ToolAnswer
from segue.cli.caller import open_here
from segue.cli.change import change
from segue.cli.flow_answer import answer_flow, asked_by_flows, flow_answer, is_flow
from segue.cli.question import read_questions
from segue.cli.render import words
from segue.cli.render.output import say, say_json
from segue.core.budget import asked_in_full, raise_command
from segue.core.errors import Misuse, NotFound
from segue.core.question import DROP, GO_ON, WROTE_SINCE, question_words

if TYPE_CHECKING:
    from segue.app.workspace import Workspace


@click.command("answer", short_help="Answer the question of an agent or a flow.")
@click.argument("run", metavar="[RUN|FLOW]", required=False)
@click.argument("text", required=False)
@click.option("--question", "named", metavar="ID", help="Which one, if the run asks several.")
@click.option("--allow", is_flag=True, help="Allow what the agent asks permission for.")
@click.option("--always", is_flag=True, help="Allow the tool from now on, in this conversation.")
@click.option("--deny", is_flag=True, help="Refuse it; TEXT is the reason. Of a budget: stop the run.")
@click.option("--budget", type=float, metavar="USD", help="Raise the budget that was reached to this amount.")
@click.option("--json", "as_json", is_flag=True, help="Print the list, or the run, as JSON.")
def command(
    run: str | None,
    text: str | None,
    named: str | None,
    allow: bool,
    always: bool,
    deny: bool,
    budget: float | None,
    as_json: bool,
) -> int:
    """Answer a question of RUN or FLOW. Without it, list all questions.

    TEXT is the answer to a question. A request for permission takes --allow, --always or --deny. If the run
    has ended without an answer, the answer is sent as the next message of the conversation; the id of its run
    is printed. A flow takes TEXT; its step is named with --question if several ask.

    A run or a flow whose budget was reached takes --budget or --deny. Without either, segue answer RUN looks
    at the budgets again; for a flow, segue flow resume does.
    """
    from segue.app.runs import open_questions

    with open_here() as workspace:
        asked = open_questions(workspace)
        if run is None:
            return _list(asked, as_json, () if as_json else asked_by_flows(workspace))
        if is_flow(workspace, run):
            said = flow_answer(text, budget, stop=deny, other=allow or always)
            of_budget = deny or budget is not None
            return answer_flow(workspace, run, said, named, as_json, of_budget=of_budget)
        found = _open(workspace, run, asked)
        question = _chosen(found, run, named)
        asks_nothing = not (text or budget is not None or allow or always or deny)
        if question.kind == "environment" or (_is_paused(question) and asks_nothing):
            return _again(run)
        given = _given(question, text, budget, allow=allow, always=always, deny=deny)
        new = _told(workspace, run, given, as_json)
    if new is not None or (budget is not None and found.place is not None):
        _say_who_runs_it(found.conversation)
    return 0


def _told(workspace: Workspace, run: str, given: ToolAnswer, as_json: bool) -> str | None:
    """Give the answer. Returns the run that is sent because of it, if there is one."""
    from segue.app.runs import show_run

    new: str | None = change("answer", run=run, given=msgspec.to_builtins(given))
    if as_json:
        say_json(show_run(workspace, run))
    elif new is not None:
        say(new)
    return new


def _open(workspace: Workspace, run: str, asked: list[RunShown]) -> RunShown:
    """The run, which asks something. Raises ``Misuse`` if not, and names the one of its conversation that
    does."""
    from segue.app.runs import show_run

    for each in asked:
        if each.run == run:
            return each
    conversation = None
    with suppress(NotFound):
        conversation = show_run(workspace, run).conversation
    now = next((each for each in asked if each.conversation == conversation), None)
    if now is None:
        raise Misuse(f"the run {run} has no open question; segue answer lists them")
    question = now.questions[0]
    how = f"segue answer {now.run}"
    if question.budget is not None:
        how = raise_command(now.run, question.budget)
    other = f"another run of {conversation} asks now: {how}"
    raise Misuse(f"the run {run} has no open question any longer; {other}")


def _chosen(found: RunShown, run: str, named: str | None) -> OpenQuestion:
    if named is None and len(found.questions) > 1:
        ids = ", ".join(each.id for each in found.questions)
        raise Misuse(f"the run {run} asks several questions; name one with --question: {ids}")
    for each in found.questions:
        if named in (None, each.id, each.tool_use_id):
            return each
    raise Misuse(f"the run {run} has no open question {named}; segue answer lists them")


def _given(
    question: OpenQuestion,
    text: str | None,
    budget: float | None,
    *,
    allow: bool,
    always: bool,
    deny: bool,
) -> ToolAnswer:
    if question.kind == "budget":
        if allow or always or deny + (budget is not None) + (text is not None) != 1:
            raise Misuse("a budget takes --budget with the amount that it is raised to, or --deny")
        return ToolAnswer(tool_use_id=question.id, budget=budget, content=text, allow=False if deny else None)
    if budget is not None:
        raise Misuse("--budget is for a run whose budget was reached; segue answer lists the questions")
    if question.kind == "permission":
        if allow + always + deny != 1:
            raise Misuse("a request for permission takes --allow, --always or --deny")
        return ToolAnswer(tool_use_id=question.id, allow=not deny, always=always, content=text)
    if allow or always:
        raise Misuse("--allow and --always are for a request for permission; a question takes an answer")
    if deny:
        return ToolAnswer(tool_use_id=question.id, allow=False, content=text)
    if text is None:
        raise Misuse(
            f'answer "{GO_ON}" or "{DROP}"'
            if question.kind == "went_on"
            else "a question takes an answer: segue answer RUN TEXT"
        )
    return ToolAnswer(tool_use_id=question.id, content=text)


def _is_paused(question: OpenQuestion) -> bool:
    """Whether a run waits that can be started again if its budget was raised elsewhere."""
    return question.kind == "budget" and not question.lapsed


def _again(run: str) -> int:
    """Start a run again that could not start: what was missing may be here now."""
    import os
    from pathlib import Path

    import anyio

    async def now() -> None:
        from segue.app.segue import Segue

        async with Segue(env=os.environ, cwd=Path.cwd()) as segue:
            shown = await segue.runs.show(run)
            await segue.service.drain(shown.conversation, lambda _: None)
            shown = await segue.runs.show(run)
            if shown.question is not None and shown.question.budget is not None:
                raise Misuse(f"the run {run} cannot start: {question_words(shown.question)}; use --budget")
            if shown.question is not None:
                raise Misuse(
                    f"the run {run} needs {', '.join(shown.question.variables)}, which is not set here"
                )

    anyio.run(now)
    return 0


def _say_who_runs_it(key: str) -> None:
    import os

    from segue.client import Daemon, find_daemon

    if not isinstance(find_daemon(os.environ), Daemon):
        say(f"segue: no daemon is running; go on with: segue queue run {key}", err=True)


def _list(asked: list[RunShown], as_json: bool, flows: Sequence[str]) -> int:
    if as_json:
        say_json(asked)
        return 0
    if not asked and not flows:
        say("Nothing is asked.", err=True)
    for line in flows:
        say(line)
    for each in asked:
        for question in each.questions:
            name = f"  --question {question.id}" if len(each.questions) > 1 else ""
            interrupted = question.lapsed and question.budget is None
            lapsed = " (interrupted: the answer is sent as the next message)" if interrupted else ""
            say(f"{each.run}  {each.conversation}  {words.one_line(asked_in_words(question))}{lapsed}{name}")
    return 0


def asked_in_words(question: OpenQuestion) -> str:
    """What is asked."""
    if question.kind == "permission":
        return f"may it use {words.tool(question.tool or '', question.input)}?"
    if question.kind == "environment":
        names = ", ".join(question.variables)
        return f"it needs {names}, not set where it runs; set it, and start the run again: segue answer RUN"
    if question.kind == "went_on":
        return f'{WROTE_SINCE} (segue answer RUN "{GO_ON}", or "{DROP}")'
    if question.budget is not None:
        return f"{asked_in_full(question.budget)} ({raise_command('RUN', question.budget)})"
    asked = read_questions(question.questions)
    return "; ".join(" / ".join([each.question, *(o.label for o in each.options)]) for each in asked)
