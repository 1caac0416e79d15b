"""A coroutine that is begun without an event loop, and finished in one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from segue.system.loop import begin, failures, in_loop, run_sync, shield


def loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def test_it_ends_without_a_loop_if_it_never_waits() -> None:
    async def work() -> str:
        with shield():
            return await run_sync(lambda: threading.current_thread().name)

    begun = begin(work())
    assert begun.ended
    assert begun.result == threading.current_thread().name
    assert anyio.run(begun.rest) == begun.result


def test_it_is_continued_in_the_loop_where_it_first_waits() -> None:
    seen: list[tuple[str, bool]] = []

    @asynccontextmanager
    async def held() -> AsyncIterator[None]:
        seen.append(("entered", loop_runs()))
        try:
            yield
        finally:
            with shield():
                seen.append(("left", await run_sync(lambda: loop_runs())))

    async def work() -> int:
        async with held():
            seen.append(("began", loop_runs()))
            await in_loop()
            seen.append(("waits", loop_runs()))
            await in_loop()
            await anyio.lowlevel.checkpoint()
            return threading.get_ident() - await run_sync(threading.get_ident)

    begun = begin(work())
    assert seen == [("entered", False), ("began", False)]
    with pytest.raises(RuntimeError, match="not ended"):
        _ = begun.result
    assert anyio.run(begun.rest) != 0, "in the loop, work is done in another thread"
    assert seen == [("entered", False), ("began", False), ("waits", True), ("left", False)]


def test_what_it_raises_is_raised_on_either_side() -> None:
    async def work(wait: bool) -> None:
        try:
            if wait:
                await in_loop()
            raise ValueError("wrong")
        except failures():
            with shield():
                await run_sync(lambda: None)
            raise

    with pytest.raises(ValueError, match="wrong"):
        begin(work(wait=False))
    begun = begin(work(wait=True))
    with pytest.raises(ValueError, match="wrong"):
        anyio.run(begun.rest)


def test_in_a_loop_nothing_is_different() -> None:
    async def work() -> tuple[bool, bool]:
        await in_loop()
        cancelled = anyio.get_cancelled_exc_class() in failures()
        return cancelled, threading.get_ident() != await run_sync(threading.get_ident)

    assert anyio.run(work) == (True, True)


def test_it_can_be_cancelled_in_the_loop() -> None:
    caught: list[type[BaseException]] = []

    async def work() -> None:
        await in_loop()
        try:
            await anyio.sleep(60)
        except failures() as error:
            caught.append(type(error))
            raise

    async def main() -> None:
        with anyio.move_on_after(0.05):
            await begun.rest()

    begun = begin(work())
    anyio.run(main)
    assert caught == [asyncio.CancelledError]


def test_its_shields_hold_when_the_task_that_runs_it_is_cancelled() -> None:
    done: list[str] = []

    async def work() -> None:
        await in_loop()
        try:
            await anyio.sleep(60)
        finally:
            with shield():
                for _ in range(3):
                    await anyio.sleep(0.01)
                done.append("cleaned up")

    async def main() -> None:
        with anyio.move_on_after(0.05):
            await begun.rest()

    begun = begin(work())
    anyio.run(main)
    assert done == ["cleaned up"]


def test_it_cleans_up_if_no_loop_ever_starts() -> None:
    done: list[str] = []

    async def work() -> None:
        try:
            await in_loop()
        finally:
            with shield():
                await run_sync(done.append, "cleaned up")

    begun = begin(work())
    assert done == []
    begun.close()
    assert done == ["cleaned up"]
