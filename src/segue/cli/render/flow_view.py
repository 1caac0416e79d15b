"""A flow as it works, on stderr: its steps, who works, how each turn went on, tokens, money and time."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from segue.cli.render import words
from segue.cli.render.output import DIM, GREEN, PLAIN, RED, YELLOW, Canvas, say
from segue.cli.render.table import fitted
from segue.core.usage import tokens_in_words
from segue.system import clock

if TYPE_CHECKING:
    from segue.app.flow_shapes import FlowShown, FlowStepShown

MARKS = {
    "done": f"{GREEN}✓{PLAIN}",
    "failed": f"{RED}✗{PLAIN}",
    "waiting": f"{YELLOW}?{PLAIN}",
    "running": "…",
}


class FlowView:
    """Shows what is finished as lines, and on a terminal what is in progress below them.

    ``name``: stands before each line, if several flows are shown at the same time. Then only lines are shown.
    """

    def __init__(self, *, quiet: bool = False, name: str = "") -> None:
        live = not quiet and not name and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._canvas = Canvas(sys.stderr) if live else None
        self._quiet, self._name = quiet, name
        self._told: set[tuple[str, int, str]] = set()
        self._flow: FlowShown | None = None
        self._why: str | None = None

    def show(self, flow: FlowShown) -> None:
        """Show what has changed since the last time."""
        self._flow = flow
        for step in flow.steps:
            told = (step.key, step.tries, step.state)
            if step.state == "running" or told in self._told:
                continue
            self._told.add(told)
            self._write(f"{self._name} {step_line(step)}".lstrip())
        self.tick()

    def tick(self) -> None:
        """Draw what is in progress, with the time that has passed."""
        if self._canvas is not None and self._flow is not None:
            width = self._canvas.width
            self._canvas.draw([fitted(line, width) for line in progress(self._flow)])

    def waits(self, flow: FlowShown) -> None:
        """Say what it waits for, when that has changed."""
        why = flow.waits.why if flow.waits is not None else None
        if why is not None and why != self._why:
            self.note(why)
        self._why = why

    def note(self, text: str) -> None:
        self._write(f"segue: {text}")

    def close(self) -> None:
        if self._canvas is not None:
            self._canvas.erase()
            self._canvas.flush()

    def _write(self, line: str) -> None:
        if self._canvas is not None:
            self._canvas.write(line + "\n")
        elif not self._quiet:
            say(line, err=True)


def progress(flow: FlowShown) -> Iterator[str]:
    """The lines for what is in progress."""
    for step in flow.steps:
        if step.state == "running":
            yield f"{DIM}{step_line(step)}{PLAIN}"
    yield f"{DIM}{summary(flow)}{PLAIN}"


def step_line(step: FlowStepShown) -> str:
    """One step: its key, who works, the mode, what was sent, tokens, money and time."""
    ended = step.ended if step.ended is not None else clock.now_ms()
    parts = [step.key]
    if step.kind == "turn":
        who = " ".join(filter(None, (step.role, f"({step.agent})" if step.agent else "")))
        parts += [who, _tier(step), step.mode or "", _sent(step), _tokens(step)]
        parts.append(words.money(step.cost_usd) if step.cost_usd is not None else "")
    if step.tries > 1:
        parts.append(f"try {step.tries}")
    if step.wake is not None and step.state == "running":
        parts.append(f"until {words.moment(step.wake)}")
    elif step.state in ("done", "failed", "running"):
        parts.append(words.seconds(max(0, ended - step.began)))
    failure = step.failure or _failure(step)
    if failure:
        parts.append(words.one_line(failure))
    mark = MARKS["failed"] if failure else MARKS[step.state]
    return f"{mark} " + " · ".join(filter(None, parts))


def summary(flow: FlowShown) -> str:
    """The flow in one line: what it is, how far it is, and what it cost."""
    done = sum(step.state == "done" for step in flow.steps)
    ended = flow.ended if flow.ended is not None else clock.now_ms()
    state = flow.state if flow.held or flow.state != "running" else "interrupted"
    words_ = {
        "needs_you": f"needs you ({flow.needs})",
        "parked": f"parked until {words.moment(flow.wake or 0)}",
    }
    end = f" ({flow.end})" if flow.end not in (None, flow.state) else ""
    parts = [
        f"{flow.kind} {flow.label}".strip(),
        f"{words_.get(state, state)}{end}",
        f"round {flow.rounds}" if flow.rounds else "",
        f"{done} of {len(flow.steps)} steps",
        f"{tokens_in_words(_new_tokens(flow))} tokens" if _new_tokens(flow) else "",
        words.money(flow.cost_usd) if flow.cost_usd is not None else "",
        words.seconds(max(0, ended - flow.created)),
    ]
    return " · ".join(words.one_line(part) for part in parts if part)


def _tier(step: FlowStepShown) -> str:
    return f"tier {step.tier}" if step.tier is not None else ""


def _sent(step: FlowStepShown) -> str:
    return f"sent {words.size(step.sent_bytes)}" if step.sent_bytes is not None else ""


def _tokens(step: FlowStepShown) -> str:
    new = sum(n or 0 for n in (step.usage.input, step.usage.cache_write, step.usage.output))
    return f"{tokens_in_words(new)} tokens" if new else ""


def _new_tokens(flow: FlowShown) -> int:
    return sum(n or 0 for n in (flow.usage.input, flow.usage.cache_write, flow.usage.output))


def _failure(step: FlowStepShown) -> str | None:
    """The kind of failure of a turn."""
    if step.kind != "turn" or step.result is None:
        return None
    import msgspec

    kind = msgspec.json.decode(step.result).get("failure")
    return str(kind).replace("_", " ") if kind else None


def reason_of(flow: FlowShown) -> str:
    """Why it ended as it did, if its result says so."""
    import msgspec

    result = msgspec.json.decode(flow.result) if flow.result is not None else None
    reason = result.get("reason") if isinstance(result, dict) else None
    return reason if isinstance(reason, str) else ""
