"""Subscribers of one process: one that is too slow, and one that goes away while it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import pytest

from segue import Segue
from segue.app import subscriptions
from segue.app.run_shapes import Changed, Delta, Hello, RunOrder
from segue.app.subscriptions import FeedItem
from tests.integration.conftest import Program

STORY = "Once upon a time there was a subscriber that could not keep up with what it was told."
ROOM = 12


def within(segue: Program, work: Callable[[Segue], Awaitable[None]]) -> None:
    async def go() -> None:
        async with Segue(env=segue.env, cwd=segue.cwd) as library, asyncio.timeout(60):
            await work(library)

    asyncio.run(go())


def text_of(items: list[FeedItem]) -> str:
    """The first piece of the answer, put together from its fragments."""
    text = ""
    for item in items:
        deltas = (
            item.data.running
            if isinstance(item.data, Hello)
            else (item.data,)
            if isinstance(item.data, Delta)
            else ()
        )
        for delta in deltas:
            if delta.block == 0:
                assert delta.offset <= len(text), "a fragment is missing"
                text = text[: delta.offset] + delta.text
    return text


@pytest.mark.parametrize("of_run", [True, False])
def test_who_is_too_slow_gets_one_gap_with_the_text_so_far(
    segue: Program, monkeypatch: pytest.MonkeyPatch, of_run: bool
) -> None:
    monkeypatch.setattr(subscriptions, "ROOM", ROOM)

    async def work(library: Segue) -> None:
        order = RunOrder(message=f"[[slow 2 40]][[say {STORY}]]", agent="rehearsal", cwd=str(segue.cwd))
        run = (await library.runs.submit("k", order)).run
        counted = asyncio.Event()
        async with (
            aclosing(library.runs.watch(run)) as quick,
            aclosing(library.runs.watch(run if of_run else None)) as slow,
        ):
            got = [await anext(slow)]
            deltas = 0
            async for item in quick:
                deltas += isinstance(item.data, Delta)
                if deltas > 2 * ROOM:
                    counted.set()
                    break
            assert counted.is_set(), "the story is too short"
            async for item in slow:
                got.append(item)
                if isinstance(item.data, Changed) and item.data.run is not None and item.data.run.turn:
                    break
            async for _ in quick:  # it has a queue of its own, which overflows, too
                pass
        gaps = [item.data for item in got if isinstance(item.data, Hello) and item.data.status == "gap"]
        assert len(gaps) == 1
        assert gaps[0].running[0].text == STORY[: len(gaps[0].running[0].text)] != ""
        assert text_of(got[got.index(next(i for i in got if i.data is gaps[0])) :]) == STORY
        ids = [int(item.id.rpartition(":")[2]) for item in got if item.id is not None]
        assert ids == sorted(set(ids))

    within(segue, work)


def test_who_goes_away_while_it_comes_leaves_nothing(segue: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(library: Segue) -> None:
        subscribed = library.service.subscriptions
        store = library.workspace.store
        looked, begun = asyncio.Event(), store.begun
        loop = asyncio.get_running_loop()

        def slowly() -> object:
            loop.call_soon_threadsafe(looked.set)
            return begun()

        monkeypatch.setattr(type(store), "begun", lambda self: slowly())
        coming = asyncio.ensure_future(anext(library.runs.watch()))
        await looked.wait()
        coming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await coming
        assert subscribed.count == 0

    within(segue, work)
