"""A conversation on the rehearsal agent, seen from outside: the program, the store, files, processes."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from segue.config.home import Home, this_host
from segue.core.model import Host
from segue.system.processes import groups
from tests.database import database
from tests.integration.conftest import Program, Result

PATIENCE_S = 60.0
KEY = "t"
GATE = "while [ ! -e gate ]; do sleep 0.05; done"
"""A command that ends once the test opens the gate: no test has to guess how long anything takes."""


def until(holds: Callable[[], Any], what: str, seconds: float = PATIENCE_S, pause_s: float = 0.01) -> Any:
    """Wait for a condition, patiently: the machine may be busy."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, f"it never came to be: {what}"
        time.sleep(pause_s)
    return found


class Started:
    """A ``segue`` that runs. What it prints is taken in as it comes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process, self.pid = process, process.pid
        self._read: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self._threads = [
            threading.Thread(target=self._drain, args=(name, pipe), daemon=True)
            for name, pipe in (("stdout", process.stdout), ("stderr", process.stderr))
        ]
        for thread in self._threads:
            thread.start()

    @property
    def stderr(self) -> str:
        return self._read["stderr"].decode()

    def says(self, text: str) -> None:
        """Wait until it said this on stderr."""
        until(lambda: text in self.stderr or self.process.poll() is not None, f"{text!r} in {self.stderr!r}")
        assert text in self.stderr, self.stderr

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """With -9, and seen off by its parent."""
        self.process.kill()
        self.process.wait()

    def end(self, seconds: float = PATIENCE_S) -> Result:
        """Wait for its own end."""
        code = self.process.wait(seconds)
        for thread in self._threads:
            thread.join(PATIENCE_S)
        return Result(code, self._read["stdout"].decode(), self.stderr)

    def _drain(self, name: str, pipe: IO[bytes] | None) -> None:
        assert pipe is not None
        with pipe:
            while chunk := os.read(pipe.fileno(), 65_536):
                self._read[name] += chunk


class Scene:
    """One home of Segue, one of the agent, one directory to work in."""

    def __init__(self, segue: Program) -> None:
        self.segue = segue
        self.agent_home = segue.cwd.parent / "rehearsal"
        segue.env["REHEARSAL_HOME"] = str(self.agent_home)
        segue.env["SEGUE_DEFAULTS_AGENT"] = "rehearsal"
        segue.env["SEGUE_DEFAULTS_PERMISSION"] = "full"
        self._started: list[Started] = []

    @property
    def host(self) -> Host:
        """This machine, as the program calls it."""
        return this_host(None, Home(self.segue.home))

    # what the program does

    def start(
        self, text: str, *options: str, key: str = KEY, within: Sequence[str] = (), **env: str
    ) -> Started:
        """``within``: what starts the program in a namespace of its own."""
        started = Started(self.segue.start("run", key, text, "--json", *options, within=within, **env))
        self._started.append(started)
        return started

    def run(self, text: str, *options: str, key: str = KEY, within: Sequence[str] = (), **env: str) -> Result:
        """A turn that must go well."""
        done = self.start(text, *options, key=key, within=within, **env).end()
        assert done.code == 0, (done.stdout[-2000:], done.stderr[-2000:])
        return done

    def log(self, key: str = KEY) -> list[dict[str, Any]]:
        done = self.segue("log", key, "--json")
        assert done.code == 0, done.stderr
        rows: list[dict[str, Any]] = msgspec.json.decode(done.stdout)
        return rows

    def said(self, key: str = KEY) -> list[tuple[str, str]]:
        """Who said what, in order. What never began is not part of it."""
        return [(row["from"], row["text"]) for row in self.log(key) if row["n"] is not None]

    def open_gate(self, name: str = "gate") -> None:
        (self.segue.cwd / name).touch()

    # what stands on disk

    @property
    def effects(self) -> list[str]:
        """The lines that tools appended to a file in the working directory."""
        file = self.segue.cwd / "effects"
        return file.read_text().split() if file.exists() else []

    @property
    def run_dirs(self) -> list[Path]:
        return sorted((self.segue.home / "runs").glob("*"))

    def has(self, name: str) -> bool:
        """Whether the newest attempt has this file in its directory."""
        return bool(self.run_dirs) and (self.run_dirs[-1] / name).exists()

    def said_by_agent(self, text: bytes) -> bool:
        """Whether the newest attempt has printed this."""
        return (
            self.has("plan.json")
            and self.has("stdout")
            and text in (self.run_dirs[-1] / "stdout").read_bytes()
        )

    def heard(self, session: str) -> list[str]:
        """Every prompt that a native session of the agent holds, in order."""
        lines = (self.agent_home / "sessions" / f"{session}.jsonl").read_bytes().splitlines()
        rows = [msgspec.json.decode(line) for line in lines[1:]]
        return [row["text"] for row in rows if row["role"] == "user" and row["kind"] == "text"]

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """From the store, as somebody who only looks."""
        path = self.segue.home / "segue.db"
        if not path.exists():
            return []
        with (
            contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as db,
            contextlib.suppress(sqlite3.OperationalError),  # there are no tables yet
        ):
            return db.execute(sql, values).fetchall()
        return []

    def write(self, sql: str, *values: Any) -> None:
        with database(self.segue.home / "segue.db", timeout=10) as db:
            db.execute(sql, values)

    # who lives

    def agents(self) -> list[int]:
        """The agent's processes that run for this scene."""
        return [pid for pid in self.ours() if "segue.rehearsal.agent" in _command(pid)]

    def programs(self) -> list[int]:
        """Those of ``segue`` itself."""
        return [pid for pid in self.ours() if _command(pid).startswith(f"{sys.executable} -m segue run")]

    def agent(self) -> int:
        """The one that runs, once it does."""
        return int(until(self.agents, "the agent runs")[0])

    def quiet(self) -> bool:
        """Nothing runs, nothing waits, nothing is locked."""
        waiting = self.rows("SELECT id FROM turns WHERE state IN ('queued', 'running')")
        return not self.agents() and not waiting and not self.rows("SELECT name FROM leases")

    def clear(self) -> None:
        """End all that is left, by its number."""
        for started in self._started:
            if started.process.poll() is None:
                started.kill()
        for pid in self.ours():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def ours(self) -> list[int]:
        """Living processes whose environment names the agent's home, ourselves left out."""
        wanted, found = f"REHEARSAL_HOME={self.agent_home}".encode(), []
        for pid in groups():
            with contextlib.suppress(OSError):
                if wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    found.append(pid)
        return found


def kill(pid: int) -> bool:
    """Whether there was anybody to kill."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


def kill_group(pid: int) -> bool:
    """Whether there was anybody to kill."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
        return True
    return False


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""
