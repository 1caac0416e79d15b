"""Named SQL: one file per subject in ``sql/``, read when its first query is needed.

    _SQL = Queries("turns")
    db.one(_SQL.by_id, id=turn_id)

The files are written for aiosql (``-- name: by_id(id)^``, parameters as ``:name``), and a test reads them
with it. At run time they are only cut up: importing aiosql takes longer than all the rest of a turn's start.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

SQL = Path(__file__).parent / "sql"
_NAME = "-- name: "
_QUOTED_OR_PARAMETER = r"('(?:''|[^'])*')|(?<!:):([a-z_][a-z0-9_]*)"


class Queries:
    """The queries of one file, as attributes."""

    def __init__(self, subject: str) -> None:
        self._subject = subject

    def __getattr__(self, name: str) -> str:
        for known, sql in read(SQL / f"{self._subject}.sql").items():
            setattr(self, known, sql)
        if name not in self.__dict__:
            raise AttributeError(f"sql/{self._subject}.sql has no query {name}")
        return str(self.__dict__[name])


def read(path: Path) -> dict[str, str]:
    """The SQL of a file, by name, without comments."""
    _, *parts = path.read_text("utf-8").split(_NAME)
    return {part.partition("(")[0]: _without_comments(part.partition("\n")[2]) for part in parts}


@cache
def pyformat(sql: str) -> str:
    """``:name`` as ``%(name)s``, which is how psycopg wants it."""
    return re.sub(_QUOTED_OR_PARAMETER, lambda found: found[1] or f"%({found[2]})s", sql)


@cache
def spread(sql: str, count: int) -> str:
    """``IN (:ids)`` with room for so many values: ``:ids0, :ids1, …``."""
    return sql.replace(":ids", ", ".join(f":ids{n}" for n in range(count)))


def statements(script: str) -> list[str]:
    """The statements of a script; each ends with ``;`` at the end of a line."""
    return [part for part in _without_comments(script).split(";\n") if part.strip()]


def _without_comments(sql: str) -> str:
    lines = [line for line in sql.splitlines() if not line.startswith("--")]
    return "\n".join(lines).strip().removesuffix(";")
