"""Kills and cancels at random moments: nobody may be left, and a killed Segue may harm nobody."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

import anyio
import pytest

from segue.core.request import Command
from segue.runner.launch import Running, launch
from segue.runner.supervisor import Limits
from segue.system.processes import HAS_PROC, groups, marked_processes, process_mark

if TYPE_CHECKING:
    from pathlib import Path

LIMITS = Limits(grace_s=0.2, exit_grace_s=0.1, linger_s=0.2)
ENV = {"PATH": os.environ["PATH"], "LC_ALL": "C"}

CHILDREN = (
    "while :; do echo x; done",
    "trap '' TERM; while :; do echo x; sleep 0.01; done",
    "sleep 60 & sleep 60 & cat; sleep 60",
    "(trap '' TERM; sleep 60; sleep 60) & exec sleep 60",
    "setsid sh -c 'sleep 60; sleep 60' & exec sleep 60",
    "sh -c 'sh -c \"sleep 60 & sleep 60\" & sleep 60' & sleep 0.05",
    "cat >/dev/null & exec sleep 60",
    "for n in $(seq 300); do sleep 60 & done; wait",
)


async def cancel(running: Running) -> None:
    running.cancel()


async def cancel_twice(running: Running) -> None:
    running.cancel()
    running.cancel()


async def kill_leader(running: Running) -> None:
    kill(os.kill, running.pid)


async def kill_group(running: Running) -> None:
    kill(os.killpg, running.pid)


async def leave(running: Running) -> None:
    raise TimeoutError("enough")


Blow = Callable[[Running], Awaitable[None]]
BLOWS: tuple[Blow, ...] = (cancel, cancel_twice, kill_leader, kill_group, leave)


def kill(how: Callable[[int, int], None], number: int) -> None:
    # Only while the leader is our own unreaped child is the number certainly its.
    if groups([number]):
        with contextlib.suppress(ProcessLookupError):
            how(number, signal.SIGKILL)


async def one_round(dice: random.Random, directory: Path, name: str) -> None:
    script, blow = dice.choice(CHILDREN), dice.choice(BLOWS)
    command = Command(
        argv=("sh", "-c", script),
        cwd=directory,
        stdin=b"y" * dice.choice((0, 10, 1_000_000)),
    )
    async with launch(command, env=ENV, run_dir=directory / name, limits=LIMITS) as running:
        await struck(running, blow, dice.choice((0, 0.001, 0.01, 0.1)) * dice.random())
    left = [pid for pid, group in groups().items() if group == running.pid]
    assert left == [], f"{blow} on {script!r} left {left}"
    if running.exit.ended_by or running.exit.signal:
        assert marked_processes(process_mark(directory / name)) == [], f"{blow} on {script!r} left outsiders"
    assert running.exit.code is not None


async def struck(running: Running, blow: Blow, after_s: float) -> None:
    """Follow it, and strike it while it runs."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(drain, running)
        await anyio.sleep(after_s)
        try:
            await blow(running)
        except TimeoutError:
            tasks.cancel_scope.cancel()


async def drain(running: Running) -> None:
    async for _ in running.lines():
        pass


@pytest.fixture
def rounds(tmp_path: Path, soak: bool) -> Iterator[list[str]]:
    """The names of the rounds. What a normal end rightly left alone is cleaned up afterwards."""
    names = [f"{RUN}-{n}" for n in range(500 if soak else 40)]
    yield names
    for name in names:
        for pid in marked_processes(process_mark(tmp_path / name)):
            kill(os.kill, pid)


def test_random_blows_leave_nobody(tmp_path: Path, seed: int, rounds: list[str]) -> None:
    print(f"SEGUE_TEST_SEED={seed}")
    dice = random.Random(seed)

    async def main() -> None:
        for name in rounds:
            with anyio.fail_after(10):
                await one_round(dice, tmp_path, name)

    anyio.run(main)


def test_random_blows_at_once(tmp_path: Path, seed: int, rounds: list[str]) -> None:
    print(f"SEGUE_TEST_SEED={seed}")

    async def main() -> None:
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                for n, name in enumerate(rounds[:12]):
                    tasks.start_soon(one_round, random.Random(seed + n), tmp_path, name)

    anyio.run(main)


