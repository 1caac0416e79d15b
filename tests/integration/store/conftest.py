"""Every test of the store runs on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from segue.store.store import Store
from tests.integration.store.talking import Talk
from tests.integration.store.where import Where
from tests.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Where:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    return Where(url, tmp_path / "segue.db")


@pytest.fixture
def store(where: Where) -> Iterator[Store]:
    with where.open() as store:
        yield store


@pytest.fixture
def talk(store: Store) -> Talk:
    """A conversation in which nothing was said yet."""
    return Talk(store)
