"""A caller's key for a run: the same key again is the same run, and never a second one."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import msgspec
import pytest

from segue.app.segue import Segue
from segue.core.errors import Misuse, StoreAway
from segue.core.turn import Turn
from segue.store.store import Store
from segue.turns.request import TurnRequest, body_of, request_from_options
from tests.chaos.scenes import GATE, KEY, PATIENCE_S, Scene, until
from tests.database import database
from tests.integration.conftest import Program

T = TypeVar("T")


@pytest.fixture
def env(segue: Program) -> dict[str, str]:
    return {
        **segue.env,
        "REHEARSAL_HOME": str(segue.home / "agent"),
        "SEGUE_DEFAULTS_AGENT": "rehearsal",
        "SEGUE_DEFAULTS_PERMISSION": "full",
    }


def within(env: dict[str, str], work: Callable[[Segue], Awaitable[T]]) -> T:
    async def go() -> T:
        async with Segue(env=env) as library:
            return await work(library)

    return asyncio.run(go())


def test_the_same_key_again_is_the_same_run(segue: Program, env: dict[str, str]) -> None:
    async def twice(library: Segue) -> None:
        first = await library.run("t", "remember 456", cwd=segue.cwd, run_key="step-1")
        again = await library.run("t", "remember 456", cwd=segue.cwd, run_key="step-1")
        assert (again.run, again.text, again.cost_usd) == (first.run, first.text, first.cost_usd)
        assert [row.sender for row in await library.log("t")] == ["user", "assistant"]
        second = await library.run("t", "remember 456", cwd=segue.cwd, run_key="step-2")
        elsewhere = await library.run("u", "remember 456", cwd=segue.cwd, run_key="step-1")
        assert len({first.run, second.run, elsewhere.run}) == 3, "a key is one conversation's"
        plain = [await library.run("t", "remember 456", cwd=segue.cwd) for _ in range(2)]
        assert plain[0].run != plain[1].run

    within(env, twice)


@pytest.mark.parametrize("other", ["text", "option"])
def test_a_key_that_is_used_for_another_request_is_refused(
    segue: Program, env: dict[str, str], other: str
) -> None:
    async def twice(library: Segue) -> None:
        first = await library.run("t", "remember 456", cwd=segue.cwd, run_key="k")
        text, turns = ("remember 457", None) if other == "text" else ("remember 456", 3)
        with pytest.raises(Misuse, match=f'the run key "k" was used for another request \\(run {first.run}'):
            await library.run("t", text, cwd=segue.cwd, run_key="k", max_turns=turns)
        assert len(await library.log("t")) == 2

    within(env, twice)


def test_two_at_the_same_time_are_one_run(segue: Program, env: dict[str, str]) -> None:
    async def together(library: Segue) -> None:
        events: list[str] = []
        runs = [
            library.run(
                "t",
                "[[shell sleep 0.5; echo once >> effects]] [[say done]]",
                cwd=segue.cwd,
                run_key="step-1",
                on_event=lambda event: events.append(type(event).__name__),
            )
            for _ in range(2)
        ]
        first, second = await asyncio.gather(*runs)
        assert first.run == second.run
        assert (first.text, second.text) == ("done", "done")
        assert events.count("ToolCall") == 2, "both were told what happens"
        assert len(await library.log("t")) == 2

    within(env, together)
    assert (segue.cwd / "effects").read_text().split() == ["once"]


def test_a_failed_run_stays_the_run_of_its_key(segue: Program, env: dict[str, str]) -> None:
    async def twice(library: Segue) -> None:
        first = await library.run("t", "[[error 500]]", cwd=segue.cwd, run_key="step-1", retries=0)
        again = await library.run("t", "[[error 500]]", cwd=segue.cwd, run_key="step-1", retries=0)
        assert first.failure is not None
        assert (again.run, again.failure) == (first.run, first.failure)
        await library.run("t", "[[error 500]]", cwd=segue.cwd)
        assert [row.sender for row in await library.log("t")] == ["user", "user"], "it is no retry"

    within(env, twice)


def test_of_several_tries_the_last_is_the_run_of_the_key(segue: Program, env: dict[str, str]) -> None:
    async def twice(library: Segue) -> None:
        first = await library.run("t", "[[error 500]]", cwd=segue.cwd, run_key="k", retries=1)
        assert len(first.earlier) == 1
        again = await library.run("t", "[[error 500]]", cwd=segue.cwd, run_key="k", retries=1)
        assert (again.run, again.retry_of) == (first.run, first.earlier[0])

    within(env, twice)


def test_a_retry_has_a_key_too(segue: Program, env: dict[str, str]) -> None:
    async def twice(library: Segue) -> None:
        await library.run("t", "hello", cwd=segue.cwd)
        first = await library.retry("t", "#1", cwd=segue.cwd, run_key="k")
        again = await library.retry("t", "#1", cwd=segue.cwd, run_key="k")
        assert first.run == again.run

    within(env, twice)


def test_the_run_of_a_key_whose_process_was_killed_is_settled_not_repeated(segue: Program) -> None:
    scene = Scene(segue)
    text = f"[[shell echo one >> effects; {GATE}]] [[say done]]"
    try:
        started = scene.start(text)
        until(lambda: scene.effects == ["one"], "its tool runs")
        started.kill()
        (run,) = scene.rows("SELECT id, conversation FROM turns")
        body = body_of(request_from_options(KEY, text, {"cwd": segue.cwd}), None)
        scene.write("INSERT INTO receipts VALUES (?, 'k', ?, ?, 9999999999999)", run[1], run[0], body)
        scene.open_gate()
        again = within(segue.env, lambda library: library.run(KEY, text, cwd=segue.cwd, run_key="k"))
    finally:
        scene.clear()
    assert (again.run, again.text) == (run[0], "done"), "the agent was read to its end"
    assert scene.effects == ["one"]


def test_a_key_and_a_fork_exclude_each_other(segue: Program, env: dict[str, str]) -> None:
    async def both(library: Segue) -> Turn:
        return await library.run("t", "hello", cwd=segue.cwd, run_key="k", fork=True)

    with pytest.raises(Misuse, match="stays in its conversation"):
        within(env, both)


def test_a_request_can_be_written_down_and_read_again() -> None:
    ask = request_from_options(
        "t",
        "hi",
        {"run_key": "k", "cwd": "/w", "wait": 3, "budget": "none", "allow_tools": ["shell"], "save": False},
    )
    written = msgspec.json.encode(msgspec.structs.replace(ask, here="/w", environment=("PATH",)))
    read = msgspec.json.decode(written, type=TurnRequest)
    assert (read.key, read.cwd, read.wait_s, read.budget_usd) == ("k", "/w", 3.0, "none")
    assert (read.allow_tools, read.save, read.environment) == (("shell",), False, ("PATH",))


@pytest.mark.parametrize("parked", [False, True], ids=["at once", "after a limit"])
def test_a_run_that_was_given_up_while_the_store_was_away_is_not_waited_for(
    segue: Program, env: dict[str, str], monkeypatch: pytest.MonkeyPatch, parked: bool
) -> None:
    """It was stored that it waits for its conversation, and then not even that it never began."""

    def away(*args: object) -> None:
        raise StoreAway("the store is away")

    def is_parked() -> bool:
        with database(segue.home / "segue.db", timeout=10) as file, suppress(sqlite3.OperationalError):
            return file.execute("SELECT state FROM turns").fetchall() == [("parked",)]
        return False

    async def twice(library: Segue) -> None:
        def keyed() -> asyncio.Task[Turn]:
            text = "[[error 429 retry-after 2]]" if parked else "remember number 456"
            return asyncio.create_task(library.run("t", text, cwd=segue.cwd, run_key="k", park=parked))

        first = keyed() if parked else None
        if parked:
            await asyncio.to_thread(until, is_parked, "it is parked")
        with monkeypatch.context() as outage:
            for name in ("take_lease", "settle"):
                outage.setattr(Store, name, away)
            with pytest.raises(StoreAway):
                await (first or keyed())
        again = keyed()
        await asyncio.wait([again], timeout=PATIENCE_S)
        assert again.done(), "it waits for nobody"
        assert ((await again).state, (await again).text) == ("withdrawn", "")
        other = await library.run("t", "remember number 7", cwd=segue.cwd)
        assert other.text == "Noted: 7."

    within(env, twice)
