"""What the daemon deletes by itself: old sessions that Segue made and that no conversation needs."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec

from segue import Segue
from segue.server.retention import Retention
from tests.integration.conftest import Program


def test_old_sessions_that_nobody_needs_are_deleted(segue: Program) -> None:
    async def prune() -> None:
        async with Segue(env=segue.env, cwd=segue.cwd) as opened:
            await Retention(opened).prune()

    segue.config("[retention]\ndays = 0\n")
    for key in ("needed", "forgotten"):
        assert segue("run", key, "hi", "--agent", "rehearsal", "-q").code == 0
    files = {each["conversation"]: Path(each["path"]) for each in sessions(segue)}
    for file in files.values():  # a file that was written to just now may be in use
        os.utime(file, (1_700_000_000, 1_700_000_000))
    segue("rm", "forgotten")
    asyncio.run(prune())
    assert (files["needed"].exists(), files["forgotten"].exists()) == (True, False)


def sessions(segue: Program) -> list[dict[str, str]]:
    listed: list[dict[str, str]] = msgspec.json.decode(segue("sessions", "ls", "--all", "--json").stdout)
    return listed
