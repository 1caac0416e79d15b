"""One writer per working tree: a lease on a directory, by its identity and not by its name.

Whoever held it may have been killed while its agent goes on. Only the flow of that agent can take the tree
then, because it continues the agent's turn.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from segue.core.errors import Misuse
from segue.core.flow import TreeUse
from segue.core.model import Host
from segue.store.flows import Flows
from segue.store.leases import judge
from segue.store.store import Store
from segue.system.named_files import working_tree
from segue.system.processes import attempt_lives, is_near, machine_id, short_name


def tree_lease(directory: Path, host: Host) -> str:
    """The name of the lease on the working tree that contains the directory."""
    try:
        found = os.stat(working_tree(Path(os.path.realpath(directory))))
    except OSError as error:
        raise Misuse(f"the directory {directory} cannot be used: {error.strerror}") from None
    return f"tree:{machine_id() or host.id or host.name}:{found.st_dev}:{found.st_ino}"


def flow_at_work(flows: Flows, lease: str, host: Host, *, but: str | None = None) -> str | None:
    """The flow, other than ``but``, whose agent works in the tree of this lease now, whether a process runs
    the flow or not."""
    for each in flows.at_work():
        if each.flow == but or not is_near(each.owner, host):
            continue
        with suppress(Misuse):  # its directory is gone
            if tree_lease(Path(each.tree), host) == lease and attempt_lives(Path(each.run_dir)):
                return each.flow
    return None


def tree_use(store: Store, directory: Path, host: Host, *, but: str | None = None) -> TreeUse | None:
    """Who has the working tree of the directory: another flow than ``but``, or the agent of one that was
    killed. If a process has it, and no agent works there now, ``but`` itself may have it."""
    lease = tree_lease(directory, host)
    row, other = store.lease(lease), flow_at_work(store.flows, lease, host, but=but)
    works = f"another flow works in {directory}"
    if row is not None and judge(row, host) == "alive":
        who = f"{other}, {short_name(row.owner)}" if other is not None else short_name(row.owner)
        return TreeUse(other, f"{works} ({who}); wait for it, or use another worktree")
    if other is None:
        return None
    then = f"segue flow resume {other} continues it, segue flow cancel {other} ends it"
    return TreeUse(other, f"{works}: nobody runs {other}, but its agent is alive; {then}")
