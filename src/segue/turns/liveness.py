"""Whether a run that is not settled is really at work: its row may have outlived its processes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

from segue.core.hosts import Host
from segue.store import leases
from segue.store.records import TurnRow
from segue.store.store import Store
from segue.turns import owners
from segue.turns.lease import judge, lease_name

Living = Literal["alive", "orphan", "dead"]
"""``orphan``: its Segue was killed, but the agent goes on."""
FORGOTTEN_MS = 24 * 3_600_000
"""After so long a run that waits on another host is not believed to wait any more."""


def living(store: Store, run: TurnRow, host: Host) -> Living:
    """Of a run that is queued or running."""
    silent_ms = time.time_ns() // 1_000_000 - run.started_ms
    alive = owners.lives(run.owner, host, silent_ms)
    if alive:
        return "alive"
    if run.state == "queued":
        return "alive" if alive is None and silent_ms < FORGOTTEN_MS else "dead"
    if alive is None:
        holder = leases.find(store, lease_name(run.conversation))
        return "alive" if holder is not None and judge(holder, host) == "alive" else "dead"
    dirs = [Path(attempt.run_dir) for attempt in store.attempts(run.id)]
    return "orphan" if any(map(owners.attempt_lives, dirs)) else "dead"


def under_way(store: Store, conversation: str, host: Host) -> bool:
    """Whether anything of the conversation is at work, or waits for its turn."""
    return any(living(store, run, host) != "dead" for run in store.unsettled(conversation))
