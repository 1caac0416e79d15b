"""Segue is killed, and what the run left on disk is lost as well: nobody claims to know what happened."""

from __future__ import annotations

import shutil

import msgspec
import pytest

from tests.chaos.scenes import GATE, Scene, Started, kill, until
from tests.integration.talk import OTHER

NEVER = "before the agent was started"
UNKNOWN = "what it did is not known"
NOTE = f"Your last turn was interrupted, and {UNKNOWN}; look before repeating."


def all_killed(scene: Scene, started: Started) -> None:
    started.kill()
    for pid in scene.ours():
        kill(pid)
    until(lambda: not scene.ours(), "nobody is left")


def killed(scene: Scene, started: Started) -> None:
    """Both are gone, and all that the run had on disk."""
    all_killed(scene, started)
    shutil.rmtree(scene.segue.home / "runs")


def forgotten(scene: Scene) -> None:
    """As if the store had been told nothing while the agent ran."""
    scene.write("DELETE FROM events WHERE turn IN (SELECT id FROM turns WHERE state = 'running')")


def test_a_turn_whose_directory_is_lost_is_neither_denied_nor_cut_off(scene: Scene) -> None:
    session = scene.run("remember number 1").turn["session_id"]
    started = scene.start(f"remember number 2 [[shell echo two >> effects; {GATE}]]")
    until(lambda: scene.effects == ["two"], "its tool runs")
    killed(scene, started)
    forgotten(scene)
    done = scene.run("what numbers?").turn
    assert (done["mode"], done["session_id"], done["text"]) == ("resume", session, "1, 2")
    _, lost, last = scene.heard(session)
    assert "remember number 2" in lost
    assert "remember number 2" not in last
    assert NOTE in last
    failure = scene.log()[2]["failure"]
    assert failure["kind"] == "killed"
    assert UNKNOWN in failure["message"]
    assert NEVER not in failure["message"]
    assert scene.effects == ["two"]
    assert scene.quiet()


def test_tool_calls_that_the_store_knows_of_are_told(scene: Scene) -> None:
    session = scene.run("remember number 1").turn["session_id"]
    started = scene.start(f"remember number 2 [[shell echo two >> effects; {GATE}]]")
    until(lambda: scene.effects == ["two"], "its tool runs")
    calls = 'SELECT 1 FROM events WHERE event LIKE \'{"type":"tool-call"%\''
    until(lambda: scene.rows(calls), "the call is recorded, although nothing comes after it")
    killed(scene, started)
    assert scene.run("what numbers?").turn["mode"] == "resume"
    assert "Your last turn was interrupted after 1 tool call" in scene.heard(session)[-1]


TELLS = {
    "itself": ((), NOTE),
    "another agent": (("--agent", "other"), "interrupted, what was done is not known: the agent was killed"),
    "another role": (("--role", "critic"), "interrupted, what was done is not known: the agent was killed"),
    "a fresh session": (("--fresh-session",), "interrupted, what was done is not known: the agent was kill"),
    "from nothing": (("--blank",), f"The turn before this one (rehearsal) was interrupted, and {UNKNOWN}"),
    "a recap": (("--agent", "other"), f"The turn before this one (rehearsal) was interrupted, and {UNKNOWN}"),
}


@pytest.mark.parametrize("who", [*TELLS, "a fork of it", "another agent in a fork of it"])
def test_whoever_goes_on_is_told_that_nobody_knows(scene: Scene, who: str) -> None:
    """Not only in words: it counts as unknown, so that it is no retry, and nobody takes it for undone."""
    modes = "" if who != "a recap" else '[continuity]\nmodes = ["resume", "recap", "fresh"]\n'
    scene.segue.config(OTHER + modes)
    scene.run("remember number 1")
    started = scene.start(f"remember number 2 [[shell echo two >> effects; {GATE}]]")
    until(lambda: scene.effects == ["two"], "its tool runs")
    killed(scene, started)
    forgotten(scene)
    scene.start("[[error 429]]", "--new").end()
    ((told,),) = scene.rows("SELECT told FROM turns ORDER BY started_ms LIMIT 1 OFFSET 1")
    assert msgspec.json.decode(told)["tools_run"] is None
    key, base = "t", who.removesuffix(" in a fork of it")
    if "fork" in who:
        assert scene.segue("fork", "t", "f").code == 0
        key, base = "f", "itself" if base == "a fork of it" else base
    options, says = TELLS[base]
    done = scene.run("what numbers?", *options, key=key).turn
    assert (says in (heard := scene.heard(done["session_id"])[-1])) or (base == "itself" and UNKNOWN in heard)
    assert scene.effects == ["two"]


