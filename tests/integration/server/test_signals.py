"""A signal at the command line reaches the run, however early it comes."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from tests.integration.server.conftest import WAIT_S, Daemon
from tests.integration.server.test_parking import until

SLOW = "[[slow 6 10]][[say hello]]"


@contextmanager
def stopped(daemon: Daemon) -> Iterator[None]:
    """The daemon does not answer meanwhile."""
    os.kill(daemon.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(daemon.process.pid, signal.SIGCONT)


@contextmanager
def locked(daemon: Daemon) -> Iterator[None]:
    """The daemon answers, and cannot store anything meanwhile."""
    file = sqlite3.connect(daemon.home / "segue.db", isolation_level=None, timeout=WAIT_S)
    file.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        file.execute("ROLLBACK")
        file.close()


def called(client: subprocess.Popen[bytes]) -> bool:
    """Whether it has connected to the daemon."""
    links = (os.readlink(each) for each in Path(f"/proc/{client.pid}/fd").iterdir() if each.is_symlink())
    return any(link.startswith("socket:") for link in links)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("held", [stopped, locked])
def test_a_signal_that_comes_before_the_run_is_stored_cancels_it(
    daemon: Daemon, held: object, number: signal.Signals
) -> None:
    assert callable(held)
    daemon.segue("run", "k", "hi", "--agent", "rehearsal", "-q")
    with held(daemon):
        client = daemon.segue.start("run", "k", SLOW, "--json")
        until(lambda: called(client))
        client.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            client.wait(0.7)
    out, errors = client.communicate(timeout=WAIT_S)
    assert client.returncode == 130, errors.decode()
    turn = msgspec.json.decode(out.splitlines()[-1])
    assert turn["state"] in ("cancelled", "withdrawn")
    assert turn["failure"]["kind"] == "cancelled"


def test_the_second_signal_kills(daemon: Daemon) -> None:
    stubborn = "[[shell trap '' TERM INT; touch begun; sleep 60]]"
    client = daemon.segue.start("run", "k", stubborn, "--agent", "rehearsal", "--permission", "full")
    until((daemon.segue.cwd / "begun").exists)
    client.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        client.wait(0.5)
    client.send_signal(signal.SIGINT)
    client.communicate(timeout=WAIT_S)
    assert client.returncode == 130
