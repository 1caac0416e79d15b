"""A turn that was settled is reported as what it was, whatever goes wrong after that."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
from pathlib import Path

import msgspec
import pytest

from tests.integration.conftest import Program
from tests.integration.talk import Talk, rehearsing

FULL = Path("/dev/full")


@pytest.fixture
def talk(segue: Program) -> Talk:
    return rehearsing(segue)


def test_trouble_with_its_directory_is_a_notice(talk: Talk) -> None:
    """Something stands where the compressed stream belongs: it cannot be written, as on a full disk."""
    in_the_way = f"for run in {talk.segue.home}/runs/*; do mkdir -p $run/stdout.gz/there; done"
    spoke = talk.run(f"[[shell {in_the_way}]] [[huge 200000]]", "--permission", "full")
    assert (spoke.turn["status"], spoke.turn["failure"], len(spoke.text)) == ("ok", None, 200_000)
    (notice,) = [each for each in spoke.turn["notices"] if "could not be cleaned up" in each]
    assert notice in spoke.ran.stderr
    assert talk.log()[1]["status"] == "ok"
    assert talk.run("and now?").mode == "resume"


@pytest.mark.parametrize("form", [(), ("--json",), ("--events",)], ids=["text", "json", "events"])
def test_a_full_stdout_says_that_the_answer_is_kept(talk: Talk, form: tuple[str, ...]) -> None:
    with FULL.open("wb") as full:
        done = subprocess.run(
            [*talk.segue.command, "run", "t", "[[shell echo x >> effects]] [[say kept]]", *form],
            cwd=talk.segue.cwd,
            env={**talk.segue.env, "SEGUE_DEFAULTS_PERMISSION": "full"},
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    said = [line for line in done.stderr.decode().splitlines() if "could not be written" in line]
    assert said == [
        f"segue: the answer could not be written to stdout ({os.strerror(28)}); print it with: segue last t"
    ]
    assert "Traceback" not in done.stderr.decode()
    assert done.returncode == 1
    assert [(row["text"], row["status"]) for row in talk.log()][1:] == [("kept", "ok")]
    assert (talk.segue.cwd / "effects").read_text() == "x\n"


def test_a_failure_on_a_full_stdout_stays_that_failure(talk: Talk) -> None:
    with FULL.open("wb") as full:
        done = subprocess.run(
            [*talk.segue.command, "run", "t", "[[error 429]]", "--json"],
            cwd=talk.segue.cwd,
            env=talk.segue.env,
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert done.returncode == 75, done.stderr


@pytest.mark.parametrize(("text", "code"), [("[[say kept]]", 0), ("[[error 429]]", 75)])
def test_a_full_stderr_changes_nothing(talk: Talk, text: str, code: int) -> None:
    with FULL.open("wb") as full:
        done = subprocess.run(
            [*talk.segue.command, "run", "t", text, "--json"],
            cwd=talk.segue.cwd,
            env=talk.segue.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=full,
            timeout=60,
            check=False,
        )
    assert done.returncode == code
    assert (msgspec.json.decode(done.stdout)["failure"] is None) == (code == 0)


def test_an_answer_is_stored_once(talk: Talk) -> None:
    """Its events, and what is told of its turn, do without it."""
    size = 3_000_000
    assert len(talk.run(f"[[huge {size}]]").text) == size
    stored = sum(path.stat().st_size for path in talk.segue.home.glob("segue.db*"))
    assert size < stored < 3 * size, stored  # the file, and the log before it
    assert len(talk.log()[1]["text"]) == size


def test_a_tool_s_output_is_recorded_in_short(talk: Talk) -> None:
    talk.run("[[shell seq 100000]] [[say counted]]", "--permission", "full")
    with contextlib.closing(sqlite3.connect(talk.segue.home / "segue.db")) as db:
        events = [row[0] for row in db.execute("SELECT event FROM events ORDER BY seq")]
    assert max(map(len, events)) < 10_000
    (result,) = [each for each in map(msgspec.json.decode, events) if each["type"] == "tool-result"]
    assert result["output"].startswith("1\n2\n")
    assert result["output"].rstrip().endswith("\n100000")


def kinds(db: sqlite3.Connection, turn: str) -> set[str]:
    rows = db.execute("SELECT event FROM events WHERE turn = ?", (turn,)).fetchall()
    return {msgspec.json.decode(event)["type"] for (event,) in rows}


def test_events_are_kept_for_some_days_but_for_what_tools_did(talk: Talk) -> None:
    first = talk.run("[[shell echo hello]] [[say done]]", "--permission", "full").turn["run"]
    days_ms = 8 * 24 * 3_600_000
    with contextlib.closing(sqlite3.connect(talk.segue.home / "segue.db")) as db:
        assert {"text", "end", "tool-call"} <= kinds(db, first)
        with db:
            db.execute("UPDATE events SET ms = ms - ?", (days_ms,))
        second = talk.run("again").turn["run"]
        assert kinds(db, first) == {"tool-call", "tool-result"}
        assert {"text", "end"} <= kinds(db, second)


def test_however_many_old_events_there_are_they_all_pass(talk: Talk) -> None:
    run = talk.run("hello").turn["run"]
    with contextlib.closing(sqlite3.connect(talk.segue.home / "segue.db")) as db:
        with db:
            rows = [(run, seq, '{"type":"text","text":"x"}') for seq in range(1_000, 11_000)]
            db.executemany("INSERT INTO events (turn, seq, ms, event) VALUES (?, ?, 0, ?)", rows)
        talk.run("again")
        assert db.execute("SELECT count(*) FROM events WHERE ms = 0").fetchone() == (0,)
