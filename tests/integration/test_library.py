"""The library: conversations from Python, in tasks and threads, with callers that change their minds."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

import segue as public
from segue.agents.base import Answer
from segue.app import conversation_changes
from segue.app.segue import Segue
from segue.app.sync import SyncSegue
from segue.core import events as ev
from segue.core.errors import InUse, Misuse, SegueError
from segue.core.turn import Turn
from segue.runner.attempt import Cancel
from segue.store.leases import alone, lease_name
from segue.turns import changes
from segue.turns.why import Why
from tests.integration.conftest import Program

Work = Callable[[Segue], Awaitable[None]]


@asynccontextmanager
async def opened(segue: Program) -> AsyncIterator[Segue]:
    os.makedirs(segue.home, exist_ok=True)
    (segue.home / "config.toml").write_text('[defaults]\nagent = "rehearsal"\n')
    async with Segue(home=segue.home, env=segue.env) as door:
        yield door


def play(segue: Program, work: Work) -> None:
    async def go() -> None:
        async with opened(segue) as door:
            await asyncio.wait_for(work(door), 60)

    before = os.getcwd()
    os.chdir(segue.cwd)
    try:
        asyncio.run(go(), debug=False)
    finally:
        os.chdir(before)


def group_of(segue: Program) -> int:
    """The process group of the attempt that runs."""
    (file,) = (segue.home / "runs").glob("*/process.json")
    return int(msgspec.json.decode(file.read_bytes())["pgid"])


def gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def test_run_returns_the_turn(segue: Program) -> None:
    async def work(door: Segue) -> None:
        heard: list[ev.Event] = []
        first = await door.run("t", "remember number 456", on_event=heard.append)
        second = await door.run("t", "what number?", permission="read")
        assert isinstance(first, Turn)
        assert (first.mode, second.mode, second.text) == ("fresh", "resume", "456")
        assert isinstance(heard[0], ev.Session)

    play(segue, work)


def test_a_failure_is_a_turn_and_retry_runs_it_again(segue: Program) -> None:
    async def work(door: Segue) -> None:
        turn = await door.run("t", "[[error 429]]")
        assert turn.failure is not None
        assert (turn.status, turn.failure.kind, turn.failure.retryable) == ("failed", "rate_limited", True)
        await door.edit("t", "#1", "remember number 1")
        again = await door.retry("t")
        assert (again.text, len(await door.log("t"))) == ("Noted: 1.", 2)

    play(segue, work)


def test_stream_ends_with_the_turn(segue: Program) -> None:
    async def work(door: Segue) -> None:
        seen = [event async for event in door.stream("t", "[[shell echo hi]][[say done]]", permission="full")]
        assert isinstance(seen[-1], Turn)
        assert seen[-1].text == "done"
        assert {"Session", "ToolCall", "ToolResult", "Text"} <= {type(event).__name__ for event in seen}

    play(segue, work)


@pytest.mark.parametrize("how", ["close", "break", "leave"])
def test_whoever_stops_listening_ends_the_turn(segue: Program, how: str) -> None:
    """Closing the stream, leaving the loop, leaving the door: each is in order, and can be gone on from."""
    groups = []

    async def listen(door: Segue) -> None:
        stream = door.stream("t", "remember number 2 [[hang]]")
        async for event in stream:
            if isinstance(event, ev.Session):
                groups.append(group_of(segue))
                break
        if how == "close":
            await stream.aclose()
            assert gone(groups[0])
        elif how == "break":
            del stream

    async def work(door: Segue) -> None:
        await door.run("t", "remember number 1")
        if how == "leave":
            stream = door.stream("t", "remember number 2 [[hang]]")
            await anext(stream)
            groups.append(group_of(segue))
            kept.append(stream)
        else:
            await listen(door)

    kept: list[Any] = []
    play(segue, work)
    assert gone(groups[0])

    async def after(door: Segue) -> None:
        rows = await door.log("t")
        assert rows[-1].state == "cancelled"
        turn = await door.run("t", "what numbers?")
        assert (turn.mode, turn.text) == ("branch", "1, 2")

    play(segue, after)


@pytest.mark.parametrize("how", ["timeout", "cancel", "handle"])
def test_a_caller_that_is_cancelled_cancels_the_turn(segue: Program, how: str) -> None:
    async def work(door: Segue) -> None:
        await door.run("t", "remember number 1")
        running = asyncio.Event()
        cancel = Cancel()

        def heard(event: ev.Event) -> None:
            running.set()

        task = asyncio.create_task(door.run("t", "[[hang]]", on_event=heard, cancel=cancel))
        await running.wait()
        group = group_of(segue)
        if how == "timeout":
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await task
        elif how == "cancel":
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            threading.Timer(0.1, cancel).start()
            assert (await task).status == "cancelled"
        assert gone(group)
        rows = await door.log("t")
        assert rows[-1].state == "cancelled"
        assert (await door.run("t", "what number?")).text == "1"

    play(segue, work)


def test_an_answerer_is_asked_also_when_the_session_is_resumed(segue: Program) -> None:
    async def work(door: Segue) -> None:
        async def answer(event: ev.Question | ev.Permission) -> Answer:
            assert isinstance(event, ev.Question)
            return Answer(True, answers={"Which?": "the second"})

        await door.run("t", "remember number 1", answer=answer)
        turn = await door.run("t", "[[ask Which? | a | b]][[result]]", answer=answer)
        assert (turn.mode, turn.text, turn.terms.questions) == ("resume", "the second", True)
        unheard = await door.run("other", "[[ask Which? | a | b]]")
        assert (unheard.text, unheard.terms.questions) == ("Which? (1) a (2) b", False)

    play(segue, work)


def test_why_changes_nothing(segue: Program) -> None:
    async def work(door: Segue) -> None:
        await door.run("t", "remember number 1")
        found = await door.why("t", "what number?")
        assert isinstance(found, Why)
        assert (found.mode, found.sends.native_messages) == ("resume", 2)
        assert (await door.why("t")).mode == "resume"
        assert (await door.why("t", blank=True)).mode == "fresh"
        assert len(await door.log("t")) == 2

    play(segue, work)


def test_changes(segue: Program) -> None:
    async def work(door: Segue) -> None:
        for number in (1, 2, 3):
            await door.run("t", f"remember number {number}")
        assert await door.fork("t") == "t~2"
        assert await door.fork("t", "early", upto="#2") == "early"
        assert await door.truncate("t", "#5") == 2
        await door.edit("t", "#3", "remember number 22")
        turn = await door.run("t", "what numbers?")
        assert (turn.mode, turn.text) == ("branch", "1, 22")
        await door.edit("t", "#1", "remember number 9", cut=True)
        assert (await door.retry("t", "#1")).text == "Noted: 9."
        assert [row.text for row in await door.log("t")] == ["remember number 9", "Noted: 9."]
        assert (await door.run("t~2", "what numbers?")).text == "1, 2, 3"
        assert (await door.run("early", "what numbers?")).text == "1"
        text = await door.export("t")
        assert await door.import_(text, "copy") == "copy"
        assert (await door.export("copy", "markdown")).startswith("# copy\n\n## #1 you")
        await door.rm("t")
        assert {each.key for each in await door.ls()} == {"t~2", "early", "copy"}

    play(segue, work)


def test_many_conversations_at_once(segue: Program) -> None:
    async def work(door: Segue) -> None:
        turns = await asyncio.gather(*(door.run(f"t{n}", f"remember number {n}") for n in range(5)))
        assert [turn.text for turn in turns] == [f"Noted: {n}." for n in range(5)]
        asked = await asyncio.gather(*(door.run(f"t{n}", "what number?") for n in range(5)))
        assert [(turn.mode, turn.text) for turn in asked] == [("resume", str(n)) for n in range(5)]

    play(segue, work)


def test_turns_of_one_conversation_wait_for_each_other(segue: Program) -> None:
    async def work(door: Segue) -> None:
        said: list[str] = []
        await door.run("t", "remember number 0")
        await asyncio.gather(
            *(door.run("t", f"remember number {n}", on_notice=said.append) for n in range(1, 5))
        )
        numbers = (await door.run("t", "what numbers?")).text.split(", ")
        assert (numbers[0], sorted(numbers)) == ("0", ["0", "1", "2", "3", "4"])
        assert any("waiting for another turn of t" in notice for notice in said)

    play(segue, work)


def test_one_door_in_two_threads_with_loops_of_their_own(segue: Program) -> None:
    async def work(door: Segue) -> None:
        def elsewhere(key: str) -> str:
            async def both() -> str:
                await door.run(key, f"remember number {key[1:]}")
                return (await door.run(key, "what number?")).text

            return asyncio.run(both())

        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(2) as pool:
            jobs = [loop.run_in_executor(pool, elsewhere, f"t{n}") for n in (1, 2)]
            here = await door.run("t3", "remember number 3")
            assert (await asyncio.gather(*jobs), here.text) == (["1", "2"], "Noted: 3.")

    play(segue, work)


HELD = "[[shell until [ -e {} ]; do sleep 0.1; done]][[say paid]]"
"""A turn that is held until a file is there."""
CHANGES: list[Callable[[Any], Any]] = [
    lambda door: door.edit("t", "#1", "x"),
    lambda door: door.edit("t", "#1", "x", cut=True),
    lambda door: door.truncate("t", "#1"),
    lambda door: door.undo("t"),
    lambda door: door.rm("t"),
    lambda door: door.accounts.switch("t", "none"),
]


@pytest.mark.parametrize("change", range(len(CHANGES)))
def test_a_change_while_a_turn_runs_is_refused_at_once(
    segue: Program, change: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not wait for the end of the turn, and then drop what was answered."""
    monkeypatch.setattr(conversation_changes, "WAIT_S", 600.0)
    gate = segue.cwd / "gate"

    async def work(door: Segue) -> None:
        await door.run("t", "remember number 1")
        running = asyncio.Event()
        held = door.run("t", HELD.format(gate), permission="full", on_event=lambda event: running.set())
        task = asyncio.create_task(held)
        await running.wait()
        try:
            with pytest.raises(InUse, match="another turn is running"):
                await asyncio.wait_for(CHANGES[change](door), 20)
        finally:
            gate.touch()
        assert (await task).text == "paid"
        assert [each.text for each in await door.log("t")][-1] == "paid"
        assert await door.truncate("t", "#3") == 2, "when it is over"

    play(segue, work)


