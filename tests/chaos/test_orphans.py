"""A live orphan (Segue was killed, the agent goes on) is adopted by the next turn, and not ended lightly."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from segue.system import processes
from segue.system.processes import HAS_PROC
from tests.chaos.scenes import GATE, Scene, kill, until

READING = "still runs; following it to its end"
SLOW = f"remember number 1 [[shell echo one >> effects; {GATE}]] [[slow 0.5]] [[say answer-1]]"


def orphan(scene: Scene, text: str = SLOW, *options: str) -> int:
    """A turn whose Segue is killed once the agent has begun to work; the agent's number."""
    started = scene.start(text, *options)
    until(lambda: scene.has("process.json"), "the agent was noted")
    until(lambda: scene.said_by_agent(b'"session"'), "it has read what it was asked")
    pid = scene.agent()
    started.kill()
    return pid


def test_an_orphan_is_read_to_its_end(scene: Scene) -> None:
    pid = orphan(scene)
    second = scene.start("what numbers?")
    second.says(READING)
    assert scene.agents() == [pid]
    scene.open_gate()
    done = second.end()
    assert (done.code, done.turn["text"], done.turn["mode"]) == (0, "1", "resume")
    assert scene.said() == [
        ("user", SLOW),
        ("assistant", "answer-1"),
        ("user", "what numbers?"),
        ("assistant", "1"),
    ]
    first = scene.log()[1]
    assert (first["status"], first["mode"]) == ("ok", "fresh")
    assert scene.effects == ["one"]
    assert scene.heard(done.turn["session_id"]) == [SLOW, "what numbers?"]
    assert scene.quiet()


def test_its_events_are_kept_once(scene: Scene) -> None:
    orphan(scene)
    scene.open_gate()
    scene.run("hello")
    (turn,) = scene.rows("SELECT id FROM turns ORDER BY started_ms LIMIT 1")
    events = [row[0] for row in scene.rows("SELECT event FROM events WHERE turn = ? ORDER BY seq", *turn)]
    kinds = [event.split('"')[3] for event in events]
    assert kinds.count("tool-call") == kinds.count("tool-result") == kinds.count("end") == 1


def test_what_ended_before_anybody_came_is_settled_with_its_answer(scene: Scene) -> None:
    """Segue stands still while the agent answers and exits, and is killed then."""
    started = scene.start(SLOW)
    until(lambda: scene.has("process.json"), "the agent was noted")
    scene.agent()
    started.signal(signal.SIGSTOP)
    scene.open_gate()
    until(lambda: not scene.agents(), "the agent is gone")
    started.kill()
    done = scene.run("what numbers?", "--wait", "0")
    assert READING not in done.stderr
    assert [text for _, text in scene.said()] == [SLOW, "answer-1", "what numbers?", "1"]
    assert scene.effects == ["one"]


def test_a_killed_segue_that_nobody_saw_off_is_dead_all_the_same(scene: Scene) -> None:
    started = scene.start("hello [[hang]]")
    agent = scene.agent()
    os.kill(started.pid, signal.SIGKILL)  # it stays behind as a zombie: its parent does not look
    kill(agent)
    scene.run("go on", "--wait", "0")
    assert [text for _, text in scene.said()] == ["hello [[hang]]", "go on", "Understood."]


def test_its_time_limit_holds(scene: Scene) -> None:
    pid = orphan(scene, "wait for me [[hang]]", "--timeout", "8")
    scene.run("go on")
    assert pid not in scene.agents()
    first = scene.log()[0]
    assert (first["status"], first["failure"]["kind"]) == ("failed", "timeout")
    assert [row["from"] for row in scene.log()] == ["user", "user", "assistant"]


