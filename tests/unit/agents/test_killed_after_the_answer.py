"""An agent that was killed when its session had the answer, but its output did not say that it had ended."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from tests.unit.streams import STREAMS, concluded, events_of

from segue.agents import registry
from segue.agents.base import Agent
from segue.config.schema import Config
from segue.core import events as ev
from segue.core.request import Request, RunPlace
from segue.core.stream import TurnState

SESSIONS = Path(__file__).parents[2] / "fixtures" / "sessions"
CWD = Path("/home/me/project")
TURNS = {
    "claude": (
        "claude-2.1.325",
        "55a176da-3ff1-44d5-b25d-23a9f2de97da",
        "projects/-home-me-project/55a176da-3ff1-44d5-b25d-23a9f2de97da.jsonl",
    ),
    "codex": (
        "codex-0.166.0/talk",
        "01a1e24e-5307-79f1-8454-38691672336e",
        "sessions/2026/11/16/rollout-2026-11-16T03-02-26-01a1e24e-5307-79f1-8454-38691672336e.jsonl",
    ),
}
"""A home, a session in it, and its file."""
STREAM = {"claude": "claude-2.1.325/tool.jsonl", "codex": "codex-0.166.0/tool.jsonl"}
ENDS = {"claude": b'"stop_reason":"end_turn"', "codex": b'"task_complete"'}


def agent_of(name: str) -> Agent:
    return registry.get(name, Config())


def left(name: str, tmp: Path, keep: int | None = None) -> tuple[Path, str]:
    """The home as it was left, and its session. ``keep``: the lines of the session that were written."""
    home, session, file = TURNS[name]
    shutil.copytree(SESSIONS / home, tmp / "home")
    path = tmp / "home" / file
    lines = path.read_bytes().splitlines(keepends=True)
    last = max(n for n, line in enumerate(lines) if ENDS[name] in line)
    path.write_bytes(b"".join(lines[: last + 1 if keep is None else last + keep]))
    return tmp / "home", session


def outcome_of(name: str, home: Path, session: str, started_ms: int = 0, schema: str | None = None) -> str:
    """Its answer, or the kind of its failure; of a run whose output broke off before its end."""
    agent = agent_of(name)
    events = [e for e in events_of(agent, STREAMS / STREAM[name]) if not isinstance(e, ev.End)]
    events = [msgspec.structs.replace(e, id=session) if isinstance(e, ev.Session) else e for e in events]
    reading = TurnState()
    for event in events:
        reading.add(event)
    request = Request(prompt="hello", cwd=CWD, schema=schema)
    place = RunPlace(home, home, started_ms)
    evidence = agent.evidence(request, place, home, reading)
    told = concluded(agent, events, code=-9, evidence=evidence)
    return told.failure.kind if told.failure is not None else told.text


@pytest.mark.parametrize("name", TURNS)
def test_the_turn_has_ended_well_with_the_answer_of_the_session(name: str, tmp_path: Path) -> None:
    home, session = left(name, tmp_path)
    answer = outcome_of(name, home, session)
    assert answer != "killed"
    assert answer in (home / TURNS[name][2]).read_text()


@pytest.mark.parametrize("name", TURNS)
def test_without_the_end_of_the_turn_it_was_killed(name: str, tmp_path: Path) -> None:
    assert outcome_of(name, *left(name, tmp_path, keep=0)) == "killed"


@pytest.mark.parametrize("name", TURNS)
def test_the_answer_of_an_earlier_turn_does_not_count(name: str, tmp_path: Path) -> None:
    assert outcome_of(name, *left(name, tmp_path), started_ms=4_000_000_000_000) == "killed"


def test_claude_has_an_answer_with_a_form_only_in_its_output(tmp_path: Path) -> None:
    assert outcome_of("claude", *left("claude", tmp_path), schema="{}") == "killed"