@pytest.mark.parametrize("change", range(len(CHANGES)))
def test_a_blocking_change_while_a_turn_runs_is_refused_at_once(
    segue: Program, change: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation_changes, "WAIT_S", 600.0)
    monkeypatch.chdir(segue.cwd)
    segue.config('[defaults]\nagent = "rehearsal"\n')
    gate, running = segue.cwd / "gate", threading.Event()
    with SyncSegue(home=segue.home, env=segue.env) as door, ThreadPoolExecutor(2) as pool:
        door.run("t", "remember number 1")
        held = partial(door.run, permission="full", on_event=lambda event: running.set())
        turn = pool.submit(held, "t", HELD.format(gate))
        assert running.wait(30)
        try:
            with pytest.raises(InUse, match="another turn is running"):
                pool.submit(CHANGES[change], door).result(20)
        finally:
            gate.touch()
        assert turn.result(30).text == "paid"
        assert [each.text for each in door.log("t")][-1] == "paid"


def test_a_change_that_waited_is_refused_if_the_messages_are_no_longer_the_same(segue: Program) -> None:
    """Whoever asked for it has not seen what it would drop."""

    async def work(door: Segue) -> None:
        await door.run("t", "remember number 1")
        workspace = door.workspace
        store, conversation = workspace.store, workspace.conversation("t")
        name, locks = lease_name(conversation.id), workspace.home.locks
        async with alone(store, name, host=workspace.host, locks=locks):
            change = asyncio.create_task(door.truncate("t", "#1"))
            await asyncio.sleep(0.3)
            changes.truncate(store, conversation, store.messages(conversation.id)[1].id)
        with pytest.raises(InUse, match="has just gone on"):
            await change
        assert len(await door.log("t")) == 1

    play(segue, work)