@pytest.mark.skipif(not HAS_PROC, reason="the agent's stdin is kept open through /proc")
def test_it_is_ended_when_it_asks_and_nobody_can_answer(scene: Scene) -> None:
    asking = f"think [[shell {GATE}]] [[ask Which one? | A | B]] [[say thanks]]"
    started = scene.start(asking, "--questions", "on")
    until(lambda: scene.has("process.json"), "the agent was noted")
    until(lambda: scene.said_by_agent(b'"session"'), "it has read what it was asked")
    pid = scene.agent()
    # as long as somebody could still write to its stdin, it waits
    with open(f"/proc/{pid}/fd/0", "wb", buffering=0):
        started.kill()
        scene.open_gate()
        done = scene.run("go on")
    assert READING in done.stderr
    assert pid not in scene.agents()
    first = scene.log()[0]
    assert (first["status"], first["failure"]["kind"]) == ("failed", "killed")
    assert "waited for an answer" in first["failure"]["message"]


def test_ctrl_c_gives_up_the_second_turn_only(scene: Scene) -> None:
    pid = orphan(scene)
    second = scene.start("second")
    second.says(READING)
    second.signal(signal.SIGINT)
    assert second.end().code == 130
    assert scene.agents() == [pid]
    scene.open_gate()
    done = scene.run("what numbers?")
    assert [text for _, text in scene.said()] == [SLOW, "answer-1", "what numbers?", "1"]
    assert scene.heard(done.turn["session_id"])[0] == SLOW
    assert scene.effects == ["one"]
    assert scene.quiet()


@pytest.mark.parametrize("damage", [None, "a torn plan"])
def test_cancel_ends_it_and_settles_its_turn(scene: Scene, damage: str | None) -> None:
    orphan(scene)
    plan = scene.run_dirs[-1] / "plan.json"
    if damage is not None:
        plan.write_bytes(plan.read_bytes()[:200])
    cancelled = scene.segue("cancel", "t")
    assert (cancelled.code, cancelled.stderr.startswith("Cancelled ")) == (0, True)
    assert scene.quiet()
    (first,) = scene.log()
    assert (first["state"], first["failure"]["kind"]) == ("cancelled", "cancelled")
    assert scene.segue("cancel", "t").code == 1
    assert scene.run("what numbers?").turn["text"] == "1"
    assert scene.effects == ["one"]


def test_what_had_finished_is_not_cancelled_any_more(scene: Scene) -> None:
    pid = orphan(scene)
    scene.open_gate()
    until(lambda: pid not in scene.agents(), "it has ended")
    assert "had finished already" in scene.segue("cancel", "t").stderr
    assert scene.said()[-1] == ("assistant", "answer-1")
    assert scene.quiet()


def test_waiting_for_it_is_bounded(scene: Scene) -> None:
    pid = orphan(scene, "wait for me [[hang]]")
    done = scene.start("second", "--wait", "1").end()
    assert (done.code, done.turn["failure"]["kind"]) == (75, "session_busy")
    assert scene.agents() == [pid]
    kill(pid)
    scene.run("third")
    assert [text for sender, text in scene.said() if sender == "user"] == [
        "wait for me [[hang]]",
        "third",
    ]


def test_who_adopts_it_may_be_killed_too(scene: Scene) -> None:
    pid = orphan(scene)
    second = scene.start("second")
    second.says(READING)
    second.kill()
    assert scene.agents() == [pid]
    third = scene.start("what numbers?")
    third.says(READING)
    scene.open_gate()
    assert third.end().code == 0
    assert [text for _, text in scene.said()] == [SLOW, "answer-1", "what numbers?", "1"]
    assert scene.effects == ["one"]
    assert scene.quiet()


def test_a_fork_does_not_wait_for_it(scene: Scene) -> None:
    scene.run("remember number 7")
    pid = orphan(scene, "wait for me [[hang]]")
    done = scene.run("what numbers?", "--fork", "--wait", "0")
    assert (done.turn["conversation"], done.turn["text"]) == ("t~2", "7")
    assert scene.agents() == [pid]


@pytest.mark.parametrize("killed", [False, True], ids=["it ended", "it was killed"])
def test_what_lingers_of_its_group_holds_nobody_up(scene: Scene, killed: bool) -> None:
    text = f"start it [[shell sleep 300 >/dev/null 2>&1 & {GATE}]] [[say answer-1]]"
    pid = orphan(scene, text)
    until(lambda: len(scene.ours()) > 2, "its tool runs")
    kill(pid) if killed else scene.open_gate()
    until(lambda: not scene.agents(), "the agent is gone, and what it had started is not")
    assert scene.ours()
    scene.run("go on")
    answer = [] if killed else ["answer-1"]
    assert [text for _, text in scene.said()] == [text, *answer, "go on", "Understood."]
    assert scene.ours() == []


