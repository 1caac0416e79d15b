"""The guards of session resume on real CLIs, with the rungs resume, replay and fresh alone.

Each guard has two halves: the session is not resumed, *and* the whole transcript is sent. A turn that does
neither would lose the conversation without a word. Both halves are looked at on the wire, with the program on
its own and over the HTTP API of a daemon, for ``history`` all and own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from tests import clis
from tests.live.api import serving
from tests.live.doors import CommandLine, Door, OverHttp
from tests.live.talk import Said, talking
from tests.live.test_switching import program, ready

MODES = '[continuity]\nmodes = ["resume", "replay", "fresh"]\nhistory = "{history}"'
FIRST, SECOND = "u-one [[say a-one]]", "u-two [[say a-two]]"
PAIRS = {"claude": "codex", "codex": "claude", "gemini": "claude", "vibe": "codex"}
"""Each agent, and the other one that it shares a conversation with."""


class Way(NamedTuple):
    door: str
    history: str
    agent: str


USUAL = Way("daemon", "all", "claude")
PROGRAM = Way("program", "all", "claude")
OWN = Way("daemon", "own", "claude")
OTHER_WAY_ROUND = {Way("daemon", "all", "codex"), Way("daemon", "own", "codex")}


def ways(*more: Way) -> pytest.MarkDecorator:
    """The usual way, and ``more``; all the others with ``--soak``."""
    params = []
    for way in map(Way._make, product(("program", "daemon"), ("all", "own"), PAIRS)):
        marks = [] if way in {USUAL, *more} else [pytest.mark.soak]
        params.append(pytest.param(way, id="-".join(way), marks=marks))
    return pytest.mark.parametrize("scene", params, indirect=True)


class Scene(NamedTuple):
    """A conversation of an agent, which another one may join."""

    door: Door
    agent: str
    other: str
    own: bool
    """An agent knows only what follows the last answer of another one."""

    def run(self, text: str, *, cwd: Path | None = None, fresh_session: bool = False) -> Said:
        return self.door.run(text, agent=self.agent, cwd=cwd, fresh_session=fresh_session)

    def run_other(self, text: str) -> Said:
        return self.door.run(text, agent=self.other)


@pytest.fixture
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    way: Way = request.param
    other = PAIRS[way.agent]
    newest = {agent: clis.CLIS[agent].newest for agent in (way.agent, other)}
    for agent, version in newest.items():
        ready(agent, version)
    with talking(tmp_path, newest) as talk, ExitStack() as stack:
        talk.config(MODES.format(history=way.history))
        talk.env["SEGUE_DEFAULTS_AGENT"] = way.agent
        if way.door == "daemon":
            door: Door = OverHttp(talk, stack.enter_context(serving(talk)))
        else:
            door = CommandLine(talk)
        yield Scene(door, way.agent, other, way.history == "own")


def spoken(turn: Said) -> list[str]:
    """What the agent's own session has as said by the agent, in the turn's first request."""
    body = next(request.body for request in turn.requests if not request.side)
    assert body is not None
    entries = body.get("messages") or body.get("input") or body.get("contents") or []
    return [
        msgspec.json.encode(entry).decode()
        for entry in entries
        if entry.get("role") in ("assistant", "model")
    ]


def is_resumed(turn: Said, before: Said, *answers: str) -> None:
    """The agent's own session has the answers; no message is there twice."""
    assert (turn.mode, turn.turn["resumed"]) == ("resume", True), turn.failed()
    assert turn.turn["resumed_from"] == before.turn["session_id"]
    own = spoken(turn)
    assert len(own) == len(answers)
    for entry, answer in zip(own, answers, strict=True):
        assert answer in entry
        assert turn.sent.count(answer.replace("a-", "u-")) == 1


def is_whole(turn: Said, *texts: str) -> None:
    """Not resumed: the session begins with this message, and all of it is there as text, once."""
    assert (turn.turn["resumed"], turn.turn["resumed_from"]) == (False, None)
    assert turn.mode == ("replay" if len(texts) > 1 else "fresh"), turn.failed()
    assert spoken(turn) == []
    for text in texts:
        assert turn.sent.count(text) == 1, text


def is_without(turn: Said, *texts: str) -> None:
    for text in texts:
        assert text not in turn.sent, text


@ways(PROGRAM)
def test_the_happy_path_resumes_and_sends_the_new_message_alone(scene: Scene) -> None:
    scene.run(FIRST)
    before = scene.run(SECOND)
    turn = scene.run("u-three")
    is_resumed(turn, before, "a-one", "a-two")
    assert turn.sent.count("u-three") == 1
    assert turn.turn["sent"]["bytes"] == len("u-three")


@ways(PROGRAM, OWN)
def test_another_agent(scene: Scene) -> None:
    scene.run(FIRST)
    scene.run(SECOND)
    turn = scene.run_other("u-three")
    if scene.own:
        is_whole(turn, "u-three")
        is_without(turn, "u-one", "a-one", "u-two", "a-two")
    else:
        is_whole(turn, "u-one", "u-two", "u-three")


