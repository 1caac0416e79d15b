from __future__ import annotations

import msgspec
import pytest

from segue.core.model import Host


class Thing(msgspec.Struct, frozen=True):
    host: str
    host_id: str | None = None


@pytest.mark.parametrize(
    ("host", "thing", "has"),
    [
        (Host("a", "1"), Thing("a", "1"), True),
        (Host("renamed", "1"), Thing("a", "1"), True),
        (Host("a", "1"), Thing("a", "2"), False),
        (Host("a", "1"), Thing("a"), True),
        (Host("b", "1"), Thing("a"), False),
        (Host("a"), Thing("a", "1"), True),
        (Host("b"), Thing("a", "1"), False),
    ],
)
def test_a_host_knows_its_own(host: Host, thing: Thing, has: bool) -> None:
    assert host.has(thing) is has
