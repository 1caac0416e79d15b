"""Whether an unsettled run is really alive: its row may have outlived its processes."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from segue.core.model import Host
from segue.store.leases import judge, lease_name
from segue.store.records import BEGUN, QUEUED, TurnRow
from segue.store.store import Store
from segue.store.waiting_turn import is_waiting
from segue.system import processes

Liveness = Literal["alive", "orphan", "dead"]
"""``orphan``: its Segue was killed, but the agent still runs."""


def liveness_of(store: Store, run: TurnRow, host: Host) -> Liveness:
    """The liveness of a queued or running run. The holder of the conversation's lease supervises a running
    one: if no live process holds the lease, the next run settles it, even if its agent still runs."""
    holder = store.lease(lease_name(run.conversation))
    held = holder is not None and judge(holder, host) == "alive"
    if run.via == QUEUED and run.state in ("queued", "parked"):  # a daemon drives it, now or when it starts
        return "alive"
    if run.state == "queued":  # or about to begin, by whoever has the lease
        begins = held and holder is not None and holder.owner == run.owner
        return "alive" if begins or is_waiting(store, run, host) else "dead"
    if held:
        return "alive"
    near = store.attempts(run.id) if processes.is_near(run.owner, host) else []
    return "orphan" if any(_works(Path(attempt.run_dir)) for attempt in near) else "dead"


def under_way(store: Store, conversation: str, host: Host) -> bool:
    """Whether a run of the conversation is running, or waits. A queued run that no process drives does not
    count: nobody knows when a daemon will start."""
    return any(
        liveness_of(store, run, host) != "dead" and (run.via != QUEUED or _is_driven(store, run, host))
        for run in store.unsettled(conversation)
    )


def lost_runs(store: Store, conversation: str, host: Host) -> list[TurnRow]:
    """The runs of this host that were begun by a process that is gone."""
    return [
        row
        for row in store.unsettled(conversation)
        if row.state in BEGUN and row.host == host.name and liveness_of(store, row, host) != "alive"
    ]


def _is_driven(store: Store, run: TurnRow, host: Host) -> bool:
    silent_ms = max(0, store.clock_ms() - run.started_ms)
    return processes.owner_lives(run.owner, host, silent_ms) is not False


def _works(run_dir: Path) -> bool:
    """Whether the agent itself is alive. Processes that it started may linger; the next run ends them."""
    return not processes.leader_is_gone(run_dir) and processes.attempt_lives(run_dir)
