"""The SQL files are what aiosql would make of them, on both databases."""

from __future__ import annotations

import re
from pathlib import Path

import aiosql
import pytest

from segue.store.database import SQL, Queries, pyformat, read_queries, spread

FILES = sorted(SQL.glob("*.sql"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_reads_as_with_aiosql(path: Path) -> None:
    mine = read_queries(path)
    sqlite, postgres = aiosql.from_path(path, "sqlite3"), aiosql.from_path(path, "psycopg")
    names = [name for name in sqlite.available_queries if not name.endswith("_cursor")]
    assert sorted(mine) == sorted(names)
    for name, sql in mine.items():
        assert _plain(sql) == _plain(getattr(sqlite, name).sql)
        assert _plain(pyformat(sql)) == _plain(getattr(postgres, name).sql)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_query_is_used(path: Path) -> None:
    code = "\n".join(file.read_text() for file in SQL.parent.glob("*.py"))
    holders = re.findall(rf'^(\w+) = Queries\("{path.stem}"\)', code, re.MULTILINE)
    used = {name for holder in set(holders) for name in re.findall(rf"\b{holder}\.(\w+)", code)}
    assert set(read_queries(path)) <= used


def test_quoted_colons_are_no_parameters() -> None:
    assert pyformat("SELECT ':a', :b WHERE c = 'it''s :d'") == "SELECT ':a', %(b)s WHERE c = 'it''s :d'"


def test_room_is_made_for_a_list() -> None:
    assert spread("IN (:ids)", 3) == "IN (:ids0, :ids1, :ids2)"


def test_a_query_that_is_not_there_is_named() -> None:
    with pytest.raises(AttributeError, match=r"sql/turns.sql has no query nothing"):
        _ = Queries("turns").nothing


def _plain(sql: str) -> str:
    return sql.strip().removesuffix(";")
