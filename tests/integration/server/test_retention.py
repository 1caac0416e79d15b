"""What the daemon deletes by itself: old sessions that Segue made and that no conversation needs."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from segue import Segue
from segue.server import retention
from segue.server.retention import Retention
from segue.system import clock
from tests.integration.conftest import Program
from tests.integration.server.conftest import finish, start
from tests.integration.server.test_client import eventually


@pytest.fixture
def files(segue: Program) -> dict[str, Path]:
    """The files of two sessions, both old; the conversation of one was forgotten."""
    segue.config("[retention]\ndays = 0\n")
    for key in ("needed", "forgotten"):
        assert segue("run", key, "hi", "--agent", "rehearsal", "-q").code == 0
    found = {each["conversation"]: Path(each["path"]) for each in sessions(segue)}
    for file in found.values():  # a file that was written to just now may be in use
        os.utime(file, (1_700_000_000, 1_700_000_000))
    segue("rm", "forgotten")
    return found


def test_the_daemon_deletes_old_sessions_that_nobody_needs_when_it_starts(
    segue: Program, files: dict[str, Path]
) -> None:
    daemon = start(segue)
    try:
        assert daemon.ask("GET", "/api/v1/conversations").status == 200
        eventually(lambda: not files["forgotten"].exists())
        assert files["needed"].exists()
    finally:
        finish(daemon.process)


def test_it_begins_after_the_first_answer_and_goes_on_daily_by_the_clock(
    segue: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, pruned = [1_000_000], list[int]()

    async def prune(self: Retention) -> None:
        pruned.append(now[0])

    async def pass_time() -> None:
        for _ in range(50):
            await asyncio.sleep(0.001)

    async def live() -> None:
        async with Segue(env=segue.env, cwd=segue.cwd) as opened:
            answered = asyncio.Event()
            part = Retention(opened, answered)
            await part.start()
            await pass_time()
            assert pruned == []
            answered.set()
            await pass_time()
            assert pruned == [1_000_000]
            for later in (retention.EVERY_MS - 1, retention.EVERY_MS, retention.EVERY_MS + 1):
                now[0] = 1_000_000 + later  # as if the machine had slept
                await pass_time()
            assert pruned == [1_000_000, 1_000_000 + retention.EVERY_MS]
            await part.drain(1)

    monkeypatch.setattr(clock, "now_ms", lambda: now[0])
    monkeypatch.setattr(retention, "LOOK_S", 0.001)
    monkeypatch.setattr(Retention, "prune", prune)
    asyncio.run(live())


def sessions(segue: Program) -> list[dict[str, str]]:
    listed: list[dict[str, str]] = msgspec.json.decode(segue("sessions", "ls", "--all", "--json").stdout)
    return listed
