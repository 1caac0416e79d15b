"""How fast a stream is read: frames, events and the fold, beside the bare decoding of the same lines."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
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
        ours, bare, cleaned = _all(whole)
        grown = _child("memory", whole) - _child("memory", tenth)
    speed = (
        f"{bare / ours:.2f} × ({STREAM_BYTES / ours / 1e6:.0f} MB/s / {STREAM_BYTES / bare / 1e6:.0f} MB/s)"
    )
    return [
        Row("reading a 200 MB stream / bare msgspec", speed, "≥ 0.5 ×", bare / ours >= 0.5),
        Row("the same with secrets taken out", f"{bare / cleaned:.2f} ×", "–", True),
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


def _all(stream: Path) -> list[float]:
    """Medians of reading, of the bare decoding, and of reading with secrets taken out."""
    works = ("ours", "bare", "cleaned")
    rounds = [[_child(work, stream) for work in works] for _ in range(ROUNDS)]
    return [statistics.median(times) for times in zip(*rounds, strict=True)]


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
    {"bare": _bare, "cleaned": _cleaned}.get(what, _ours)(stream)
    if what == "memory":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return time.process_time() - began


def _ours(stream: Path) -> None:
    from segue.agents.claude.adapter import AGENT
    from segue.core.stream import TurnState

    reading = TurnState()
    for line in _lines(stream):
        for event in AGENT.parse(line):
            reading.add(event)


def _cleaned(stream: Path) -> None:
    from segue.agents.claude.adapter import AGENT
    from segue.core.redact import Redactor, StreamRedactor
    from segue.core.stream import TurnState

    reading, cleaning = TurnState(), StreamRedactor(Redactor(["a-secret-of-the-account"]))
    for line in _lines(stream):
        for event in AGENT.parse(line):
            for shown in cleaning(event, line):
                reading.add(shown)


def _lines(stream: Path) -> Iterator[bytes]:
    from segue.core.stream import LineSplitter, Oversize

    framer = LineSplitter()
    with stream.open("rb") as file:
        while chunk := file.read(1024 * 1024):
            for line in framer.feed(chunk):
                assert not isinstance(line, Oversize)
                yield line


def _bare(stream: Path) -> None:
    import msgspec

    decode = msgspec.json.Decoder().decode
    with stream.open("rb") as file:
        for line in file:
            decode(line)


if __name__ == "__main__":
    print(_work(sys.argv[1], Path(sys.argv[2])))
