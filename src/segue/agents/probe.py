"""Finds an agent's program and learns what it can do. Cached by (path, size, mtime): free the second time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from segue.agents.base import Agent
from segue.core.errors import NotInstalled
from segue.core.request import Runtime

PROBE_SECONDS = 30
OUTPUT_BYTES = 200_000


class _Entry(msgspec.Struct, frozen=True):
    stamp: tuple[str, int, int]
    runtime: Runtime


class _Cache(msgspec.Struct):
    schema: int
    entries: dict[str, _Entry]


SCHEMA = 1


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
    key = f"{agent.name} {' '.join(command)}"
    entry = known.entries.get(key)
    if entry is not None and entry.stamp == stamp:
        return entry.runtime
    outputs = _ask(command, agent.probes, env)
    runtime = agent.runtime(command, outputs)
    _write(cache, key, _Entry(stamp, runtime))
    return runtime


def find(agent: Agent, *, env: Mapping[str, str], configured: Sequence[str] | None = None) -> tuple[str, ...]:
    """The command to start: the configured one, the built-in one, or the first known name on PATH."""
    path = env.get("PATH", os.defpath)
    if configured:
        program = shutil.which(os.path.expanduser(configured[0]), path=path)
        if program is None:
            raise NotInstalled(
                f'the command configured for {agent.name}, "{configured[0]}", is not an executable program'
                f" (config.toml, [agents.{agent.name}] command)"
            )
        return (os.path.abspath(program), *configured[1:])
    builtin: tuple[str, ...] | None = getattr(agent, "builtin", None)
    if builtin:
        return builtin
    for name in agent.programs:
        program = shutil.which(name, path=path)
        if program is not None:
            return (os.path.abspath(program),)
    names = " or ".join(agent.programs)
    raise NotInstalled(
        f"{agent.label} is not installed (no {names} on PATH); install it with: {agent.install}"
    )


def _stamp(command: tuple[str, ...]) -> tuple[str, int, int]:
    real = os.path.realpath(command[0])
    stat = os.stat(real)
    return real, stat.st_size, stat.st_mtime_ns


def _ask(command: tuple[str, ...], probes: Sequence[Sequence[str]], env: Mapping[str, str]) -> list[str]:
    """The output of each probe, all started together; a probe that fails says nothing."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        started = [_start([*command, *args], env) for args in probes]
        return [_output(process) for process in started]
    except OSError:
        return ["" for _ in probes]
    finally:
        for process in started:
            _end(process)


def _start(argv: list[str], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _output(process: subprocess.Popen[bytes]) -> str:
    try:
        out, _ = process.communicate(timeout=PROBE_SECONDS)
    except subprocess.TimeoutExpired:
        return ""
    return out[:OUTPUT_BYTES].decode("utf-8", "replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Nobody of a probe's group outlives it, also when we are interrupted."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _read(cache: Path | None) -> _Cache:
    if cache is not None:
        try:
            read = msgspec.json.decode(cache.read_bytes(), type=_Cache)
        except (OSError, msgspec.MsgspecError):
            pass
        else:
            if read.schema == SCHEMA:
                return read
    return _Cache(SCHEMA, {})


def _write(cache: Path | None, key: str, entry: _Entry) -> None:
    """Add one entry; the file is replaced whole, so a reader never meets half of it."""
    if cache is None:
        return
    known = _read(cache)
    known.entries[key] = entry
    cache.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = cache.with_name(f"{cache.name}.{os.getpid()}")
    part.write_bytes(msgspec.json.encode(known))
    part.replace(cache)
