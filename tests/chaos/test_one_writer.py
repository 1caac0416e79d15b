"""One writer: turns of a conversation come one after the other, whoever starts them, and wherever."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import psycopg
import pytest

from segue.app.segue import Segue
from segue.core.model import Host, Owner
from segue.store import lease_rows
from segue.store.leases import Acquiring, LeaseLock, judge
from segue.store.records import LeaseRow
from segue.store.store import open_store
from segue.system.processes import identify, owner_lives, start_time, this_process
from segue.turns.private_homes import runner_home
from tests.chaos.machines import clock, container, machine
from tests.chaos.scenes import GATE, Scene, Started, kill, until

WAITING = "waiting for another turn of t"
READING = "still runs; following it to its end"
BEFORE_BOOT_S = 10 * 365 * 24 * 3600
"""No machine has been up for so long."""
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
    unknown = "I do not know any number."
    third = scene.run("what numbers?")
    assert (third.turn["text"], third.turn["sent"]["text_messages"]) == (unknown, 1)
    assert [text for _, text in scene.said()] == [BLOCKING, "one", "what numbers?", unknown]
    again = scene.segue("retry", "t", done.turn["message"], "--json").turn
    assert (again["message"], again["retry_of"], again["state"]) == (
        done.turn["message"],
        done.turn["run"],
        "done",
    )
    assert [text for _, text in scene.said()][4:] == ["remember number 2", "Noted: 2."]


def test_ctrl_c_while_it_waits_loses_nothing(scene: Scene) -> None:
    first = running(scene)
    second = scene.start("remember number 2")
    second.says(WAITING)
    second.signal(signal.SIGINT)
    done = second.end()
    assert (done.code, done.turn["state"], done.turn["failure"]["kind"]) == (130, "withdrawn", "cancelled")
    assert first.process.poll() is None
    scene.open_gate()
    assert first.end().code == 0
    assert scene.run("what numbers?").turn["text"] == "I do not know any number."
    assert scene.segue("retry", "t", done.turn["message"]).stdout == "Noted: 2.\n"
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
    assert all("this one continues in t~" in each.stderr for each in ended)
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


def lease_of(scene: Scene, owner: Owner, silent_s: float = 0) -> None:
    """A row in the store as that owner would have left it."""
    ((conversation,),) = scene.rows("SELECT id FROM conversations")
    with open_store(None, scene.segue.home / "segue.db") as store:
        got = store.take_lease(f"conversation:{conversation}", owner, lambda _: "dead")
        assert isinstance(got, lease_rows.Taken)
        store._db.run("UPDATE leases SET renewed_ms = renewed_ms - :ms", ms=round(silent_s * 1000))


def dead_process(host: Host) -> Owner:
    child = subprocess.Popen(["sleep", "60"])
    owner = msgspec.structs.replace(this_process(host), pid=child.pid, start_time=start_time(child.pid))
    assert owner_lives(owner, host, 0)
    child.kill()
    child.wait()
    return owner


def test_the_row_of_a_dead_process_blocks_nobody(scene: Scene) -> None:
    scene.run("hello")
    lease_of(scene, dead_process(scene.host))
    scene.run("go on", "--wait", "0")
    assert scene.quiet()


@pytest.mark.parametrize(
    ("other", "silent_s"),
    [({"start_time": "1"}, 0), ({"boot_id": "another"}, BEFORE_BOOT_S)],
    ids=["reused", "rebooted"],
)
def test_another_process_of_the_same_number_is_not_the_owner(
    scene: Scene, other: dict[str, str], silent_s: float
) -> None:
    scene.run("hello")
    me = this_process(scene.host)
    lease_of(scene, me)
    assert scene.start("busy", "--wait", "0").end().code == 75
    lease_of(scene, msgspec.structs.replace(me, **other), silent_s)
    scene.run("go on", "--wait", "0")


ELSEWHERE = {"machine": "another", "host_id": "another"}
OLD = {"machine": None, "host_id": None, "pid_ns": None}


@pytest.mark.parametrize(
    ("other", "silent_s", "verdict"),
    [
        ({}, 0, "dead"),
        ({"host": "renamed"}, 0, "dead"),
        ({"host": "renamed", "host_id": "another"}, 0, "dead"),
        ({"machine": None}, 0, "dead"),
        ({"machine": None, "host_id": "another"}, 0, "alive"),
        (ELSEWHERE, 0, "alive"),
        (ELSEWHERE, lease_rows.DEAD_S - 1, "alive"),
        (ELSEWHERE, lease_rows.DEAD_S, "dead"),
        ({"machine": "another"}, 0, "alive"),
        ({"pid_ns": "pid:[1]"}, 0, "alive"),
        ({"pid_ns": "pid:[1]"}, lease_rows.DEAD_S, "dead"),
        ({"boot_id": "before"}, lease_rows.DEAD_S - 1, "alive"),
        ({"boot_id": "before"}, BEFORE_BOOT_S, "dead"),
        (OLD, 0, "dead"),
        (OLD | {"host": "another"}, 0, "alive"),
        (OLD | {"boot_id": "before"}, BEFORE_BOOT_S, "dead"),
    ],
)
def test_the_numbers_of_the_dead_are_looked_at_where_they_mean_something(
    other: dict[str, str | None], silent_s: float, verdict: str
) -> None:
    """In a container, or on a machine of the same image, a number that is nobody's here may be somebody's."""
    here = Host("here", "home")
    owner = msgspec.convert(msgspec.to_builtins(dead_process(here)) | other, Owner)
    row = LeaseRow(
        name="c",
        token="t",
        generation=1,
        owner=owner,
        taken_ms=0,
        renewed_ms=0,
        silent_ms=round(silent_s * 1000),
    )
    assert judge(row, here) == verdict


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
    owner = msgspec.json.encode(this_process(scene.host)).decode()
    stranger = msgspec.json.encode(Owner(host=scene.host.name, pid=os.getpid(), start_time="1")).decode()
    assert owner != stranger
    scene.write("UPDATE turns SET owner = ? WHERE state = 'queued'", stranger)
    scene.open_gate()
    assert first.end().code == 0
    scene.run("third")
    assert [text for sender, text in scene.said() if sender == "user"] == [BLOCKING, "third"]
    assert [row["state"] for row in scene.log() if row["text"] == "second"] == ["withdrawn"]


def test_a_session_waits_for_the_orphan_that_writes_to_it(tmp_path: Path) -> None:
    """Who takes a conversation over adopts what runs in it; who only wants the session cannot."""
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    (tmp_path / "process.json").write_bytes(msgspec.json.encode(identify(child.pid, "sleep")))
    here = Host("here")
    me = this_process(here)
    with open_store(None, tmp_path / "segue.db") as store:
        dead = dead_process(here)
        got = store.take_lease("session", dead, lambda _: "dead")
        assert isinstance(got, lease_rows.Taken)
        store.note_group(got.claim, str(tmp_path))
        wants, adopts = (
            Acquiring(store, "session", me, tmp_path / "locks", adopts) for adopts in (False, True)
        )
        assert wants.take() == f"process {dead.pid} on here"
        grip = adopts.take()
        assert isinstance(grip, LeaseLock)
        grip.let_go()
        assert store.lease("session") is None
    child.kill()
    child.wait()


# several turns in one process


async def a_turn(scene: Scene) -> str:
    async with Segue(env=scene.segue.env) as segue:
        return (await segue.run("t", "go on", agent="rehearsal", cwd=scene.segue.cwd, wait=0)).status


def test_what_a_process_let_go_of_does_not_block_it(scene: Scene) -> None:
    """The store was away when it was to be given back: the row names a living process that holds nothing."""
    scene.run("hello")
    lease_of(scene, this_process(scene.host))
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
        begun = {text.split()[-1] for sender, text in scene.said() if sender == "user"} - {"numbers?"}
        assert set(done.text.split(", ")) == begun >= {str(n) for n in range(3)}


def test_tasks_of_one_process_take_turns_too(scene: Scene) -> None:
    """Some are cancelled while they wait: the others go on, and the messages of all are kept."""
    asyncio.run(a_crowd(scene))
    texts = [row["text"] for row in scene.log() if row["from"] == "user"]
    assert sorted(texts) == sorted([*(f"remember number {n}" for n in range(6)), "what numbers?"])
    assert scene.quiet()


# two hosts with one store


@pytest.fixture
def hosts(scene: Scene, postgres_url: str) -> Scene:
    scene.segue.env["SEGUE_STORE_URL"] = postgres_url
    return scene


def test_a_dead_host_is_waited_for_and_taken_over(hosts: Scene) -> None:
    hosts.run("remember number 1", **machine("a", hosts))
    first = hosts.start(f"remember number 2 [[shell echo two >> effects; {GATE}]]", **machine("a", hosts))
    until(lambda: hosts.effects, "the tool runs")
    second = hosts.start("what numbers?", **machine("b", hosts))
    second.says(WAITING)
    assert f"process {first.pid} on a" in second.stderr
    time.sleep(7)
    assert second.process.poll() is None, "it renews its lease, so it is waited for"
    first.kill()
    killed = time.monotonic()
    done = second.end(90)
    assert done.code == 0, done.stderr
    assert time.monotonic() - killed > lease_rows.DEAD_S - lease_rows.RENEW_S - 1
    assert (done.turn["mode"], done.turn["text"]) == ("replay", "1, 2")
    (why,) = [check for check in done.turn["why"] if check["check"] == "host"]
    assert why["verdict"] == "fail"
    assert "the session is on a, this is b" in why["detail"]
    log = hosts.log()
    assert (log[2]["status"], log[2]["failure"]["kind"]) == ("failed", "killed")
    assert "no longer responds" in log[2]["failure"]["message"]
    assert [text for _, text in hosts.said()][3:] == ["what numbers?", "1, 2"]


def test_who_lost_the_lease_is_cancelled_and_settles_nothing(hosts: Scene, postgres_url: str) -> None:
    first = hosts.start(
        f"remember number 1 [[shell echo one >> effects; {GATE}]] [[say late]]", **machine("a", hosts)
    )
    until(lambda: hosts.effects, "the tool runs")
    agent = hosts.agent()
    first.signal(signal.SIGSTOP)
    with psycopg.connect(postgres_url, autocommit=True) as db:  # as if it had stood still for long
        db.execute("UPDATE segue.leases SET renewed_ms = renewed_ms - 3600000")
    hosts.run("what numbers?", **machine("b", hosts))
    first.signal(signal.SIGCONT)
    done = first.end()
    assert (done.code, done.turn["status"], done.turn["text"]) == (130, "cancelled", "")
    assert agent not in hosts.agents()
    said = [text for _, text in hosts.said()]
    assert said[1:] == ["what numbers?", "1"]
    assert "late" not in said
    assert hosts.log()[0]["failure"]["kind"] == "killed"
    third = hosts.run("what numbers?", **machine("a", hosts))
    assert third.turn["text"] == "1"


def test_who_was_overtaken_settles_nothing_though_nobody_else_has(hosts: Scene, postgres_url: str) -> None:
    """Before it knows: the agent's answer comes between two renewals."""
    first = hosts.start(f"remember number 1 [[shell {GATE}]] [[say late]]", **machine("a", hosts))
    hosts.agent()
    with psycopg.connect(postgres_url, autocommit=True) as db:
        db.execute("UPDATE segue.leases SET token = 'b', generation = generation + 1")
        hosts.open_gate()
        done = first.end()
        assert (done.code, done.turn["status"], done.turn["text"]) == (130, "cancelled", "")
        assert db.execute("SELECT state, answer FROM segue.turns").fetchall() == [("running", None)]
        assert db.execute("SELECT session FROM segue.pins").fetchall() == []


