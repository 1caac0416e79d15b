"""What a chain has cost, by two accounts that Segue has no part in: what the CLIs print, and the log of the
loopback model at list prices."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from math import fsum
from pathlib import Path

import msgspec

from segue.core.prices import price_for
from segue.core.usage import Usage
from segue.rehearsal.log import LoggedRequest
from tests.live.talk import Talk

REPORTS = {"anthropic"}
"""The wires of CLIs that print what they cost."""


def reported_usd(talk: Talk) -> float:
    """What the CLIs say themselves, in their own output; of those that say nothing, the list price."""
    silent = [each for each in talk.model.requests if each.protocol not in REPORTS]
    return fsum([*_totals(talk).values(), listed_usd(silent)])


def listed_usd(requests: Iterable[LoggedRequest]) -> float:
    """What these requests cost by the dated table, those that are not part of a conversation included."""
    costs = []
    for each in requests:
        price = price_for(each.model)
        assert price is not None, f"{each.model} has no list price"
        used = each.usage
        cost = price.cost(Usage(used.input, used.cache_read, used.cache_write, used.output))
        assert cost is not None
        costs.append(cost)
    return fsum(costs)


def _totals(talk: Talk) -> dict[str, float]:
    """By session, the total that was printed last: each counts the turns before it."""
    totals: dict[str, float] = {}
    for folder in sorted((talk.place / "segue" / "runs").iterdir()):
        for line in _output(folder).splitlines():
            said = msgspec.json.decode(line)
            if said.get("type") == "result":
                totals[said["session_id"]] = said["total_cost_usd"]
    return totals


def _output(run_dir: Path) -> bytes:
    packed = run_dir / "stdout.gz"
    return gzip.decompress(packed.read_bytes()) if packed.exists() else (run_dir / "stdout").read_bytes()
