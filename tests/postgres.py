"""A real PostgreSQL for the tests: started when the first test asks for it, stopped at the end.

    from tests.postgres import postgres_server, postgres_url  # in a conftest.py

``postgres_url`` is a database that only this test knows. The server listens on a socket in a directory of
its own, and on no port. Where PostgreSQL is missing the tests are skipped; where ``CI`` is set, they fail.
"""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

import psycopg
import pytest

START_S = 60.0
SETTINGS = (
    "listen_addresses=",
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "shared_buffers=16MB",
    "max_connections=80",
)
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of the server, up to the database's name."""
    with running_server() as server:
        yield server.url


@pytest.fixture
def own_postgres() -> Iterator[Server]:
    """A server that only this test knows, to be stopped and started; its database ``postgres`` is empty."""
    with running_server() as server:
        yield server


@contextmanager
def running_server() -> Iterator[Server]:
    """A server of one's own."""
    with _directory() as root, _running(_needed(), root) as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """A new, empty database."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(at(postgres_server, "postgres"), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}".encode())
        yield at(postgres_server, name)
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def missing(why: str) -> NoReturn:
    """Where everything should be there, nothing is skipped."""
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)


def at(server: str, database: str) -> str:
    return server.replace("/?", f"/{database}?")


def _programs() -> Path | None:
    """Where initdb and postgres are: Debian keeps them off the PATH."""
    found = shutil.which("initdb")
    where = [Path(found).resolve().parent] if found else []
    where += [Path(path) for path in sorted(glob("/usr/lib/postgresql/*/bin"), reverse=True)]
    return next((path for path in where if (path / "postgres").exists() and (path / "initdb").exists()), None)


def _needed() -> Path:
    programs = _programs()
    if programs is None:
        missing("PostgreSQL is missing (scripts/test-packages.sh installs it)")
    return programs


def _user() -> str | None:
    """Root may not run PostgreSQL."""
    if os.getuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _as_user() -> dict[str, Any]:
    user = _user()
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if user else {}


@contextmanager
def _directory() -> Iterator[Path]:
    """A short path, as a socket's is bounded; and open to the server's user, unlike ``tmp_path``."""
    root = Path(tempfile.mkdtemp(prefix="segue-pg-", dir="/tmp"))
    try:
        if user := _user():
            shutil.chown(root, user)
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


class Server:
    """One that can be stopped and started again; what it holds stays."""

    def __init__(self, programs: Path, root: Path) -> None:
        self._programs, self._root = programs, root
        self._env = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        self.url = f"postgresql://segue@/?host={quote(str(root), safe='')}"
        """Up to the database's name."""
        self._process: subprocess.Popen[bytes] | None = None
        initdb = [f"{programs}/initdb", "-D", f"{root}/data", *"-U segue -A trust -E UTF8 --no-sync".split()]
        made = subprocess.run(
            initdb,
            cwd=root,
            env=self._env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            **_as_user(),
        )
        assert made.returncode == 0, made.stderr

    def start(self) -> None:
        settings = [part for setting in SETTINGS for part in ("-c", setting)]
        with (self._root / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [f"{self._programs}/postgres", "-D", f"{self._root}/data", "-k", f"{self._root}", *settings],
                cwd=self._root,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **_as_user(),
            )
        _wait(self._process, self.url, self._root / "log")

    def stop(self, *, kill: bool = False) -> None:
        """At once: whoever is connected is cut off. ``kill``: it cannot even write down what it has."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT if kill else signal.SIGINT)
            self._process.wait(START_S)
            self._process = None


@contextmanager
def _running(programs: Path, root: Path) -> Iterator[Server]:
    server = Server(programs, root)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def _wait(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    until = time.monotonic() + START_S
    while True:
        try:
            psycopg.connect(at(url, "postgres")).close()
            return
        except psycopg.OperationalError:
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.05)
