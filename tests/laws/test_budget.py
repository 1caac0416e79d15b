"""A turn begins only if every budget covers it, beside all that run: at each door, three at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import psycopg
import pytest

from segue import Segue, SegueError
from segue.core.laws import Door
from segue.turns import gate
from tests.laws.doors import ROWS, doors, recover
from tests.laws.stage import Stage, brief, until

Staged = Callable[..., Stage]
KEYS = ("k1", "k2", "k3")
SETTLES = (Door.RECOVERY, Door.ADOPTION)
SWITCHES = '[limits]\non_limit = "switch"\norder = "listed"\n'
TINY = 1e-9
BEGUN = ("running", "needs_you")


@pytest.mark.parametrize("door", [each for each in doors("budget") if each not in (*SETTLES, Door.AGAIN)])
def test_of_three_at_once_one_runs_and_two_wait_until_they_ask(staged: Staged, door: Door) -> None:
    _three_at_once(staged(new="b" if door in (Door.FAILOVER, Door.SUMMARY) else "a"), door)


@pytest.mark.parametrize("door", [Door.RUN, Door.QUEUE, Door.FLOW])
def test_on_postgresql_too(staged: Staged, postgres_url: str, door: Door) -> None:
    """Whatever isolation the server has by default."""
    with psycopg.connect(postgres_url, autocommit=True) as db:
        name = db.info.dbname.encode()
        db.execute(b"ALTER DATABASE " + name + b" SET default_transaction_isolation TO 'repeatable read'")
    _three_at_once(staged(url=postgres_url), door)


def _three_at_once(stage: Stage, door: Door) -> None:
    """The budget covers what runs, and half a turn more."""
    row = ROWS[door]
    _configure(stage, door)

    async def work(library: Segue) -> float:
        for key in ("k0", *KEYS):
            await row.before(stage, library, key)
        await row.through(stage, library, "k0")
        if door is Door.ANSWER:  # what the killed processes may have spent is booked
            await library.service.start()
        before = {each["id"] for each in _all(stage) if each["state"] != "parked"}
        stage.hold(_held(door))
        tasks = [asyncio.create_task(_told(row.through(stage, library, KEYS[0])))]
        await until(lambda: _all_judged(stage, door, before, _count(door, 1), tasks), "the first runs")
        first = [each for each in _new(stage, door, before) if each["state"] in BEGUN]
        assert all(each["reserved"] for each in first), first
        reserved = sum(each["reserved"] for each in first)
        limit: float = _spent(stage, door) + reserved + 0.5 * min(each["reserved"] for each in first)
        _configure(stage, door, limit)
        tasks += [asyncio.create_task(_told(row.through(stage, library, key))) for key in KEYS[1:]]
        await until(lambda: _all_judged(stage, door, before, _count(door, 3), tasks), "each waits or runs")
        waiting = [each for each in _new(stage, door, before) if each["waits"] is not None]
        assert len(waiting) == _count(door, 2), _new(stage, door, before)
        stage.release(_held(door))
        told = await asyncio.gather(*tasks)
        assert any("budget" in each for each in told) or _asked(stage), told
        return limit

    _keeps_to(stage, door, stage.play_out(work))


def _count(door: Door, calls: int) -> int:
    """The runs of so many calls that begin at once."""
    return calls * (2 if door is Door.COMPARE else 1)


def _keeps_to(stage: Stage, door: Door, limit: float) -> None:
    """Nothing was spent above the limit but what running turns cost above their reservations."""
    over = sum(max(0.0, each["cost"] - (each["reserved"] or 0.0)) for each in _all(stage) if each["cost"])
    if door is Door.SUMMARY:  # what was reserved for it is removed with its run
        over = max(usd for (usd,) in stage.rows("SELECT usd FROM deleted_costs"))
    assert _spent(stage, door) <= limit + over + TINY
    assert not [each for each in _all(stage) if each["state"] == "running"], "nothing hangs"


def test_asking_again_keeps_to_it_too(staged: Staged) -> None:
    """Three reviewers whose verdict cannot be read, at once. Before that turn each has had others."""
    stage, row = staged(new="b"), ROWS[Door.AGAIN]
    stage.config(UNLIMITED)

    async def work(library: Segue) -> float:
        await row.through(stage, library, "k0")
        _, reviewer, again = _all(stage)
        before = {each["id"] for each in _all(stage)}
        stage.hold("hold-b")
        tasks = [asyncio.create_task(_told(row.through(stage, library, key))) for key in KEYS]
        await until(lambda: sum(each["account"] == "b" for each in _begun(stage)) == 3, "all review")
        price = max(again["reserved"], again["cost"])
        limit: float = _spent(stage, Door.AGAIN) + 3 * reviewer["cost"] + 1.5 * price
        stage.config(f"[budgets]\nday = {limit:.9f}\n")
        stage.hold("hold-again")
        stage.release("hold-b")
        await until(lambda: len(_judged_again(stage, before)) == 3, "each runs or waits")
        judged = _judged_again(stage, before)
        assert sum(each["waits"] is not None for each in judged) == 2, judged
        stage.release("hold-again")
        told = await asyncio.gather(*tasks)
        assert _asked(stage), told
        return limit

    _keeps_to(stage, Door.AGAIN, stage.play_out(work))


UNLIMITED = "[budgets]\nday = 1000\n"


def _begun(stage: Stage) -> list[dict[str, Any]]:
    return [each for each in _all(stage) if each["state"] in BEGUN]


def _judged_again(stage: Stage, before: set[str]) -> list[dict[str, Any]]:
    """The runs that ask once more, and that run or wait."""
    found = [each for each in _all(stage) if each["id"] not in before]
    runs = [each for each in found if each["door"] == Door.AGAIN.value and each["state"] in BEGUN]
    return runs + [each for each in found if each["waits"] is not None]


def _configure(stage: Stage, door: Door, limit: float = 1_000.0) -> None:
    """If another account takes over, the first one has no budget: its turns are of another door."""
    if door is Door.FAILOVER:
        stage.config(SWITCHES, b=f"budget = {limit:.9f}")
    else:
        stage.config(f"[budgets]\nday = {limit:.9f}\n")


def _held(door: Door) -> str:
    return "hold-b" if door is Door.FAILOVER else "hold"


def _runs(stage: Stage, door: Door) -> list[dict[str, Any]]:
    return [each for each in _all(stage) if each["door"] == door.value]


def _all(stage: Stage) -> list[dict[str, Any]]:
    names = ("id", "door", "state", "waits", "reserved_usd", "cost_usd", "account")
    rows = stage.rows(f"SELECT {', '.join(names)} FROM turns ORDER BY id")
    short = ("id", "door", "state", "waits", "reserved", "cost", "account")
    return [dict(zip(short, row, strict=True)) for row in rows]


def _all_judged(
    stage: Stage, door: Door, before: set[str], count: int, tasks: list[asyncio.Task[str]]
) -> bool:
    """Whether the gate has said of each what becomes of it."""
    for task in tasks:
        if task.done():
            raise AssertionError(f"it did not wait: {task.result()}")
    runs = _new(stage, door, before)
    return sum(each["state"] in BEGUN or each["waits"] is not None for each in runs) >= count


def _new(stage: Stage, door: Door, before: set[str]) -> list[dict[str, Any]]:
    """The runs that came meanwhile. The door of a run is written when it begins."""
    found = [each for each in _all(stage) if each["id"] not in before]
    if door is Door.FAILOVER:
        found = [each for each in found if each["account"] == "b"]
    came = (None, door.value, Door.QUEUE.value) if door is Door.WAKES else (None, door.value)
    return [each for each in found if each["door"] in came]


def _price(stage: Stage, door: Door) -> float:
    """What a turn of the door costs."""
    last = _runs(stage, door)[-1]
    assert last["cost"], last
    return float(max(last["cost"], last["reserved"] or 0.0))


def _spent(stage: Stage, door: Door) -> float:
    mine = [each for each in _all(stage) if door is not Door.FAILOVER or each["account"] == "b"]
    (removed,) = stage.rows("SELECT SUM(usd) FROM deleted_costs")
    return sum(each["cost"] or 0.0 for each in mine) + (removed[0] or 0.0)


def _asked(stage: Stage) -> bool:
    return any('"budget"' in question for (question,) in stage.rows("SELECT question FROM questions"))


async def _told(doing: Awaitable[Any]) -> str:
    try:
        return brief(await doing)
    except SegueError as error:
        return str(error)


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_looking_and_beginning_is_one_step(
    staged: Staged, database: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looks at a budget waits until another one looks, too: there is never another one."""
    url = request.getfixturevalue("postgres_url") if database == "postgresql" else None
    stage = staged(url=url)
    looks, together = vars(gate)["first_in_the_way"], threading.Barrier(2)

    def looking(*given: Any) -> Any:
        found = looks(*given)
        try:
            together.wait(0.5)
        except threading.BrokenBarrierError:
            together.reset()
        return found

    async def work(library: Segue) -> None:
        await library.run("k0", "hello")
        price = _price(stage, Door.RUN)
        _configure(stage, Door.RUN, _spent(stage, Door.RUN) + 1.5 * price)
        monkeypatch.setattr(gate, "first_in_the_way", looking)
        stage.hold()
        before = {each["id"] for each in _all(stage)}
        tasks = [asyncio.create_task(_told(library.run(key, "hello"))) for key in KEYS]
        judged = partial(_all_judged, stage, Door.RUN, before, len(KEYS), tasks)
        await until(judged, "each runs or waits")
        begun = [each for each in _runs(stage, Door.RUN) if each["state"] == "running"]
        stage.release()
        await asyncio.gather(*tasks)
        assert len(begun) == 1, begun

    stage.play_out(work)


