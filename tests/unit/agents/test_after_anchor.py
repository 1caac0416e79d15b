"""What stands behind an anchor, on sessions that the real CLIs wrote."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from segue.agents import registry
from segue.agents.base import entries_of
from segue.config.schema import Config
from segue.core.transcript import Entry, is_message

FIXTURES = Path(__file__).parents[2] / "fixtures" / "sessions"
CWD = Path("/home/me/project")
RECORDED = sorted({*FIXTURES.glob("*-*"), *FIXTURES.glob("codex-*/*"), FIXTURES / "rehearsal"})


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_nothing_that_was_said_stands_behind_the_end_and_all_of_a_later_turn_does(
    recorded: Path, tmp_path: Path
) -> None:
    name = next(name for name in registry.BUILT_IN if name in f"{recorded.parent.name} {recorded.name}")
    agent, home = registry.get(name, Config()), tmp_path / "home"
    shutil.copytree(recorded, home)
    reader, sessions = agent.archive(), agent.format
    assert reader is not None
    assert sessions is not None
    looked = 0
    for stored in reader.stored(home):
        found = sessions.find(home, stored.id, CWD)
        entries = list(entries_of(reader, stored))
        end = sessions.end(found) if found is not None else None
        if end is None or not any(map(is_message, entries)):
            continue
        looked += 1
        behind = reader.after(end)
        assert [entry for entry in entries if behind(entry) and is_message(entry)] == []
        if recorded.name == "gemini-0.61.0" and entries[-1].kind == "result":
            assert not behind.found  # named by a message without words: what is behind it is never guessed
            continue
        assert behind.found
        later = Entry(id=f"{10**17}.0", kind="user", text="later", native="not yet there")
        assert behind(later)
    assert looked or not list(reader.stored(home))
