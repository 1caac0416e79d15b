"""A rehearsal resume: the real CLI goes on with a copy of a session, against a model on loopback.

The copy lies in a home that is thrown away, no token is spent, and the agent may only read. It runs in the
session's own directory, though, where the project's own hooks may run.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from segue.agents import probe
from segue.agents.base import Agent
from segue.config.schema import Config
from segue.core.environment import child_environment
from segue.core.errors import NotInstalled
from segue.core.request import Place, Request, Runtime, Start
from segue.rehearsal.log import Request as Asked
from segue.sessions.listing import Listed
from segue.turns.attempt import Task, attempt
from segue.turns.runner import Limits

TIME_S = 120.0
REFUSED = frozenset({"session_rejected", "context_exceeded", "protocol"})
"""Failures that say something about the session; a machine that is too slow says nothing."""
PROMPT = "Answer with one word: rehearsed."


class Trial(msgspec.Struct, frozen=True):
    """``resumed`` None: it could not be tried, for the reason ``why``."""

    resumed: bool | None
    why: str = ""
    sent: str = ""
    """All that the model was sent of the session."""


class _First:
    """The first request of the conversation itself. All others are forgotten: a session is not to be kept a
    second time in some log."""

    text = ""

    def __call__(self, request: Asked) -> None:
        if not self.text and not request.side:
            self.text = msgspec.json.encode(request.body).decode()


async def trial(agent: Agent, config: Config, env: Mapping[str, str], cache: Path, found: Listed) -> Trial:
    """Whether the CLI resumes the session."""
    from segue.rehearsal.model import LoopbackModel
    from segue.rehearsal.stage import AGENTS, on_stage, stage

    if agent.name not in AGENTS:
        return Trial(None, f"{agent.label} cannot be rehearsed")
    cwd = _directory(found)
    if cwd is None:
        return Trial(None, "the directory it was begun in is gone")
    sent = _First()
    with (
        tempfile.TemporaryDirectory(prefix="segue-trial-") as folder,
        LoopbackModel(kept=0, heard=sent) as model,
    ):
        place = Path(folder)
        staged = stage(model.url, model.key, place)
        home = place / agent.name
        child = child_environment(
            on_stage(env, staged), keys_withheld=(), account_env=staged.by_agent[agent.name], pass_env=()
        )
        surroundings = {**child.env, **agent.home_env(home)}
        try:
            runtime = probe.probe(
                agent, env=surroundings, configured=config.commands.get(agent.name), cache=cache
            )
        except NotInstalled:
            return Trial(None, f"{agent.label} is not installed here")
        _copy(found, home)
        outcome = await attempt(_task(agent, runtime, found, cwd, home, place / "run", surroundings))
    failure = outcome.failure
    if failure is not None:
        refused = failure.kind in REFUSED or failure.status == 400
        return Trial(False if refused else None, failure.message or failure.kind)
    return Trial(True, sent=sent.text)


def _directory(found: Listed) -> Path | None:
    cwd = Path(found.brief.cwd) if found.brief.cwd else None
    return cwd if cwd is not None and cwd.is_dir() else None


def _task(
    agent: Agent,
    runtime: Runtime,
    found: Listed,
    cwd: Path,
    home: Path,
    run_dir: Path,
    env: Mapping[str, str],
) -> Task:
    return Task(
        agent=agent,
        runtime=runtime,
        request=Request(prompt=PROMPT, cwd=cwd, start=Start("resume", found.id), permission="read"),
        place=Place(run_dir, home, time.time_ns() // 1_000_000),
        env=env,
        home=home,
        limits=Limits(time_s=TIME_S),
    )


def _copy(found: Listed, home: Path) -> None:
    for path in found.place.reader.files(found.stored):
        if path.is_symlink() or not path.is_file():
            continue
        target = home / path.relative_to(found.stored.home)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