def test_a_first_turn_is_found_again_by_its_session(scene: Scene) -> None:
    """Nothing was pinned before: that there is a session is known from the plan and the events alone."""
    started = scene.start(f"remember number 2 [[shell echo two >> effects; {GATE}]]")
    until(lambda: scene.effects == ["two"], "its tool runs")
    until(
        lambda: scene.rows('SELECT 1 FROM events WHERE event LIKE \'{"type":"session"%\''), "it is announced"
    )
    killed(scene, started)
    done = scene.run("what numbers?").turn
    assert (done["mode"], done["text"]) == ("resume", "2")


def test_a_branch_that_is_lost_is_not_cut_off_either(scene: Scene) -> None:
    scene.run("remember number 1")
    scene.run("remember number 3")
    assert scene.segue("truncate", "t", "#3").code == 0
    started = scene.start(f"remember number 2 [[shell echo two >> effects; {GATE}]]")
    until(lambda: scene.effects == ["two"], "its tool runs")
    killed(scene, started)
    forgotten(scene)
    done = scene.run("what numbers?").turn
    assert (done["mode"], done["text"]) == ("resume", "1, 2")
    assert NOTE in scene.heard(done["session_id"])[-1]


def test_a_turn_of_which_only_the_attempt_is_noted(scene: Scene) -> None:
    """As an older Segue has left it: without the gist of its plan."""
    session = scene.run("remember number 1").turn["session_id"]
    started = scene.start(f"remember number 2 [[shell echo two >> effects; {GATE}]]")
    until(lambda: scene.effects == ["two"], "its tool runs")
    killed(scene, started)
    forgotten(scene)
    scene.write("UPDATE attempts SET task = '{}'")
    done = scene.run("what numbers?").turn
    assert (done["mode"], done["session_id"]) == ("resume", session)
    assert NOTE in scene.heard(session)[-1]
    assert UNKNOWN in scene.log()[2]["failure"]["message"]


@pytest.mark.parametrize("second", [False, True], ids=["the other's first turn", "its second"])
def test_only_the_session_of_the_login_that_ran_is_doubted(scene: Scene, second: bool) -> None:
    """Nothing is left but that somebody ran: whose session that was is known from who said it."""
    log_in(scene, "ann")
    scene.run("remember number 1")
    log_in(scene, "bob")
    if second:
        scene.run("remember number 3")
        log_in(scene, "ann")
        scene.run("remember number 4")
        log_in(scene, "bob")
    started = scene.start(f"remember number 2 [[shell echo two >> effects; {GATE}]]")
    until(lambda: scene.effects == ["two"], "its tool runs")
    killed(scene, started)
    forgotten(scene)
    scene.write("UPDATE attempts SET task = '{}'")
    log_in(scene, "ann")
    hers = scene.run("what numbers?").turn
    assert (hers["mode"], hers["text"]) == ("resume", "1, 4" if second else "1")
    assert UNKNOWN not in scene.heard(hers["session_id"])[-1]
    log_in(scene, "bob")
    his = scene.run("what numbers?").turn
    assert "not known" in scene.heard(his["session_id"])[-1]


def log_in(scene: Scene, name: str) -> None:
    scene.agent_home.mkdir(exist_ok=True)
    (scene.agent_home / "login.json").write_bytes(msgspec.json.encode({"account": name, "token": "t"}))


def test_without_an_attempt_it_was_never_started(scene: Scene) -> None:
    scene.run("remember number 1")
    started = scene.start(f"remember number 2 [[shell {GATE}]]")
    scene.agent()
    killed(scene, started)
    forgotten(scene)
    scene.write("DELETE FROM attempts WHERE turn IN (SELECT id FROM turns WHERE state = 'running')")
    scene.run("what numbers?")
    assert NEVER in scene.log()[2]["failure"]["message"]
    first, lost, _ = (run for (run,) in scene.rows("SELECT id FROM turns ORDER BY id"))
    assert [parent for child, parent in scene.rows("SELECT child, parent FROM lineage") if child == lost] == [
        first
    ]


@pytest.mark.parametrize("which", ["plan.json", "stdout"])
def test_half_a_directory_is_lost(scene: Scene, which: str) -> None:
    session = scene.run("remember number 1").turn["session_id"]
    started = scene.start(f"remember number 2 [[shell echo two >> effects; {GATE}]]")
    until(lambda: scene.effects == ["two"], "its tool runs")
    until(lambda: scene.rows('SELECT 1 FROM events WHERE event LIKE \'{"type":"tool-call"%\''), "recorded")
    all_killed(scene, started)
    (scene.run_dirs[-1] / which).unlink()
    done = scene.run("what numbers?").turn
    assert (done["mode"], done["session_id"], done["text"]) == ("resume", session, "1, 2")
    assert NEVER not in msgspec.json.encode(scene.log()).decode()
