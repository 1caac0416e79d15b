"""How fast a stream is read: frames, events and the fold, beside the bare decoding of the same lines."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.measure import ROOT, Row

STREAM_BYTES = 200 * 1024 * 1024
ROUNDS = 10
FLAT_BYTES = 64 * 1024 * 1024
"""How much more memory the whole stream may take than its first tenth."""


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        whole, tenth = Path(folder) / "whole.jsonl", Path(folder) / "tenth.jsonl"
        _record(whole, STREAM_BYTES)
        _record(tenth, STREAM_BYTES // 10)
        ours, bare = _both(whole)
        grown = _child("memory", whole) - _child("memory", tenth)
    speed = (
        f"{bare / ours:.2f} × ({STREAM_BYTES / ours / 1e6:.0f} MB/s / {STREAM_BYTES / bare / 1e6:.0f} MB/s)"
    )
    return [
        Row("reading a 200 MB stream / bare msgspec", speed, "≥ 0.5 ×", bare / ours >= 0.5),
        Row("memory, 200 MB against 20 MB", f"+{grown / 1e6:.0f} MB", "flat", grown < FLAT_BYTES),
    ]


def _record(target: Path, size: int) -> None:
    """Streams recorded from the real Claude, one after another, until the size is reached."""
    fixtures = sorted((ROOT / "tests/fixtures/streams").glob("claude-*/*.jsonl"))
    lines = [
        line for path in fixtures for line in path.read_bytes().splitlines(keepends=True) if line.strip()
    ]
    block = b"".join(lines)
    with target.open("wb") as file:
        written = 0
        while written < size:
            written += file.write(block)


def _both(stream: Path) -> tuple[float, float]:
    ours, bare = [], []
    for _ in range(ROUNDS):
        ours.append(_child("ours", stream))
        bare.append(_child("bare", stream))
    return statistics.median(ours), statistics.median(bare)


def _child(what: str, stream: Path) -> float:
    done = subprocess.run(
        [sys.executable, "-m", "bench.parse", what, str(stream)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def _work(what: str, stream: Path) -> float:
    import time

    began = time.process_time()
    _bare(stream) if what == "bare" else _ours(stream)
    if what == "memory":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return time.process_time() - began


def _ours(stream: Path) -> None:
    from segue.agents.claude.adapter import AGENT
    from segue.core.cleaning import Cleaning
    from segue.core.frames import Lines, Oversize
    from segue.core.reading import Reading
    from segue.core.redact import Redactor

    redactor = Redactor(["a-secret-of-the-account"])
    framer, reading, cleaning = Lines(), Reading(), Cleaning(redactor)
    with stream.open("rb") as file:
        while chunk := file.read(1024 * 1024):
            for line in framer.feed(chunk):
                assert not isinstance(line, Oversize)
                suspect = redactor.suspects(line)
                for event in AGENT.parse(line):
                    for shown in cleaning(event, suspect):
                        reading.add(shown)


def _bare(stream: Path) -> None:
    import msgspec

    decode = msgspec.json.Decoder().decode
    with stream.open("rb") as file:
        for line in file:
            decode(line)


if __name__ == "__main__":
    print(_work(sys.argv[1], Path(sys.argv[2])))
