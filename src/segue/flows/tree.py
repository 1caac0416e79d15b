"""One writer per working tree: a lease on a directory, by its identity and not by its name."""

from __future__ import annotations

import os
from pathlib import Path

from segue.core.errors import Misuse
from segue.core.model import Host
from segue.system.processes import machine_id


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
