"""``segue answer``: answer what an agent asks in a run of the daemon."""

from __future__ import annotations

import os
from typing import Any

import click

from segue.cli.caller import open_here
from segue.cli.render.output import say
from segue.core.errors import Misuse


@click.command("answer", short_help="Answer an agent's question.")
@click.argument("run", required=False)
@click.argument("text", required=False)
@click.option("--deny", is_flag=True, help="Refuse what the agent asks permission for.")
def command(run: str | None, text: str | None, deny: bool) -> int:
    """Answer the open question of RUN. Without RUN, list all open questions.

    TEXT is the answer to a question. A permission is granted; with --deny it is refused, and TEXT is why.
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
        body |= {"allow": not deny, **({"content": text} if text else {})}
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
    if daemon.post(f"/api/v1/runs/{run}/tool-result", body):
        return 0
    say("segue: the answer was not accepted: it has been answered, or the run is over", err=True)
    return 1


def _list(asked: list[Any]) -> int:
    from segue.cli.render import words

    if not asked:
        say("Nothing is asked.", err=True)
    for each in asked:
        what = each.question.tool if each.question.kind == "permission" else each.question.questions
        say(f"{each.run}  {each.conversation}  {each.question.kind}  {words.one_line(str(what))[:200]}")
    return 0
