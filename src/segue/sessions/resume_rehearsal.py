"""Rehearses a resume: the real CLI continues a copy of a session, with the loopback model.

The copy is in a temporary home, no tokens are spent, and the agent is only allowed to read. It runs in the
session's own directory, though, where hooks of the project may run.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from segue.agents import probe, registry
from segue.agents.base import Agent
from segue.config.schema import Config
from segue.core.environment import child_environment
from segue.core.errors import NotInstalled
from segue.core.request import ModelAddress, Request, RunPlace, Runtime, Start
from segue.core.verdicts import NOTHING, Said, say
from segue.rehearsal.log import LoggedRequest
from segue.runner.attempt import Task, attempt
from segue.runner.supervisor import Limits
from segue.sessions.listing import Listed
from segue.system import clock

TIME_S = 120.0
REFUSED = frozenset({"session_rejected", "context_exceeded", "protocol"})
"""Failures that are caused by the session; a timeout on a slow machine, for example, is not."""
PROMPT = "Answer with one word: rehearsed."


class Rehearsal(msgspec.Struct, frozen=True):
    """``resumed`` None: it could not be tried, and ``why`` is the reason."""

    resumed: bool | None
    why: Said = NOTHING
    sent: str = ""
    """The first request that the model received."""


async def rehearse(
    agent: Agent, config: Config, env: Mapping[str, str], cache: Path, session: Listed
) -> Rehearsal:
    """Whether the CLI resumes the session."""
    from segue.rehearsal.server import LoopbackModel
    from segue.rehearsal.stage import asks_model, on_stage, stage

    label = agent.facts.label
    if not asks_model(agent.rehearse):
        return Rehearsal(None, say(f"{label} cannot be rehearsed", "repair.no_rehearsal", agent=label))
    cwd = _workdir(session)
    if cwd is None:
        return Rehearsal(None, say("the directory it was started in no longer exists", "repair.no_directory"))
    sent = _FirstRequest()
    with (
        tempfile.TemporaryDirectory(prefix="segue-trial-") as folder,
        LoopbackModel(kept=0, heard=sent) as model,
    ):
        place, name = Path(folder), agent.facts.name
        address = ModelAddress(model.url, model.key)
        home = place / name
        staged = stage(address, place, {name: agent.rehearse}, registry.variables())
        child = child_environment(
            on_stage(env, staged), registry.variables(), account_env=staged.by_agent[name]
        )
        surroundings = {**child.env, **agent.home_env(home)}
        try:
            runtime = probe.probe(
                agent, env=surroundings, configured=config.commands.get(agent.facts.name), cache=cache
            )
        except NotInstalled:
            return Rehearsal(None, say(f"{label} is not installed here", "repair.not_installed", agent=label))
        _copy_files(session, home)
        run_dir = place / place.name
        outcome = await attempt(_task(agent, runtime, session, cwd, home, run_dir, surroundings))
    failure = outcome.failure
    if failure is not None:
        refused = failure.kind in REFUSED or failure.status == 400
        return Rehearsal(False if refused else None, Said(failure.message or failure.kind))
    return Rehearsal(True, sent=sent.text)


class _FirstRequest:
    """Keeps the first request of the conversation itself. Others are dropped, so that the session is not
    stored a second time in a log."""

    text = ""

    def __call__(self, request: LoggedRequest) -> None:
        if not self.text and not request.side:
            self.text = msgspec.json.encode(request.body).decode()


def _workdir(session: Listed) -> Path | None:
    cwd = Path(session.brief.cwd) if session.brief.cwd else None
    return cwd if cwd is not None and cwd.is_dir() else None


def _task(
    agent: Agent,
    runtime: Runtime,
    session: Listed,
    cwd: Path,
    home: Path,
    run_dir: Path,
    env: Mapping[str, str],
) -> Task:
    return Task(
        agent=agent,
        runtime=runtime,
        request=Request(prompt=PROMPT, cwd=cwd, start=Start("resume", session.id), permission="read"),
        place=RunPlace(run_dir, home, clock.now_ms()),
        env=env,
        home=home,
        limits=Limits(time_s=TIME_S),
    )


def _copy_files(session: Listed, home: Path) -> None:
    for path in session.place.archive.files(session.stored):
        if path.is_symlink() or not path.is_file():
            continue
        target = home / path.relative_to(session.stored.home)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
