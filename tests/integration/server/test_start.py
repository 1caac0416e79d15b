"""A daemon that the first command starts, if the configuration says so."""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path

import pytest

from segue.system import processes
from tests.integration.conftest import Program
from tests.integration.server.conftest import WAIT_S, finish
from tests.integration.server.test_lifecycle import background, told
from tests.undertaker import start_undertaker

__all__ = ["background"]

AUTO = '[daemon]\nstart = "auto"\n'


@pytest.fixture
def port() -> int:
    """A port that is free, as far as anybody knows."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def log(segue: Program) -> str:
    return (segue.home / "daemon.log").read_text()


def test_no_command_starts_one_unasked(segue: Program) -> None:
    segue("run", "k", "hi", "--agent", "rehearsal")
    segue.config(AUTO)
    assert segue("run", "k", "hi", SEGUE_DAEMON="off").code == 0
    assert segue("run", "k", "hi", "--no-daemon").code == 0
    assert segue("run", "k", "hi", SEGUE_DAEMON_START="never").code == 0
    assert not (segue.home / "daemon.log").exists()


def test_several_commands_at_once_start_one(background: Program) -> None:
    racing = [
        background.start("run", f"k{n}", "hi", "--agent", "rehearsal", SEGUE_DAEMON="auto", SEGUE_MARK="x")
        for n in range(3)
    ]
    ended = [process.communicate(timeout=WAIT_S * 2) for process in racing]
    assert [(process.returncode, out) for process, (out, _) in zip(racing, ended, strict=True)] == [
        (0, b"Understood.\n")
    ] * 3, ended
    assert b"daemon" not in b"".join(errors for _, errors in ended)
    environment = Path(f"/proc/{told(background.home)['pid']}/environ").read_bytes()
    assert b"SEGUE_MARK" not in environment
    assert os.readlink(f"/proc/{told(background.home)['pid']}/cwd") == str(background.home)
    assert background("stop").code == 0
    assert log(background).count("listening on") == 1
    assert log(background).count("local/turns") == 3


def test_the_configuration_says_how_it_is_started(background: Program, port: int) -> None:
    background.config(f"{AUTO}port = {port}\nidle_exit = 1\n")
    queued = background("run", "k", "hi", "--agent", "rehearsal", "--queue")
    assert (queued.code, queued.stderr) == (0, "")
    until = time.monotonic() + WAIT_S
    while "idle for" not in (log(background) if (background.home / "daemon.log").exists() else ""):
        assert time.monotonic() < until
        time.sleep(0.1)
    assert f"listening on http://127.0.0.1:{port} " in log(background)
    assert background("last", "k").stdout == "Understood.\n"


def test_if_it_does_not_start_the_command_goes_on(background: Program) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        background.config(f"{AUTO}port = {taken.getsockname()[1]}\n")
        ran = background("run", "k", "hi", "--agent", "rehearsal")
    assert (ran.code, ran.stdout) == (0, "Understood.\n")
    notice, *_ = ran.stderr.splitlines()
    assert notice.startswith("segue: the daemon did not start (cannot listen on port")
    assert ran.stderr.count("daemon") == 1


@pytest.mark.parametrize("text", ['start = "always"', "port = 70000", "idle_exit = 0"])
def test_a_wrong_value_is_one_line(segue: Program, text: str) -> None:
    segue.config(f"[daemon]\n{text}\n")
    refused = segue("serve")
    assert (refused.code, len(refused.stderr.splitlines())) == (2, 1)
    assert "config.toml:2" in refused.stderr


@pytest.mark.parametrize("name", ["segue.py", "sqlite3.py", "json.py"])
def test_a_daemon_imports_nothing_from_the_directory_it_is_started_in(
    segue: Program, tmp_path: Path, name: str
) -> None:
    segue.command = [str(Path(sys.executable).parent / "segue")]
    (segue.cwd / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    began = segue("serve", "--background")
    assert (began.code, (tmp_path / "ran").exists()) == (0, False), began.stderr
    assert segue("stop").code == 0


def test_no_daemon_outlives_the_tests(segue: Program, tmp_path: Path) -> None:
    assert segue("serve", "--background").code == 0
    pid = told(segue.home)["pid"]
    waiting = start_undertaker(tmp_path)
    waiting.communicate(timeout=WAIT_S)
    assert pid not in processes.groups([pid])


def test_no_agent_outlives_the_tests(segue: Program, tmp_path: Path) -> None:
    """Its Segue was killed; the agent itself has no ``SEGUE_HOME``."""
    running = segue.start("run", "t", "[[hang]]", "--agent", "rehearsal", "--no-daemon")
    runs, until = segue.home / "runs", time.monotonic() + WAIT_S
    while not (found := [run for run in runs.glob("*") if processes.attempt_lives(run)]):
        assert time.monotonic() < until
        time.sleep(0.05)
    finish(running)
    assert processes.marked_processes(found[0].name)
    start_undertaker(tmp_path).communicate(timeout=WAIT_S)
    while processes.marked_processes(found[0].name):
        assert time.monotonic() < until + WAIT_S, "it lives"
        time.sleep(0.05)
