"""How often a flow waits for a PostgreSQL server, beside what its turns do without a flow."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from pathlib import Path

import pytest

from segue import Flow, Segue, flow
from segue.store.postgres import Postgres
from segue.store.renewer import Renewal
from tests.integration.conftest import Program
from tests.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]

STEPS = 4
OFTEN = 6
"""After this many times, the server has prepared each statement; that is a round trip of its own."""
MOST_PER_STEP = 4.0
"""Its beginning, its end, whose words it repeats, and room for one more."""
MOST_PER_FLOW = 10.0
"""It is stored, entered, ended and shown."""


@flow(version=1)
async def chain(flow: Flow, steps: int) -> None:
    for n in range(steps):
        await flow.turn(f"turn-{n}", flow.key("chain"), "[[say ok]]", agent="rehearsal")


async def turns(segue: Segue, key: str, count: int) -> None:
    for _ in range(count):
        assert (await segue.run(key, "[[say ok]]", agent="rehearsal")).failure is None


class Wire:
    """What goes to the server and comes back, as libpq writes it down."""

    def __init__(self, segue: Segue, path: Path) -> None:
        database = segue.workspace.store._db
        assert isinstance(database, Postgres)
        self._connection, self._path = database._connection.pgconn, path

    async def round_trips(self, work: Awaitable[object]) -> int:
        """How often the server was waited for."""
        with self._path.open("wb") as file:
            self._connection.trace(file.fileno())
            await work
            self._connection.untrace()
        return self._path.read_text("utf-8", "replace").count("\tReadyForQuery\t")


def test_a_step_waits_for_the_server_a_few_times_more_than_its_turn(
    segue: Program, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {**segue.env, "SEGUE_STORE_URL": postgres_url, "REHEARSAL_HOME": str(segue.home / "agent")}
    monkeypatch.setattr(Renewal, "due_at", property(lambda _: time.monotonic() + 1000))  # as time passes

    async def counted() -> tuple[list[int], list[int]]:
        async with Segue(env=env, cwd=segue.cwd) as library:
            wire = Wire(library, tmp_path / "wire")
            await library.flows.run(chain, {"steps": OFTEN})
            for n in range(OFTEN):
                await library.flows.run(chain, {"steps": 0}, key=f"empty-{n}")
            await turns(library, "first", OFTEN)
            plain = [await wire.round_trips(turns(library, f"talk-{n}", n)) for n in (1, 1 + STEPS)]
            flows = [await wire.round_trips(library.flows.run(chain, {"steps": n})) for n in (1, 1 + STEPS)]
            return plain, flows

    plain, flows = asyncio.run(counted())
    assert plain[0] > 10, "nothing was counted"
    per_step = ((flows[1] - flows[0]) - (plain[1] - plain[0])) / STEPS
    assert per_step <= MOST_PER_STEP, (plain, flows)
    assert flows[0] - plain[0] - per_step <= MOST_PER_FLOW, (plain, flows)