MISUSE: list[tuple[Callable[[Any], Any], str]] = [
    (lambda door: door.run("bad key", "hi"), "not a conversation key"),
    (lambda door: door.run("t", "  \n "), "the prompt is empty"),
    (lambda door: door.run("t", "half \ud800 a character"), "not UTF-8"),
    (lambda door: door.run("t", "hi", agnt="x"), "unknown option: agnt"),
    (lambda door: door.run("t", "hi", agent="nobody"), 'there is no agent "nobody"'),
    (lambda door: door.run("t", "hi", agent=""), "agent takes a name"),
    (lambda door: door.run("t", "hi", role="two\nlines"), "role takes a name on one line"),
    (lambda door: door.run("t", "hi", permission="all"), "permission takes default, read, edit, full"),
    (lambda door: door.run("t", "hi", max_turns=0), "max_turns takes a number of at least 1"),
    (lambda door: door.run("t", "hi", timeout=0), "timeout takes a number above 0"),
    (lambda door: door.run("t", "hi", wait=float("nan")), "wait takes a number of at least 0"),
    (lambda door: door.run("t", "hi", allow_tools="shell"), "allow_tools takes a list"),
    (lambda door: door.run("t", "hi", cwd="/no/such/place"), "does not exist"),
    (lambda door: door.retry("nobody"), "there is no conversation nobody"),
    (lambda door: door.edit("t", "#1", "\udc00"), "not UTF-8"),
    (lambda door: door.edit("t", "#1", " "), "the new text is empty"),
    (lambda door: door.edit("t", "#7", "x"), "its messages are #1 to #2"),
    (lambda door: door.truncate("t", "nothing"), 'no message "nothing"'),
    (lambda door: door.fork("t", "t"), "already"),
    (lambda door: door.log("nobody"), "there is no conversation nobody"),
    (lambda door: door.import_("nonsense"), "not an export"),
]


