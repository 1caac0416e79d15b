"""The search index is killed while it is built: nothing is lost, nothing is found twice, nothing is wrong."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from segue.sessions.search.index import Index, open_index
from segue.sessions.search.update import update
from tests.unit.sessions.made import MadeReader, made_home, write

FILES, LINES, KILLS = 40, 120, 12
ROOT = Path(__file__).parents[2]
BUILD = """
import sys
from pathlib import Path
from segue.sessions.search import index as indexes, update as updates
from segue.sessions.search.index import open_index
from segue.sessions.search.update import update
from tests.unit.sessions.made import MadeReader, made_home
updates.BATCH_BYTES = 20_000
indexes.COMMIT_BYTES = 100_000
home = Path(sys.argv[1])
with open_index(Path(sys.argv[2])) as index:
    print("ready", flush=True)
    update(index, [made_home(home, MadeReader())])
"""


def test_killed_at_random_moments(tmp_path: Path, soak: bool) -> None:
    rng = random.Random(11)
    home, path = tmp_path / "home", tmp_path / "index.db"
    places = [made_home(home, MadeReader())]
    corpus(home)
    whole = timed(home, tmp_path / "whole.db")
    kills = KILLS * (10 if soak else 1)
    survived = 0
    for number in range(kills):
        survived += killed(home, path, rng.uniform(0, whole * 0.6))
        change(home, number, rng)
    with open_index(path) as index, open_index(tmp_path / "fresh.db") as fresh:
        update(index, places)
        update(fresh, places)
        assert survived < kills, "it was never killed at work"
        assert contents(index) == contents(fresh)
        assert index.counts() == fresh.counts()
        for word in ("common", "file7", "line99", "changed3"):
            assert matching(index, word) == matching(fresh, word)
        index.connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")
        assert index.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_many_at_once(tmp_path: Path) -> None:
    """One of them does the work; the others wait for it or go on with what is there."""
    home, path = tmp_path / "home", tmp_path / "index.db"
    places = [made_home(home, MadeReader())]
    corpus(home)
    running = [
        subprocess.Popen(
            [sys.executable, "-c", BUILD, str(home), str(path)], stdout=subprocess.DEVNULL, cwd=ROOT
        )
        for _ in range(5)
    ]
    assert [process.wait(timeout=120) for process in running] == [0] * 5
    with open_index(path) as index, open_index(tmp_path / "fresh.db") as fresh:
        update(index, places)
        update(fresh, places)
        assert contents(index) == contents(fresh)
        assert matching(index, "common") == matching(fresh, "common")


def corpus(home: Path) -> None:
    for number in range(FILES):
        lines = [
            {"kind": "user", "text": f"common file{number} line{n} " + f"w{n} x{number} " * 60}
            for n in range(LINES)
        ]
        write(home, f"s{number}", *lines)


def change(home: Path, number: int, rng: random.Random) -> None:
    """Between two kills a session grows, another is written anew, a third goes."""
    line = msgspec.json.encode({"kind": "user", "text": f"common changed{number}"}) + b"\n"
    with (home / f"s{rng.randrange(FILES // 2)}.jsonl").open("ab") as file:
        file.write(line)
    write(home, f"s{FILES // 2 + number % 5}", {"kind": "user", "text": f"common anew changed{number}"})
    (home / f"s{FILES - 1 - number % 10}.jsonl").unlink(missing_ok=True)


def timed(home: Path, path: Path) -> float:
    process = started(home, path)
    began = time.monotonic()
    assert process.wait(timeout=120) == 0
    return time.monotonic() - began


def killed(home: Path, path: Path, after_s: float) -> bool:
    """Whether it had been done before."""
    process = started(home, path)
    time.sleep(after_s)
    done = process.poll() is not None
    if not done:
        os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=60)
    return done


def started(home: Path, path: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", BUILD, str(home), str(path)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"ready\n"
    return process


def contents(index: Index) -> list[tuple[bytes, int, int, int]]:
    sql = "SELECT path, at, n, kind FROM rows JOIN files ON files.id = rows.file ORDER BY 1, 2, 3"
    return index.connection.execute(sql).fetchall()


def matching(index: Index, word: str) -> list[tuple[bytes, int]]:
    sql = """
    SELECT path, at FROM words JOIN rows ON rows.id = words.rowid JOIN files ON files.id = rows.file
    WHERE words MATCH ? ORDER BY 1, 2
    """
    return index.connection.execute(sql, (f"text : {word}",)).fetchall()
