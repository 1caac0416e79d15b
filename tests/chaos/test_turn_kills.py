"""Kills in mid-turn, with -9, at any moment: the next turn goes on, and nothing is lost or done twice."""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import pytest

from segue.store import lease_rows
from segue.store.leases import native_lease
from segue.store.store import open_store
from segue.system.processes import this_process
from tests.chaos.scenes import GATE, KEY, Scene, Started, kill, kill_group, until

ROUNDS, SOAK_ROUNDS = 5, 50
"""For each way to kill; there are four."""
QUESTION = "what numbers?"

Moment = Callable[[Scene, Started, int], bool]

MOMENTS: dict[str, Moment] = {
    "the message is stored": lambda scene, _, n: bool(
        scene.rows("SELECT 1 FROM revisions WHERE text LIKE ?", f"remember number {n} %")
    ),
    "the turn has begun": lambda scene, _, n: bool(scene.rows("SELECT 1 FROM turns WHERE state = 'running'")),
    "the plan is written": lambda scene, _, n: scene.has("plan.json"),
    "its output has a file": lambda scene, _, n: scene.has("stdout"),
    "the process is noted": lambda scene, _, n: scene.has("process.json"),
    "it speaks": lambda scene, _, n: scene.said_by_agent(b'"session"'),
    "its tool runs": lambda scene, _, n: str(n) in scene.effects,
    "it streams": lambda scene, _, n: scene.said_by_agent(b'"delta"'),
    "it has answered": lambda scene, _, n: scene.said_by_agent(b'"end"'),
    "it is settled": lambda scene, _, n: bool(
        scene.rows(
            "SELECT 1 FROM turns JOIN revisions USING (message) WHERE text LIKE ? AND state = 'done'",
            f"remember number {n} %",
        )
    ),
}


def segue_alone(scene: Scene, started: Started) -> None:
    started.kill()


def agent_alone(scene: Scene, started: Started) -> None:
    until(lambda: scene.agents() or started.process.poll() is not None, "the agent runs, or did")
    for pid in scene.agents():
        kill(pid)


def both(scene: Scene, started: Started) -> None:
    started.kill()
    for pid in scene.agents():
        kill(pid)


def the_whole_groups(scene: Scene, started: Started) -> None:
    kill_group(started.pid)
    for pid in scene.agents():
        kill_group(pid)


BLOWS = (segue_alone, agent_alone, both, the_whole_groups)


def prompt(n: int) -> str:
    return f"remember number {n} [[shell echo {n} >> effects; sleep 0.1]] [[slow 0.3 6]] [[say answer-{n}]]"


@pytest.mark.parametrize("blow", BLOWS, ids=lambda blow: blow.__name__)
def test_killed_at_random_moments(
    scene: Scene, seed: int, soak: bool, blow: Callable[[Scene, Started], None]
) -> None:
    print(f"SEGUE_TEST_SEED={seed}")
    dice = random.Random(f"{seed} {blow.__name__}")
    began = time.monotonic()
    scene.run(prompt(100))
    takes_s, said = time.monotonic() - began, [100]
    moments = list(MOMENTS) if blow is not agent_alone else list(MOMENTS)[4:9]
    dice.shuffle(moments)
    for n, moment in zip(range(101, 101 + (SOAK_ROUNDS if soak else ROUNDS)), itertools.cycle(moments)):
        said.append(n)
        when = moment if dice.random() < 0.6 else dice.random() * takes_s
        strike(scene, blow, n, when, dice)
        next_turn_goes_on(scene, said, blow, f"{blow.__name__} at {when} of {n}")


def strike(
    scene: Scene,
    blow: Callable[[Scene, Started], None],
    n: int,
    when: str | float,
    dice: random.Random,
) -> None:
    started = scene.start(prompt(n))
    if isinstance(when, float):
        time.sleep(when)
    else:
        until(
            lambda: MOMENTS[when](scene, started, n) or started.process.poll() is not None,
            when,
            pause_s=0.001,
        )
        time.sleep(dice.choice((0, 0, 0.005, 0.02)))
    blow(scene, started)


def next_turn_goes_on(scene: Scene, said: list[int], blow: object, what: str) -> None:
    """The last of ``said`` was struck: perhaps before its turn began, so that it is withdrawn."""
    foretold = scene.segue("why", KEY, QUESTION, "--json").turn
    done = scene.run(QUESTION)
    if blow in (both, the_whole_groups) and foretold["recovery"] != "adopt":
        assert done.turn["mode"] == foretold["mode"], what
    log = scene.said()
    mine = [text for sender, text in log if sender == "user" and text != QUESTION]
    if prompt(said[-1]) not in mine:
        begun = (
            "SELECT 1 FROM turns JOIN revisions USING (message) WHERE state <> 'withdrawn' AND text LIKE ?"
        )
        assert not scene.rows(begun, f"remember number {said[-1]} %"), f"lost: {what}"
        said.pop()
    assert mine == [prompt(n) for n in said], what
    assert done.turn["text"] == ", ".join(map(str, said)), what
    effects, answers = scene.effects, [text for sender, text in log if sender == "assistant"]
    assert len(effects) == len(set(effects)), what
    for n in said:
        assert answers.count(f"answer-{n}") <= 1, what
        assert f"answer-{n}" not in answers or str(n) in effects, what
    if blow is segue_alone and str(said[-1]) in effects:
        assert f"answer-{said[-1]}" in answers, f"the agent went on, and its answer is lost: {what}"
    until(scene.quiet, f"quiet after {what}")