def test_who_lost_the_lease_before_the_start_starts_nothing(hosts: Scene, postgres_url: str) -> None:
    """It stands still between the plan and the start, and wakes up when the conversation is another's."""
    session = hosts.run("remember number 1", **machine("a", hosts)).turn["session_id"]
    with open_store(postgres_url, hosts.segue.home) as store:
        first = hosts.start(f"remember number 9 [[shell {GATE}]]", key="other", **machine("a", hosts))
        hosts.agent()
        ((mine,),) = store._db.all("SELECT owner FROM leases")  # a process of that machine, and alive
        a = msgspec.json.decode(mine, type=Owner)
        name = f"session:rehearsal:{a.machine or a.host_id}:{session}"
        held = store.take_lease(name, a, lambda _: "alive")
        assert isinstance(held, lease_rows.Taken)
        second = hosts.start("remember number 2 [[shell echo two >> effects]]", **machine("a", hosts))
        second.says("waiting for the session")
        second.signal(signal.SIGSTOP)
        store._db.run("UPDATE leases SET renewed_ms = renewed_ms - 3600000 WHERE name LIKE 'conversation:%'")
        hosts.run("what numbers?", **machine("b", hosts))
        store.release_lease(held.claim)
    second.signal(signal.SIGCONT)
    done = second.end()
    assert (done.code, done.turn["status"]) == (130, "cancelled")
    assert "took the conversation over" in done.turn["failure"]["message"]
    assert hosts.effects == []
    hosts.open_gate()
    assert first.end().code == 0


