"""A flow as it changes, whichever process runs it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress

from anyio.to_thread import run_sync

from segue.app.flow_shapes import FlowShown
from segue.app.flows import show
from segue.app.store_changes import StoreChanges
from segue.app.workspace import Workspace
from segue.core.errors import StoreAway
from segue.core.flow import UNFINISHED

PAUSE_S = 0.05
"""The shortest time between two looks."""
LOOK_S = 2.0
"""How often to look although nothing was written: the process that runs it may have died."""


async def watched(
    workspace: Workspace, changes: StoreChanges, name: str, idle_s: float | None = None
) -> AsyncGenerator[FlowShown | None]:
    """The flow as it is now, and again whenever something about it has changed, until it is over. None: it
    has not changed for ``idle_s``."""
    seen, quiet_s, changed = await run_sync(show, workspace, name), 0.0, changes.open()
    try:
        yield seen
        while seen.state in UNFINISHED:
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), LOOK_S)
            changed.clear()
            now = seen
            with suppress(StoreAway):
                now = await run_sync(show, workspace, seen.flow)
            if now != seen:
                seen, quiet_s = now, 0.0
                yield now
            elif idle_s is not None and (quiet_s := quiet_s + LOOK_S) >= idle_s:
                quiet_s = 0.0
                yield None
            await asyncio.sleep(PAUSE_S)
    finally:
        changes.close(changed)
