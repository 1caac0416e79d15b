"""``segue run`` and its daemon: what signals do, and what happens if one of the two goes away."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.system import processes, sockets
from tests.integration.conftest import Program
from tests.integration.server.conftest import WAIT_S, Daemon, finish, start
from tests.integration.server.streams import streams
from tests.integration.server.test_remote import wait_for_run
from tests.integration.server.test_runs import finished

__all__ = ["streams"]

STUBBORN = """
[agents.stubborn]
command = ["sh", "-c", "trap 'touch termed' TERM; echo $$ > pid; while true; do sleep 0.05; done"]
stdin = "prompt"
"""
STORY = "Once upon a time there was a client whose daemon went away."
SLOW = f"[[slow 4 40]][[say {STORY}]]"


def eventually(ready: Callable[[], Any]) -> Any:
    """What it returns, once that is something."""
    until = time.monotonic() + WAIT_S
    while not (found := ready()):
        assert time.monotonic() < until
        time.sleep(0.02)
    return found


@pytest.fixture
def client(segue: Program) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts clients, and ends those that a test leaves."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(*args: str) -> subprocess.Popen[bytes]:
        started.append(segue.start("run", "k", *args))
        return started[-1]

    yield begin
    for each in started:
        finish(each)


def runs(segue: Program) -> list[dict[str, Any]]:
    log: list[dict[str, Any]] = msgspec.json.decode(segue("log", "k", "--json").stdout)
    return log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_cancels_the_run(daemon: Daemon, client: Any, number: int) -> None:
    waiting = client("[[hang]]", "--agent", "rehearsal")
    run = wait_for_run(daemon, "k")
    waiting.send_signal(number)
    _, errors = waiting.communicate(timeout=WAIT_S)
    assert (waiting.returncode, b"Cancelling" in errors) == (130, True)
    assert finished(daemon, run)["state"] == "cancelled"


@pytest.mark.parametrize("dead", [False, True])
def test_the_second_signal_kills(segue: Program, daemon: Daemon, client: Any, dead: bool) -> None:
    """``dead``: its daemon was killed. The first signal lets an agent end for five seconds."""
    segue.config(STUBBORN)
    waiting = client("hi", "--agent", "stubborn")
    agent = int(eventually(lambda: (segue.cwd / "pid").exists() and (segue.cwd / "pid").read_text()))
    if dead:
        daemon.end(signal.SIGKILL)
    waiting.send_signal(signal.SIGINT)
    eventually((segue.cwd / "termed").exists)
    termed = time.monotonic()
    waiting.send_signal(signal.SIGINT)
    eventually(lambda: agent not in processes.groups([agent]))
    assert time.monotonic() - termed < 4.5
    assert waiting.wait(WAIT_S) == 130
    assert runs(segue)[0]["state"] == "cancelled"


def test_a_client_whose_daemon_was_killed_still_cancels(daemon: Daemon, client: Any) -> None:
    waiting = client("[[hang]]", "--agent", "rehearsal", "--json")
    wait_for_run(daemon, "k")
    daemon.end(signal.SIGKILL)
    waiting.send_signal(signal.SIGTERM)
    out, _ = waiting.communicate(timeout=WAIT_S)
    assert waiting.returncode == 130
    assert msgspec.json.decode(out)["state"] == "cancelled"
    (message,) = runs(daemon.segue)
    assert message["state"] == "cancelled"


def test_no_event_is_printed_twice_if_the_daemon_goes_away(daemon: Daemon, client: Any) -> None:
    waiting = client(SLOW, "--agent", "rehearsal", "--events")
    lines = iter(waiting.stdout.readline, b"")
    seen = [next(line for line in lines if b'"text-delta"' in line)]
    daemon.end(signal.SIGKILL)
    seen += lines
    assert waiting.wait(WAIT_S) == 0
    *events, turn = [msgspec.json.decode(line) for line in seen]
    assert "".join(each["text"] for each in events if each["type"] == "text-delta") == STORY
    assert [each["type"] for each in events].count("end") == 1
    assert turn["text"] == STORY


class Between:
    """Takes the daemon's place at its socket: requests go through, answers to a turn do not come back."""

    def __init__(self, daemon: Daemon) -> None:
        self._real = daemon.home / "real.sock"
        (daemon.home / "daemon.sock").rename(self._real)
        self._listening = sockets.listen(daemon.home / "daemon.sock")
        self._listening.setblocking(True)
        self.submitted, self.let_go = threading.Event(), threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        asking, _ = self._listening.accept()
        with asking, sockets.connect(self._real, WAIT_S) as real:
            real.sendall(self._request(asking))
            self.submitted.set()
            self.let_go.wait(WAIT_S)
        self._listening.close()

    def _request(self, asking: socket.socket) -> bytes:
        got = b""
        while b"\r\n\r\n" not in got:
            got += asking.recv(1 << 16)
        head, _, body = got.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        while len(body) < length:
            body += asking.recv(1 << 16)
        return head + b"\r\n\r\n" + body


