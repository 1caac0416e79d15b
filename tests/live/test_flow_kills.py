"""A flow of turns with the real Claude, killed again and again: the model is asked for each turn once."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any

import msgspec
import pytest

from segue.config.home import Home, this_host
from segue.flows.definition import built_in
from segue.store.flow_records import FlowRow
from segue.store.store import open_store
from segue.system import clock
from tests.live.talk import Talk
from tests.live.test_claude_kills import agents, effects, kill, talk, until

__all__ = ["talk"]

TURNS, KILLS, SOAK_KILLS = 3, 4, 30
TEXT = "remember number {n} [[shell echo {n} >> effects; sleep 0.2]] [[slow 0.6 6]] [[say answer-{n}]]"


def stored(talk: Talk) -> str:
    """A flow that nobody runs yet."""
    home, given = Home(talk.place / "segue"), {"turns": TURNS, "agent": "claude", "text": TEXT}
    row = FlowRow(
        id=clock.new_id(),
        kind="trial",
        version=built_in("trial").version,
        input=msgspec.json.encode(given).decode(),
        cwd=str(talk.cwd),
        host=this_host(None, home).name,
        created_ms=clock.now_ms(),
    )
    with open_store(None, home.store) as store:
        return store.flows.add(row).id


def shown(talk: Talk, flow: str) -> Any:
    return msgspec.json.decode(talk("flow", "show", flow, "--json").stdout)


def asked_for(talk: Talk, n: int) -> int:
    """How often the model was asked to call the tool of a turn."""
    mine = [each for each in talk.model.requests if not each.side]
    return sum(
        f"remember number {n} " in each.last_user_text and each.action.startswith("tool:") for each in mine
    )


@pytest.mark.parametrize("struck", ["segue", "everybody"])
def test_each_turn_runs_once_whatever_is_killed(talk: Talk, seed: int, soak: bool, struck: str) -> None:
    dice, flow = random.Random(f"{seed} {struck}"), stored(talk)
    for _ in range(SOAK_KILLS if soak else KILLS):
        started, before = talk.start("flow", "resume", flow, "--json"), len(talk.model.requests)
        until(
            lambda: len(talk.model.requests) > before or started.poll() is not None,  # noqa: B023
            "the model is asked",
        )
        time.sleep(dice.random() * 1.2)
        started.kill()
        started.communicate()
        if struck == "everybody":
            for pid in agents(talk):
                kill(pid)
        if shown(talk, flow)["state"] != "running":
            break
    done = talk("flow", "resume", flow, "--json") if shown(talk, flow)["state"] == "running" else None
    assert done is None or done.code == 0, done.stderr[-2000:]
    ended = shown(talk, flow)
    assert (ended["state"], len(ended["steps"])) == ("done", TURNS), ended["failure"]
    actions = [(each.action, each.last_user_text[:40]) for each in talk.model.requests if not each.side]
    ran = Counter(effects(talk))
    assert set(ran.values()) <= {1}, (ran, actions)
    if struck == "segue":
        assert [step["tries"] for step in ended["steps"]] == [1] * TURNS
        assert ended["result"] == [f"answer-{n}" for n in range(1, TURNS + 1)]
        assert sorted(ran) == [str(n) for n in range(1, TURNS + 1)]
        assert [asked_for(talk, n) for n in range(1, TURNS + 1)] == [1] * TURNS, actions
        spent = sum(each.usage.output for each in talk.model.requests if not each.side)
        assert ended["usage"]["output"] == spent, "what was spent is what is told"
    assert agents(talk) == []
