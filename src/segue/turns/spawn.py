"""Starts a command as the leader of its own session and group, or says in one line why it cannot."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import msgspec

from segue.core.errors import Misuse, NotInstalled, SegueError
from segue.turns.processes import identify

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anyio.abc import Process

    from segue.core.request import Command
    from segue.turns.capture import Capture
    from segue.turns.stdin import Stdin


async def spawn(
    command: Command, env: Mapping[str, str], stdin: Stdin, capture: Capture, claims: Sequence[int] = ()
) -> Process:
    """Start it. No ``preexec_fn``: that would make every start thirty times slower.

    ``claims``: open files it keeps open for as long as it lives, so that the locks on them outlive us. Its
    stdout is locked too: that tells of a process that was started but not noted yet, should we be killed.
    """
    if not command.cwd.is_dir():
        raise Misuse(f"the directory {command.cwd} does not exist; choose another with --cwd")
    stdout, stderr = capture.for_child
    with suppress(OSError):  # some file systems have no locks
        fcntl.flock(stdout, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        # Shielded: a start that is interrupted half-way would leave a process nobody knows of.
        with anyio.CancelScope(shield=True):
            process = await anyio.open_process(
                command.argv,
                stdin=stdin.reader,
                stdout=stdout,
                stderr=stderr,
                cwd=command.cwd,
                env=env,
                start_new_session=True,
                pass_fds=claims,
            )
    except (OSError, ValueError) as error:
        raise _refusal(command, env, error) from error
    stdin.handed_over()
    capture.handed_over()
    return process


def note(run_dir: Path, pid: int, command: Command) -> None:
    """Write ``process.json``, whole or not at all: how a later Segue knows the process again."""
    written = run_dir / "process.json.new"
    fd = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(msgspec.json.encode(identify(pid, command.argv[0])))
    written.replace(run_dir / "process.json")


def _refusal(command: Command, env: Mapping[str, str], error: OSError | ValueError) -> SegueError:
    program = command.argv[0]
    if isinstance(error, ValueError):
        return Misuse(f"{program} cannot be started: an argument or variable contains a NUL character")
    if error.errno == errno.E2BIG:
        return Misuse(f"the command line for {program} is too long for this system; shorten the prompt")
    if error.filename == str(command.cwd):
        return Misuse(f"the directory {command.cwd} cannot be entered: {error.strerror}")
    found = shutil.which(program, path=env.get("PATH"))
    if found is None and not Path(program).exists():
        return NotInstalled(f"{program} was not found; install it, or set the command in config.toml")
    if isinstance(error, FileNotFoundError):
        return NotInstalled(f"{found or program} cannot be started: the interpreter it names is missing")
    return NotInstalled(f"{found or program} cannot be started: {error.strerror}")