def test_killed_while_it_waits(scene: Scene) -> None:
    first = scene.start(f"first [[shell {GATE}]] [[say one]]")
    scene.agent()
    second = scene.start("second")
    second.says("waiting for another turn of t")
    second.kill()
    scene.open_gate()
    assert first.end().code == 0
    done = scene.run("third")
    assert [text for _, text in scene.said()][1:] == ["one", "third", "Understood."]
    assert scene.heard(done.turn["session_id"])[1:] == ["third"]
    assert scene.quiet()


def test_killed_between_the_plan_and_the_start(scene: Scene) -> None:
    """Somebody else has the native session: so that is where it stands still."""
    session = scene.run("remember number 1").turn["session_id"]
    with holding(scene, native_lease("rehearsal", scene.host, session)):
        started = scene.start("remember number 2 [[shell echo two >> effects]]")
        started.says("waiting for the session")
        assert scene.has("plan.json")
        assert not scene.has("stdout")
        started.kill()
    done = scene.run("what numbers?", "--wait", "0")
    assert (done.turn["text"], done.turn["mode"]) == ("1, 2", "resume")
    assert scene.effects == []
    killed = scene.log()[2]
    assert (killed["status"], killed["failure"]["message"]) == (
        "failed",
        "Segue was killed before the agent was started",
    )
    assert scene.quiet()


def test_killed_in_its_first_turn_it_knows_whom_it_talks_to(scene: Scene) -> None:
    del scene.segue.env["SEGUE_DEFAULTS_AGENT"]
    started = scene.start("hello [[hang]]", "--agent", "rehearsal")
    agent = scene.agent()
    started.kill()
    kill(agent)
    assert scene.run("go on").turn["agent"] == "rehearsal"


def test_killed_in_its_second_attempt(scene: Scene) -> None:
    """The agent refuses its session, and gets the conversation as text: both attempts are accounted for."""
    session = scene.run("remember number 1").turn["session_id"]
    file = scene.agent_home / "sessions" / f"{session}.jsonl"
    header, *rest = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(header + b"{torn}\n" + b"".join(rest))
    started = scene.start(f"remember number 2 [[shell echo two >> effects; {GATE}]] [[say answer-2]]")
    until(lambda: "two" in scene.effects, "the second attempt runs its tool")
    started.kill()
    scene.open_gate()
    done = scene.run("what numbers?")
    assert (done.turn["text"], done.turn["mode"]) == ("1, 2", "resume")
    assert [text for _, text in scene.said()][3:] == ["answer-2", "what numbers?", "1, 2"]
    ((told,),) = scene.rows("SELECT told FROM turns ORDER BY started_ms LIMIT 1 OFFSET 1")
    attempts = msgspec.json.decode(told)["attempts"]
    assert [(each["mode"], each["outcome"]) for each in attempts] == [
        ("resume", "session_rejected"),
        ("replay", "ok"),
    ]
    assert scene.effects == ["two"]


def test_what_is_edited_before_the_next_turn_reads_as_edited(scene: Scene) -> None:
    """The killed turn is settled from its plan, which knows the old wording."""
    scene.run("remember number 1")
    started = scene.start(f"remember number 2 [[shell echo two >> effects; {GATE}]]")
    until(lambda: scene.effects, "its tool runs")
    the_whole_groups(scene, started)
    started.end()
    assert scene.segue("edit", "t", "#1", "remember number 5").code == 0
    done = scene.run("what numbers?")
    assert (done.turn["text"], done.turn["mode"]) == ("5, 2", "replay")
    assert scene.effects == ["two"]
    assert scene.quiet()


@pytest.mark.parametrize("branch", [False, True], ids=["resumed", "branched"])
def test_what_the_agent_had_not_written_down_is_sent_again(scene: Scene, branch: bool) -> None:
    """A CLI may keep what happens to itself for a moment: killed then, its session knows nothing of it."""
    session = scene.run("remember number 1").turn["session_id"]
    if branch:
        scene.run("hello")
        assert scene.segue("truncate", "t", "#3").code == 0
    sizes = {file: file.stat().st_size for file in (scene.agent_home / "sessions").glob("*.jsonl")}
    started = scene.start(f"remember number 2 [[shell echo two >> effects; {GATE}]]")
    until(lambda: scene.effects, "its tool runs")
    the_whole_groups(scene, started)
    started.end()
    for file in (scene.agent_home / "sessions").glob("*.jsonl"):
        first = file.read_bytes().split(b'"remember number 2')[0]
        os.truncate(file, sizes.get(file, first.rfind(b"\n") + 1))
    done = scene.run("what numbers?")
    assert done.turn["text"] == "1, 2"
    assert done.turn["mode"] == ("branch" if branch else "resume")
    assert (done.turn["session_id"] == session) is not branch
    assert "interrupted after 1 tool call" in scene.heard(done.turn["session_id"])[-1]


@contextmanager
def holding(scene: Scene, name: str) -> Iterator[None]:
    """Hold a lease as another living process does."""
    with open_store(None, scene.segue.home / "segue.db") as store:
        got = store.take_lease(name, this_process(scene.host), lambda _: "alive")
        assert isinstance(got, lease_rows.Taken)
        yield
        store.release_lease(got.claim)
