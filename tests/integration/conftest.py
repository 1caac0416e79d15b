"""Runs the real ``segue`` program in a built environment and a home of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.config.home import home_of
from segue.config.trust import trust

SEGUE = [sys.executable, "-m", "segue"]


@dataclass(frozen=True)
class Result:
    code: int
    stdout: str
    stderr: str

    @property
    def turn(self) -> dict[str, Any]:
        """The object on stdout's last line."""
        decoded: dict[str, Any] = msgspec.json.decode(self.stdout.splitlines()[-1])
        return decoded


@dataclass
class Program:
    """``segue`` with a SEGUE_HOME and a working directory that only this test knows."""

    home: Path
    cwd: Path
    env: dict[str, str] = field(default_factory=dict)
    command: list[str] = field(default_factory=lambda: SEGUE)

    def __call__(
        self, *args: str, stdin: bytes | None = None, more: dict[str, str] | None = None, **env: str
    ) -> Result:
        done = subprocess.run(
            [*self.command, *args],
            cwd=self.cwd,
            env={**self.env, **(more or {}), **env},
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            timeout=60,
            check=False,
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *args: str, within: Sequence[str] = (), **env: str) -> subprocess.Popen[bytes]:
        """Start it and let it run, as the leader of its own group. ``within``: words before the command."""
        return subprocess.Popen(
            [*within, *self.command, *args],
            cwd=self.cwd,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def trust(self, directory: Path | None = None) -> None:
        """As ``segue trust``, in the working directory or another one."""
        trust(home_of(self.env), directory or self.cwd)

    def config(self, text: str) -> None:
        self.home.mkdir(exist_ok=True, mode=0o700)
        (self.home / "config.toml").write_text(text)


@pytest.fixture
def segue(tmp_path: Path) -> Program:
    home, cwd = tmp_path / "segue-home", tmp_path / "project"
    cwd.mkdir()
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "PYTHONFAULTHANDLER": "1",  # a crash of the interpreter tells where it was
        "SEGUE_HOME": str(home),
    }
    return Program(home, cwd, env)
