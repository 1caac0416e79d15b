"""Kills and races through the daemon, with -9 and at any moment: every queue goes on, nothing runs twice, and
all subscribers end with the same events."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tests.chaos.scenes import KEY, Scene, kill, until
from tests.chaos.test_turn_kills import QUESTION, prompt
from tests.integration.server.conftest import Daemon
from tests.integration.server.streams import Sent, Stream, settled, streams
from tests.integration.server.test_kills import Daemons, last_id
from tests.integration.server.test_runs import finished, submit

__all__ = ["streams"]

QUEUED, SUBSCRIBERS, RACING = 5, 3, 8
USUAL = {
    "the daemon": ("it has begun", "the plan is written", "its tool runs"),
    "the agent": ("it speaks", "it streams"),
    "both": ("the message is stored", "its tool runs"),
}
"""The moments of the normal suite. With ``--soak`` all of them, for each."""

Moment = Callable[[Scene, str, int], bool]

MOMENTS: dict[str, Moment] = {
    "the message is stored": lambda scene, run, n: True,
    "it has begun": lambda scene, run, n: bool(
        scene.rows("SELECT 1 FROM turns WHERE id = ? AND state = 'running'", run)
    ),
    "the plan is written": lambda scene, run, n: scene.has("plan.json"),
    "its output has a file": lambda scene, run, n: scene.has("stdout"),
    "the process is noted": lambda scene, run, n: scene.has("process.json"),
    "it speaks": lambda scene, run, n: scene.said_by_agent(b'"session"'),
    "its tool runs": lambda scene, run, n: str(n) in scene.effects,
    "it streams": lambda scene, run, n: scene.said_by_agent(b'"delta"'),
    "it has answered": lambda scene, run, n: scene.said_by_agent(b'"end"'),
    "it is settled": lambda scene, run, n: over(scene, run),
}
AGENT_LIVES = list(MOMENTS)[4:9]


def over(scene: Scene, run: str) -> bool:
    return bool(scene.rows("SELECT 1 FROM turns WHERE id = ? AND state IN ('done', 'failed')", run))


@pytest.fixture
def daemons(scene: Scene) -> Iterator[Daemons]:
    made = Daemons(scene.segue)
    yield made
    made.finish()


class Watcher:
    """Subscribed to everything, over all daemons of the home."""

    def __init__(self, daemon: Daemon) -> None:
        self.got: list[Sent] = []
        self._stream = Stream(daemon, "/api/v1/events")
        self._stream.wait(bool)

    def follow(self, daemon: Daemon) -> None:
        """Read on at the next daemon, from the last event that came."""
        self.got += self._stream.wait_over()
        self._stream = Stream(daemon, "/api/v1/events", after=last_id(self.got))
        assert self._stream.wait(bool)[0].data["status"] == "ok"

    def events(self, run: str) -> list[tuple[int, Any]]:
        """All settled events of a run, with their numbers, once it is over."""
        got = self._stream.wait(lambda new: settled([*self.got, *new], run))
        return [
            (each.data["n"], each.data["event"])
            for each in [*self.got, *got]
            if each.kind == "event" and each.data["run"] == run
        ]


@pytest.mark.parametrize("struck", USUAL)
def test_killed_at_each_stage(scene: Scene, daemons: Daemons, seed: int, soak: bool, struck: str) -> None:
    dice = random.Random(f"{seed} {struck}")
    every = AGENT_LIVES if struck == "the agent" else list(MOMENTS)
    numbers: list[int] = []
    for at, moment in enumerate(every if soak else USUAL[struck]):
        watching = [Watcher(daemons.now) for _ in range(SUBSCRIBERS)]
        n = 100 * (at + 1)
        queued = range(n + 1, n + 1 + QUEUED)
        run = submit(daemons.now, KEY, prompt(n))["run"]
        runs = [run, *(submit(daemons.now, KEY, f"remember number {each}")["run"] for each in queued)]
        reached = partial(MOMENTS[moment], scene, run, n)
        until(lambda: reached() or over(scene, run), moment, pause_s=0.001)  # noqa: B023 - called here
        time.sleep(dice.choice((0, 0, 0.005, 0.02)))
        strike(scene, daemons, struck, run)
        if struck != "the agent":
            daemons.restart()
            for each in watching:
                each.follow(daemons.now)
        numbers += [n, *queued]
        is_as_if_nothing_had_happened(scene, daemons.now, runs, n, f"{struck}, when {moment}", struck)
        for each in runs:
            told = [watcher.events(each) for watcher in watching]
            assert all(one == told[0] for one in told), moment
            assert [place for place, _ in told[0]] == sorted({place for place, _ in told[0]}), moment
    answer = finished(daemons.now, submit(daemons.now, KEY, QUESTION)["run"])
    assert answer["turn"]["text"] == ", ".join(map(str, numbers))
    until(scene.quiet, "quiet")


def strike(scene: Scene, daemons: Daemons, struck: str, run: str) -> None:
    if struck != "the agent":
        daemons.kill()
    else:
        until(lambda: scene.agents() or over(scene, run), "the agent runs, or did")
    if struck != "the daemon":
        for pid in scene.agents():
            kill(pid)


def is_as_if_nothing_had_happened(
    scene: Scene, daemon: Daemon, runs: list[str], n: int, what: str, struck: str
) -> None:
    """The queue has gone on; whatever the struck turn did, it did once, and it is known how it ended."""
    first, *others = (finished(daemon, run) for run in runs)
    states = [each["state"] for each in (first, *others)]
    # Late, it may have been the next one's agent that was killed.
    assert sorted(states[:2]) in (["done", "done"], ["done", "failed"]), what
    assert states[2:] == ["done"] * (QUEUED - 1), what
    assert scene.effects.count(str(n)) <= 1, what
    if struck == "the daemon" and str(n) in scene.effects:
        assert (first["state"], first["turn"]["text"]) == ("done", f"answer-{n}"), what
    if first["state"] == "done":
        assert str(n) in scene.effects, what
    said = [text for sender, text in scene.said() if sender == "user"][-len(runs) :]
    assert said == [prompt(n), *(f"remember number {n + 1 + each}" for each in range(QUEUED))], what


@pytest.mark.parametrize(
    "killed", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["calm", "killed"]
)
def test_eight_at_once_over_http_are_eight_turns(scene: Scene, daemons: Daemons, killed: bool) -> None:
    """With ``killed``, the daemon is gone and back in the middle of it."""
    runs: list[str] = []
    daemon = daemons.now
    threads = [
        threading.Thread(target=lambda n=n: runs.append(submit(daemon, KEY, f"remember number {n}")["run"]))
        for n in range(1, RACING + 1)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(runs)) == RACING
    if killed:
        until(lambda: scene.rows("SELECT 1 FROM turns WHERE state = 'done'"), "one has been answered")
        daemons.kill()
        daemons.restart()
    for run in runs:
        done = finished(daemons.now, run)
        assert done["state"] == "done", done
    said = scene.said()
    assert [sender for sender, _ in said] == ["user", "assistant"] * RACING
    for (_, question), (_, answer) in zip(said[::2], said[1::2], strict=True):
        assert answer == f"Noted: {question.split()[-1]}."
    order = [question.split()[-1] for sender, question in said if sender == "user"]
    assert sorted(order) == [str(n) for n in range(1, RACING + 1)]
    last = finished(daemons.now, submit(daemons.now, KEY, QUESTION)["run"])
    assert last["turn"]["text"] == ", ".join(order)
    assert scene.heard(last["turn"]["session_id"]) == [*(f"remember number {n}" for n in order), QUESTION]
    until(scene.quiet, "quiet")
