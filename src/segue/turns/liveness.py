"""Whether a run that is not settled is really at work: its row may have outlived its processes."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from segue.core.model import Host
from segue.store.leases import judge, lease_name
from segue.store.records import TurnRow
from segue.store.store import Store
from segue.store.waiting_turn import is_waiting
from segue.system import processes

Liveness = Literal["alive", "orphan", "dead"]
"""``orphan``: its Segue was killed, but the agent goes on."""


def liveness_of(store: Store, run: TurnRow, host: Host) -> Liveness:
    """Of a run that is queued or running. One that runs is looked after by whoever has the conversation's
    lease: where nobody who lives has it, the next run settles it, even if its process lives on."""
    holder = store.lease(lease_name(run.conversation))
    held = holder is not None and judge(holder, host) == "alive"
    if run.state == "queued":  # or about to begin, by whoever has the lease
        begins = held and holder is not None and holder.owner == run.owner
        return "alive" if begins or is_waiting(store, run, host) else "dead"
    if held:
        return "alive"
    near = store.attempts(run.id) if processes.is_near(run.owner, host) else []
    return "orphan" if any(_works(Path(attempt.run_dir)) for attempt in near) else "dead"


def under_way(store: Store, conversation: str, host: Host) -> bool:
    """Whether anything of the conversation is at work, or waits for its turn."""
    return any(liveness_of(store, run, host) != "dead" for run in store.unsettled(conversation))


def _works(run_dir: Path) -> bool:
    """Whether the agent itself does. What it had started may linger: that is ended by the next run."""
    return not processes.leader_is_gone(run_dir) and processes.attempt_lives(run_dir)
