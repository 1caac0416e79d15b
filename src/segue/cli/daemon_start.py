"""Starts the daemon in the background: for ``segue serve --background``, or for a command that wants one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from segue.cli.render.output import say
from segue.client import AUTO, Daemon, find_daemon
from segue.core.errors import Broken, InUse, Misuse, SegueError, StoreAway

if TYPE_CHECKING:
    from segue.app.daemon_file import DaemonFile
    from segue.config.home import Home

START_S = 15.0
"""How long a daemon may take to start."""
POLL_S = 0.02
KINDS: dict[int, type[SegueError]] = {2: Misuse, 75: InUse}


def daemon_if_wanted(*, quiet: bool, otherwise: str = "; running this without it") -> Daemon | None:
    """Start a daemon if the configuration says so. If it does not start, one notice says why, and what is
    done ``otherwise``.

    If several commands do this at once, one daemon is started, and all use it.
    """
    from segue.config.home import home_of, settled_environment
    from segue.config.load import own_config

    here = Path.cwd()
    env = settled_environment(os.environ, here)
    if env.get("SEGUE_DAEMON", "").lower() != AUTO and own_config(env).daemon.start != AUTO:
        return None
    home = home_of(env)
    try:
        home.make(home.root)
        start_detached(home, env, home.root, [], any_will_do=True)
        found = find_daemon(env)
    except (SegueError, OSError) as error:
        found = f"the daemon did not start ({error}){otherwise}"
    if isinstance(found, str) and not quiet:
        say(f"segue: {found}", err=True)
    return found if isinstance(found, Daemon) else None


def start_detached(
    home: Home, env: Mapping[str, str], cwd: Path, words: Sequence[str], *, any_will_do: bool = False
) -> DaemonFile:
    """Start a daemon in a session of its own, and wait until it answers. Raises what it says if it ends.

    ``any_will_do``: also one that another command has started meanwhile.
    """
    from segue.server import presence
    from segue.system.processes import MARK

    started = subprocess.Popen(
        [sys.executable, "-P", "-m", "segue", "serve", "--detached", *words],  # -P: import nothing from here
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        cwd=cwd,
        env={name: value for name, value in env.items() if name != MARK},  # it belongs to no run
    )
    until, failure = time.monotonic() + START_S, None
    while True:
        told, health = presence.look(home)
        if told is not None and health is not None and (any_will_do or told.pid == started.pid):
            return told
        if failure is None and started.poll() is not None:
            _, errors = started.communicate()
            failure = _reason(errors.decode("utf-8", "replace"), started.returncode)
        ending = told is not None and told.stopping
        if failure is not None and (ending or not (any_will_do and isinstance(failure, InUse))):
            raise failure
        if time.monotonic() > until:
            if failure is None:
                started.terminate()
            raise failure or StoreAway(
                f"it did not start within {START_S:.0f} s; see {presence.log_of(home)}"
            )
        time.sleep(POLL_S)


def _reason(errors: str, code: int) -> SegueError:
    """What the daemon said before it ended."""
    said = [line.removeprefix("segue: ") for line in errors.splitlines() if line.startswith("segue: ")]
    return KINDS.get(code, Broken)(said[-1] if said else f"the daemon ended at once, with exit code {code}")
