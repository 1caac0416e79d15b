"""The system's clock jumps, forward and backward, while flows run and while they are parked: nothing runs
twice, nothing is lost, and nobody waits for a time that has come."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.chaos.flow_stage import SECOND, FlowStage
from tests.chaos.machines import ShiftedClock
from tests.chaos.scenes import PATIENCE_S, Scene, until
from tests.chaos.test_flow_chaos import Strikes, run_through
from tests.integration.server.conftest import finish
from tests.integration.server.conftest import start as start_daemon

HOUR_S, DAY_S = 3600, 24 * 3600
JUMPS, SOAK_JUMPS = 4, 25


@pytest.fixture(params=["sqlite", "postgres"])
def stage(request: pytest.FixtureRequest, scene: Scene) -> FlowStage:
    """With PostgreSQL, the clock of the store does not jump."""
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    return FlowStage(scene, url)


@pytest.fixture
def clock(stage: FlowStage, tmp_path: Path) -> ShiftedClock:
    made = ShiftedClock(tmp_path / "clock")
    stage.scene.segue.env |= made.env
    return made


class Jumps(Strikes):
    """Mostly the clock jumps, sometimes somebody is killed as well."""

    clock: ShiftedClock

    def blows(self) -> list[Callable[[], bool]]:
        return [self.jump] * 4 + [self.jump_and_kill, self.kill_agent]

    def jump(self) -> bool:
        jump_s = self.dice.choice((HOUR_S, -HOUR_S, DAY_S, -3 * DAY_S, 10, -10))
        self.told[-1] = f"jump {jump_s} s"
        self.clock.jump(jump_s)
        return True

    def jump_and_kill(self) -> bool:
        self.jump()
        return self.kill_client()


@pytest.mark.parametrize(
    ("kind", "by", "stage"),
    [
        ("review", "the program", "sqlite"),
        ("escalate", "the daemon", "sqlite"),
        pytest.param("review", "the daemon", "postgres", marks=pytest.mark.soak),
        pytest.param("escalate", "the program", "postgres", marks=pytest.mark.soak),
    ],
    indirect=["stage"],
)
def test_while_it_runs(
    stage: FlowStage, clock: ShiftedClock, kind: str, by: str, seed: int, soak: bool
) -> None:
    jumps = Jumps(stage, kind, by, None, random.Random(f"{seed} clock {kind} {by}"))
    jumps.clock = clock
    run_through(jumps, SOAK_JUMPS if soak else JUMPS)


@pytest.mark.parametrize("by", ["the program", "the daemon"])
@pytest.mark.parametrize("stage", ["sqlite"], indirect=True)
def test_while_it_is_parked(stage: FlowStage, clock: ShiftedClock, by: str) -> None:
    """Backward, it stays parked. Forward past its time, it goes on, and each turn has run once."""
    scene, place = stage.scene, stage.place
    limited = f"[[shell exec sh {place}/work tier-1]] [[error 429 retry-after {HOUR_S}]]"
    scenario = msgspec.json.decode((place / "scenario.json").read_bytes())
    scenario["rule"].insert(0, {"text": "work tier-1", "do": limited, "nth": 1})
    (place / "scenario.json").write_bytes(msgspec.json.encode(scenario))
    daemon = start_daemon(scene.segue) if by == "the daemon" else None
    try:
        started = stage.start(*stage.words("escalate", stage.tree("tree"), "k"))
        parked = "SELECT 1 FROM turns WHERE state = 'parked' UNION SELECT 1 FROM flows WHERE state = 'parked'"
        until(lambda: stage.look(parked), "it is parked")
        until(lambda: not scene.agents(), "its agent is gone")
        clock.jump(-DAY_S)
        time.sleep(2.5)  # longer than the pause between two looks
        assert stage.look(parked)
        assert not scene.agents()
        clock.jump(DAY_S + 2 * HOUR_S)
        ended = started.end(PATIENCE_S)
    finally:
        if daemon is not None:
            finish(daemon.process)
    assert (ended.code, ended.turn["end"]) == (0, "done"), ended.stderr[-3000:]
    assert Counter(stage.effects) == {"tier-1": 1, "tier-2": 1, "tier-3": 1}
    assert not scene.agents()


@pytest.mark.parametrize("stage", ["sqlite"], indirect=True)
def test_what_another_role_waited_does_not_make_a_session_old(stage: FlowStage, clock: ShiftedClock) -> None:
    """The coder is parked for two hours. The reviewer's session is as old as the work since then, and is
    continued."""
    place = stage.place
    scenario = msgspec.json.decode((place / "scenario.json").read_bytes())
    limited = f"[[error 429 retry-after {HOUR_S}]]"
    scenario["rule"].insert(0, {"pattern": f"{SECOND} The reviewer has rejected", "do": limited, "nth": 1})
    (place / "scenario.json").write_bytes(msgspec.json.encode(scenario))
    started = stage.start(*stage.words("review", stage.tree("tree"), "k"))
    parked = "SELECT 1 FROM turns WHERE state = 'parked' UNION SELECT 1 FROM flows WHERE state = 'parked'"
    until(lambda: stage.look(parked), "the coder is parked")
    clock.jump(2 * HOUR_S)
    ended = started.end(PATIENCE_S)
    assert (ended.code, ended.turn["end"]) == (0, "approved"), ended.stderr[-3000:]
    modes = {step["key"]: step["mode"] for step in ended.turn["steps"] if step["mode"] is not None}
    assert (modes["coder/1"], modes["reviewer/1"]) == ("fresh", "fresh")
    assert (modes["coder/2"], modes["reviewer/2"]) == ("branch", "resume"), "what met the limit is cut off"
