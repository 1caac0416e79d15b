"""Every built-in adapter holds to what third parties are asked to hold to."""

from __future__ import annotations

import pytest
from tests.unit.streams import STREAMS

from segue.agents import registry
from segue.config.schema import Config
from segue.testing.conformance import check_adapter

HELP = {
    "claude": ["2.1.325 (Claude Code)", "--resume --fork-session --session-id --input-format"],
}


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_the_adapter_conforms(name: str, seed: int, soak: bool) -> None:
    agent = registry.get(name, Config())
    streams = sorted(STREAMS.glob(f"{name}-*/*.jsonl"))[:: 1 if soak else 2]
    recorded = [path.read_bytes() for path in streams]
    assert (
        check_adapter(agent, recorded, outputs=HELP.get(name), seed=seed, rounds=3_000 if soak else 60) == []
    )
