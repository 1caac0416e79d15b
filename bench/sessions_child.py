"""One piece of work on native sessions in a process of its own, which prints its seconds and memory.

``python -m bench.sessions_child WORK ARGS…``; what it prints is one JSON object.
"""

from __future__ import annotations

import json
import random
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from segue.agents.claude.adapter import AGENT
from segue.agents.claude.format import FORMAT
from segue.sessions.agent_homes import AgentHome
from segue.sessions.listing import list_sessions
from segue.sessions.reading import newest_page as page
from segue.sessions.search.index import Index, open_index
from segue.sessions.search.query import parsed, searched, wording
from segue.sessions.search.search import Wanted, search
from segue.sessions.search.update import update

APPENDED = 10_000
QUERIES = 100


def places(home: Path) -> list[AgentHome]:
    reader = AGENT.archive()
    assert reader is not None
    return [AgentHome("claude", None, home, FORMAT, reader)]


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def listing(home: Path) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        memory = Path(folder) / "briefs"
        cold = seconds(lambda: list_sessions(places(home), memory))
        warm = statistics.median(seconds(lambda: list_sessions(places(home), memory)) for _ in range(3))
        return {"cold": cold, "warm": warm, "count": len(list_sessions(places(home), memory))}


def newest_page(home: Path) -> dict[str, float]:
    reader = AGENT.archive()
    assert reader is not None
    (stored,) = reader.stored(home)
    taken = statistics.median(seconds(lambda: page(reader, stored)) for _ in range(5))
    return {"seconds": taken, "events": page(reader, stored).size, "rss": _rss()}


def indexing(home: Path, database: Path) -> dict[str, float]:
    """Build, nothing changed, and one session that grew. ``home`` is a copy that may be written."""
    with open_index(database) as index:
        build = seconds(lambda: update(index, places(home)))
        again = statistics.median(seconds(lambda: update(index, places(home))) for _ in range(5))
        grown = statistics.median(_grown(index, home) for _ in range(5))
        return {"build": build, "again": again, "grown": grown, "size": index.size(), "rss": _rss()}


def searching(home: Path, database: Path) -> dict[str, float]:
    with open_index(database) as index:
        wanted = _queries(home, random.Random(17))
        times = sorted(seconds(partial(search, index, places(home), each)) for each in wanted)
        found = sum(bool(search(index, places(home), each)) for each in wanted)
    return {"median": statistics.median(times), "p95": times[94], "worst": times[-1], "found": found}


def _grown(index: Index, home: Path) -> float:
    """A session of middle size, written out of the shared copy, then 10 KB longer."""
    path = sorted(home.rglob("*.jsonl"))[2_500]
    lines = path.read_bytes().splitlines(keepends=True)
    if path.stat().st_nlink > 1:
        beside = path.with_suffix(".new")
        shutil.copyfile(path, beside)
        beside.replace(path)
        update(index, places(home))
    added = b"".join(lines[-20:] * 20)[:APPENDED].rpartition(b"\n")[0] + b"\n"
    with path.open("ab") as file:
        file.write(added)
    return seconds(lambda: update(index, places(home)))


def _queries(home: Path, rng: random.Random) -> list[Wanted]:
    """What people may look for: words, phrases and beginnings that stand somewhere, some of them narrowed."""
    reader = AGENT.archive()
    assert reader is not None
    stored = sorted(reader.stored(home), key=lambda each: each.id)
    made: list[Wanted] = []
    while len(made) < QUERIES:
        one = rng.choice(stored)
        texts = [wording(e) for record in reader.read(one) for e in record.entries if searched(e)]
        words = [word for term in parsed("x " + rng.choice(texts or ["x"])) for word in term.words]
        if len(words) < 6:
            continue
        at = rng.randrange(len(words) - 3)
        forms = (
            *(words[at],) * 4,
            *(f"{words[at]} {rng.choice(words)}",) * 3,
            f'"{words[at]} {words[at + 1]}"',
            f'"{words[at]} {words[at + 1]} {words[at + 2]}"',
            f"{words[at][:4]}*",
        )
        made.append(msgspec.structs.replace(rng.choice(_NARROWED), text=rng.choice(forms)))
    return made


_NARROWED = [
    *(Wanted(text=""),) * 7,
    Wanted(text="", where="text"),
    Wanted(text="", where="tool"),
    Wanted(text="", agents=("claude",)),
]


def _rss() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


WORKS: dict[str, Callable[..., dict[str, float]]] = {
    "listing": listing,
    "page": newest_page,
    "indexing": indexing,
    "searching": searching,
}

if __name__ == "__main__":
    print(json.dumps(WORKS[sys.argv[1]](*map(Path, sys.argv[2:]))))
