"""What all measurements share: rows with a goal, medians, and the table."""

from __future__ import annotations

import compileall
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Row:
    """One measurement: what was seen, the goal, and whether it was met."""

    what: str
    seen: str
    goal: str
    met: bool


def alternating(count: int, *works: Callable[[], object]) -> list[float]:
    """The median seconds of each work, all done in turn ``count`` times, after one round to warm up."""
    taken: list[list[float]] = [[] for _ in works]
    for round_ in range(count + 1):
        for index, work in enumerate(works):
            began = time.perf_counter()
            work()
            if round_:
                taken[index].append(time.perf_counter() - began)
    return [statistics.median(times) for times in taken]


def run(argv: Sequence[str], env: Mapping[str, str], cwd: Path, stdin: bytes = b"") -> bytes:
    done = subprocess.run(
        argv, env=dict(env), cwd=cwd, input=stdin, capture_output=True, timeout=120, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv[:3])} exited {done.returncode}: {done.stderr.decode()[-500:]}")
    return done.stdout


def compile_bytecode() -> None:
    """As an installed package has it; the caller's environment may forbid writing it on the way."""
    compileall.compile_dir(str(ROOT / "src"), quiet=2)
    for folder in {Path(path) for path in sys.path if path.endswith("site-packages")}:
        compileall.compile_dir(str(folder), quiet=2)


def plain_environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}


def show(rows: Sequence[Row]) -> None:
    widths = [
        max(len(text) for text in column)
        for column in zip(*((r.what, r.seen, r.goal) for r in rows), strict=True)
    ]
    for row in rows:
        cells = (
            text.ljust(width) for text, width in zip((row.what, row.seen, row.goal), widths, strict=True)
        )
        print("  ".join(cells), "✓" if row.met else "✗")