@ways()
def test_a_fresh_session_is_wished(scene: Scene) -> None:
    scene.run(FIRST)
    is_whole(scene.run("u-two", fresh_session=True), "u-one", "u-two")


@ways()
def test_a_message_is_run_again(scene: Scene) -> None:
    scene.run(FIRST)
    scene.run(SECOND)
    scene.run("u-three [[say a-three]]")
    turn = scene.door.retry("#3")
    is_whole(turn, "u-one", "u-two")
    is_without(turn, "u-three")


@ways(PROGRAM)
def test_the_history_was_edited(scene: Scene) -> None:
    scene.run(FIRST)
    scene.door.edit("#1", "u-uno")
    turn = scene.run("u-two")
    is_whole(turn, "u-uno", "u-two")
    is_without(turn, "u-one")


@ways(OWN, *OTHER_WAY_ROUND)
def test_what_only_another_agent_said_was_edited(scene: Scene) -> None:
    before = scene.run(FIRST)
    scene.run_other(SECOND)
    scene.door.edit("#4", "other words")
    turn = scene.run("u-three")
    is_resumed(turn, before, "a-one")
    assert turn.sent.count("other words") == (0 if scene.own else 1)
    assert turn.sent.count("u-two") == (0 if scene.own else 1)


@ways(OWN, *OTHER_WAY_ROUND)
def test_the_other_agents_boundary_turn_was_dropped(scene: Scene) -> None:
    scene.run_other(FIRST)
    scene.run(SECOND)
    scene.door.truncate("#2")
    turn = scene.run("u-three")
    is_whole(turn, "u-one", "u-three")
    is_without(turn, "u-two", "a-two")


@ways(OWN)
def test_the_other_agents_boundary_turn_was_run_again(scene: Scene) -> None:
    scene.run_other(FIRST)
    scene.run(SECOND)
    scene.door.retry("#1")
    turn = scene.run("u-three")
    is_whole(turn, *(("u-three",) if scene.own else ("u-one", "u-three")))
    is_without(turn, "u-two", "a-two")


@ways()
def test_another_directory(scene: Scene, tmp_path: Path) -> None:
    scene.run(FIRST)
    other = tmp_path / "other"
    other.mkdir()
    if isinstance(scene.door, CommandLine):
        assert scene.door.talk("run", "t", "u-two", cwd=other).code == 2
    turn = scene.run("u-two", cwd=other)
    is_whole(turn, "u-one", "u-two")
    assert str(other) in turn.failed()["workdir"]


@ways()
def test_the_same_directory_by_another_name(scene: Scene, tmp_path: Path) -> None:
    before = scene.run(FIRST)
    link = tmp_path / "link"
    link.symlink_to(scene.door.talk.cwd)
    is_resumed(scene.run("u-two", cwd=link), before, "a-one")


@ways()
def test_another_runtime(scene: Scene, tmp_path: Path) -> None:
    scene.run(FIRST)
    other = tmp_path / "other-program"
    other.symlink_to(clis.CLIS[scene.agent].program(clis.CLIS[scene.agent].newest))
    scene.door.talk.config(f'[agents.{scene.agent}]\ncommand = ["{other}"]')
    turn = scene.run("u-two")
    is_whole(turn, "u-one", "u-two")
    assert "runtime" in turn.failed()


@ways(PROGRAM)
def test_a_rejected_resume_is_tried_again_with_everything(scene: Scene) -> None:
    """The program is given the id of another session, which does not exist."""
    scene.run(FIRST)
    no_session = "00000000-0000-4000-8000-000000000000"
    program(
        scene.door.talk,
        scene.agent,
        'resumes=; for word; do case "$word" in resume|--resume=*) resumes=1 ;; esac; done\n'
        'for word; do shift; case "$resumes$word" in\n'
        f"1--resume=*) word=--resume={no_session} ;;\n"
        f"1????????-????-????-????-????????????) word={no_session} ;;\n"
        'esac; set -- "$@" "$word"; done\nexec "$REAL" "$@"',
    )
    turn = scene.run("u-two")
    is_whole(turn, "u-one", "u-two")
    assert [attempt["mode"] for attempt in turn.turn["attempts"]] == ["resume", "replay"]
    assert turn.turn["attempts"][0]["outcome"] == "session_rejected"
    if isinstance(scene.door, CommandLine):
        assert "refused the session" in turn.stderr


@ways()
def test_a_program_without_resume(scene: Scene) -> None:
    program(
        scene.door.talk,
        scene.agent,
        'case "$*" in *--help*) "$REAL" "$@" | grep -v resume; exit ;; esac\nexec "$REAL" "$@"',
    )
    scene.run(FIRST)
    turn = scene.run("u-two")
    is_whole(turn, "u-one", "u-two")
    assert "capability" in turn.failed()
