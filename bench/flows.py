"""What flows add to turns: many small flows at once beside the same turns without a flow.

The agent is the built-in one, so that most of the time is Segue's own. Both are run with the same number of
conversations at once, on SQLite and on PostgreSQL.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.live.harness import clean_environment
from tests.postgres import at, running_server

from bench.measure import Row
from segue import Flow, Segue, flow

FLOWS, TURNS, AT_ONCE = 200, 5, 8
GOAL_MS = 5.0
MOST_MB = 20.0
"""How much the process may grow after the first fifth of the flows."""
TEXT = "[[say ok]]"


@flow(version=1)
async def chain(flow: Flow) -> None:
    for n in range(TURNS):
        await flow.turn(f"turn-{n}", flow.key("chain"), TEXT, agent="rehearsal")


def measure() -> list[Row]:
    return [row for name, url in _stores() for row in _measured(name, url)]


def _stores() -> Iterator[tuple[str, str | None]]:
    yield "SQLite", None
    with running_server() as server:
        yield "PostgreSQL", at(server.url, "postgres")


def _measured(name: str, url: str | None) -> list[Row]:
    with _environment(url) as (env, cwd):
        flows_s, grown_mb = asyncio.run(_timed(env, cwd, _flow, "flow"))
    with _environment(url) as (env, cwd):
        turns_s, _ = asyncio.run(_timed(env, cwd, _turns, "turns"))
    steps = FLOWS * TURNS
    over_ms = (flows_s - turns_s) / steps * 1000
    what = f"{FLOWS} flows of {TURNS} turns, {AT_ONCE} at once, on {name}"
    seen = f"{over_ms:.1f} ms ({flows_s / steps * 1000:.0f} / {turns_s / steps * 1000:.0f} ms a turn)"
    return [
        Row(f"{what}: overhead per step", seen, f"< {GOAL_MS:.0f} ms", over_ms < GOAL_MS),
        Row(f"{what}: memory", f"{grown_mb:+.1f} MB", f"< {MOST_MB:.0f} MB", grown_mb < MOST_MB),
    ]


@contextmanager
def _environment(url: str | None) -> Iterator[tuple[dict[str, str], Path]]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "work").mkdir()
        env = {**clean_environment(place), "SEGUE_HOME": str(place / "segue")}
        env |= {"REHEARSAL_HOME": str(place / "agent"), "SEGUE_KEEP_ENABLED": "false"}
        if url is not None:
            env["SEGUE_STORE_URL"] = url
        yield env, place / "work"


async def _timed(
    env: dict[str, str], cwd: Path, work: Callable[[Segue, str], Awaitable[None]], name: str
) -> tuple[float, float]:
    """How long all of it takes, and by how much the process grows after a fifth of it."""
    async with Segue(env=env, cwd=cwd) as segue:
        gate, sizes = asyncio.Semaphore(AT_ONCE), list[float]()

        async def one(number: int) -> None:
            async with gate:
                await work(segue, f"{name}-{number}")
                sizes.append(_size_mb())

        began = time.perf_counter()
        await asyncio.gather(*(one(number) for number in range(FLOWS)))
        return time.perf_counter() - began, sizes[-1] - sizes[FLOWS // 5]


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
