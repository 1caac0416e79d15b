"""What a declared agent's run amounts to: its answer or the kind of its failure, its usage and cost.

It succeeded when the record that ``done`` describes was there (without one: when it exited with 0) and it
said something.
"""

from segue.agents.base import Ended
from segue.agents.declared.output import Output, session
from segue.config.declared import DeclaredAgent
from segue.core import events as ev
from segue.core.outcome import Failure, Outcome, by_exit, fallen, last_line
from segue.core.reading import Reading
from segue.core.usage import Context, Totals, Usage, cost_since, since


def conclude(ended: Ended, spec: DeclaredAgent, output: Output, label: str) -> Outcome:
    reading = _whole(ended, spec, output)
    text = _text(ended, spec, output, reading)
    announced = reading.session_id or _on_stderr(ended, spec, output)
    failure = by_exit(ended.exit)
    if failure is None and not (_ended_well(ended, spec, reading) and text.strip()):
        failure = _explained(ended, output, label)
    start = ended.request.start
    if failure is None and start.mode == "resume" and announced not in (None, start.session):
        failure = Failure("session_rejected", f"{label} answered in another session", reason="unknown")
    refused = failure is not None and failure.kind in ("session_rejected", "session_busy")
    usage, cost, totals = _spent(ended, spec, reading)
    requests = spec.usage is not None and spec.usage.scope == "request"
    return Outcome(
        text=text if failure is None else "",
        failure=failure,
        session_id=None if refused else announced,
        model=reading.model or ended.request.model,
        usage=usage,
        cost_usd=cost,
        context=Context(reading.last_request.prompt if requests and reading.last_request else None),
        totals=totals,
        model_turns=reading.requests if requests else None,
        tools_denied=None,
        tools_run=_ran(ended, spec, output, reading),
    )


def _ran(ended: Ended, spec: DeclaredAgent, output: Output, reading: Reading) -> int | None:
    """How many tools ran. Without a place that tells of them nobody knows, and no number stands for that."""
    if not spec.tool:
        return None
    return output.calls(ended.evidence.get("document")) if spec.output == "json" else reading.tools_run


def _whole(ended: Ended, spec: DeclaredAgent, output: Output) -> Reading:
    """What was read on the way, or now from the one document."""
    if spec.output != "json":
        return ended.reading
    reading = Reading()
    for event in output.document(ended.evidence.get("document")):
        reading.add(event)
    return reading


def _text(ended: Ended, spec: DeclaredAgent, output: Output, reading: Reading) -> str:
    return (reading.answer or output.from_stderr(spec.text, ended.exit.stderr) or "").rstrip("\n")


def _on_stderr(ended: Ended, spec: DeclaredAgent, output: Output) -> str | None:
    found = output.from_stderr(spec.session_id, ended.exit.stderr)
    announced = session(found, None) if found is not None else None
    return announced.id if isinstance(announced, ev.Session) else None


def _ended_well(ended: Ended, spec: DeclaredAgent, reading: Reading) -> bool:
    return reading.end is not None if spec.done else ended.exit.code == 0


def _explained(ended: Ended, output: Output, label: str) -> Failure:
    tail = str(ended.evidence.get("tail") or "")
    known = output.failure(tail, ended.exit.stderr, ended.evidence.get("document"))
    if known is not None:
        return known
    failure = fallen(ended.exit, label)
    if failure.kind == "crashed" and not last_line(ended.exit.stderr) and last_line(tail):
        return Failure("crashed", last_line(tail))
    return failure


def _spent(ended: Ended, spec: DeclaredAgent, reading: Reading) -> tuple[Usage, float | None, Totals]:
    """This turn's share. Where the CLI counts over the session and its past is unknown, so is the share."""
    usage, cost = reading.usage, reading.cost_usd
    if spec.usage is None or spec.usage.scope != "session":
        return usage, cost, Totals()
    totals, base = Totals(usage, cost), ended.base
    if ended.request.start.mode == "fresh":
        return usage, cost, totals
    ours = Usage() if base.usage == Usage() else since(usage, base.usage)
    return ours, None if base.cost_usd is None else cost_since(cost, base.cost_usd), totals
