"""SQLite files of the tests, opened beside the program that uses them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def database(path: Path | str, **options: Any) -> Iterator[sqlite3.Connection]:
    """What is changed is committed unless something is raised, and the file is closed: the connection's own
    ``with`` leaves it open."""
    with closing(sqlite3.connect(path, **options)) as connection, connection:
        yield connection
