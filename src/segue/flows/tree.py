"""One writer per working tree: a lease on a directory, by its identity and not by its name.

Whoever held it may have been killed while its agent goes on. Only the flow of that agent can take the tree
then, because it continues the agent's turn.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from segue.core.errors import Misuse
from segue.core.model import Host
from segue.store.flows import Flows
from segue.system.processes import attempt_lives, is_near, machine_id


def working_tree(directory: Path) -> Path:
    """The root of the working tree that contains the directory; without version control, the directory."""
    for each in (directory, *directory.parents):
        if (each / ".git").exists():
            return each
    return directory


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