def test_a_run_whose_answer_is_lost_is_found_by_its_id(daemon: Daemon, client: Any) -> None:
    between = Between(daemon)
    waiting = client("[[slow 2 20]][[say only once]]", "--agent", "rehearsal", "--json")
    assert between.submitted.wait(WAIT_S)
    run = wait_for_run(daemon, "k")
    between.let_go.set()
    out, errors = waiting.communicate(timeout=WAIT_S)
    assert waiting.returncode == 0, errors
    turn = msgspec.json.decode(out)
    assert (turn["run"], turn["text"]) == (run, "only once")
    assert [each["text"] for each in runs(daemon.segue)][1:] == ["only once"]
    daemon.end()
    assert daemon.log().count("local/turns") == 1


def test_a_run_that_never_arrived_is_run_by_the_client(daemon: Daemon, client: Any) -> None:
    os.kill(daemon.process.pid, signal.SIGSTOP)
    waiting = client("hi", "--agent", "rehearsal")
    eventually(lambda: _connected(waiting.pid))
    daemon.end(signal.SIGKILL)
    out, errors = waiting.communicate(timeout=WAIT_S)
    assert (waiting.returncode, out) == (0, b"Understood.\n"), errors
    assert len(runs(daemon.segue)) == 2


def _connected(pid: int) -> bool:
    """Whether the process waits at a socket."""
    with suppress(FileNotFoundError):  # one was closed meanwhile
        files = Path(f"/proc/{pid}/fd").iterdir()
        return any("socket:" in os.readlink(file) for file in files if file.name not in "012")
    return False


@pytest.mark.parametrize("how", ["segue cancel", "the API"])
def test_a_run_whose_own_process_was_killed_is_cancelled(daemon: Daemon, client: Any, how: str) -> None:
    beside = client("[[hang]]", "--agent", "rehearsal", "--no-daemon")
    run = wait_for_run(daemon, "k")
    beside.kill()
    beside.wait(WAIT_S)
    if how == "segue cancel":
        assert daemon.segue("cancel", run).code == 0
    else:
        assert daemon.ask("POST", f"/api/v1/runs/{run}/cancel").status == 200
    assert finished(daemon, run)["state"] == "cancelled"
    assert daemon.segue("run", "k", "hi").code == 0


def test_a_run_that_the_next_daemon_has_adopted_is_cancelled(daemon: Daemon, client: Any) -> None:
    vanished = client("[[hang]]", "--agent", "rehearsal")
    run = wait_for_run(daemon, "k")
    vanished.kill()
    daemon.end(signal.SIGKILL)
    again = start(daemon.segue)
    try:
        eventually(lambda: again.ask("GET", "/api/v1/status").json["runs"].get("running"))
        assert again.ask("POST", f"/api/v1/runs/{run}/cancel").status == 200
        assert finished(again, run)["state"] == "cancelled"
    finally:
        finish(again.process)