def test_misuse_raises_and_changes_nothing(segue: Program) -> None:
    async def work(door: Segue) -> None:
        await door.run("t", "remember number 1")
        for wrong, says in MISUSE:
            with pytest.raises(Misuse) as caught:
                await wrong(door)
            assert says in str(caught.value)
        assert len(await door.log("t")) == 2

    play(segue, work)


def test_a_door_that_is_not_open_says_so(segue: Program) -> None:
    with pytest.raises(Misuse, match="open it first"):
        asyncio.run(Segue(home=segue.home).run("t", "hi"))
    with pytest.raises(Misuse, match="open it first"):
        SyncSegue(home=segue.home).run("t", "hi")


# --- without an event loop -------------------------------------------------------------------------


@pytest.fixture
def door(segue: Program, monkeypatch: pytest.MonkeyPatch) -> SyncSegue:
    monkeypatch.chdir(segue.cwd)
    segue.config('[defaults]\nagent = "rehearsal"\n')
    return SyncSegue(home=segue.home, env=segue.env)


def test_the_same_without_an_event_loop(door: SyncSegue) -> None:
    with door as segue:
        notices: list[str] = []
        assert segue.run("t", "remember number 1", on_notice=notices.append).mode == "fresh"
        *events, turn = segue.stream("t", "what number?")
        assert isinstance(turn, Turn)
        assert (turn.mode, turn.text) == ("resume", "1")
        assert events
        assert segue.why("t").mode == "resume"
        segue.edit("t", "#1", "remember number 2")
        assert segue.retry("t").text == "2"
        assert segue.fork("t") == "t~2"
        assert segue.truncate("t", "#3") == 2
        assert [row.n for row in segue.log("t")] == [1, 2]
        assert segue.import_(segue.export("t"), "copy") == "copy"
        segue.rm("t")
        assert {each.key for each in segue.ls()} == {"t~2", "copy"}


