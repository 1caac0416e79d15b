"""Runs the measurements and prints one table. ``python -m bench NAME…`` runs only those named."""

from __future__ import annotations

import sys
from importlib import import_module

from bench.measure import Row, show

BENCHES = (
    "startup",
    "sessions",
    "turn",
    "parse",
    "deciding",
    "continuity",
    "tokens",
    "review",
    "flows",
    "daemon",
    "page",
)


def main() -> int:
    chosen = sys.argv[1:] or BENCHES
    rows: list[Row] = []
    try:
        for name in chosen:
            print(f"measuring {name} …", file=sys.stderr, flush=True)
            rows += import_module(f"bench.{name}").measure()
    finally:  # what was measured before something went wrong took minutes
        show(rows)
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
