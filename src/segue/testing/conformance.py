"""The conformance kit: what every adapter must comply with, checked from outside, without starting anything.

Each check yields problems in words. The adapter reads recorded streams and damaged versions of them. The
damage is the same for the same seed, and each problem names the seed.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from segue.agents.base import Agent
from segue.testing import calls, faces, streams
from segue.testing.sample import Sample

EACH = 10
"""How many problems of one check are reported."""
SEARCHED = 2_000
KIND = 70

_ACCIDENTAL = re.compile(r"\d+|b['\"].*|'\w+' object|of type '\w+'")

Check = Callable[[Sample], Iterator[str]]
CHECKS: tuple[Check, ...] = (*faces.CHECKS, *calls.CHECKS, *streams.CHECKS)


def check_adapter(
    agent: Agent,
    recorded: Sequence[bytes],
    *,
    outputs: Sequence[str] | None = None,
    seed: int = 0,
    rounds: int = 300,
) -> list[str]:
    """The problems of an adapter; empty if it conforms.

    ``recorded``: the stdout of real runs, at least a successful and a failed one. ``outputs``: what the
    program printed for each of ``agent.facts.probes``; without it, only what needs no capability is checked.
    """
    shape = list(faces.shape(agent))
    if shape:
        return shape
    before = dict(os.environ)
    given = [""] * len(agent.facts.probes) if outputs is None else list(outputs)
    try:
        runtime = agent.runtime(("/opt/program",), given)
    except Exception as error:
        return [f"runtime: raised {type(error).__name__}: {error}"]
    sample = Sample(agent, runtime, tuple(given), tuple(recorded), seed, rounds)
    problems = [f"{problem} (seed {seed})" for check in CHECKS for problem in _distinct(check(sample))]
    if dict(os.environ) != before:
        problems.append("the adapter changed the environment of this process")
    return problems


def _distinct(problems: Iterator[str]) -> list[str]:
    """One problem of each kind: those that differ only in where they were found are one."""
    kinds: dict[str, str] = {}
    for problem in islice(problems, SEARCHED):
        kinds.setdefault(_ACCIDENTAL.sub("#", problem)[:KIND], problem)
    return list(kinds.values())[:EACH]