def test_clocks_that_disagree_make_no_second_writer(hosts: Scene, tmp_path: Path) -> None:
    """By the clocks of the two, the one who holds it has been silent for more than four minutes."""
    behind, ahead = clock(-130, tmp_path / "behind"), clock(130, tmp_path / "ahead")
    first = hosts.start(f"first [[shell {GATE}]] [[say one]]", **machine("a", hosts) | behind)
    hosts.agent()
    assert hosts.start("second", "--wait", "2", **machine("b", hosts) | ahead).end().code == 75
    hosts.open_gate()
    assert first.end().code == 0


def states(url: str) -> dict[str, str]:
    """Of every run, by what it was asked."""
    with psycopg.connect(url, autocommit=True) as db:
        rows = db.execute(
            "SELECT r.text, t.state FROM segue.turns AS t JOIN segue.revisions AS r ON r.message = t.message"
        )
        return dict(rows.fetchall())


def aged(url: str, by_s: int) -> None:
    """All who wait were heard so much longer ago."""
    with psycopg.connect(url, autocommit=True) as db:
        changed = db.execute(
            "UPDATE segue.leases SET renewed_ms = renewed_ms - %s WHERE name LIKE 'waiting:%%'",
            (by_s * 1000,),
        )
        assert changed.rowcount == 1


