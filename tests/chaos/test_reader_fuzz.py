"""Readers meet what crashes, half-written files and later releases leave: reported, never fatal.

The sessions that the real CLIs wrote are damaged at random (by seed) and looked at in every way there is.
"""

from __future__ import annotations

import os
import resource
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

from segue.agents import registry
from segue.agents.base import SessionArchive
from segue.config.schema import Config
from segue.sessions.check import Seen
from segue.sessions.reading import newest_page
from segue.testing import mutations

FIXTURES = Path(__file__).parents[1] / "fixtures" / "sessions"
FEW, MANY = 4_000, 200_000
LONGEST_S = 30.0
"""Longer than that, it hangs."""
MOST_BYTES = 300 * 1024 * 1024
SMALL = 12_000
"""Bytes of a file that are damaged: more would only be slower."""


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory, where there is one: ten thousand files are written twice each."""
    shared = Path("/dev/shm")
    with TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else tmp_path) as folder:
        yield Path(folder)


@pytest.mark.parametrize("agent", list(registry.BUILT_IN))
def test_no_damage_is_fatal(agent: str, memory: Path, seed: int, soak: bool) -> None:
    reader = registry.get(agent, Config()).archive()
    assert reader is not None
    recorded = sorted({*FIXTURES.glob(f"{agent}*"), *FIXTURES.glob(f"{agent}*/*")})
    homes = [home for home in recorded if any(reader.stored(home))]
    assert homes, "there are no recorded sessions"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    rng, rounds = Random(f"{agent} {seed}"), MANY if soak else FEW
    for home in homes:
        mine = memory / home.parent.name / home.name
        shutil.copytree(home, mine)
        for path, damage in _damages(mine, rng, rounds // len(homes)):
            whole = path.read_bytes()
            path.write_bytes(damage)
            began = time.monotonic()
            _look(reader, mine, rng)
            assert time.monotonic() - began < LONGEST_S, (path.name, damage[:500])
            path.write_bytes(whole)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before < MOST_BYTES


def _look(reader: SessionArchive, home: Path, rng: Random) -> None:
    sessions = list(reader.stored(home))
    for stored in rng.sample(sessions, min(1, len(sessions))):
        brief = reader.brief(stored)
        reader.expires_ms(stored, brief)
        records = list(reader.read(stored))
        Seen().look(entry for record in records for entry in record.entries)
        if stored.appends and records and records[-1].next > 0:
            assert list(reader.read(stored, records[-1].next)) == []
        newest = newest_page(reader, stored)
        if newest.first_id is not None and newest.has_more:
            newest_page(reader, stored, before_id=newest.first_id)
        reader.files(stored)


def _damages(home: Path, rng: Random, rounds: int) -> Iterator[tuple[Path, bytes]]:
    """A file of the session at a time, and what it became."""
    files = [path for path in sorted(home.rglob("*")) if path.is_file() and path.stat().st_size < 200_000]
    lines = {path: tuple(path.read_bytes().split(b"\n")) for path in files}
    for _ in range(rounds):
        path = rng.choice(files)
        yield path, _placed(lines[path], _damaged(rng.choice(lines[path]), rng), rng)


def _damaged(line: bytes, rng: Random) -> bytes:
    match rng.randrange(8):
        case 0:
            return rng.choice(mutations.GARBAGE)
        case 1:
            return line[: rng.randrange(len(line) + 1)]
        case 2 | 3:
            return mutations.flipped(line, rng)
        case _:
            return mutations.rewritten(line, rng)


def _placed(lines: tuple[bytes, ...], damaged: bytes, rng: Random) -> bytes:
    """The damaged line among some of the others, now and then cut short at the end."""
    first = rng.randrange(len(lines))
    some = list(lines[first : first + rng.randrange(1, 6)])
    some[rng.randrange(len(some))] = damaged
    head = [lines[0]] if rng.random() < 0.7 and first else []
    data = b"\n".join([*head, *some])[-SMALL:] + (b"\n" if rng.random() < 0.7 else b"")
    return data[: rng.randrange(len(data) + 1)] if rng.random() < 0.1 else data
