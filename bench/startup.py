"""How long ``segue --version`` takes, beside a Python that does nothing."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.measure import ROOT, Row, alternating, compile_bytecode, plain_environment, run

SEGUE = str(Path(sys.executable).with_name("segue"))


def measure() -> list[Row]:
    compile_bytecode()
    env = plain_environment()
    ours, bare = alternating(
        10, lambda: run([SEGUE, "--version"], env, ROOT), lambda: run([sys.executable, "-c", ""], env, ROOT)
    )
    seen = f"{ours * 1000:.0f} ms (bare Python {bare * 1000:.0f} ms)"
    return [Row("segue --version", seen, "< 80 ms", ours < 0.080)]