RUN = f"run-{os.getpid()}"
"""Processes are found by the name of their directory, so no other test may use it at the same time."""
PARENT = """
import os, sys, anyio
from pathlib import Path
from segue.core.request import Command
from segue.runner.launch import launch

async def main():
    here = Path(sys.argv[1])
    command = Command(argv=(sys.executable, "-c", sys.argv[2]), cwd=here, stdin=b"hello", hold_stdin=True)
    async with launch(command, env={}, run_dir=here / f"run-{os.getppid()}") as running:
        async for line in running.lines():
            if line == b"20":
                print("go", flush=True)

anyio.run(main)
"""

CHILD = """
import time
for n in range(200):
    print(n, flush=True)
    time.sleep(0.005)
open('whole', 'w').close()
"""


@pytest.mark.parametrize("to_group", [False, True], ids=["alone", "with its group"])
def test_a_child_outlives_a_killed_segue_and_its_output_is_whole(tmp_path: Path, to_group: bool) -> None:
    argv = [sys.executable, "-c", PARENT, str(tmp_path), CHILD]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True) as segue:
        assert segue.stdout is not None
        assert segue.stdout.readline() == b"go\n"
        (os.killpg if to_group else os.kill)(segue.pid, signal.SIGKILL)
    assert segue.returncode == -signal.SIGKILL
    assert not (tmp_path / "whole").exists(), "the child had ended before: nothing was shown"
    deadline = time.monotonic() + 15
    while not (tmp_path / "whole").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert (tmp_path / RUN / "stdout").read_text().split() == [str(n) for n in range(200)]
    assert (tmp_path / RUN / "stderr").read_text() == ""
    while HAS_PROC and marked_processes(process_mark(tmp_path / RUN)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert marked_processes(process_mark(tmp_path / RUN)) == []


KILLED_AT_ONCE = """
import os, signal, subprocess, sys, anyio
from pathlib import Path
from segue.core.request import Command
from segue.runner.launch import launch

class Popen(subprocess.Popen):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    here = Path(sys.argv[1])
    command = Command(argv=("cat",), cwd=here, stdin=b"x" * int(sys.argv[2]), hold_stdin=True)
    subprocess.Popen = Popen
    async with launch(command, env={"PATH": sys.argv[3]}, run_dir=here / f"run-{os.getppid()}"):
        pass

anyio.run(main)
"""


@pytest.mark.parametrize("size", [10, 200_000] if hasattr(fcntl, "F_SETPIPE_SZ") else [10])
def test_a_child_has_its_prompt_if_segue_is_killed_at_once(tmp_path: Path, size: int) -> None:
    argv = [sys.executable, "-c", KILLED_AT_ONCE, str(tmp_path), str(size), ENV["PATH"]]
    assert subprocess.run(argv, check=False).returncode == -signal.SIGKILL
    deadline = time.monotonic() + 15
    while marked_processes(process_mark(tmp_path / RUN)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert (tmp_path / RUN / "stdout").read_bytes() == b"x" * size


STUBBORN = """
import os, sys, anyio
from pathlib import Path
from segue.core.request import Command
from segue.runner.launch import Limits, launch

async def main():
    here = Path(sys.argv[1])
    script = "trap '' TERM INT; sleep 60 & echo up; while :; do sleep 0.05; done"
    command = Command(argv=("sh", "-c", script), cwd=here, env={"PATH": sys.argv[2]})
    run_dir = here / f"run-{os.getppid()}"
    async with launch(command, env={}, run_dir=run_dir, limits=Limits(grace_s=60)) as running:
        async for line in running.lines():
            print(running.pid, flush=True)

anyio.run(main)
"""


def test_interrupted_twice_segue_leaves_nobody(tmp_path: Path) -> None:
    """The second Ctrl-C breaks the event loop itself, in the middle of the grace."""
    argv = [sys.executable, "-c", STUBBORN, str(tmp_path), ENV["PATH"]]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as segue:
        assert segue.stdout is not None
        child = int(segue.stdout.readline())
        segue.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert segue.poll() is None, "the first one waits for the grace"
        assert groups([child])
        segue.send_signal(signal.SIGINT)
        assert segue.wait(10) != 0
    deadline = time.monotonic() + 5
    while child in groups().values() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert child not in groups().values()
