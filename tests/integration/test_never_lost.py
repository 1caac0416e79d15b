"""A run is never lost: who comes late to it leaves it alone, and who continues it has all it needs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, cast

import anyio
import msgspec
import pytest

from segue.accounts.failover import prepare_under
from segue.app.ready_turn import Options, ready_turn
from segue.app.workspace import Workspace, open_workspace
from segue.core.request import FlowPlace
from segue.runner.attempt import Cancel, Guarded, Replies
from segue.store.records import KnownRun
from segue.turns import turn as turns
from segue.turns.live_turn import Callbacks
from segue.turns.message import Retry, enqueue, receive
from segue.turns.prepare import Prepared
from segue.turns.queued_run import reopen
from segue.turns.report import report_row
from tests.chaos.scenes import GATE, Scene, until
from tests.database import database
from tests.integration.conftest import Program
from tests.integration.server.conftest import WAIT_S, finish, start
from tests.integration.server.streams import streams
from tests.integration.server.test_runs import submit
from tests.integration.talk import AGENT
from tests.integration.test_failover import LIMITED, Accounts

__all__ = ["streams"]

FAULT_THEN_LIMIT = (
    "".join(f'[[rule]]\ntext = "go on"\nnth = {n}\ndo = "[[error 503]]"\n' for n in (1, 2, 3)) + LIMITED
)
"""The agent asks three times before it gives up."""
PLACE = FlowPlace(flow="f1", step="tier-1", variables={"FLOW_DRY_RUN": "1"})


@pytest.fixture
def workspace(segue: Program) -> Iterator[Workspace]:
    with open_workspace(segue.env, segue.cwd) as opened:
        yield opened


def prepared(workspace: Workspace, text: str = "hello", **more: Any) -> Prepared:
    return ready_turn(workspace, "talk", text, cast("Options", {"agent": "rehearsal", **more})).prepared


def states(segue: Program) -> list[str]:
    """Of all runs, the oldest first."""
    with database(segue.home / "segue.db", timeout=WAIT_S) as file:
        return [state for (state,) in file.execute("SELECT state FROM turns ORDER BY started_ms, id")]


def callbacks() -> Callbacks:
    return Callbacks(None, Replies(None), Cancel(), Guarded("on_notice", None))


@pytest.fixture
def scene(segue: Program) -> Iterator[Scene]:
    scene = Scene(segue)
    yield scene
    scene.clear()


def test_who_comes_late_to_a_run_leaves_it_as_it_is(workspace: Workspace) -> None:
    """The caller has stored the run and waits with it; a daemon gets to the same run later."""
    store, mine = workspace.store, prepared(workspace)
    receive(mine, store, Retry())
    late = msgspec.structs.replace(prepared(workspace), run=mine.run)
    with pytest.raises(KnownRun) as known:
        anyio.run(turns.take, late, store, callbacks())
    assert known.value.run == mine.run
    row = store.turn(mine.run)
    assert row is not None
    assert (row.state, row.told) == ("queued", None)


def test_a_daemon_that_comes_late_follows_the_run_of_the_command_line(scene: Scene) -> None:
    first = scene.start(f"[[shell {GATE}]] [[say first]]")
    until(lambda: scene.rows("SELECT id FROM turns WHERE state = 'running'"), "the first one runs")
    second = scene.start("remember number 7", "--no-daemon")
    second.says("waiting for another turn")
    ((run,),) = scene.rows("SELECT id FROM turns WHERE state = 'queued'")
    daemon = start(scene.segue)
    told: list[bytes] = []
    try:
        call = {"run": run, "key": "t", "text": "remember number 7", "options": {}}
        call |= {"cwd": str(scene.segue.cwd), "env": scene.segue.env}
        ask = threading.Thread(
            target=lambda: told.append(daemon.ask_local("POST", "/api/v1/local/turns", call).body)
        )
        ask.start()
        until(
            lambda: daemon.ask("GET", "/api/v1/status").json["runs"].get("running"),
            "the daemon has the run, too",
        )
        assert scene.rows("SELECT state FROM turns WHERE id = ?", run) == [("queued",)]
        scene.open_gate()
        assert first.end().code == 0
        ran = second.end()
        ask.join(WAIT_S)
    finally:
        finish(daemon.process)
    assert (ran.code, ran.turn["run"], ran.turn["text"]) == (0, run, "Noted: 7.")
    last = msgspec.json.decode(told[0].splitlines()[-1])
    assert (last["run"], last["state"], last["text"]) == (run, "done", "Noted: 7.")
    assert [text for who, text in scene.said() if who == "user"][1:] == ["remember number 7"]


def test_a_run_whose_first_process_was_killed_is_followed_by_the_second(
    scene: Scene, workspace: Workspace
) -> None:
    """Both had the run, as a daemon and a caller have one that was parked. Its agent works on for longer than
    the second waits for another turn."""
    started = scene.start(f"[[shell {GATE}]] [[say worked on]]")
    until(lambda: scene.agents() and scene.has("plan.json"), "its agent works")
    started.kill()
    store = workspace.store
    ((run,),) = scene.rows("SELECT id FROM turns")
    row, known = store.turn(run), store.conversation("t")
    assert row is not None
    assert known is not None
    mine = msgspec.structs.replace(
        ready_turn(workspace, "t", "hello", {"agent": "rehearsal", "wait": 0.1}).prepared,
        run=run,
        conversation=known,
    )
    threading.Timer(2, scene.open_gate).start()
    before = msgspec.structs.replace(row, state="queued")
    turn = anyio.run(turns.take_queued, mine, store, before, callbacks(), Retry())
    assert (turn.run, turn.state, turn.text) == (run, "done", "worked on")


def test_a_run_that_is_reopened_has_the_variables_of_its_flow(workspace: Workspace) -> None:
    mine = prepared(workspace)
    mine = msgspec.structs.replace(mine, ask=msgspec.structs.replace(mine.ask, flow=PLACE))
    queued = workspace.store.queued(enqueue(mine, workspace.store).id)
    assert queued is not None
    ready = reopen(workspace.store, queued, workspace.env).prepared
    assert ready.child.env["FLOW_DRY_RUN"] == "1"


def test_a_run_that_another_account_takes_has_the_variables_of_its_flow(segue: Program) -> None:
    Accounts(segue)
    with open_workspace(segue.env, segue.cwd) as workspace:
        mine = prepared(workspace, account="a")
        mine = msgspec.structs.replace(mine, ask=msgspec.structs.replace(mine.ask, flow=PLACE))
        _, row = receive(mine, workspace.store, Retry())
        other = prepare_under(mine, workspace.store, report_row(row, "talk"), "b")
    assert (other.account, other.child.env["FLOW_DRY_RUN"]) == ("b", "1")


def test_a_retry_that_meets_a_limit_moves_to_another_account(segue: Program) -> None:
    accounts = Accounts(segue)
    accounts.limit("a", do=FAULT_THEN_LIMIT)
    spoke = accounts.talk.run("please go on", "--retries", "1")
    turn = spoke.turn
    assert (turn["account"], turn["state"]) == ("b", "done")
    assert len(turn["earlier"]) == 2, "the run that failed, and its retry that met the limit"
    assert turn["retry_of"] == turn["earlier"][1]
    assert turn["run"] not in turn["earlier"]


@pytest.mark.parametrize("in_the_daemon", [False, True])
def test_a_retry_that_meets_a_limit_is_parked(segue: Program, in_the_daemon: bool) -> None:
    accounts = Accounts(segue)
    accounts.write(limits="")
    accounts.limit("a", do=FAULT_THEN_LIMIT.replace("error 429", "error 429 retry-after 600"))
    daemon = start(segue)
    try:
        if in_the_daemon:
            submit(daemon, "t", "please go on", options={"retries": 1})
        else:
            process = segue.start("run", "t", "please go on", "--retries", "1", "--park", "--no-daemon")
        until(lambda: "parked" in states(segue), "the retry is parked")
        assert states(segue) == ["failed", "parked"]
    finally:
        finish(daemon.process)
        if not in_the_daemon:
            finish(process)


def test_a_queued_run_whose_program_is_gone_says_that_it_is_not_installed(segue: Program) -> None:
    program = segue.home.parent / "agent.sh"
    quoted = " ".join(f'"{part}"' for part in AGENT)
    program.write_text(f'#!/bin/sh\nexec {quoted} "$@"\n')
    program.chmod(0o755)
    segue.config(f'[defaults]\nagent = "rehearsal"\n[agents.rehearsal]\ncommand = ["{program}"]\n')
    run = segue("run", "t", "hi", "--at", "+1h", "-q").stdout.strip()
    program.unlink()
    with database(segue.home / "segue.db", timeout=WAIT_S) as file:
        file.execute("UPDATE turns SET not_before_ms = started_ms")
    segue("queue", "run", "t")
    with open_workspace(segue.env, segue.cwd) as workspace:
        row = workspace.store.turn(run)
    assert row is not None
    assert row.told is not None
    assert row.told.failure is not None
    assert (row.state, row.told.failure.kind) == ("withdrawn", "not_installed")
    assert str(program) in row.told.failure.message