def test_one_that_was_not_noted_is_known_by_its_mark(scene: Scene) -> None:
    """Killed right after the start, before the process was written down."""
    pid = orphan(scene)
    (scene.run_dirs[-1] / "process.json").unlink()
    second = scene.start("what numbers?")
    second.says(READING)
    assert scene.agents() == [pid]
    scene.open_gate()
    assert second.end().code == 0
    assert [text for _, text in scene.said()] == [SLOW, "answer-1", "what numbers?", "1"]


@pytest.mark.parametrize("damage", ["a torn plan", "no directory"])
def test_one_that_cannot_be_read_is_waited_for(scene: Scene, damage: str) -> None:
    pid = orphan(scene)
    plan = scene.run_dirs[-1] / "plan.json"
    if damage == "a torn plan":
        plan.write_bytes(plan.read_bytes()[:200])
    else:
        shutil.rmtree(plan.parent)
    busy = scene.start("second", "--wait", "0").end()
    assert (busy.code, busy.turn["failure"]["kind"]) == (75, "session_busy")
    assert scene.agents() == [pid]
    scene.open_gate()
    done = scene.run("what numbers?")
    assert scene.effects == ["one"]
    assert done.turn["text"] == "1"
    assert [text for sender, text in scene.said() if sender == "user"] == [SLOW, "what numbers?"]
    assert scene.log()[0]["failure"]["kind"] == "killed"


def test_nothing_is_changed_under_it(scene: Scene) -> None:
    scene.run("hello")
    orphan(scene)
    for change in (("edit", "t", "#1", "other"), ("truncate", "t", "#1"), ("rm", "t", "--yes")):
        done = scene.segue(*change)
        assert done.code == 75, (change, done)
        assert "Segue was killed" in done.stderr
    scene.open_gate()
    scene.run("go on")
    assert scene.segue("edit", "t", "#1", "other").code == 0


def test_the_answer_to_a_dropped_message_is_dropped(scene: Scene) -> None:
    scene.run("hello")
    orphan(scene)
    scene.open_gate()
    until(lambda: not scene.agents(), "the agent is gone")
    assert scene.segue("truncate", "t", "#3").code == 0
    done = scene.run("what numbers?")
    assert [text for _, text in scene.said()] == ["hello", "Understood.", "what numbers?", done.turn["text"]]
    assert done.turn["text"] == "I do not know any number."


def test_secrets_are_taken_out_of_what_it_said(scene: Scene) -> None:
    secret = "swordfish-swordfish-1234"
    scene.segue.config(
        f'[accounts.mine]\nagent = "rehearsal"\nenv = {{ MY_TOKEN = "{secret}" }}\n'
        '[accounts.other]\nagent = "rehearsal"\n'
    )
    orphan(scene, f"tell [[shell {GATE}; echo $MY_TOKEN]] [[result]]", "--account", "mine")
    scene.open_gate()
    scene.run("go on", "--account", "other")
    assert ("assistant", "[redacted]") in scene.said()
    kept = (file for file in scene.segue.home.rglob("*") if file.is_file() and file.name != "config.toml")
    assert [file for file in kept if secret.encode() in file.read_bytes()] == []


def test_a_process_that_has_only_just_been_forked_counts(tmp_path: Path) -> None:
    """It has the attempt's stdout, locked, and does not carry the mark yet."""
    with (tmp_path / "stdout").open("ab") as stdout:
        fcntl.flock(stdout, fcntl.LOCK_EX)
        child = subprocess.Popen(["sleep", "60"], stdout=stdout, env={})
    try:
        assert processes.attempt_lives(tmp_path)
    finally:
        child.kill()
        child.wait()
    assert not processes.attempt_lives(tmp_path)
