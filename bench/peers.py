"""Programs of others that do the same work, to be measured beside ours: installed from PyPI into a venv of
their own, and run with loopback alone, an environment made for them and a home of their own.

``python -m bench.peers PROGRAM ARGS…`` runs one so, with the environment it is given.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests import isolation
from tests.peers import SDK, installed

from bench.measure import ROOT

PACKAGES = (SDK, "agentsview==0.46.1")
PATIENCE_S = 1_800


def programs() -> Path:
    """The directory of their programs; they are installed if they are not there."""
    return installed(*PACKAGES)


def alone(argv: Sequence[str], home: Path, env: Mapping[str, str]) -> tuple[str, float]:
    """Run a program in its isolation to its end: what it printed, and how long it took."""
    home.mkdir(parents=True, exist_ok=True)
    built = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LANG": "C.UTF-8", "HOME": str(home), **env}
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "bench.peers", *argv],
        cwd=ROOT,
        env=built,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{argv[0]} exited {done.returncode}: {done.stderr[-500:]}")
    return done.stdout, time.perf_counter() - began


if __name__ == "__main__":
    if obstacle := isolation.enter():
        sys.exit(f"no isolation: {obstacle}")
    os.chdir(os.environ["HOME"])
    os.execve(sys.argv[1], sys.argv[1:], os.environ)
