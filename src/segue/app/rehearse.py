"""A rehearsal: the loopback model, homes that point at it, and the environment for a command."""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from segue.agents import registry
from segue.config.load import own_tables
from segue.config.schema import Config
from segue.core.errors import InUse, Misuse
from segue.core.request import ModelAddress
from segue.rehearsal.log import appending
from segue.rehearsal.server import LoopbackModel
from segue.rehearsal.stage import Staged, on_stage, stage

REQUESTS_KEPT = 1000


class Rehearsal:
    """A running loopback model, and the settings that point at it."""

    def __init__(self, url: str, staged: Staged, env: Mapping[str, str]) -> None:
        self.url, self._staged, self._env = url, staged, env

    def exports(self) -> dict[str, list[str]]:
        """Shell lines for all CLIs and for each of them: variables to unset, then variables to export."""
        env, staged = self._env, self._staged
        own = {name for each in staged.by_agent.values() for name in each}
        away = [
            name for name in env if staged.leads_away(name) and name not in staged.env and name.isidentifier()
        ]
        groups = {
            "all": {name: value for name, value in staged.env.items() if name not in own},
            **staged.by_agent,
        }
        lines = {
            title: [f"export {name}={shlex.quote(value)}" for name, value in group.items()]
            for title, group in groups.items()
        }
        if away:
            lines["all"].insert(0, f"unset {' '.join(sorted(away))}")
        return lines

    def command(self, argv: list[str]) -> tuple[list[str], dict[str, str]]:
        """The command with the full path of its program, and its environment, with ``segue`` on its PATH."""
        env = on_stage(self._env, self._staged)
        if shutil.which("segue", path=env.get("PATH")) is None:
            env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env.get('PATH', os.defpath)}"
        program = shutil.which(argv[0], path=env["PATH"])
        if program is None:
            raise Misuse(f'there is no program "{argv[0]}" on PATH')
        return [program, *argv[1:]], env


@contextmanager
def rehearsal(
    env: Mapping[str, str],
    *,
    port: int = 0,
    scenario: Path | None = None,
    log: Path | None = None,
    home: Path | None = None,
) -> Iterator[Rehearsal]:
    """Start the model and set up the homes, in ``home`` or in a temporary directory."""
    with ExitStack() as stack:
        model = stack.enter_context(_model(port, scenario, log))
        place = _place(stack, home)
        yield Rehearsal(model.url, _staged(env, model, place, scenario), env)


def _model(port: int, scenario: Path | None, log: Path | None) -> LoopbackModel:
    if log is not None:
        _refuse_unwritable(log)
    try:
        return LoopbackModel(port=port, scenario=scenario, log=log, kept=REQUESTS_KEPT)
    except ValueError as error:
        raise Misuse(f"the scenario cannot be used: {error}") from error
    except OSError as error:
        how = "choose another one, or leave out --port"
        raise Misuse(f"cannot listen on port {port}: {error.strerror}; {how}") from error


def _refuse_unwritable(log: Path) -> None:
    try:
        appending(log).close()
    except OSError as error:
        raise Misuse(f"the log {log} cannot be written: {error.strerror}") from error


def _place(stack: ExitStack, home: Path | None) -> Path:
    """The directory for the homes. One that the user named is locked: one rehearsal at a time."""
    if home is None:
        made = TemporaryDirectory(prefix="segue-rehearse-", ignore_cleanup_errors=True)
        return Path(stack.enter_context(made)).resolve()
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(home / ".rehearsal.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unwritable(home, error) from error
    stack.callback(os.close, lock)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InUse(
            f"another rehearsal is running in {home}; wait until it ends, or choose another --home"
        ) from None
    return home.resolve()


def _staged(env: Mapping[str, str], model: LoopbackModel, place: Path, scenario: Path | None) -> Staged:
    """Set up the homes, with the user's own configuration except what leads to a real provider."""
    address = ModelAddress(
        model.url, model.key, scenario=scenario.resolve() if scenario is not None else None
    )
    agents = {name: registry.get(name, Config()).rehearse for name in registry.BUILT_IN}
    own = own_tables(env)
    try:
        return stage(address, place, agents, registry.variables(), own)
    except OSError as error:
        raise _unwritable(place, error) from error


def _unwritable(place: Path, error: OSError) -> Misuse:
    return Misuse(f"the homes cannot be written under {place}: {error.strerror}")
