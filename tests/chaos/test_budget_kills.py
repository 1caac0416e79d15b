"""Budgets hold although processes are killed at any moment: while they wait, begin, work or settle."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from segue.system.processes import groups_of
from tests.integration.conftest import Program
from tests.integration.talk import Talk
from tests.integration.test_reservations import AT_WORK, OPTIONS, PRICES, rows, spent

AT_ONCE = 6


@pytest.fixture(params=["sqlite", "postgres"])
def program(request: pytest.FixtureRequest, segue: Program) -> Program:
    if request.param == "postgres":
        segue.env["SEGUE_STORE_URL"] = request.getfixturevalue("postgres_url")
    segue.config(PRICES)
    Talk(segue, "known").run(AT_WORK, *OPTIONS)
    return segue


def kill_agents(program: Program) -> None:
    """End the agents of runs whose process was killed."""
    for (directory,) in rows(program, "SELECT run_dir FROM attempts WHERE ended_ms IS NULL"):
        for group in groups_of(Path(str(directory))):
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)


def one_round(program: Program, number: int, chance: random.Random) -> tuple[float, int]:
    """Some turns at once, of which some are killed. Returns how much beyond the limit was spent, in turns,
    and how many were killed."""
    price = spent(program) / int(str(rows(program, "SELECT COUNT(*) FROM turns WHERE cost_usd > 0")[0][0]))
    limit = spent(program) + chance.choice((0.5, 1.5, 2.5, 3.5)) * price
    program.config(PRICES + f"[budgets]\nday = {limit:.9f}\n")
    started: list[subprocess.Popen[bytes]] = [
        program.start("run", f"r{number}-{n}", AT_WORK, *OPTIONS, "--quiet") for n in range(AT_ONCE)
    ]
    victims = chance.sample(started, chance.choice((1, 2, 3)))
    for each in victims:
        time.sleep(chance.random() * 0.7)
        os.killpg(each.pid, signal.SIGKILL)
        if chance.random() < 0.5:
            kill_agents(program)
    for each in started:
        each.communicate(timeout=120)
    for n in range(AT_ONCE):  # the next run of each conversation settles what was left there
        program("run", f"r{number}-{n}", "[[say settled]]", "--quiet")
    left = rows(program, "SELECT id FROM turns WHERE state IN ('running', 'needs_you')")
    assert left == [], "a reservation is left"
    return (spent(program) - limit) / price, len(victims)


def test_kills_neither_pass_a_budget_nor_leave_a_reservation(program: Program, seed: int, soak: bool) -> None:
    chance = random.Random(seed)
    found = [one_round(program, number, chance) for number in range(8 if soak else 1)]
    assert max(beyond for beyond, _ in found) <= 0.05, found
