"""The ``segue`` program in conversation with a real CLI: a home of its own, a loopback model, and its log."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.agents import registry
from segue.config.schema import Config
from segue.core.request import ModelAddress
from segue.rehearsal.log import LoggedRequest
from segue.rehearsal.server import LoopbackModel
from segue.rehearsal.stage import stage
from tests.clis import CLIS
from tests.live.harness import SLOW, clean_environment

AGENTS = {name: registry.get(name, Config()).rehearse for name in registry.BUILT_IN}

SLOWEST = {"gemini", "vibe"}
"""They take several seconds of processor time to start."""
SEGUE = [sys.executable, "-m", "segue"]
CLAUDES = [
    pytest.param(("claude", version), id=f"claude-{version}", marks=marks)
    for version, marks in ((CLIS["claude"].newest, []), (CLIS["claude"].older, [pytest.mark.soak]))
]
"""For the fixture ``talk``: the newest Claude, and with ``--soak`` the older one."""
EVERY = [
    pytest.param(
        (agent, version),
        id=f"{agent}-{version}",
        marks=[pytest.mark.soak] if version == cli.older and agent in SLOW else [],
    )
    for agent, cli in CLIS.items()
    for version in cli.versions
]
"""All of them, but the older ones of slow agents only with ``--soak``."""
MOST = [
    pytest.param(
        (agent, version),
        id=f"{agent}-{version}",
        marks=[pytest.mark.soak] if version == cli.older or agent in SLOWEST else [],
    )
    for agent, cli in CLIS.items()
    for version in cli.versions
]
"""All of them too, but the older ones and the slowest agent only with ``--soak``."""
NEWEST = [pytest.param((agent, cli.newest), id=f"{agent}-{cli.newest}") for agent, cli in CLIS.items()]
"""For tests that are parametrized by ``talk``."""
QUICK = [
    pytest.param(
        (agent, cli.newest), id=f"{agent}-{cli.newest}", marks=[pytest.mark.soak] if agent in SLOWEST else []
    )
    for agent, cli in CLIS.items()
]
"""The newest of each too, but the slowest one only with ``--soak``."""


@dataclass(frozen=True)
class Said:
    """One run of the program, and what the model was sent meanwhile."""

    code: int
    stdout: str
    stderr: str
    requests: list[LoggedRequest]

    @property
    def turn(self) -> dict[str, Any]:
        decoded: dict[str, Any] = msgspec.json.decode(self.stdout.splitlines()[-1])
        return decoded

    @property
    def mode(self) -> str:
        return str(self.turn["mode"])

    @property
    def text(self) -> str:
        return str(self.turn["text"])

    @property
    def sent(self) -> str:
        """The body of the last request of the conversation itself, as text."""
        body = [request for request in self.requests if not request.side][-1].body
        return msgspec.json.encode(body).decode()

    @property
    def new_bytes(self) -> int:
        return sum(request.new_bytes for request in self.requests if not request.side)

    def failed(self) -> dict[str, str]:
        """The checks that failed, with their reasons."""
        return {check["check"]: check["detail"] for check in self.turn["why"] if check["verdict"] == "fail"}


@dataclass
class Talk:
    """``segue`` with one version of one CLI (or several) on its PATH."""

    model: LoopbackModel
    cwd: Path
    place: Path
    env: dict[str, str] = field(default_factory=dict)
    agent: str = ""
    """The one that most turns are for."""

    def __call__(self, *args: str, cwd: Path | None = None, **env: str) -> Said:
        before = len(self.model.requests)
        done = subprocess.run(
            [*SEGUE, *args],
            cwd=cwd or self.cwd,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr, self.model.requests[before:])

    def run(self, text: str, *options: str, key: str = "t", cwd: Path | None = None, **env: str) -> Said:
        """A turn that must go well."""
        said = self("run", key, text, "--json", *options, cwd=cwd, **env)
        assert said.code == 0, (said.stdout[-2000:], said.stderr[-2000:])
        return said

    def start(self, *args: str, **env: str) -> subprocess.Popen[bytes]:
        """Start it and let it run, as the leader of its own group."""
        return subprocess.Popen(
            [*SEGUE, *args],
            cwd=self.cwd,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def log(self, key: str = "t") -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = msgspec.json.decode(self("log", key, "--json").stdout)
        return rows

    def why(self, *options: str, key: str = "t") -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(self("why", key, "--json", *options).stdout)
        return found

    def home(self, agent: str) -> Path:
        """Where the agent keeps its sessions."""
        return self.place / agent

    def config(self, text: str) -> None:
        """More configuration, beside the accounts."""
        file = self.place / "segue" / "config.toml"
        file.write_text(f"{file.read_text()}\n{text}\n")


@contextmanager
def talking(tmp: Path, versions: dict[str, str], scenario: Path | None = None) -> Iterator[Talk]:
    """Set one up: a clean environment, accounts that point at the model, the CLIs' programs by links.

    A program is a link in ``bin``, so that a test can update it in place.
    """
    place, cwd, links = tmp / "stage", tmp / "project", tmp / "bin"
    for folder in (place, cwd, links):
        folder.mkdir()
    for agent, version in versions.items():
        (links / agent).symlink_to(CLIS[agent].program(version))
    with LoopbackModel(scenario=scenario) as model:
        staged = stage(ModelAddress(model.url, model.key), place, AGENTS, registry.variables())
        clean = clean_environment(tmp)
        env = {**clean, **staged.env, "PATH": f"{links}:{clean['PATH']}"}
        env["SEGUE_DEFAULTS_WAIT"] = "120"
        with _probed(place / "segue" / "probes.json", links, versions):
            yield Talk(model, cwd, place, env)


@contextmanager
def _probed(probes: Path, links: Path, versions: dict[str, str]) -> Iterator[None]:
    """What one test learned about a CLI, the next one need not ask again: that takes seconds of some."""
    name = "-".join(f"{agent}-{version}" for agent, version in sorted(versions.items()))
    known = Path(os.environ.get("PYTEST_PROBES", "")) / f"{name}.json"
    if not known.is_absolute() or not known.parent.is_dir():  # no test: a measurement
        yield
        return
    if known.exists():
        probes.write_text(known.read_text().replace("{links}", str(links)))
    yield
    if probes.exists() and not known.exists():
        known.write_text(probes.read_text().replace(str(links), "{links}"))


def update(talk: Talk, agent: str, version: str) -> None:
    """Another version of the CLI under the same name."""
    link = Path(talk.env["PATH"].split(os.pathsep)[0]) / agent
    link.unlink()
    link.symlink_to(CLIS[agent].program(version))


def count(texts: Sequence[str], sent: str) -> list[int]:
    return [sent.count(text) for text in texts]