def test_the_synchronous_door_serves_threads(door: SyncSegue) -> None:
    with door as segue, ThreadPoolExecutor(3) as pool:
        texts = pool.map(lambda n: segue.run(f"t{n}", f"remember number {n}").text, range(3))
        assert list(texts) == ["Noted: 0.", "Noted: 1.", "Noted: 2."]


def test_breaking_off_a_synchronous_stream_ends_the_turn(door: SyncSegue, segue: Program) -> None:
    with door as opened:
        for event in opened.stream("t", "[[hang]]"):
            assert isinstance(event, ev.Session)
            group = group_of(segue)
            break
        assert gone(group)
        (row,) = opened.log("t")
        assert row.state == "cancelled"


def test_a_store_that_cannot_be_opened_leaves_no_thread_behind(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    before = set(threading.enumerate())
    with pytest.raises(SegueError, match="cannot read"), SyncSegue(home=tmp_path / "file"):
        pass
    for thread in set(threading.enumerate()) - before:
        thread.join(10)  # it was told to end, and may need a moment to
    assert set(threading.enumerate()) <= before


SCRIPT = """
from segue import SyncSegue
with SyncSegue() as segue:
    print("ready", flush=True)
    segue.run("t", "[[hang]]", agent="rehearsal", cwd=".")
"""
ASYNC_SCRIPT = """
import asyncio
from segue import Segue
async def main():
    async with Segue() as segue:
        print("ready", flush=True)
        await segue.run("t", "[[hang]]", agent="rehearsal", cwd=".")
asyncio.run(main())
"""


@pytest.mark.parametrize("script", [SCRIPT, ASYNC_SCRIPT], ids=["sync", "async"])
def test_ctrl_c_in_a_script_ends_the_turn_and_the_script(segue: Program, script: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=segue.cwd,
        env=segue.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    for _ in range(300):
        if list((segue.home / "runs").glob("*/process.json")):
            break
        time.sleep(0.05)
    time.sleep(0.5)
    group = group_of(segue)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode != 0
    assert stderr.rstrip().endswith(b"KeyboardInterrupt"), stderr
    assert gone(group)
    row = segue("log", "t", "--json").stdout
    assert '"status":"cancelled"' in row


def test_the_public_names() -> None:
    assert {name for name in public.__all__ if not hasattr(public, name)} == set()


def test_environment_and_directory_are_those_of_the_request(segue: Program, tmp_path: Path) -> None:
    """Not of the process, which may have moved on."""
    (segue.cwd / "sub").mkdir()
    (segue.cwd / "more.txt").write_text("Answer in one word.")
    env = {**segue.env, "SEGUE_HOME": "data"}

    async def go() -> None:
        async with Segue(env=env, cwd=segue.cwd) as door:
            turn = await door.run(
                "t", "remember number 1", agent="rehearsal", cwd="sub", system_prompt_file="more.txt"
            )
            assert turn.failure is None
            (listed,) = await door.ls()
            assert listed.cwd == str(segue.cwd / "sub")
            assert [each.conversation for each in await door.sessions.ls(cwd="sub")] == ["t"]
            assert await door.sessions.ls() == []

    asyncio.run(go())
    assert (segue.cwd / "data" / "segue.db").exists()
    assert not Path("data").exists()


def test_a_stream_takes_the_same_functions_as_a_run(segue: Program) -> None:
    async def answer(event: ev.Question | ev.Permission) -> Answer:
        return Answer(True, answers={"Which?": "the second"})

    async def work(door: Segue) -> None:
        said: list[str] = []
        asking = door.stream("t", "[[ask Which? | a | b]][[result]]", answer=answer, on_notice=said.append)
        *_, turn = [event async for event in asking]
        assert isinstance(turn, Turn)
        assert turn.text == "the second"
        cancel = Cancel()
        last: ev.Event | Turn | None = None
        async for last in door.stream("other", "[[hang]]", cancel=cancel):
            if isinstance(last, ev.Session):
                cancel()
        assert isinstance(last, Turn)
        assert last.status == "cancelled"

    play(segue, work)


def test_a_turn_is_what_the_command_prints(segue: Program) -> None:
    async def work(door: Segue) -> None:
        turn = await door.run("t", "remember number 1")
        told = (await door.last("t")).told
        assert isinstance(told, Turn)
        assert told.to_dict() == turn.to_dict() == msgspec.json.decode(turn.to_json())

    play(segue, work)
    printed = segue("last", "t", "--json").stdout

    async def after(door: Segue) -> None:
        told = (await door.last("t")).told
        assert isinstance(told, Turn)
        assert printed == told.to_json() + "\n"

    play(segue, after)


def test_the_agents_own_sessions(segue: Program) -> None:
    async def work(door: Segue) -> None:
        await door.run("t", "remember number 1")
        (session,) = await door.sessions.ls()
        assert (session.conversation, session.pinned) == ("t", True)
        page = await door.sessions.show(session.id)
        assert (page.size, page.has_more) == (len(page.events), False)
        assert (await door.sessions.show("t", at=page.events[-1].id)).events == page.events
        assert (await door.sessions.check("t")).sound
        assert [hit.session for hit in await door.sessions.search("remember")] == [session.id]
        assert (await door.sessions.repair("t")).session == session.id
        (copy,) = await door.sessions.copies()
        assert (copy.id, copy.present) == (session.id, True)
        with pytest.raises(Misuse, match="already exists"):
            await door.sessions.restore("t")
        os.unlink(session.path)
        (restored,) = (await door.sessions.restore("t")).restored
        assert restored.path == session.path
        turn = await door.sessions.continue_(session.id[:8], "what number?")
        assert (turn.conversation, turn.mode, turn.text) == ("t", "resume", "1")

    play(segue, work)


async def two_quiet_sessions(door: Segue) -> list[Path]:
    """One that is pinned and one that nobody needs, neither written to just now. The newer one first."""
    await door.run("t", "remember number 1")
    await door.run("t", "remember number 2", fresh_session=True)
    files = [Path(session.path) for session in await door.sessions.ls()]
    for file in files:
        os.utime(file, (time.time() - 3_600,) * 2)
    return files


def test_pruning_shows_before_it_deletes(segue: Program) -> None:
    async def work(door: Segue) -> None:
        pinned, unneeded = await two_quiet_sessions(door)
        plan = await door.sessions.prune(days=0)
        assert (plan.deleted, [each.path for each in plan.sessions]) == (False, [str(unneeded)])
        assert unneeded.exists()
        done = await door.sessions.prune(days=0, dry_run=False)
        assert (done.deleted, done.sessions) == (True, plan.sessions)
        assert (pinned.exists(), unneeded.exists()) == (True, False)

    play(segue, work)


def test_foreign_sessions_are_deleted_only_with_the_code_of_their_list(segue: Program) -> None:
    async def work(door: Segue) -> None:
        pinned, _ = await two_quiet_sessions(door)
        other = "abcdef12-1111-4222-8333-444455556666"
        foreign = pinned.with_name(f"{other}.jsonl")
        foreign.write_text(pinned.read_text().replace(pinned.stem, other))
        os.utime(foreign, (time.time() - 3_600,) * 2)
        with pytest.raises(Misuse, match="to delete it, add --confirm") as refused:
            await door.sessions.prune(days=0, all_sessions=True, dry_run=False)
        assert foreign.exists()
        code = str(refused.value).rpartition(" ")[2]
        await door.sessions.prune(days=0, all_sessions=True, dry_run=False, confirm=code)
        assert not foreign.exists()

    play(segue, work)


def test_which_agents_there_are_and_what_is_wrong(segue: Program) -> None:
    async def work(door: Segue) -> None:
        agents = {each.agent: each for each in await door.agents()}
        assert agents["rehearsal"].problem is None
        assert {each.check for each in await door.doctor()} >= {"segue", "home", "config", "rehearsal"}

    play(segue, work)
