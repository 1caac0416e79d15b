"""A review and an escalation while everybody around them is killed: the agent, the program, the daemon, the
database. They end as if nothing had happened, and the work of each turn is done once."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest

from tests.chaos.flow_stage import ENDS, MARKS, TURN_OF, FlowStage, Witness
from tests.chaos.scenes import PATIENCE_S, Scene, kill, kill_group, until
from tests.history import History, violations
from tests.integration.server.conftest import Daemon, finish
from tests.integration.server.conftest import start as start_daemon
from tests.postgres import Server, at, running_server

KILLS, SOAK_KILLS = 5, 25
"""For each of the four: 20 in all, 100 with ``--soak``."""
OF_ONE_FLOW = 5
"""A turn that is killed six times has failed."""
MOST_FLOWS = 4
"""For each kill: a flow may end before anybody is there to be killed."""
CLIENT = "the one who started it"
AGAIN = ("running", "store_away", "gone")
"""What a user answers with the command once more: nobody runs it any more, the database was away when the
command began, or there is nothing to resume, because the flow has ended."""


class Strikes:
    """One flow, and what can be killed around it. ``by``: who runs it."""

    def __init__(
        self, stage: FlowStage, kind: str, by: str, server: Server | None, dice: random.Random
    ) -> None:
        self.stage, self.kind, self.by, self.server, self.dice = stage, kind, by, server, dice
        self.history = History()
        self.told: list[str] = []
        self.daemon: Daemon | None = start_daemon(stage.scene.segue) if by == "the daemon" else None

    def begin(self, key: str) -> None:
        self.stage.clear()
        self.key, self.tree, self.before = key, self.stage.tree(key), Counter[str]()
        self.history, self.told = History(), []
        self.client = self.stage.start(*self._words())
        self.done: dict[str, int] = {}

    def close(self) -> None:
        if self.daemon is not None:
            finish(self.daemon.process)

    def over(self) -> bool:
        flow = self.stage.flow(self.key)
        return flow is not None and flow.end is not None

    def strike(self) -> bool:
        """Kill one of them, at a moment of its own, and bring back what a user would bring back. False: there
        was nobody to kill."""
        agents, begun = set(self.stage.scene.agents()), len(self.stage.finished(self.key))
        more = self.dice.choice((0, 1, 2, 3))

        def far_enough() -> bool:
            done = len(self.stage.finished(self.key)) - begun
            new = bool(set(self.stage.scene.agents()) - agents) if not more else False
            return done >= max(more, 1) or new or self.over() or self.client.process.poll() is not None

        until(far_enough, f"{self.key} goes on", pause_s=0.005)
        time.sleep(self.dice.random() * 0.4)
        blow = self.dice.choice(self.blows())
        self.told.append(blow.__name__)
        return blow()

    def end(self) -> dict[str, Any]:
        """The report, once the flow is over. Whoever follows it may have been killed, or have given up."""
        while True:
            ended = self.client.end(PATIENCE_S)
            report = msgspec.json.decode(ended.stdout.splitlines()[-1]) if ended.stdout else {}
            if report.get("end") is not None:
                return dict(report)
            said = report.get("state") or report.get("error", {}).get("code")
            assert said in AGAIN, (self.told, ended.code, ended.stdout[-2000:], ended.stderr[-3000:])
            self.client = self.stage.start(*self._words())

    def blows(self) -> list[Callable[[], bool]]:
        """What can be done to them; some of it more often. Each says whether it was done."""
        found = [self.kill_agent, self.kill_agent_alone, self.kill_client]
        found += [self.kill_daemon] * 2 if self.daemon is not None else [self.kill_everybody]
        return [*found, *([self.restart_database] * 2 if self.server is not None else [])]

    def kill_agent(self) -> bool:
        """With what it has started."""
        return sum(kill_group(pid) for pid in self._agents()) > 0

    def kill_agent_alone(self) -> bool:
        return sum(kill(pid) for pid in self._agents()) > 0

    def kill_client(self) -> bool:
        lived = self.client.process.poll() is None
        self.client.kill()
        self._note()
        self.client = self.stage.start(*self._words())
        return lived

    def kill_everybody(self) -> bool:
        lived = self.client.process.poll() is None
        self.client.kill()
        for pid in self.stage.scene.agents():
            kill_group(pid)
        self._note()
        self.client = self.stage.start(*self._words())
        return lived

    def kill_daemon(self) -> bool:
        assert self.daemon is not None
        lived = self.daemon.process.poll() is None
        finish(self.daemon.process)
        self._note()
        self.daemon = start_daemon(self.stage.scene.segue)
        return lived

    def restart_database(self) -> bool:
        assert self.server is not None
        self.server.stop(kill=self.dice.random() < 0.5)
        time.sleep(self.dice.random())
        self.server.start()
        return True

    def _agents(self) -> list[int]:
        """Those that live, as soon as one does; none if the flow ends before, or nobody runs it."""

        def gone() -> bool:
            return self.over() or self.client.process.poll() is not None

        until(lambda: self.stage.scene.agents() or gone(), "an agent works", pause_s=0.005)
        return self.stage.scene.agents()

    def _words(self) -> list[str]:
        """As a user would: the same command again, or that which continues it."""
        known = self.stage.flow(self.key) is not None
        if known and self.dice.random() < 0.5:
            follow = "watch" if self.by == "the daemon" else "resume"
            return ["flow", follow, self.key, "--json"]
        return self.stage.words(self.kind, self.tree, self.key)

    def _note(self) -> None:
        """What is finished while nobody runs the flow."""
        flow = self.stage.flow(self.key)
        if flow is None:
            return
        for step, value in flow.steps.items():
            self.history.note(CLIENT, "step", self.key, step, value)
        if self.by != "the daemon" or self.daemon is None or self.daemon.process.poll() is not None:
            ran = Counter(self.stage.effects)
            for n in (1, 2):
                if f"check/{n}/1" in flow.steps:
                    self.done.setdefault(f"check-coder-{n}", ran[f"check-coder-{n}"])


@pytest.fixture
def parts(request: pytest.FixtureRequest, scene: Scene) -> Iterator[tuple[FlowStage, Server | None]]:
    """The stage; with PostgreSQL, also its server."""
    with ExitStack() as stack:
        server = stack.enter_context(running_server()) if request.param == "postgres" else None
        yield FlowStage(scene, at(server.url, "postgres") if server is not None else None), server


@pytest.mark.parametrize(
    ("kind", "by", "parts"),
    [
        ("review", "the program", "sqlite"),
        ("review", "the daemon", "postgres"),
        ("escalate", "the program", "postgres"),
        ("escalate", "the daemon", "sqlite"),
    ],
    indirect=["parts"],
)
def test_whoever_is_killed(
    parts: tuple[FlowStage, Server | None], kind: str, by: str, seed: int, soak: bool
) -> None:
    stage, server = parts
    strikes = Strikes(stage, kind, by, server, random.Random(f"{seed} {kind} {by}"))
    run_through(strikes, SOAK_KILLS if soak else KILLS)


def run_through(strikes: Strikes, left: int) -> None:
    """Flows, until all blows are struck; each ends well."""
    flows = 0
    try:
        most = MOST_FLOWS * left
        while left > 0:
            flows += 1
            assert flows <= most, f"{left} were never killed"
            strikes.begin(f"{strikes.kind}-{flows}")
            with Witness(strikes.stage.scene) as witness:
                for _ in range(min(left, OF_ONE_FLOW)):
                    if strikes.over():
                        break
                    left -= strikes.strike()
                report = strikes.end()
            ended_well(strikes, report, witness)
    finally:
        strikes.close()


def ended_well(strikes: Strikes, report: dict[str, Any], witness: Witness) -> None:
    stage, kind, what = strikes.stage, strikes.kind, strikes.told
    assert (report["state"], report["end"], report["rounds"]) == ("done", *ENDS[kind]), (what, report)
    until(lambda: not stage.scene.agents(), "no agent is left")
    strikes.history.note(CLIENT, "started", strikes.key)
    strikes.history.note(CLIENT, "ended", strikes.key, value=report["end"])
    flow = stage.flow(strikes.key)
    assert flow is not None
    turns = [step["key"] for step in report["steps"] if step["run"] is not None]
    assert turns == [TURN_OF[mark] for mark in MARKS[kind]], what
    done = Counter(stage.effects)
    assert {mark: done[mark] for mark in MARKS[kind]} == dict.fromkeys(MARKS[kind], 1), (what, done)
    assert sorted(stage.answers()) == sorted(MARKS[kind]), what
    work = msgspec.structs.replace(witness.work(stage), effects=MARKS[kind])
    assert violations(strikes.history.notes, (), work, [flow]) == [], what
    assert {mark: done[mark] for mark in strikes.done} == strikes.done, "a finished check does not run again"
    assert not stage.look("SELECT id FROM turns WHERE state IN ('queued', 'running', 'parked')"), what
    result = report["result"]
    if kind == "review":
        assert [(each["id"], each["state"]) for each in result["findings"]] == [("f1", "open")], what
        assert (result["notes"], (strikes.tree / "code.txt").read_text()) == ("seen twice", "coder-2\n"), what
        assert {done[f"check-coder-{n}"] >= 1 for n in (1, 2)} == {True}
    else:
        assert (result["tier"], result["reason"]) == (3, "it works again"), what


@pytest.mark.parametrize("follow", ["watch", "run"])
def test_who_follows_a_flow_outlasts_a_restart_of_the_database(
    scene: Scene, own_postgres: Server, follow: str
) -> None:
    """Also if the flow runs in the process itself."""
    stage = FlowStage(scene, at(own_postgres.url, "postgres"))
    words = stage.words("escalate", stage.tree("tree"), "k")
    gate = f"while [ ! -e {stage.place}/gate ]; do sleep 0.05; done"
    (stage.place / "work").write_text(f"{gate}\n{(stage.place / 'work').read_text()}")
    running = stage.start(*words)
    scene.agent()
    follower = stage.start("flow", "watch", "k", "--json") if follow == "watch" else running
    if follow == "watch":
        follower.says("tier-1")
    own_postgres.stop()
    time.sleep(5)  # longer than the pause between two looks
    own_postgres.start()
    (stage.place / "gate").touch()
    ended = follower.end(PATIENCE_S)
    assert ended.code == 0, ended.stderr[-3000:]
    assert ended.turn["end"] == "done"
    assert running.end(PATIENCE_S).code == 0