def test_a_message_that_waited_on_a_dead_host_is_withdrawn(hosts: Scene, postgres_url: str) -> None:
    first = hosts.start(BLOCKING, **machine("b", hosts))
    hosts.agent()
    second = hosts.start("remember number 2", **machine("a", hosts))
    second.says(WAITING)
    until(lambda: signs(postgres_url), "it shows that it waits")
    second.kill()
    aged(postgres_url, 3600)
    hosts.open_gate()
    assert first.end().code == 0
    assert hosts.run("what numbers?", **machine("b", hosts)).turn["text"] == "I do not know any number."
    assert states(postgres_url)["remember number 2"] == "withdrawn"
    assert [text for _, text in hosts.said()][:3] == [BLOCKING, "one", "what numbers?"]
    assert signs(postgres_url) == []


def signs(url: str) -> list[str]:
    """Those by which runs show that they wait."""
    with psycopg.connect(url, autocommit=True) as db:
        return [
            name
            for (name,) in db.execute("SELECT name FROM segue.leases WHERE name LIKE 'waiting:%'").fetchall()
        ]


@pytest.mark.parametrize("alive", [True, False])
def test_who_waits_elsewhere_is_judged_by_the_stores_clock_and_begins_in_any_case(
    hosts: Scene, postgres_url: str, tmp_path: Path, alive: bool
) -> None:
    """By the clock of the one who comes after it, it has been waiting for days. It may stand still so long
    that it is taken for dead, and others go ahead; then nothing of its turn is lost either."""
    ahead = clock(3 * 24 * 3600, tmp_path / "ahead")
    first = hosts.start(BLOCKING, **machine("b", hosts))
    hosts.agent()
    second = hosts.start("remember number 2", **machine("a", hosts))
    second.says(WAITING)
    until(lambda: signs(postgres_url), "it shows that it waits")
    second.signal(signal.SIGSTOP)
    aged(postgres_url, -3600 if alive else 3600)
    hosts.open_gate()
    assert first.end().code == 0
    third = hosts.start("third", "--wait", "3", **machine("b", hosts) | ahead).end()
    assert third.code == (75 if alive else 0)
    assert states(postgres_url)["remember number 2"] == ("queued" if alive else "withdrawn")
    second.signal(signal.SIGCONT)
    assert second.end().code == 0
    went_ahead = [] if alive else ["third", "Understood."]
    said = [BLOCKING, "one", *went_ahead, "remember number 2", "Noted: 2."]
    assert [text for _, text in hosts.said()] == said
    assert hosts.run("what numbers?", **machine("a", hosts)).turn["text"] == "2"


# containers, and hosts that were renamed


def test_containers_of_one_name_do_not_take_each_others_leases(hosts: Scene) -> None:
    first = hosts.start(f"first [[shell {GATE}]] [[say one]]", **container("a", hosts, "runner"))
    hosts.agent()
    second = hosts.start("second", "--wait", "3", **container("b", hosts, "runner")).end()
    assert (second.code, second.turn["failure"]["kind"]) == (75, "session_busy")
    assert len(hosts.agents()) == 1
    hosts.open_gate()
    assert first.end().code == 0
    assert [text for _, text in hosts.said()][:2] == ["first [[shell " + GATE + "]] [[say one]]", "one"]


