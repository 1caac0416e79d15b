"""Every built-in adapter holds to what third parties are asked to hold to."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.streams import STREAMS

from segue.agents import registry
from segue.config.schema import Config
from segue.testing import check_adapter, check_sessions

SESSIONS = Path(__file__).parents[2] / "fixtures" / "sessions"
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


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_its_sessions_conform(name: str, seed: int, soak: bool) -> None:
    agent = registry.get(name, Config())
    archive = agent.archive()
    assert archive is not None
    folders = sorted({*SESSIONS.glob(f"{name}*"), *SESSIONS.glob(f"{name}*/*")})
    homes = [home for home in folders if any(archive.stored(home))]
    assert homes
    problems = check_sessions(
        agent,
        homes,
        outputs=HELP.get(name),
        takes_back=name == "gemini",
        seed=seed,
        rounds=1_000 if soak else 5,
    )
    assert problems == []
