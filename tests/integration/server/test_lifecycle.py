"""How a daemon starts and ends, and how it is found."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.integration.conftest import Program, Result
from tests.integration.server.conftest import WAIT_S, Daemon, finish, start


def told(home: Path) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode((home / "daemon.json").read_bytes())
    return decoded


@pytest.fixture
def background(segue: Program) -> Iterator[Program]:
    """Ends whatever a test left in the background."""
    yield segue
    if (segue.home / "daemon.json").exists():
        segue("stop")


def test_the_file_tells_where_it_listens(daemon: Daemon) -> None:
    file = told(daemon.home)
    assert (file["url"], file["pid"], file["protocol"]) == (daemon.url, daemon.process.pid, 1)
    assert file["version"] == daemon.ask("GET", "/api/v1/health").json["version"]
    assert abs(file["started"] / 1000 - time.time()) < 60


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_in_order(daemon: Daemon, number: int) -> None:
    assert daemon.end(number) == 0
    assert not (daemon.home / "daemon.json").exists()
    assert not (daemon.home / "daemon.sock").exists()
    assert daemon.log().endswith("stopped\n")


def test_a_second_daemon_is_refused_with_the_address_of_the_first(daemon: Daemon) -> None:
    for args in (["serve"], ["serve", "--background"]):
        second = daemon.segue(*args)
        assert second.code == 75
        (line,) = second.stderr.splitlines()
        assert daemon.url in line
        assert str(daemon.process.pid) in line
    assert daemon.ask("GET", "/api/v1/health").status == 200


def test_a_daemon_that_was_killed_does_not_stand_in_the_way(daemon: Daemon) -> None:
    daemon.end(signal.SIGKILL)
    assert (daemon.home / "daemon.json").exists()
    assert daemon.segue("status").code == 1
    stopped = daemon.segue("stop")
    assert (stopped.code, stopped.stderr) == (0, "No daemon is running.\n")
    again = start(daemon.segue)
    try:
        assert again.token == daemon.token
        assert again.ask("GET", "/api/v1/health").json["pid"] == again.process.pid
    finally:
        finish(again.process)


def test_a_stale_file_whose_port_somebody_else_has_is_not_believed(daemon: Daemon) -> None:
    daemon.end(signal.SIGKILL)
    with socket.create_server(("127.0.0.1", daemon.port)) as stranger:
        stranger.settimeout(0.2)
        assert daemon.segue("status").code == 1
        assert daemon.segue("status", "--link").code == 1
        assert daemon.segue("stop").code == 0
        assert daemon.segue("run", "k", "hi", "--agent", "rehearsal", "-q") == Result(0, "Understood.\n", "")
        with pytest.raises(TimeoutError):
            stranger.accept()


def test_a_file_with_the_pid_of_another_process_is_not_believed(daemon: Daemon) -> None:
    daemon.end(signal.SIGKILL)
    file = told(daemon.home) | {"pid": os.getpid()}
    (daemon.home / "daemon.json").write_bytes(msgspec.json.encode(file))
    assert daemon.segue("stop").stderr == "No daemon is running.\n"
    assert daemon.segue("status").code == 1
    assert daemon.segue("run", "k", "hi", "--agent", "rehearsal", "-q") == Result(0, "Understood.\n", "")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x"}'])
def test_a_broken_file_is_no_daemon(segue: Program, text: str) -> None:
    segue.home.mkdir(mode=0o700)
    (segue.home / "daemon.json").write_text(text)
    assert segue("status").code == 1
    assert segue("stop").code == 0


def test_status_and_stop(daemon: Daemon) -> None:
    shown = daemon.segue("status")
    assert shown.code == 0
    assert shown.stdout.startswith(f"{daemon.url}  pid {daemon.process.pid}")
    assert "MB of memory" in shown.stdout
    told = msgspec.json.decode(daemon.segue("status", "--json").stdout)
    assert told["url"] == daemon.url
    assert told["runs"] == {}
    stopped = daemon.segue("stop")
    assert (stopped.code, daemon.process.wait(WAIT_S)) == (0, 0)
    shown = daemon.segue("status", "--json")
    assert (shown.code, shown.stdout) == (1, "null\n")
    assert daemon.segue("stop").code == 0


def test_in_the_background(background: Program) -> None:
    began = background("serve", "--background", "--log-json")
    assert began.code == 0, began.stderr
    file = told(background.home)
    assert file["url"] in began.stdout
    assert str(file["pid"]) in began.stdout
    assert os.getsid(file["pid"]) == file["pid"]
    assert background("status").code == 0
    assert background("stop").code == 0
    log = [msgspec.json.decode(line) for line in (background.home / "daemon.log").read_text().splitlines()]
    assert log[0]["text"].startswith("listening on")
    assert log[-1]["text"] == "stopped"
    assert (background.home / "daemon.log").stat().st_mode & 0o777 == 0o600


def test_what_goes_wrong_in_the_background_is_told(background: Program) -> None:
    background.config("[store]\nurl = 3\n")
    began = background("serve", "--background")
    assert began.code == 2
    (line,) = began.stderr.splitlines()
    assert "config.toml" in line


def test_a_port_that_is_taken(segue: Program) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = segue("serve", "--port", port)
    assert refused.code == 2
    assert port in refused.stderr
    assert not (segue.home / "daemon.json").exists()


def test_the_port_can_be_chosen(segue: Program) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    daemon = start(segue, "--port", str(port))
    assert daemon.port == port
    finish(daemon.process)


def test_an_unused_daemon_ends(segue: Program) -> None:
    daemon = start(segue, "--idle-exit", "0.2")
    assert daemon.process.wait(WAIT_S) == 0
    assert "idle for" in daemon.log()
    finish(daemon.process)


def test_a_home_with_a_long_path(segue: Program, tmp_path: Path) -> None:
    segue.home = tmp_path / ("long-" * 30) / "home"
    segue.env["SEGUE_HOME"] = str(segue.home)
    daemon = start(segue)
    assert daemon.ask_local("GET", "/api/v1/health").status == 200
    ran = segue("run", "k", "hi", "--agent", "rehearsal")
    assert (ran.code, ran.stdout) == (0, "Understood.\n")
    assert segue("stop").code == 0
    assert "local/turns" in daemon.log()
    finish(daemon.process)


def test_a_wrong_address_for_the_store_is_one_line(segue: Program) -> None:
    segue.home.mkdir(mode=0o700)
    (segue.home / "segue.db").write_bytes(b"this is not a database" * 100)
    failed = segue("serve")
    assert failed.code in (1, 75)
    assert len(failed.stderr.splitlines()) == 1
    assert not (segue.home / "daemon.json").exists()
