"""Our own git directories for looks at working trees: they are removed when nobody needs them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from segue.system.git import tidy

if TYPE_CHECKING:
    from segue.app.workspace import Workspace


def tidy_git(at: Workspace) -> list[Path]:
    """Remove those of trees that are gone, and those that were not used for as long as sessions are kept. A
    tree with a flow that has not ended keeps its own."""
    flows = at.store.flows.unfinished()
    return tidy(at.home.git, [Path(each.cwd) for each in flows], at.config.retention.days)
