"""One writer: turns of a conversation come one after the other, whoever starts them, and wherever."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import psycopg
import pytest

from segue import Segue
from segue.store import leases
from segue.store.records import Owner
from segue.store.store import open_store
from segue.turns.grip import Grip, Taking
from segue.turns.homes import runner_home
from segue.turns.owners import lives, this_process
from segue.turns.processes import identify, start_time
from tests.chaos.scenes import GATE, Scene, Started, kill, until

WAITING = "waiting for another turn of t"
BLOCKING = f"first [[shell {GATE}]] [[say one]]"


def running(scene: Scene, text: str = BLOCKING) -> Started:
    """A turn that runs until the gate is opened."""
    started = scene.start(text)
    scene.agent()
    return started


def test_eight_at_once_are_eight_turns(scene: Scene) -> None:
    texts = [f"remember number {n}" for n in range(1, 9)]
    started = [scene.start(text) for text in texts]
    ended = [each.end(180) for each in started]
    assert [each.code for each in ended] == [0] * 8, [each.stderr for each in ended]
    assert sorted(each.turn["text"] for each in ended) == [f"Noted: {n}." for n in range(1, 9)]
    said = scene.said()
    assert [sender for sender, _ in said] == ["user", "assistant"] * 8
    assert sorted(text for sender, text in said if sender == "user") == texts
    for (_, question), (_, answer) in zip(said[::2], said[1::2], strict=True):
        assert answer == f"Noted: {question.split()[-1]}."
    ninth = scene.run("what numbers?")
    order = [question.split()[-1] for sender, question in said if sender == "user"]
    assert ninth.turn["text"] == ", ".join(order)
    assert scene.heard(ninth.turn["session_id"]) == [
        *(f"remember number {n}" for n in order),
        "what numbers?",
    ]
    assert scene.quiet()


def test_a_second_turn_waits_and_says_so(scene: Scene) -> None:
    first = running(scene)
    second = scene.start("second")
    second.says(WAITING)
    assert f"process {first.pid}" in second.stderr
    scene.open_gate()
    assert (first.end().code, second.end().code) == (0, 0)
    assert [text for _, text in scene.said()] == [BLOCKING, "one", "second", "Understood."]
    assert scene.effects == []


def test_waiting_is_bounded_and_the_message_is_kept(scene: Scene) -> None:
    first = running(scene)
    done = scene.start("remember number 2", "--wait", "0.5").end()
    assert (done.code, done.turn["failure"]["kind"]) == (75, "session_busy")
    assert WAITING in done.stderr
    scene.open_gate()
    assert first.end().code == 0
    third = scene.run("what numbers?")
    assert third.turn["text"] == "2"
    assert [text for _, text in scene.said()] == [BLOCKING, "one", "remember number 2", "what numbers?", "2"]
    assert third.turn["sent"]["text_messages"] == 2


def test_ctrl_c_while_it_waits_loses_nothing(scene: Scene) -> None:
    first = running(scene)
    second = scene.start("remember number 2")
    second.says(WAITING)
    second.signal(signal.SIGINT)
    done = second.end()
    assert (done.code, done.turn["status"]) == (130, "cancelled")
    assert first.process.poll() is None
    scene.open_gate()
    assert first.end().code == 0
    assert scene.run("what numbers?").turn["text"] == "2"
    assert [text for _, text in scene.said()][2] == "remember number 2"
    assert scene.quiet()


@pytest.mark.parametrize("answered", [True, False], ids=["in the middle", "in its first turn"])
def test_a_fork_goes_on_while_the_first_runs(scene: Scene, answered: bool) -> None:
    if answered:
        scene.run("remember number 1")
    first = running(scene)
    forks = [scene.start(f"remember number {n} [[say fork-{n}]]", "--fork", "--wait", "0") for n in (2, 3)]
    ended = [each.end() for each in forks]
    assert [each.code for each in ended] == [0, 0], [each.stderr for each in ended]
    assert sorted(each.turn["conversation"] for each in ended) == ["t~2", "t~3"]
    assert all("this one goes on in t~" in each.stderr for each in ended)
    assert first.process.poll() is None
    before = ["remember number 1", "Noted: 1."] if answered else []
    for each in ended:
        key, text = each.turn["conversation"], each.turn["text"]
        number = text.removeprefix("fork-")
        assert [said for _, said in scene.said(key)] == [
            *before,
            f"remember number {number} [[say fork-{number}]]",
            text,
        ]
        recalled = scene.run("what numbers?", key=key).turn["text"]
        assert recalled == (f"1, {number}" if answered else number)
    scene.open_gate()
    assert first.end().code == 0
    assert [text for _, text in scene.said()] == [*before, BLOCKING, "one"]
    listed = msgspec.json.decode(scene.segue("ls", "--json").stdout)
    assert {each["key"]: each["forked_from"] for each in listed} == {"t": None, "t~2": "t", "t~3": "t"}
    kinds = [kind for (kind,) in scene.rows("SELECT kind FROM lineage")]
    assert kinds.count("fork") == (2 if answered else 0)


def test_a_retry_in_a_fork_runs_the_copy(scene: Scene) -> None:
    scene.run("remember number 1")
    first = running(scene)
    done = scene.segue("retry", "t", "#1", "--fork", "--json")
    assert done.code == 0, done.stderr
    assert done.turn["conversation"] == "t~2"
    assert [text for _, text in scene.said("t~2")] == ["remember number 1", "Noted: 1."]
    scene.open_gate()
    assert first.end().code == 0


# who holds a lease


def lease_of(scene: Scene, owner: Owner, renewed_ms: int | None = None) -> None:
    """A row in the store as that owner would have left it."""
    ((conversation,),) = scene.rows("SELECT id FROM conversations")
    with open_store(None, scene.segue.home / "segue.db") as store:
        now_ms = renewed_ms or time.time_ns() // 1_000_000
        got = leases.take(store, f"conversation:{conversation}", owner, now_ms, lambda *_: "dead")
        assert isinstance(got, leases.Taken)


def dead_process() -> Owner:
    child = subprocess.Popen(["sleep", "60"])
    here = this_process(socket.gethostname())
    owner = msgspec.structs.replace(here, pid=child.pid, start_time=start_time(child.pid))
    assert lives(owner)
    child.kill()
    child.wait()
    return owner


def test_the_row_of_a_dead_process_blocks_nobody(scene: Scene) -> None:
    scene.run("hello")
    lease_of(scene, dead_process())
    scene.run("go on", "--wait", "0")
    assert scene.quiet()


@pytest.mark.parametrize("other", [{"start_time": "1"}, {"boot_id": "another"}], ids=["reused", "rebooted"])
def test_another_process_of_the_same_number_is_not_the_owner(scene: Scene, other: dict[str, str]) -> None:
    scene.run("hello")
    me = this_process(socket.gethostname())
    lease_of(scene, me)
    assert scene.start("busy", "--wait", "0").end().code == 75
    lease_of(scene, msgspec.structs.replace(me, **other))
    scene.run("go on", "--wait", "0")


def test_a_holder_that_stands_still_is_still_the_holder(scene: Scene) -> None:
    first = running(scene)
    first.signal(signal.SIGSTOP)
    scene.write("UPDATE leases SET renewed_ms = renewed_ms - 3600000")
    done = scene.start("second", "--wait", "1").end()
    assert done.code == 75
    first.signal(signal.SIGCONT)
    scene.open_gate()
    assert first.end().code == 0
    scene.run("third")
    assert [text for _, text in scene.said()][:2] == [BLOCKING, "one"]


def test_a_waiting_turn_whose_number_is_anothers_is_dead(scene: Scene) -> None:
    """A message that was heard by a process that died, whose number was given to somebody who lives."""
    first = running(scene)
    second = scene.start("second")
    second.says(WAITING)
    second.kill()
    owner = msgspec.json.encode(this_process(socket.gethostname())).decode()
    stranger = msgspec.json.encode(Owner(host=socket.gethostname(), pid=os.getpid(), start_time="1")).decode()
    assert owner != stranger
    scene.write("UPDATE turns SET owner = ? WHERE state = 'queued'", stranger)
    scene.open_gate()
    assert first.end().code == 0
    scene.run("third")
    assert [text for sender, text in scene.said() if sender == "user"] == [BLOCKING, "second", "third"]


def test_a_session_waits_for_the_orphan_that_writes_to_it(tmp_path: Path) -> None:
    """Who takes a conversation over adopts what runs in it; who only wants the session cannot."""
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    (tmp_path / "process.json").write_bytes(msgspec.json.encode(identify(child.pid, "sleep")))
    me = this_process("here")
    with open_store(None, tmp_path / "segue.db") as store:
        dead = msgspec.structs.replace(dead_process(), host="here")
        got = leases.take(store, "session", dead, time.time_ns() // 1_000_000, lambda *_: "dead")
        assert isinstance(got, leases.Taken)
        leases.note_group(store, "session", got.token, str(tmp_path))
        wants, adopts = (Taking(store, "session", me, tmp_path / "locks", adopts) for adopts in (False, True))
        assert wants.take() == f"process {dead.pid} on here"
        grip = adopts.take()
        assert isinstance(grip, Grip)
        grip.let_go()
        assert leases.find(store, "session") is None
    child.kill()
    child.wait()


# several turns in one process


async def a_turn(scene: Scene) -> str:
    async with Segue(env=scene.segue.env) as segue:
        return (await segue.run("t", "go on", agent="rehearsal", cwd=scene.segue.cwd, wait=0)).status


def test_what_a_process_let_go_of_does_not_block_it(scene: Scene) -> None:
    """The store was away when it was to be given back: the row names a living process that holds nothing."""
    scene.run("hello")
    lease_of(scene, this_process(socket.gethostname()))
    assert asyncio.run(a_turn(scene)) == "ok"
    assert scene.quiet()


async def given_up_turns(scene: Scene) -> None:
    async with Segue(env=scene.segue.env) as segue:
        options = {"agent": "rehearsal", "cwd": scene.segue.cwd, "permission": "full"}
        working = f"remember number 2 [[shell echo two >> effects; {GATE}]]"
        for text in ("remember number 1 [[hang]]", working):
            task = asyncio.create_task(segue.run("t", text, **options))  # type: ignore[arg-type]
            await asyncio.to_thread(scene.agent)
            if text == working:
                await asyncio.to_thread(until, lambda: scene.effects, "the tool runs")
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            assert scene.agents() == []
        done = await segue.run("t", "what numbers?", wait=0, **options)  # type: ignore[arg-type]
        assert done.text == "1, 2"


def test_a_cancelled_task_leaves_nothing_behind(scene: Scene) -> None:
    """The process lives on, and its next turn knows what became of those before."""
    asyncio.run(given_up_turns(scene))
    rows = scene.log()
    assert [row["status"] for row in rows[:2]] == ["cancelled", "cancelled"]
    assert scene.effects == ["two"]
    assert scene.quiet()


async def a_crowd(scene: Scene) -> None:
    async with Segue(env=scene.segue.env) as segue:
        options = {"agent": "rehearsal", "cwd": scene.segue.cwd}
        tasks = [
            asyncio.create_task(segue.run("t", f"remember number {n}", **options))  # type: ignore[arg-type]
            for n in range(6)
        ]
        await asyncio.to_thread(until, lambda: len(scene.rows("SELECT id FROM turns")) == 6, "all are heard")
        for task in tasks[3:]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        done = await segue.run("t", "what numbers?", wait=0, **options)  # type: ignore[arg-type]
        assert sorted(done.text.split(", ")) == [str(n) for n in range(6)]


def test_tasks_of_one_process_take_turns_too(scene: Scene) -> None:
    """Some are cancelled while they wait: the others go on, and the messages of all are kept."""
    asyncio.run(a_crowd(scene))
    texts = [text for sender, text in scene.said() if sender == "user"]
    assert sorted(texts) == sorted([*(f"remember number {n}" for n in range(6)), "what numbers?"])
    assert scene.quiet()


# two hosts with one store


@pytest.fixture
def hosts(scene: Scene, postgres_url: str) -> Scene:
    scene.segue.env["SEGUE_STORE_URL"] = postgres_url
    return scene


def on(host: str, hosts: Scene) -> dict[str, str]:
    """On another host, everything but the store is another."""
    return {"SEGUE_STORE_HOST": host, "SEGUE_HOME": f"{hosts.segue.home}-{host}"}


def test_a_dead_host_is_waited_for_and_taken_over(hosts: Scene) -> None:
    hosts.run("remember number 1", **on("a", hosts))
    first = hosts.start(f"remember number 2 [[shell echo two >> effects; {GATE}]]", **on("a", hosts))
    until(lambda: hosts.effects, "the tool runs")
    second = hosts.start("what numbers?", **on("b", hosts))
    second.says(WAITING)
    assert f"process {first.pid} on a" in second.stderr
    time.sleep(7)
    assert second.process.poll() is None, "it renews its lease, so it is waited for"
    first.kill()
    killed = time.monotonic()
    done = second.end(90)
    assert done.code == 0, done.stderr
    assert time.monotonic() - killed > leases.DEAD_S - leases.RENEW_S - 1
    assert (done.turn["mode"], done.turn["text"]) == ("replay", "1, 2")
    (why,) = [check for check in done.turn["why"] if check["check"] == "host"]
    assert why["verdict"] == "fail"
    assert "the session is on a, this is b" in why["detail"]
    log = hosts.log()
    assert (log[2]["status"], log[2]["failure"]["kind"]) == ("failed", "killed")
    assert "heard" in log[2]["failure"]["message"]
    assert [text for _, text in hosts.said()][3:] == ["what numbers?", "1, 2"]


def test_who_lost_the_lease_is_cancelled_and_settles_nothing(hosts: Scene, postgres_url: str) -> None:
    first = hosts.start(
        f"remember number 1 [[shell echo one >> effects; {GATE}]] [[say late]]", **on("a", hosts)
    )
    until(lambda: hosts.effects, "the tool runs")
    agent = hosts.agent()
    first.signal(signal.SIGSTOP)
    with psycopg.connect(postgres_url, autocommit=True) as db:  # as if it had stood still for long
        db.execute("UPDATE segue.leases SET renewed_ms = renewed_ms - 3600000")
    hosts.run("what numbers?", **on("b", hosts))
    first.signal(signal.SIGCONT)
    done = first.end()
    assert (done.code, done.turn["status"], done.turn["text"]) == (130, "cancelled", "")
    assert agent not in hosts.agents()
    said = [text for _, text in hosts.said()]
    assert said[1:] == ["what numbers?", "1"]
    assert "late" not in said
    assert hosts.log()[0]["failure"]["kind"] == "killed"
    third = hosts.run("what numbers?", **on("a", hosts))
    assert third.turn["text"] == "1"


def test_who_lost_the_lease_before_the_start_starts_nothing(hosts: Scene, postgres_url: str) -> None:
    """It stands still between the plan and the start, and wakes up when the conversation is another's."""
    session = hosts.run("remember number 1", **on("a", hosts)).turn["session_id"]
    with open_store(postgres_url, hosts.segue.home) as store:
        name, me = f"session:rehearsal:a:{session}", this_process("a")
        held = leases.take(store, name, me, time.time_ns() // 1_000_000, lambda *_: "alive")
        assert isinstance(held, leases.Taken)
        first = hosts.start("remember number 2 [[shell echo two >> effects]]", **on("a", hosts))
        first.says("waiting for the session")
        first.signal(signal.SIGSTOP)
        store.db.run("UPDATE leases SET renewed_ms = renewed_ms - 3600000")
        hosts.run("what numbers?", **on("b", hosts))
        leases.release(store, name, held.token)
    first.signal(signal.SIGCONT)
    done = first.end()
    assert (done.code, done.turn["status"]) == (130, "cancelled")
    assert "took the conversation over" in done.turn["failure"]["message"]
    assert hosts.effects == []


def test_clocks_that_disagree_make_no_second_writer(hosts: Scene, postgres_url: str) -> None:
    """The holder's clock is far behind: by that clock alone it would have been dead for a minute."""
    first = hosts.start(f"first [[shell {GATE}]] [[say one]]", **on("a", hosts))
    hosts.agent()
    second = hosts.start("second", "--wait", "14", **on("b", hosts))
    stop = time.monotonic() + 12
    with psycopg.connect(postgres_url, autocommit=True) as db:
        while time.monotonic() < stop and second.process.poll() is None:
            db.execute(
                "UPDATE segue.leases SET renewed_ms = renewed_ms - 60000 WHERE renewed_ms > %s",
                (time.time_ns() // 1_000_000 - 30_000,),
            )
            time.sleep(0.05)
    assert second.end().code == 75
    hosts.open_gate()
    assert first.end().code == 0


# a private home of a runner

HOLDER = """
import sys, anyio
from pathlib import Path
from segue.core.request import Command
from segue.turns.homes import claimed
from segue.turns.runner import launch

async def main():
    root, here = Path(sys.argv[1]), Path(sys.argv[2])
    with claimed(root, here) as claim:
        command = Command(argv=("sleep", "300"), cwd=here)
        env = {"PATH": sys.argv[3]}
        async with launch(command, env=env, run_dir=here / "run", claims=(claim.lock,)) as running:
            print(claim.home.name, running.pid, flush=True)
            async for _ in running.lines():
                pass

anyio.run(main)
"""


def test_an_orphan_keeps_its_private_home(tmp_path: Path) -> None:
    root, here = tmp_path / "runners", tmp_path / "account"
    here.mkdir()
    argv = [sys.executable, "-c", HOLDER, str(root), str(here), os.environ["PATH"]]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        name, child = holder.stdout.readline().split()
        holder.kill()
    try:
        with runner_home(root, here) as another:
            assert (name, another.name) == ("0", "1")
    finally:
        kill(int(child))

    def freed() -> bool:
        with runner_home(root, here) as home:
            return home.name == "0"

    until(freed, "the home is free once the orphan is gone")
