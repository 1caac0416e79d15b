"""The matrix borrows a stage, and a real PostgreSQL. ``--without LAW`` takes one law out of the product."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.laws.stage import Stage
from tests.laws.without import CONDITIONS, take_out
from tests.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]

Staged = Callable[..., Stage]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("segue")
    group.addoption(
        "--without", choices=sorted(CONDITIONS), help="the laws hold without this condition: what fails?"
    )


@pytest.fixture(autouse=True)
def without(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in the processes that the tests kill."""
    condition = request.config.getoption("--without", default=None)
    if condition is not None:
        monkeypatch.setitem(os.environ, "LAWS_WITHOUT", condition)
        take_out(condition, monkeypatch.setattr)


@pytest.fixture
def staged(tmp_path: Path) -> Iterator[Staged]:
    """Makes a stage. Whoever a test leaves behind is ended."""
    made: list[Stage] = []

    def make(**options: str | None) -> Stage:
        root = tmp_path / f"s{len(made)}"
        root.mkdir()
        stage = Stage(root, **options).build()  # type: ignore[arg-type] # the names are those of ``Stage``
        made.append(stage)
        return stage

    yield make
    for each in made:
        each.clear()
