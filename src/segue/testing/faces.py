"""Checks of what an adapter says about itself: its name, its runtime, its homes."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from segue.agents.base import Agent
from segue.core.errors import Misuse
from segue.core.request import Runtime
from segue.testing.sample import Broke, Sample, call, empty_place, written

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_OPTION = re.compile(r"-[A-Za-z0-9]|--[A-Za-z0-9][A-Za-z0-9-]*|[a-z][a-z-]*")


def shape(agent: Any) -> Iterator[str]:
    """Whether it is an adapter."""
    if not isinstance(agent, Agent):
        missing = [name for name in _MEMBERS if not hasattr(agent, name)]
        yield f"it is not an adapter: it lacks {', '.join(missing)}"
        return
    facts = agent.facts
    if not _NAME.fullmatch(facts.name):
        yield f'name: "{facts.name}" must be letters, digits, dots, dashes and underscores'
    if not facts.label or not facts.install:
        yield "label, install: both are shown to users and must not be empty"
    if not facts.programs and not facts.builtin:
        yield "programs: name at least one program to look for"
    for option in sorted(facts.owned_args):
        if not _OPTION.fullmatch(option):
            yield f'owned_args: "{option}" is neither an option such as --resume nor a word such as resume'
    for texts in (
        facts.programs,
        facts.keys,
        facts.login_check,
        facts.notes,
        *facts.probes,
    ):
        if isinstance(texts, str):
            yield f'programs, keys, login_check, notes, probes: "{texts}" is a string, not a list of strings'


def reads_any_output(sample: Sample) -> Iterator[str]:
    """``runtime`` describes any program, even if it prints nothing, or something unexpected."""
    count = len(sample.outputs)
    for outputs in (sample.outputs, ("",) * count, ("\x00� no version here\n" * 3,) * count):
        for command in (("/opt/program",), ("/opt/some where/program", "--with", "args")):
            found = call(sample.agent.runtime, command, outputs)
            if not isinstance(found, Runtime):
                yield f"runtime: {_broken(found)} when the probes print {outputs!r:.80}"
            elif found.agent != sample.agent.facts.name or found.command != command:
                yield f"runtime: it must have the agent's name and the command as given, not {found.command}"
            elif found != call(sample.agent.runtime, command, outputs):
                yield "runtime: two calls with the same values differ"


def homes_are_pure(sample: Sample) -> Iterator[str]:
    agent = sample.agent
    with empty_place() as (place, home):
        env = call(agent.home_env, home)
        if isinstance(env, Misuse):
            return  # it refuses: it has no variable for its home
        if not isinstance(env, dict) or not all(isinstance(v, str) for pair in env.items() for v in pair):
            yield f"home_env: {_broken(env)} instead of a dictionary of strings"
            return
        if env != agent.home_env(home) or written(place, home):
            yield "home_env: it must be pure: the same values each time, and nothing written"
        if env and env == agent.home_env(home / "other"):
            yield "home_env: two homes get the same variables"
        default = call(agent.default_home, {"HOME": "/nowhere", **env})
        if not isinstance(default, Path):
            yield f"default_home: {_broken(default)} instead of a path"
        elif env and default != home:
            yield f"default_home: with the variables of home_env it returns {default}, not that home"


def default_home_is_the_given_environments(sample: Sample) -> Iterator[str]:
    """``default_home`` uses the environment it is given, not that of this process."""
    one, other = (call(sample.agent.default_home, {"HOME": home}) for home in ("/one", "/other"))
    if isinstance(one, Path) and one == other and not str(one).startswith("/"):
        yield f"default_home: {one} does not depend on the HOME it was given"
    bare = call(sample.agent.default_home, {})
    if not isinstance(bare, Path):
        yield f"default_home: {_broken(bare)} if there is no HOME"


def _broken(found: Any) -> str:
    return found.why if isinstance(found, Broke) else f"gave {found!r:.80}"


_MEMBERS = (
    *("facts", "format", "archive", "runtime", "home_env", "default_home"),
    *("command", "parse", "reply", "evidence", "conclude", "rehearse"),
)
CHECKS = (reads_any_output, homes_are_pure, default_home_is_the_given_environments)
