"""Runs pytest, and the few tests that failed once more, one at a time.

The suite keeps every core busy with real programs, and a test can fail because it was starved. Alone it must
pass. The first failure is printed in full, and the last lines name the tests that passed only then: look into
each of them. With more than ``AT_MOST`` failures nothing runs again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

AT_MOST = 3
TESTS_FAILED = 1
FAILED = Path(".pytest_cache/v/cache/lastfailed")


def main(arguments: list[str]) -> int:
    FAILED.unlink(missing_ok=True)
    ended = _pytest(*arguments)
    failed = sorted(json.loads(FAILED.read_text())) if FAILED.exists() else []
    if ended != TESTS_FAILED or not 0 < len(failed) <= AT_MOST:
        return ended
    print(f"\nonce more, alone: {len(failed)} of the tests", flush=True)
    if _pytest(*failed, "-q") != 0:
        return TESTS_FAILED
    for name in failed:
        print(f"passed only when it ran alone: {name}", flush=True)
    return 0


def _pytest(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
