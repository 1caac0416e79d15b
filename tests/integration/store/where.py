"""Where a store is, in a form that other processes can be told."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from segue.store.store import Store, open_store

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Where:
    url: str | None
    path: Path

    def open(self) -> Store:
        return open_store(self.url, self.path)

    def start(self, job: str, *args: object) -> subprocess.Popen[str]:
        """A process of its own that works on this store; see ``workers``."""
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.integration.store.workers",
                self.url or "-",
                str(self.path),
                job,
                *map(str, args),
            ],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run_all(self, *jobs: tuple[object, ...]) -> list[list[str]]:
        """Start all of them at once; what each of them printed."""
        running = [self.start(str(job[0]), *job[1:]) for job in jobs]
        printed = [process.communicate(timeout=300)[0].split("\n")[:-1] for process in running]
        assert [process.returncode for process in running] == [0] * len(running)
        return printed