def test_what_a_killed_run_may_have_spent_is_booked(staged: Staged) -> None:
    """Its cost is not known any more: what was reserved for it counts."""
    stage, row = staged(), ROWS[Door.RECOVERY]
    _configure(stage, Door.RUN)

    async def work(library: Segue) -> None:
        await row.before(stage, library, "k")
        await row.through(stage, library, "k")

    stage.play_out(work)
    killed = _runs(stage, Door.RUN)[-1]
    assert killed["reserved"]
    assert killed["cost"] == pytest.approx(killed["reserved"])
    assert stage.rows("SELECT cost_estimated FROM turns WHERE id = ?", killed["id"]) == [(1,)]


def test_a_run_whose_segue_was_killed_counts_while_its_agent_works(staged: Staged) -> None:
    stage, row = staged(), ROWS[Door.ADOPTION]
    _configure(stage, Door.RUN)

    async def work(library: Segue) -> str:
        await row.before(stage, library, "k")  # its agent is held
        price = _runs(stage, Door.RUN)[-1]["reserved"]
        _configure(stage, Door.RUN, _spent(stage, Door.RUN) + 1.5 * price)
        count = len(stage.starts)
        other = asyncio.create_task(_told(library.run("other", "what word?")))
        await until(lambda: _all(stage)[-1]["waits"], "it waits")
        assert len(stage.starts) == count
        await recover(stage, library, "k")
        return await other

    assert "budget" in stage.play_out(work)
    adopted, other = _all(stage)[-2:]
    assert (adopted["state"], other["state"]) == ("done", "withdrawn")
    assert adopted["cost"], "it was read to its end, so its cost is known"
