"""``segue answer``: answer what an agent asks, whichever process runs it."""

from __future__ import annotations

import click
import msgspec

from segue.app.run_shapes import OpenQuestion, RunShown, ToolAnswer
from segue.cli.caller import open_here
from segue.cli.change import change
from segue.cli.question import read_questions
from segue.cli.render import words
from segue.cli.render.output import say, say_json
from segue.core.errors import Misuse


@click.command("answer", short_help="Answer an agent's question.")
@click.argument("run", required=False)
@click.argument("text", required=False)
@click.option("--question", "named", metavar="ID", help="Which one, if the run asks several.")
@click.option("--allow", is_flag=True, help="Allow what the agent asks permission for.")
@click.option("--always", is_flag=True, help="Allow the tool from now on, in this conversation.")
@click.option("--deny", is_flag=True, help="Refuse it; TEXT is the reason.")
@click.option("--json", "as_json", is_flag=True, help="Print the list, or the run, as JSON.")
def command(
    run: str | None,
    text: str | None,
    named: str | None,
    allow: bool,
    always: bool,
    deny: bool,
    as_json: bool,
) -> int:
    """Answer a question of RUN. Without RUN, list all questions.

    TEXT is the answer to a question. A request for permission takes --allow, --always or --deny. If the run
    has ended without an answer, the answer is sent as the next message of the conversation; the id of its run
    is printed.
    """
    from segue.app.runs import open_questions, show_run

    with open_here() as workspace:
        asked = open_questions(workspace)
        if run is None:
            return _list(asked, as_json)
        found = next((each for each in asked if each.run == run), None)
        question = _chosen(found, run, named)
        if question.kind == "environment":
            return _again(run)
        given = _given(question, text, allow=allow, always=always, deny=deny)
        new = change("answer", run=run, given=msgspec.to_builtins(given))
        if as_json:
            say_json(show_run(workspace, run))
        elif new is not None:
            say(new)
    if new is not None:
        _say_who_runs_it(found.conversation if found is not None else "")
    return 0


def _chosen(found: RunShown | None, run: str, named: str | None) -> OpenQuestion:
    if found is None:
        raise Misuse(f"the run {run} has no open question; segue answer lists them")
    if named is None and len(found.questions) > 1:
        ids = ", ".join(each.id for each in found.questions)
        raise Misuse(f"the run {run} asks several questions; name one with --question: {ids}")
    for each in found.questions:
        if named in (None, each.id, each.tool_use_id):
            return each
    raise Misuse(f"the run {run} has no open question {named}; segue answer lists them")


def _given(question: OpenQuestion, text: str | None, *, allow: bool, always: bool, deny: bool) -> ToolAnswer:
    if question.kind == "permission":
        if allow + always + deny != 1:
            raise Misuse("a request for permission takes --allow, --always or --deny")
        return ToolAnswer(tool_use_id=question.id, allow=not deny, always=always, content=text)
    if allow or always:
        raise Misuse("--allow and --always are for a request for permission; a question takes an answer")
    if deny:
        return ToolAnswer(tool_use_id=question.id, allow=False, content=text)
    if text is None:
        raise Misuse("a question takes an answer: segue answer RUN TEXT")
    return ToolAnswer(tool_use_id=question.id, content=text)


def _again(run: str) -> int:
    """Start a run again whose variables were missing."""
    import os
    from pathlib import Path

    import anyio

    async def now() -> None:
        from segue.app.segue import Segue

        async with Segue(env=os.environ, cwd=Path.cwd()) as segue:
            shown = await segue.runs.now(run)
            await segue.service.drain(shown.conversation, lambda _: None)
            shown = await segue.runs.show(run)
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
        say(f"segue: no daemon is running; segue queue run {key} sends the answer", err=True)


def _list(asked: list[RunShown], as_json: bool) -> int:
    if as_json:
        say_json(asked)
        return 0
    if not asked:
        say("Nothing is asked.", err=True)
    for each in asked:
        for question in each.questions:
            name = f"  --question {question.id}" if len(each.questions) > 1 else ""
            lapsed = " (interrupted: the answer is sent as the next message)" if question.lapsed else ""
            say(f"{each.run}  {each.conversation}  {words.one_line(asked_in_words(question))}{lapsed}{name}")
    return 0


def asked_in_words(question: OpenQuestion) -> str:
    """What is asked."""
    if question.kind == "permission":
        return f"may it use {words.tool(question.tool or '', question.input)}?"
    if question.kind == "environment":
        names = ", ".join(question.variables)
        return f"it needs {names}, not set where it runs; set it, and start the run again: segue answer RUN"
    asked = read_questions(question.questions)
    return "; ".join(" / ".join([each.question, *(o.label for o in each.options)]) for each in asked)
