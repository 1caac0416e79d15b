"""What the chaos tier borrows: the real program, and a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.scenes import Scene
from tests.integration.conftest import Program, segue
from tests.postgres import own_postgres, postgres_server, postgres_url

__all__ = ["own_postgres", "postgres_server", "postgres_url", "segue"]


@pytest.fixture
def scene(segue: Program) -> Iterator[Scene]:
    """A conversation with the rehearsal agent. Whoever a test leaves behind is ended."""
    made = Scene(segue)
    yield made
    made.clear()
