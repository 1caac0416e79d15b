"""Other users of the machine: what keeps them from the daemon, and the commands from theirs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from segue import client
from segue.system import sockets
from tests.integration.conftest import Program
from tests.integration.server.conftest import Daemon, finish, start

NOBODY = 65534
REQUEST = "GET /api/v1/health HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n"
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")


def as_nobody(code: str, *words: str) -> str:
    """What a program prints that runs as another user. It loads what it needs before."""
    become = f"import os, sys, socket\n{code.partition('---')[0]}\n"
    become += f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
    done = subprocess.run(
        [sys.executable, "-c", become + code.partition("---")[2], *words],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A directory that every user can reach: the tests' own ones belong to one user."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        Path(made).chmod(0o755)
        yield Path(made)


TRY = f"""
found = socket.socket(socket.AF_UNIX)
try:
    found.connect(sys.argv[1])
    found.sendall(b"{REQUEST}")
    print("answered" if found.recv(100) else "closed")
except PermissionError:
    print("no way")
except ConnectionError:
    print("closed")
"""


@as_root
def test_another_user_cannot_reach_the_socket(daemon: Daemon) -> None:
    path = daemon.home / "daemon.sock"
    assert as_nobody(f"---{TRY}", str(path)) == "no way\n"


@as_root
def test_another_user_who_reaches_the_socket_gets_nothing(open_folder: Path, segue: Program) -> None:
    """Behind the directory and the socket's mode: the daemon asks who is there."""
    home = open_folder / "home"
    there = Program(home, segue.cwd, {**segue.env, "SEGUE_HOME": str(home)})
    daemon = start(there)
    try:
        home.chmod(0o755)
        assert as_nobody(f"---{TRY}", str(home / "daemon.sock")) == "no way\n"
        (home / "daemon.sock").chmod(0o666)
        assert as_nobody(f"---{TRY}", str(home / "daemon.sock")) == "closed\n"
        assert daemon.ask_local("GET", "/api/v1/health").status == 200
    finally:
        finish(daemon.process)


CONNECT = """
from segue.client import Daemon
---
print(Daemon(sys.argv[1], {}).post("/x"))
"""


@as_root
def test_a_client_does_not_speak_to_a_daemon_of_root(open_folder: Path) -> None:
    path = open_folder / "s"
    listening = sockets.listen(path)
    listening.setblocking(True)
    path.chmod(0o666)
    got: list[bytes] = []

    def serve() -> None:
        asking, _ = listening.accept()
        with asking:
            asking.settimeout(5)
            got.append(asking.recv(1000))
            with suppress(OSError):  # nobody waits for it
                asking.sendall(b"HTTP/1.0 200 OK\r\n\r\n")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    assert as_nobody(CONNECT, str(path)) == "None\n"
    thread.join(10)
    assert got == [b""]
    listening.close()


@pytest.mark.parametrize("other", [0, 1])
def test_a_client_sends_nothing_to_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: int
) -> None:
    listening = sockets.listen(tmp_path / "s")
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    monkeypatch.setattr(client, "_peer", lambda connected: other)
    assert client.Daemon(str(tmp_path / "s"), {}).post("/x") is None
    listening.setblocking(True)
    asking, _ = listening.accept()
    assert asking.recv(1000) == b""
    asking.close()
    listening.close()


def test_the_client_knows_who_is_there(tmp_path: Path) -> None:
    listening = sockets.listen(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as connected:
        connected.connect(str(tmp_path / "s"))
        assert client._peer(connected) == os.getuid()
    listening.close()


def test_a_home_that_others_can_look_into_is_closed(segue: Program) -> None:
    segue.home.mkdir()
    segue.home.chmod(0o755)
    daemon = start(segue)
    try:
        assert segue.home.stat().st_mode & 0o777 == 0o700
    finally:
        finish(daemon.process)


@as_root
def test_a_home_of_another_user_is_refused(segue: Program) -> None:
    segue.home.mkdir(mode=0o700)
    os.chown(segue.home, NOBODY, NOBODY)
    refused = segue("serve")
    assert (refused.code, len(refused.stderr.splitlines())) == (2, 1)
    assert "belongs to another user" in refused.stderr
    assert segue.home.stat().st_mode & 0o777 == 0o700
