"""Answers to flows, for ``segue answer``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.cli.render import words
from segue.cli.render.output import say, say_json
from segue.core.budget import plain_number
from segue.core.errors import Misuse, NotFound

if TYPE_CHECKING:
    from segue.app.workspace import Workspace


def is_flow(workspace: Workspace, name: str) -> bool:
    """Whether the name is that of a flow."""
    from segue.app.flows import find

    try:
        find(workspace, name)
    except NotFound:
        return False
    return workspace.store.turn(name) is None


def flow_answer(text: str | None, budget: float | None, *, stop: bool, other: bool) -> str:
    """The answer to a flow, from the options."""
    if other or (text is not None) + (budget is not None) + stop != 1:
        raise Misuse("answer with: segue answer FLOW TEXT; for a budget: --budget USD or --deny")
    return plain_number(budget) if budget is not None else text if text is not None else "stop"


def answer_flow(
    workspace: Workspace, name: str, text: str, step: str | None, as_json: bool, *, of_budget: bool = False
) -> int:
    """Answer what a flow asks, and say how it goes on."""
    from segue.app import flows
    from segue.cli.flow_run import daemon_runs

    asked = flows.show(workspace, name).questions
    if of_budget and asked and not any(each.needs == "budget" for each in asked if step in (None, each.step)):
        raise Misuse("--budget and --deny are for a flow whose budget was reached; give the answer as TEXT")
    row = flows.answer(workspace, name, text, step)
    if as_json:
        say_json(flows.show(workspace, row.id))
    if row.state == "running" and not (row.source is None and daemon_runs()):
        say(f"segue: the flow goes on with: segue flow resume {row.id}", err=True)
    return 0


def asked_by_flows(workspace: Workspace) -> list[str]:
    """What flows ask, a line for each."""
    from segue.app.flows import ls

    lines = []
    for flow in ls(workspace):
        for each in flow.questions:
            choices = f" ({' / '.join(each.choices)})" if each.choices else ""
            many = f"  --question {each.step}" if len(flow.questions) > 1 else ""
            lines.append(f"{flow.flow}  {flow.kind}  {words.one_line(each.text)}{choices}{many}")
    return lines
