"""What flows add to turns: many small flows at once beside the same turns without a flow.

The agent is the built-in one, so that most of the time is Segue's own. Flows and turns are run in batches in
turn, each kind in a store of its own. The overhead is the median of the differences of such pairs, so that
whatever else the machine does meets both. With eight at once, the processors are the limit: the difference is
what a step needs of them. One at a time, it is also what a step waits for.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from tests.live.harness import clean_environment
from tests.postgres import at, running_server

from bench.measure import Row
from segue import Flow, Segue, flow

FLOWS, TURNS, AT_ONCE = 200, 5, 8
PAIRS = 10
"""How many batches the flows are run in."""
ALONE = 2
"""How many flows a batch has that runs one at a time."""
GOAL_MS = 5.0
NO_GOAL = "(no goal)"
MOST_MB = 20.0
"""How much the process may grow after the first fifth of the flows."""
TEXT = "[[say ok]]"
Work = Callable[[Segue, str], Awaitable[None]]
Place = tuple[dict[str, str], Path]
"""An environment and a working directory."""


@flow(version=1)
async def chain(flow: Flow) -> None:
    for n in range(TURNS):
        await flow.turn(f"turn-{n}", flow.key("chain"), TEXT, agent="rehearsal")


@dataclass(frozen=True)
class Pair:
    """A batch of flows, and the same turns without: seconds, and seconds of this process's processor time."""

    flows_s: float
    turns_s: float
    flows_cpu_s: float
    turns_cpu_s: float


def measure() -> list[Row]:
    return [row for name, urls in _stores() for row in _measured(name, *urls)]


def _stores() -> Iterator[tuple[str, tuple[str | None, str | None]]]:
    """A store for flows, and one for turns."""
    yield "SQLite", (None, None)
    with running_server() as server:
        with psycopg.connect(at(server.url, "postgres"), autocommit=True) as admin:
            admin.execute("CREATE DATABASE plain")
        yield "PostgreSQL", (at(server.url, "postgres"), at(server.url, "plain"))


def _measured(name: str, flows_url: str | None, turns_url: str | None) -> list[Row]:
    with _environment(flows_url) as flows, _environment(turns_url) as turns:
        many, few, grown_mb = asyncio.run(_paired(flows, turns))
    what = f"{FLOWS} flows of {TURNS} turns, {AT_ONCE} at once, on {name}"
    return [
        _overhead(f"{what}: overhead per step", many, FLOWS // PAIRS),
        _overhead(f"the same, one at a time ({PAIRS * ALONE} flows): overhead per step", few, ALONE, NO_GOAL),
        Row(f"{what}: memory", f"{grown_mb:+.1f} MB", f"< {MOST_MB:.0f} MB", grown_mb < MOST_MB),
    ]


def _overhead(what: str, pairs: Sequence[Pair], flows: int, goal: str = f"< {GOAL_MS:.0f} ms") -> Row:
    def per_step(times: Iterable[float]) -> float:
        return statistics.median(times) / (flows * TURNS) * 1000

    over_ms = per_step(each.flows_s - each.turns_s for each in pairs)
    cpu_ms = per_step(each.flows_cpu_s - each.turns_cpu_s for each in pairs)
    both = (per_step(each.flows_s for each in pairs), per_step(each.turns_s for each in pairs))
    seen = f"{over_ms:.1f} ms ({both[0]:.0f} / {both[1]:.0f} ms a turn; {cpu_ms:.1f} ms of processor time)"
    return Row(what, seen, goal, over_ms < GOAL_MS or goal == NO_GOAL)


@contextmanager
def _environment(url: str | None) -> Iterator[Place]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "work").mkdir()
        env = {**clean_environment(place), "SEGUE_HOME": str(place / "segue")}
        env |= {"REHEARSAL_HOME": str(place / "agent"), "SEGUE_KEEP_ENABLED": "false"}
        if url is not None:
            env["SEGUE_STORE_URL"] = url
        yield env, place / "work"


async def _paired(flows: Place, turns: Place) -> tuple[list[Pair], list[Pair], float]:
    """The pairs with many at once, those with one at a time, and by how much the process has grown after a
    fifth of the first."""
    async with (
        Segue(env=flows[0], cwd=flows[1]) as with_flows,
        Segue(env=turns[0], cwd=turns[1]) as without,
    ):
        pairs, sizes = list[Pair](), list[float]()

        async def pair(number: int, count: int, at_once: int) -> Pair:
            works = [(with_flows, _flow), (without, _turns)]
            order, name = works if number % 2 else works[::-1], f"{at_once}-{number}"
            taken = {work: await _timed(segue, work, name, count, at_once) for segue, work in order}
            return Pair(taken[_flow][0], taken[_turns][0], taken[_flow][1], taken[_turns][1])

        await pair(-1, AT_ONCE, AT_ONCE)  # to warm up
        for number in range(PAIRS):
            pairs.append(await pair(number, FLOWS // PAIRS, AT_ONCE))
            sizes.append(_size_mb())
        few = [await pair(number, ALONE, 1) for number in range(PAIRS)]
        return pairs, few, sizes[-1] - sizes[PAIRS // 5 - 1]


async def _timed(segue: Segue, work: Work, name: str, count: int, at_once: int) -> tuple[float, float]:
    """How long a batch takes, and the processor time that this process needs for it."""
    gate = asyncio.Semaphore(at_once)

    async def one(number: int) -> None:
        async with gate:
            await work(segue, f"{name}-{number}")

    began, began_cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(one(number) for number in range(count)))
    return time.perf_counter() - began, time.process_time() - began_cpu


async def _flow(segue: Segue, key: str) -> None:
    shown = await segue.flows.run(chain, {}, key=key)
    if shown.state != "done":
        raise RuntimeError(f"{key}: {shown.state} {shown.failure}")


async def _turns(segue: Segue, key: str) -> None:
    for _ in range(TURNS):
        turn = await segue.run(key, TEXT, agent="rehearsal")
        if turn.failure is not None:
            raise RuntimeError(turn.failure.message)


def _size_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1_000_000