def test_what_a_killed_segue_left_in_a_container_is_adopted_from_beside_it(
    hosts: Scene, postgres_url: str
) -> None:
    """The numbers of its processes mean nothing here, but what it writes is locked as long as it lives."""
    hosts.start(f"remember number 1 [[shell {GATE}]] [[say one]]", **container("a", hosts))
    agent = hosts.agent()
    until(lambda: list(Path(f"{hosts.segue.home}-a").glob("runs/*/process.json")), "the agent was noted")
    (program,) = hosts.programs()
    kill(program)
    with psycopg.connect(postgres_url, autocommit=True) as db:
        db.execute("UPDATE segue.leases SET renewed_ms = renewed_ms - 3600000")
    second = hosts.start("what numbers?", **container("b", hosts))
    second.says(READING)
    assert hosts.agents() == [agent]
    hosts.open_gate()
    assert second.end().turn["text"] == "1"
    assert [text for _, text in hosts.said()][1:] == ["one", "what numbers?", "1"]


def test_machines_of_one_name_do_not_take_each_others_sessions(hosts: Scene) -> None:
    hosts.segue.env["SEGUE_KEEP_ENABLED"] = "false"
    hosts.run("remember number 1", **machine("a", hosts, "runner"))
    done = hosts.run("what numbers?", **machine("b", hosts, "runner"))
    assert (done.turn["mode"], done.turn["text"]) == ("replay", "1")
    (why,) = [check for check in done.turn["why"] if check["check"] == "host"]
    assert why["detail"] == (
        "the session was made on another host that is also called runner, with its own SEGUE_HOME"
    )


def test_a_renamed_host_adopts_its_own_run(scene: Scene) -> None:
    text = f"remember number 1 [[shell echo one >> effects; {GATE}]] [[say one]]"
    first = running(scene, text)
    until(lambda: scene.effects and scene.has("process.json"), "the tool runs")
    first.kill()
    (agent,) = scene.agents()
    changed = scene.segue("truncate", "t", "#1", SEGUE_STORE_HOST="renamed")
    assert changed.code == 75, changed
    second = scene.start("what numbers?", SEGUE_STORE_HOST="renamed")
    second.says(READING)
    assert scene.agents() == [agent]
    scene.open_gate()
    done = second.end()
    assert (done.turn["mode"], done.turn["text"]) == ("resume", "1")
    assert [text for _, text in scene.said()] == [text, "one", "what numbers?", "1"]
    assert scene.effects == ["one"]
    assert scene.quiet()


def test_a_renamed_host_keeps_its_sessions(scene: Scene) -> None:
    first = scene.run("remember number 1").turn["session_id"]
    done = scene.run("what numbers?", SEGUE_STORE_HOST="renamed")
    assert (done.turn["mode"], done.turn["session_id"], done.turn["notices"]) == ("resume", first, [])
    listed = msgspec.json.decode(
        scene.segue("sessions", "restore", "--json", SEGUE_STORE_HOST="third").stdout
    )
    assert [(copy["present"], copy["host"]) for copy in listed] == [(True, "renamed")]


def test_from_another_home_on_the_machine_a_run_is_found(hosts: Scene) -> None:
    """Nothing is the same but the machine and the store."""
    homes = [{"SEGUE_HOME": f"{hosts.segue.home}-{name}"} for name in "ab"]
    first = hosts.start(f"remember number 1 [[shell {GATE}]] [[say one]]", **homes[0])
    agent = hosts.agent()
    until(lambda: list(Path(homes[0]["SEGUE_HOME"]).glob("runs/*/process.json")), "the agent was noted")
    assert hosts.start("second", "--wait", "0", **homes[1]).end().code == 75
    first.kill()
    second = hosts.start("what numbers?", **homes[1])
    second.says(READING)
    assert hosts.agents() == [agent]
    hosts.open_gate()
    assert second.end().turn["text"] == "1"


# a private home of a runner

HOLDER = """
import os, sys, anyio
from pathlib import Path
from segue.core.request import Command
from segue.turns.private_homes import claimed_home
from segue.runner.launch import launch

async def main():
    root, here = Path(sys.argv[1]), Path(sys.argv[2])
    with claimed_home(root, here) as claim:
        command = Command(argv=("sleep", "300"), cwd=here)
        env = {"PATH": sys.argv[3]}
        run_dir = here / f"run-{os.getpid()}"
        async with launch(command, env=env, run_dir=run_dir, claims=(claim.lock,)) as running:
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
