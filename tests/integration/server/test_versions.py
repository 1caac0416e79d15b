"""Two versions of Segue at one store: a daemon of one, commands of the other."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

import segue as package
from tests.database import database
from tests.integration.conftest import Program
from tests.integration.server.conftest import WAIT_S, Daemon, finish, start
from tests.integration.server.streams import Stream, streams
from tests.integration.server.test_runs import submit

__all__ = ["streams"]

MIGRATION = "store/migrations/9000_later.sql"


def other_version(segue: Program, at: Path, changes: Mapping[str, tuple[str, str]]) -> Program:
    """The same program from a copy of the package. ``changes``: per file, a text and what stands there
    instead; a file that does not exist is made."""
    shutil.copytree(Path(package.__file__).parent, at / "segue")
    for name, (before, after) in {"__init__.py": (package.__version__, "99.0"), **changes}.items():
        file = at / "segue" / name
        text = file.read_text() if file.exists() else before
        assert before in text
        file.write_text(text.replace(before, after))
    return Program(segue.home, segue.cwd, {**segue.env, "PYTHONPATH": str(at)})


@pytest.fixture
def newer(segue: Program, tmp_path: Path) -> Program:
    """A Segue that upgrades the store, and waits one second for a daemon."""
    changes = {
        MIGRATION: ("\n", "CREATE TABLE later (n INTEGER PRIMARY KEY NOT NULL) STRICT;\n"),
        "app/upgrade.py": ("WAIT_S = 45.0", "WAIT_S = 1.0"),
    }
    return other_version(segue, tmp_path / "newer", changes)


def schema(segue: Program) -> int:
    with database(segue.home / "segue.db") as db:
        (version,) = db.execute("SELECT max(version) FROM segue_migrations").fetchone()
    return int(version)


def test_a_daemon_of_another_protocol_is_not_used(segue: Program, tmp_path: Path) -> None:
    changes = dict.fromkeys(("client.py", "server/presence.py"), ("PROTOCOL = 1", "PROTOCOL = 2"))
    other = start(other_version(segue, tmp_path / "other", changes))
    try:
        ran = segue("run", "k", "hi", "--agent", "rehearsal")
        assert (ran.code, ran.stdout) == (0, "Understood.\n")
        first, *_ = ran.stderr.splitlines()
        assert first == "segue: the daemon (99.0) speaks another protocol; running this without it"
        assert ran.stderr.count("daemon") == 1
        assert other.segue("run", "k", "hi").code == 0
        other.end()
        assert other.log().count("local/turns") == 1
    finally:
        finish(other.process)


def test_a_daemon_of_another_version_is_used_with_one_notice(segue: Program, tmp_path: Path) -> None:
    other = start(other_version(segue, tmp_path / "other", {}))
    notice = (
        "segue: the daemon is version 99.0, this command is "
        f"{package.__version__}; segue stop && segue serve --background updates it"
    )
    try:
        ran = segue("run", "k", "hi", "--agent", "rehearsal", "--json")
        assert (ran.code, ran.turn["transport"]) == (0, "daemon")
        queued = segue("run", "k", "hi", "--queue")
        for each in (ran, queued):
            assert [line for line in each.stderr.splitlines() if "version" in line] == [notice]
        assert segue("run", "k", "hi", "--quiet").stderr == ""
        assert "version" not in other.segue("run", "k", "hi").stderr
    finally:
        finish(other.process)


def test_an_upgrade_waits_until_the_older_daemon_has_finished(daemon: Daemon, newer: Program) -> None:
    before = schema(daemon.segue)
    ran = submit(daemon, "k", "[[slow 1 20]][[say good night]]")["run"]
    Stream(daemon, f"/api/v1/runs/{ran}/events").wait(lambda got: any(e.kind == "delta" for e in got))
    patient = Path(newer.env["PYTHONPATH"]) / "segue" / "app" / "upgrade.py"
    patient.write_text(patient.read_text().replace("WAIT_S = 1.0", "WAIT_S = 30.0"))
    upgraded = newer("last", "k")
    assert (upgraded.code, upgraded.stdout) == (0, "good night\n")
    (line,) = upgraded.stderr.splitlines()
    assert line.startswith("segue: this Segue upgrades the store")
    assert str(daemon.process.pid) in line
    assert daemon.process.wait(WAIT_S) == 0
    assert (before < 9000, schema(daemon.segue)) == (True, 9000)
    assert newer("ls").stderr == ""


def test_nothing_is_upgraded_while_an_older_daemon_lives(daemon: Daemon, newer: Program) -> None:
    before = schema(daemon.segue)
    os.kill(daemon.process.pid, signal.SIGSTOP)
    for args in (("ls",), ("edit", "k", "#1", "x")):
        refused = newer(*args)
        assert refused.code == 75
        assert "segue stop" in refused.stderr.splitlines()[-1]
        assert schema(daemon.segue) == before
    os.kill(daemon.process.pid, signal.SIGCONT)
    assert daemon.process.wait(WAIT_S) == 0


def test_an_older_command_says_that_the_store_is_newer(segue: Program, newer: Program) -> None:
    assert newer("run", "k", "hi", "--agent", "rehearsal").code == 0
    for args in (("ls",), ("run", "k", "hi"), ("serve",), ("serve", "--background")):
        refused = segue(*args)
        assert (refused.code, refused.stdout) == (1, "")
        (line,) = refused.stderr.splitlines()
        assert "was made by a newer Segue (schema 9000" in line


def test_a_newer_daemon_upgrades_the_store(segue: Program, newer: Program) -> None:
    assert segue("run", "k", "remember number 4", "--agent", "rehearsal").code == 0
    started = start(newer)
    try:
        assert schema(segue) == 9000
        assert segue("run", "k", "what number?").stdout == "4\n"  # through the daemon
    finally:
        finish(started.process)


def test_a_copy_of_a_home_has_no_daemon(daemon: Daemon, newer: Program, tmp_path: Path) -> None:
    copied = tmp_path / "copy"
    shutil.copytree(daemon.home, copied, ignore=shutil.ignore_patterns("daemon.sock"))
    there = Program(copied, newer.cwd, {**newer.env, "SEGUE_HOME": str(copied)})
    assert there("stop").stderr == "No daemon is running.\n"
    assert (there("ls").code, schema(there)) == (0, 9000)
    assert daemon.ask("GET", "/api/v1/health").status == 200
