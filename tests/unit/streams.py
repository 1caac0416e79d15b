"""Reads a stream that the live tests recorded, as an attempt would, without a process."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from segue.agents.base import Agent, Ended, Evidence
from segue.core import events as ev
from segue.core.outcome import Exit, Outcome
from segue.core.request import Capabilities, Request, Runtime, Start
from segue.core.stream import TurnState
from segue.core.usage import Totals

STREAMS = Path(__file__).parents[1] / "fixtures" / "streams"


def events_of(agent: Agent, stream: Path) -> list[ev.Event]:
    return [event for line in stream.read_bytes().splitlines() for event in agent.parse(line)]


def concluded(
    agent: Agent,
    events: list[ev.Event],
    *,
    code: int | None = 0,
    stderr: str = "",
    ended_by: Literal["cancelled", "timeout"] | None = None,
    start: Start | None = None,
    evidence: Evidence | None = None,
    base: Totals | None = None,
    can: Capabilities | None = None,
    version: str | None = None,
    now_ms: int = 0,
) -> Outcome:
    """What the agent makes of these events and this end."""
    reading = TurnState()
    for event in events:
        reading.add(event)
    return agent.conclude(
        Ended(
            request=Request(prompt="hello", cwd=Path("/home/me/project"), start=start or Start()),
            runtime=Runtime(
                agent=agent.facts.name,
                distribution=agent.facts.name,
                command=(agent.facts.name,),
                version=version,
                capabilities=can or Capabilities(resume=True),
            ),
            reading=reading,
            exit=Exit(code, ended_by, stderr),
            evidence=evidence or {},
            base=base or Totals(),
            now_ms=now_ms,
        )
    )
