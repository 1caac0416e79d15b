"""Finds an agent's program and learns what it can do. Cached by (path, size, mtime): free the second time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from threading import Lock
from typing import IO

import msgspec

from segue import __version__
from segue.agents.base import Agent
from segue.core.errors import Misuse, NotInstalled
from segue.core.json_values import decode
from segue.core.request import Runtime
from segue.system.files import write_whole


def keyring_is_reachable(env: Mapping[str, str]) -> bool:
    """Whether a program with this environment could ask one."""
    return sys.platform == "darwin" or bool(env.get("DBUS_SESSION_BUS_ADDRESS"))


PROBE_SECONDS = 30
OUTPUT_BYTES = 200_000
_WRITING = Lock()
"""Agents are asked side by side: none may write over what another has just noted."""

Stamp = tuple[tuple[str, int, int], ...]
"""Path, size and mtime of every file that the command names."""


class _Said(msgspec.Struct, frozen=True):
    """What a probe answered; of one that could not, there is no code."""

    text: str = ""
    code: int | None = None

    @property
    def is_answer(self) -> bool:
        return self.code is not None and self.code >= 0 and bool(self.text.strip())


class _Entry(msgspec.Struct, frozen=True):
    stamp: Stamp
    runtime: Runtime


class _Cache(msgspec.Struct):
    segue: str
    """Another version of ours may know more about the same program."""
    entries: dict[str, _Entry]


def probe(
    agent: Agent,
    *,
    env: Mapping[str, str],
    configured: Sequence[str] | None = None,
    cache: Path | None = None,
) -> Runtime:
    """The runtime of this agent on this machine. Raises ``NotInstalled`` with the way to install it."""
    command = find(agent, env=env, configured=configured)
    stamp = _stamp(command)
    known = _read(cache)
    key = f"{agent.facts.name} {' '.join(command)}"
    entry = known.entries.get(key)
    if entry is not None and entry.stamp == stamp:
        return entry.runtime
    with TemporaryDirectory(prefix="segue-probe-", ignore_cleanup_errors=True) as home:
        elsewhere = {**env, **home_elsewhere(agent, Path(home)), **agent.facts.every_start}
        asked = partial(_ask, command, env=elsewhere)
        said = asked(agent.facts.probes)
        runtime = agent.runtime(command, [each.text for each in said])
        if not runtime.capabilities.resume or not all(each.is_answer for each in said):
            # To believe half an answer would replay every turn: once more, one by one on a busy machine.
            said = [each for args in agent.facts.probes for each in asked([args])]
            runtime = agent.runtime(command, [each.text for each in said])
    if runtime.version is not None and all(each.is_answer for each in said):
        _write(cache, key, _Entry(stamp, runtime))
    return runtime


def home_elsewhere(agent: Agent, home: Path) -> dict[str, str]:
    """So that a CLI which only says its version, or whether it is logged in, leaves nothing in its home."""
    with suppress(Misuse):
        return agent.home_env(home)
    return {}


def find(agent: Agent, *, env: Mapping[str, str], configured: Sequence[str] | None = None) -> tuple[str, ...]:
    """The command to start: the configured one, the built-in one, or the first known name on PATH."""
    facts, path = agent.facts, env.get("PATH", os.defpath)
    if configured:
        program = shutil.which(os.path.expanduser(configured[0]), path=path)
        if program is None:
            raise NotInstalled(
                f'the command configured for {facts.name}, "{configured[0]}", is not an executable program'
                f" (config.toml, [agents.{facts.name}] command)"
            )
        return (os.path.abspath(program), *configured[1:])
    if facts.builtin:
        return facts.builtin
    for name in facts.programs:
        program = shutil.which(name, path=path)
        if program is not None:
            return (os.path.abspath(program),)
    names = " or ".join(facts.programs)
    raise NotInstalled(
        f"{facts.label} is not installed (no {names} on PATH); install it with: {facts.install}"
    )


def _stamp(command: tuple[str, ...]) -> Stamp:
    real = [os.path.realpath(part) for part in command if os.path.isfile(part)]
    return tuple((path, stat.st_size, stat.st_mtime_ns) for path in real for stat in [os.stat(path)])


def _ask(command: tuple[str, ...], probes: Sequence[Sequence[str]], env: Mapping[str, str]) -> list[_Said]:
    """What each probe says, all started together."""
    with ExitStack() as stack:
        try:
            started = [stack.enter_context(_started([*command, *args], env)) for args in probes]
        except OSError:
            return [_Said() for _ in probes]
        return [_output(*each) for each in started]


@contextmanager
def _started(argv: list[str], env: Mapping[str, str]) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """A probe; it writes to a file, so that no grandchild can hold it up. Nobody of its group outlives it."""
    with TemporaryFile() as out:
        process = subprocess.Popen(
            argv,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd="/",  # some note the directory they are started in
            start_new_session=True,
        )
        try:
            yield process, out
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _output(process: subprocess.Popen[bytes], out: IO[bytes]) -> _Said:
    try:
        code = process.wait(timeout=PROBE_SECONDS)
    except subprocess.TimeoutExpired:
        return _Said()
    out.seek(0)
    return _Said(out.read(OUTPUT_BYTES).decode("utf-8", "replace"), code)


def _read(cache: Path | None) -> _Cache:
    if cache is not None:
        try:
            read = decode(cache.read_bytes(), _Cache)
        except (OSError, msgspec.MsgspecError):
            pass
        else:
            if read.segue == __version__:
                return read
    return _Cache(__version__, {})


def _write(cache: Path | None, key: str, entry: _Entry) -> None:
    """Add one entry; the file is replaced whole, so a reader never meets half of it."""
    if cache is None:
        return
    with _WRITING, suppress(OSError):  # without the cache the next probe is slower, no more
        known = _read(cache)
        known.entries[key] = entry
        write_whole(cache, msgspec.json.encode(known), durable=False)
