"""``segue answer``: answer what an agent asks in a run of the daemon."""

from __future__ import annotations

import os
from typing import Any

import click

from segue.app.run_shapes import OpenQuestion, RunShown
from segue.cli.caller import open_here
from segue.cli.question import read_questions
from segue.cli.render import words
from segue.cli.render.output import say
from segue.core.errors import Broken, Misuse


@click.command("answer", short_help="Answer an agent's question.")
@click.argument("run", required=False)
@click.argument("text", required=False)
@click.option("--allow", is_flag=True, help="Allow what the agent asks permission for.")
@click.option("--deny", is_flag=True, help="Refuse it; TEXT is the reason.")
def command(run: str | None, text: str | None, allow: bool, deny: bool) -> int:
    """Answer the open question of RUN. Without RUN, list all open questions.

    TEXT is the answer to a question. A request for permission takes --allow or --deny.
    """
    from segue.app.runs import open_questions

    with open_here() as workspace:
        asked = open_questions(workspace)
    if run is None:
        return _list(asked)
    question = next((each.question for each in asked if each.run == run), None)
    if question is None:
        raise Misuse(f"the run {run} has no open question; segue answer lists them")
    body: dict[str, Any] = {"tool_use_id": question.id}
    if question.kind == "permission":
        if allow == deny:
            raise Misuse("a request for permission takes --allow or --deny")
        body |= {"allow": allow, **({"content": text} if text else {})}
    elif text is None:
        raise Misuse("a question takes an answer: segue answer RUN TEXT")
    else:
        body["content"] = text
    return _send(run, body)


def _send(run: str, body: dict[str, Any]) -> int:
    from segue.client import Daemon, find_daemon

    daemon = find_daemon(os.environ)
    if not isinstance(daemon, Daemon):
        raise Misuse("no daemon runs this turn; answer it in the terminal where it runs")
    status = daemon.post(f"/api/v1/runs/{run}/tool-result", body)
    if status is None:
        raise Broken("the daemon does not answer; see segue status")
    if status == 200:
        return 0
    say("segue: the answer was not accepted: it has been answered, or the run is over", err=True)
    return 1


def _list(asked: list[RunShown]) -> int:
    if not asked:
        say("Nothing is asked.", err=True)
    for each in asked:
        assert each.question is not None
        say(f"{each.run}  {each.conversation}  {words.one_line(_asked(each.question))}")
    return 0


def _asked(question: OpenQuestion) -> str:
    """What is asked, in words."""
    if question.kind == "permission":
        return f"may it use {words.tool(question.tool or '', question.input)}?"
    asked = read_questions(question.questions)
    return "; ".join(" / ".join([each.question, *(o.label for o in each.options)]) for each in asked)
