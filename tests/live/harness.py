"""Runs a real CLI against a loopback model of its own, in a clean environment and an isolated home."""

from __future__ import annotations

import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from segue.agents import probe, registry
from segue.agents.base import Agent
from segue.config.schema import Config
from segue.core import events as ev
from segue.core.outcome import Outcome
from segue.core.request import ModelAddress, Request, RunPlace, Runtime, Start
from segue.core.usage import Totals
from segue.rehearsal.log import LoggedRequest as Asked
from segue.rehearsal.server import LoopbackModel
from segue.runner.attempt import Answerer, Cancel, Replies, Task, attempt
from segue.runner.supervisor import Limits
from tests.clis import CLIS

FIXTURES = Path(__file__).parents[1] / "fixtures" / "streams"
FRESH, NOTHING, PATIENT = Start(), Totals(), Limits(time_s=90)


@dataclass(frozen=True)
class Ran:
    """One attempt, with all that was seen of it."""

    outcome: Outcome
    events: list[ev.Event]
    stdout: bytes
    requests: list[Asked]
    """What the model was sent meanwhile, side requests included."""

    @property
    def kinds(self) -> list[str]:
        return [str(event.__struct_config__.tag) for event in self.events]

    def of(self, kind: type[ev.Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@dataclass
class Bench:
    """One version of one CLI, its home, its working directory and its model."""

    agent: Agent
    version: str
    """The version whose facts are tested."""
    installed: str
    """What is really run: the same, or the newest there is."""
    runtime: Runtime
    model: LoopbackModel
    home: Path
    cwd: Path
    runs: Path
    env: dict[str, str]
    record: bool = False
    count: int = field(default=0)

    def attempt(
        self,
        prompt: str,
        *,
        start: Start = FRESH,
        base: Totals = NOTHING,
        limits: Limits = PATIENT,
        answer: Answerer | None = None,
        cancel: Cancel | None = None,
        on_event: Callable[[ev.Event], None] | None = None,
        record: str | None = None,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
        **request: Any,
    ) -> Ran:
        """Run one attempt to its end."""
        self.count += 1
        place = RunPlace(self.runs / str(self.count), self.home, time.time_ns() // 1_000_000)
        task = Task(
            agent=self.agent,
            runtime=self.runtime,
            request=Request(prompt=prompt, cwd=cwd or self.cwd, start=start, **request),
            place=place,
            env={**self.env, **(env or {})},
            home=self.home,
            base=base,
            limits=limits,
        )
        seen: list[ev.Event] = []
        before = len(self.model.requests)

        def listen(event: ev.Event) -> None:
            seen.append(event)
            if on_event is not None:
                on_event(event)

        async def go() -> Outcome:
            return await attempt(task, on_event=listen, answer=Replies(answer), cancel=cancel)

        outcome = anyio.run(go)
        stdout = (place.run_dir / "stdout").read_bytes()
        if record and self.record:
            self._keep(record, stdout)
        return Ran(outcome, seen, stdout, self.model.requests[before:])

    def resume(self, session: str | None, prompt: str, **more: Any) -> Ran:
        assert session is not None
        return self.attempt(prompt, start=Start("resume", session), **more)

    def alive(self) -> list[int]:
        """Live processes whose environment names this bench's home."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    environ = (entry / "environ").read_bytes()
                    state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
                except OSError:
                    continue
                if str(self.home).encode() in environ and state != "Z":
                    found.append(int(entry.name))
        return found

    def when_asked(self, text: str, action: Callable[[], object], after_s: float = 1.0) -> None:
        """Once the model was sent this text, and a little later, do something from outside."""

        def watch() -> None:
            for _ in range(900):
                if any(text in request.last_user_text for request in self.model.requests):
                    time.sleep(after_s)
                    action()
                    return
                time.sleep(0.1)

        threading.Thread(target=watch, daemon=True).start()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all of them, as somebody from outside would."""
        for pid in self.alive():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _keep(self, name: str, stdout: bytes) -> None:
        """The stream as a fixture of the unit tier, without the paths of this machine or system prompts."""
        text = stdout.decode("utf-8", "replace")
        text = re.sub(r'("role": "system", "content": ")(?:[^"\\]|\\.)*"', r'\1…"', text)
        for path, shown in (
            (self.cwd, "/home/me/project"),
            (self.home, "/home/me/home"),
            (self.runs, "/home/me/runs"),
        ):
            text = text.replace(str(path), shown).replace(
                re.sub(r"[^A-Za-z0-9]", "-", str(path)), "-home-me-x"
            )
        target = FIXTURES / f"{self.agent.facts.name}-{self.version}" / f"{name}.jsonl"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def make(
    agent_name: str,
    version: str,
    installed: str,
    tmp: Path,
    model: LoopbackModel,
    *,
    retries: int,
    record: bool,
) -> Bench:
    """Set one up: nothing of the caller's environment but the way to the programs."""
    agent = registry.get(agent_name, Config())
    home, cwd, runs = (tmp / name for name in ("home", "project", "runs"))
    for folder in (home, cwd, runs):
        folder.mkdir(mode=0o700)
    pointing = agent.rehearse(ModelAddress(model.url, model.key, retries), home)
    assert pointing is not None
    for path, text in pointing.files.items():
        target = home / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    env = {**clean_environment(home), **pointing.env}
    program = CLIS[agent_name].program(installed)
    runtime = probe.probe(agent, env=env, configured=[str(program)], cache=_probe_cache())
    return Bench(agent, version, installed, runtime, model, home, cwd, runs, env, record)


def clean_environment(home: Path) -> dict[str, str]:
    """A built environment: no variable of the caller's but where node and the system's programs are."""
    node = shutil.which("node")
    folders = [str(Path(node).parent)] if node else []
    path = ":".join(dict.fromkeys([*folders, "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"]))
    return {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "TERM": "dumb", "IS_SANDBOX": "1"}


def _probe_cache() -> Path:
    base = Path(os.environ["PYTEST_PROBES"])
    base.mkdir(parents=True, exist_ok=True)
    return base / "probes.json"


SLOW = ("gemini", "vibe")
"""They take several seconds to start."""


def live(agent: str, *versions: str) -> pytest.MarkDecorator:
    """Mark a fact of an agent with the versions it holds for (none named: all).

    A fact of the newest version runs on that one, and with ``--soak`` on the older one too. A fact of the
    older version alone always runs, unless the CLI starts slowly.
    """
    cli = CLIS[agent]
    params = []
    for version in versions or cli.versions:
        assert version in cli.versions, f"{agent} {version} is not among the versions under test"
        in_soak = version == cli.older and (agent in SLOW or cli.newest in (versions or cli.versions))
        marks = [pytest.mark.soak] if in_soak else []
        params.append(pytest.param((agent, version), id=f"{agent}-{version}", marks=marks))
    return pytest.mark.parametrize("bench", params, indirect=True)
