"""The line that opens a native session in a terminal, with the agent's own screen."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from segue.agents import registry
from segue.agents.base import Agent
from segue.config.schema import Config
from segue.core.errors import SegueError
from segue.system.files import which

SESSION = "{session}"


class ResumeCommands:
    """The lines of one environment. What is the same for all sessions of a home is found once."""

    def __init__(self, env: Mapping[str, str], config: Config) -> None:
        self._env, self._config = env, config
        self._starts: dict[tuple[str, str], tuple[str, tuple[str, ...]] | None] = {}
        self._changes: dict[str | None, str] = {None: ""}

    def line(self, agent: str, home: str | Path, session: str, cwd: str | None) -> str | None:
        """``cd DIR && VARIABLE=HOME program --resume ID``; None if the agent cannot open a session."""
        key = (agent, str(home))
        if key not in self._starts:
            self._starts[key] = self._start(*key)
        start = self._starts[key]
        if start is None:
            return None
        if cwd not in self._changes:
            self._changes[cwd] = f"cd {shlex.quote(cwd or '')} && "
        program, arguments = start
        rest = [
            shlex.quote(each.replace(SESSION, session)) if SESSION in each else each for each in arguments
        ]
        return f"{self._changes[cwd]}{program} {' '.join(rest)}"

    def _start(self, name: str, home: str) -> tuple[str, tuple[str, ...]] | None:
        """The program with its home, and the arguments that follow, quoted, but for that of the session."""
        try:
            agent = registry.get(name, self._config)
            if not agent.facts.resume_args:
                return None
            variables = self._variables(agent, home)
        except SegueError:
            return None
        words = [f"{variable}={shlex.quote(value)}" for variable, value in variables.items()]
        arguments = (each if SESSION in each else shlex.quote(each) for each in agent.facts.resume_args)
        return " ".join([*words, shlex.join(self._program(agent))]), tuple(arguments)

    def _variables(self, agent: Agent, home: str) -> dict[str, str]:
        """Those that name the home; none if the program uses it by itself."""
        named = agent.home_env(Path(home))
        bare = {name: value for name, value in self._env.items() if name not in named}
        same = os.path.realpath(agent.default_home(bare)) == os.path.realpath(home)
        return {} if same and not any(self._env.get(name) for name in named) else named

    def _program(self, agent: Agent) -> tuple[str, ...]:
        configured = self._config.commands.get(agent.facts.name)
        if configured:
            return (os.path.expanduser(configured[0]), *configured[1:])
        names, path = agent.facts.programs, self._env.get("PATH", os.defpath)
        return (next((name for name in names if which(name, path)), names[0]),)
