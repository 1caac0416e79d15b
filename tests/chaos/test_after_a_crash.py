"""Segue is killed with -9: whoever asks is told what is really alive, and what the next run does about it."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.app.sync import SyncSegue
from segue.store.store import open_store
from segue.turns.projection import list_projected, projected
from tests.chaos.scenes import GATE, KEY, Scene, Started, kill, until
from tests.chaos.test_orphans import SLOW, orphan
from tests.database import database

WORK = f"remember number 2 [[shell echo two >> effects; {GATE}]] [[say answer-2]]"
QUESTION = "what numbers?"


def asked(scene: Scene, *command: str) -> Any:
    done = scene.segue(*command, "--json")
    assert done.code == 0, done.stderr
    return msgspec.json.decode(done.stdout)


def told(scene: Scene, *command: str) -> str:
    done = scene.segue(*command)
    assert done.code == 0, done.stderr
    return done.stdout


def states(scene: Scene) -> set[tuple[str, str | None]]:
    """What each command says of the newest turn: they agree."""
    (listed,) = asked(scene, "ls")
    logged = next(row for row in reversed(asked(scene, "log", KEY)) if row["run"] is not None)
    assert listed["state"] == (logged["state"] if logged["status"] is None else "idle")
    for name in ("status", "recovery", "failure"):
        assert listed[name] == logged[name]
    assert lasting(paged(scene)) == lasting(asked(scene, "log", KEY))
    return {(logged["state"], logged["recovery"])}


def paged(scene: Scene) -> list[Any]:
    """The log, read message by message."""
    found: list[Any] = []
    with SyncSegue(env=scene.segue.env) as segue:
        assert [segue.conversations.show(KEY)] == segue.ls()
        page = segue.conversations.messages(KEY, limit=1)
        found[:0] = page.messages
        while page.has_more:
            page = segue.conversations.messages(KEY, before=page.first_id, limit=1)
            found[:0] = page.messages
    shown: list[Any] = msgspec.json.decode(msgspec.json.encode(found))
    return shown


def lasting(rows: list[Any]) -> list[Any]:
    """Without the times of what is not recorded yet: they are always now."""
    return [
        {
            **row,
            "created": row["created"] if row["id"] is not None else None,
            "duration_ms": row["duration_ms"] if row["recovery"] is None else None,
        }
        for row in rows
    ]


def working(scene: Scene, text: str = WORK) -> Started:
    started = scene.start(text)
    until(lambda: scene.effects, "its tool runs")
    return started


def all_killed(scene: Scene, started: Started) -> None:
    started.kill()
    for pid in scene.ours():
        kill(pid)
    until(lambda: not scene.ours(), "nobody is left")


def everything(scene: Scene) -> tuple[list[str], dict[Path, bytes]]:
    with database(scene.segue.home / "segue.db") as db:
        store = list(db.iterdump())
    files = {file: file.read_bytes() for file in scene.segue.home.glob("runs/**/*") if file.is_file()}
    return store, files


def foretold(scene: Scene, *options: str) -> dict[str, Any]:
    """What ``why`` says; then the turn is taken, in the mode that was told."""
    found: dict[str, Any] = asked(scene, "why", KEY, QUESTION, *options)
    turn = scene.run(QUESTION, *options).turn
    assert turn["mode"] == found["mode"]
    for part in ("native_messages", "text_messages"):
        assert turn["sent"][part] == found["sends"][part], part
    assert asked(scene, "why", KEY)["recovery"] is None
    return found


@pytest.mark.parametrize("before", [0, 1], ids=["its first turn", "a later one"])
def test_an_agent_that_still_runs_is_to_be_adopted(scene: Scene, before: int) -> None:
    for _ in range(before):
        scene.run("remember number 7")
    orphan(scene)
    until(lambda: scene.effects, "its tool runs")
    assert states(scene) == {("running", "adopt")}
    log = told(scene, "log", KEY)
    assert "the next segue run follows it to its end" in log
    assert "its agent still runs" in told(scene, "export", KEY)
    assert "first waits for an earlier turn" in told(scene, "why", KEY)
    found = asked(scene, "why", KEY, QUESTION)
    assert (found["recovery"], found["mode"]) == ("adopt", "resume")
    scene.open_gate()
    turn = scene.run(QUESTION).turn
    assert (turn["mode"], turn["text"]) == ("resume", "7, 1" if before else "1")
    assert states(scene) == {("done", None)}


@pytest.mark.parametrize("before", [0, 1], ids=["its first turn", "a later one"])
def test_a_turn_that_was_cut_short_is_to_be_recovered(scene: Scene, before: int) -> None:
    for _ in range(before):
        scene.run("remember number 7")
    all_killed(scene, working(scene))
    left = everything(scene)
    assert states(scene) == {("failed", "recover")}
    row = asked(scene, "log", KEY)[-1]
    assert (row["failure"]["kind"], row["status"]) == ("killed", "failed")
    log = told(scene, "log", KEY)
    assert "after 1 tool call" in log
    assert "not recorded yet: the next segue run does that" in log
    assert "running" not in log
    assert "↻" in told(scene, "ls")
    assert "failed · not recorded yet" in told(scene, "export", KEY)
    said = " ".join(told(scene, "why", KEY).split())
    assert (
        "first settles an earlier turn whose Segue was killed: it was interrupted after 1 tool call" in said
    )
    assert everything(scene) == left, "nothing was written"
    found = foretold(scene)
    assert (found["recovery"], found["mode"]) == ("recover", "resume")
    assert scene.effects == ["two"]
    assert states(scene) == {("done", None)}


@pytest.mark.parametrize("options", [(), ("--role", "reviewer"), ("--fresh-session",)], ids=str)
def test_what_did_nothing_is_foreseen_too(scene: Scene, options: tuple[str, ...]) -> None:
    scene.run("remember number 7")
    started = scene.start("hello [[hang]]")
    scene.agent()
    until(lambda: scene.said_by_agent(b'"session"'), "it spoke")
    all_killed(scene, started)
    assert states(scene) == {("failed", "recover")}
    said = " ".join(told(scene, "why", KEY).split())
    assert "it was interrupted before it did anything" in said
    assert foretold(scene, *options)["recovery"] == "recover"


def test_what_lingers_of_a_dead_agent_is_not_said_to_run(scene: Scene) -> None:
    pid = orphan(scene, f"start it [[shell sleep 300 >/dev/null 2>&1 & echo one >> effects; {GATE}]]")
    until(lambda: scene.effects, "its tool runs")
    kill(pid)
    until(lambda: not scene.agents(), "the agent is gone, and what it had started is not")
    assert scene.ours()
    assert states(scene) == {("failed", "recover")}
    assert foretold(scene)["recovery"] == "recover"
    assert scene.ours() == []


def test_an_answer_that_is_whole_is_shown(scene: Scene) -> None:
    """Segue stands still while the agent answers and exits, and is killed then."""
    started = scene.start(SLOW)
    until(lambda: scene.has("process.json"), "the agent was noted")
    scene.agent()
    started.signal(signal.SIGSTOP)
    scene.open_gate()
    until(lambda: not scene.agents(), "the agent is gone")
    started.kill()
    left = everything(scene)
    assert states(scene) == {("done", "recover")}
    said, answer = asked(scene, "log", KEY)
    assert (said["state"], said["recovery"]) == ("done", None)
    assert (answer["text"], answer["id"], answer["n"], answer["mode"]) == ("answer-1", None, None, "fresh")
    assert "answer-1" in told(scene, "log", KEY)
    exported = asked(scene, "export", KEY)["messages"]
    assert [line["text"] for line in exported] == [SLOW, "answer-1"]
    assert exported[1]["under"] == exported[0]["under"]
    assert told(scene, "last", KEY, "--wait") == "answer-1\n"
    assert "first records an answer" in told(scene, "why", KEY)
    assert everything(scene) == left, "nothing was written"
    assert foretold(scene)["mode"] == "resume"
    assert [text for _, text in scene.said()] == [SLOW, "answer-1", QUESTION, "1"]


def test_one_that_waited_is_withdrawn(scene: Scene) -> None:
    first = scene.start(f"first [[shell {GATE}]] [[say one]]")
    scene.agent()
    second = scene.start("second")
    second.says("waiting for another turn of t")
    second.kill()
    waited = next(row for row in asked(scene, "log", KEY) if row["text"] == "second")
    assert (waited["state"], waited["recovery"]) == ("withdrawn", None)
    assert "not sent: its process ended while it waited" in told(scene, "log", KEY)
    (listed,) = asked(scene, "ls")
    assert (listed["state"], listed["recovery"]) == ("running", None), "the other one does run"
    scene.open_gate()
    assert first.end().code == 0
    assert [(each["state"], each["status"]) for each in asked(scene, "ls")] == [("idle", "ok")]
    assert "first withdraws a message" in told(scene, "why", KEY)
    foretold(scene)
    assert "second" not in scene.heard(scene.run("go on").turn["session_id"])[-1]


def test_a_host_that_is_silent(scene: Scene) -> None:
    """The turn is as another machine has left it, of which nothing was heard for ten minutes."""
    session = scene.agent_home / "sessions" / f"{scene.run('remember number 7').turn['session_id']}.jsonl"
    before = session.read_bytes()
    all_killed(scene, working(scene))
    session.write_bytes(before)
    scene.write("DELETE FROM events")
    elsewhere = msgspec.json.encode({"host": "elsewhere", "host_id": "e", "pid": 1, "machine": "m"}).decode()
    running = "id IN (SELECT id FROM turns WHERE state = 'running')"
    scene.write(f"UPDATE turns SET host = 'elsewhere', owner = ? WHERE {running}", elsewhere)
    scene.write("UPDATE leases SET owner = ?, renewed_ms = renewed_ms + 600000", elsewhere)
    assert states(scene) == {("running", None)}, "it was heard of"
    scene.write("UPDATE leases SET renewed_ms = renewed_ms - 1200000")
    assert states(scene) == {("failed", "recover")}
    log = told(scene, "log", KEY, "--full")
    assert "elsewhere, where it ran, no longer responds" in log
    said = " ".join(told(scene, "why", KEY).split())
    assert "it was interrupted, and what it did is not known" in said
    assert foretold(scene)["recovery"] == "recover"


def test_a_run_directory_that_is_lost(scene: Scene) -> None:
    scene.run("remember number 7")
    all_killed(scene, working(scene))
    shutil.rmtree(scene.segue.home / "runs")
    scene.write("DELETE FROM events")
    assert states(scene) == {("failed", "recover")}
    row = asked(scene, "log", KEY)[-1]
    assert "what it did is not known" in row["failure"]["message"]
    assert foretold(scene)["mode"] == "resume"


def test_nobody_else_is_said_to_run(scene: Scene) -> None:
    """A list of several: each is judged for itself."""
    scene.run("hello", key="quiet")
    all_killed(scene, working(scene))
    scene.start("wait [[shell while [ ! -e other ]; do sleep 0.05; done]]", key="busy")
    until(lambda: scene.agents(), "the other one runs")
    found = {each["key"]: (each["state"], each["status"], each["recovery"]) for each in asked(scene, "ls")}
    assert found == {
        "quiet": ("idle", "ok", None),
        KEY: ("idle", "failed", "recover"),
        "busy": ("running", None, None),
    }


def test_the_library_says_the_same(scene: Scene) -> None:
    scene.run("remember number 7")
    all_killed(scene, working(scene))
    with SyncSegue(env=scene.segue.env) as segue:
        (listed,) = segue.ls()
        message = segue.log(KEY)[-1]
        assert {(each.status, each.recovery) for each in (listed, message)} == {("failed", "recover")}
        assert message.state == "failed"
        assert segue.why(KEY, QUESTION, cwd=str(scene.segue.cwd)).recovery == "recover"
        assert '"recovery": "recover"' in segue.export(KEY)


def test_where_nothing_is_unsettled_nothing_is_looked_for(scene: Scene) -> None:
    """Not even for the configuration."""
    scene.run("hello")
    with open_store(None, scene.segue.home / "segue.db") as store:
        conversation = store.conversation(KEY)
        assert conversation is not None
        assert projected(store, conversation, Untouched(), Path("/nowhere")) is store
        assert list_projected(store, Untouched(), Path("/nowhere")) == store.conversations()


class Untouched(dict[str, str]):
    def __getitem__(self, name: str) -> str:
        raise AssertionError(name)

    get = __contains__ = __iter__ = __getitem__  # type: ignore[assignment]
