"""Finds an agent's program and what it can do. The result is cached by path, size and mtime."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import IO

import msgspec

from segue import __version__
from segue.agents.base import Agent
from segue.core.errors import Misuse, NotInstalled
from segue.core.json_values import decode
from segue.core.request import Runtime
from segue.system.files import which, write_whole


def keyring_is_reachable(env: Mapping[str, str]) -> bool:
    """Whether a program with this environment could use a keyring."""
    return sys.platform == "darwin" or bool(env.get("DBUS_SESSION_BUS_ADDRESS"))


PROBE_SECONDS = 30
OUTPUT_BYTES = 200_000
_WRITING = Lock()
"""Agents are probed in parallel: none must overwrite what another has just cached."""

Stamp = tuple[tuple[str, int, int], ...]
"""Path, size and mtime of every file that the command names."""


class _Answer(msgspec.Struct, frozen=True):
    """The output of a probe and its exit code; no code if it could not be run to its end."""

    text: str = ""
    code: int | None = None

    @property
    def is_usable(self) -> bool:
        return self.code is not None and self.code >= 0 and bool(self.text.strip())


class _Entry(msgspec.Struct, frozen=True):
    stamp: Stamp
    runtime: Runtime


class _Cache(msgspec.Struct):
    segue: str
    """The version of Segue that wrote it: another one may know more about the same program."""
    entries: dict[str, _Entry]


def probe(
    agent: Agent,
    *,
    env: Mapping[str, str],
    configured: Sequence[str] | None = None,
    cache: Path | None = None,
) -> Runtime:
    """The runtime of this agent on this machine. Raises ``NotInstalled`` with instructions to install it."""
    command = find(agent, env=env, configured=configured)
    stamp = _stamp(command)
    known = _read(cache)
    key = f"{agent.facts.name} {' '.join(command)}"
    entry = known.entries.get(key)
    if entry is not None and entry.stamp == stamp:
        return entry.runtime
    from tempfile import TemporaryDirectory  # not needed if the answer is known

    with TemporaryDirectory(prefix="segue-probe-", ignore_cleanup_errors=True) as home:
        elsewhere = {**env, **home_elsewhere(agent, Path(home)), **agent.facts.every_start}
        ask = partial(_ask, command, env=elsewhere)
        answers = ask(agent.facts.probes)
        runtime = agent.runtime(command, [answer.text for answer in answers])
        if not runtime.capabilities.resume or not all(answer.is_usable for answer in answers):
            # An incomplete answer would replay every turn. The machine may be busy: retry one by one.
            answers = [answer for args in agent.facts.probes for answer in ask([args])]
            runtime = agent.runtime(command, [answer.text for answer in answers])
    if runtime.version is not None and all(answer.is_usable for answer in answers):
        _write(cache, key, _Entry(stamp, runtime))
    return runtime


def home_elsewhere(agent: Agent, home: Path) -> dict[str, str]:
    """Variables for a temporary home, so that a CLI that is only probed leaves nothing in its own."""
    with suppress(Misuse):
        return agent.home_env(home)
    return {}


def find(agent: Agent, *, env: Mapping[str, str], configured: Sequence[str] | None = None) -> tuple[str, ...]:
    """The command to start: the configured one, the built-in one, or the first known name on PATH."""
    facts, path = agent.facts, env.get("PATH", os.defpath)
    if configured:
        program = which(os.path.expanduser(configured[0]), path)
        if program is None:
            raise NotInstalled(
                f'the command configured for {facts.name}, "{configured[0]}", is not an executable program'
                f" (config.toml, [agents.{facts.name}] command)"
            )
        return (os.path.abspath(program), *configured[1:])
    if facts.builtin:
        return facts.builtin
    for name in facts.programs:
        program = which(name, path)
        if program is not None:
            return (os.path.abspath(program),)
    names = " or ".join(facts.programs)
    raise NotInstalled(
        f"{facts.label} is not installed (no {names} on PATH); install it with: {facts.install}"
    )


def _stamp(command: tuple[str, ...]) -> Stamp:
    real = [os.path.realpath(part) for part in command if os.path.isfile(part)]
    return tuple((path, stat.st_size, stat.st_mtime_ns) for path in real for stat in [os.stat(path)])


def _ask(command: tuple[str, ...], probes: Sequence[Sequence[str]], env: Mapping[str, str]) -> list[_Answer]:
    """Run all probes at the same time."""
    with ExitStack() as stack:
        try:
            started = [stack.enter_context(_started([*command, *args], env)) for args in probes]
        except OSError:
            return [_Answer() for _ in probes]
        return [_output(*each) for each in started]


@contextmanager
def _started(argv: list[str], env: Mapping[str, str]) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """A running probe. It writes to a file, so that no grandchild can delay it; its group is killed after."""
    from tempfile import TemporaryFile

    with TemporaryFile() as out:
        process = subprocess.Popen(
            argv,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd="/",  # some CLIs record the directory they are started in
            start_new_session=True,
        )
        try:
            yield process, out
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _output(process: subprocess.Popen[bytes], out: IO[bytes]) -> _Answer:
    try:
        code = process.wait(timeout=PROBE_SECONDS)
    except subprocess.TimeoutExpired:
        return _Answer()
    out.seek(0)
    return _Answer(out.read(OUTPUT_BYTES).decode("utf-8", "replace"), code)


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
    """Add one entry. The file is replaced as a whole, so a reader never sees half of it."""
    if cache is None:
        return
    with _WRITING, suppress(OSError):  # without the cache, the next probe is only slower
        known = _read(cache)
        known.entries[key] = entry
        write_whole(cache, msgspec.json.encode(known), durable=False)
