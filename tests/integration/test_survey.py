"""Whatever happened in a conversation: what a session keeps and what is sent as text make up the view."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from segue.app.segue import Segue
from segue.core.ladder import decide
from segue.turns.prepare import prepare
from segue.turns.request import Options, request_from_options
from segue.turns.situation import Gathered, gather
from tests.integration.conftest import Program

ROLES = ("none", "coder", "reviewer")


def looked(segue: Segue, env: dict[str, str], cwd: Path, role: str) -> Gathered:
    options: Options = {"cwd": cwd, "role": role, "agent": "rehearsal"}
    prepared = prepare(request_from_options("k", "x", options), env, segue.workspace.store, cwd)
    return gather(prepared, segue.workspace.store)


def assert_each_message_once(gathered: Gathered) -> None:
    """The native part and the text part together are the view, in order, each message once."""
    cut = gathered.situation.cut
    native = [held.message for held in gathered.kept if not held.correction]
    assert (cut.rows, cut.kept) == (len(gathered.kept), len(native))
    assert [*native, *(message.id for message in cut.text)] == [message.id for message in gathered.view]


async def story(segue: Segue, env: dict[str, str], cwd: Path, chance: random.Random) -> int:
    resumed = 0
    for step in range(12):
        role = chance.choice(ROLES) if step > 1 else ROLES[step]  # so that one has heard nothing of the other
        await act(segue, cwd, role, step, chance)
        for each in ROLES:
            gathered = looked(segue, env, cwd, each)
            assert_each_message_once(gathered)
            resumed += decide(gathered.situation).mode == "resume"
    return resumed


async def act(segue: Segue, cwd: Path, role: str, step: int, chance: random.Random) -> None:
    count = sum(each.n is not None for each in await segue.log("k")) if step else 0
    kinds = [*["say"] * 7, "fail", "edit", "cut", "truncate", "retry", "blank"]
    kind = chance.choice(kinds) if step > 1 else "say"
    if kind == "edit" and count:
        await segue.edit("k", f"#{chance.randint(1, count)}", f"edited at {step}")
    elif kind == "cut" and count:
        await segue.edit("k", f"#{chance.randint(1, count)}", f"cut at {step}", cut=True)
    elif kind == "truncate" and count > 2:
        await segue.truncate("k", f"#{chance.randint(2, count)}")
    elif kind == "retry" and count:
        await segue.retry("k", role=role, cwd=cwd)
    text = f"said at {step}" + (" [[error 500]]" if kind == "fail" else "")
    foreseen = await segue.why("k", text, agent="rehearsal", role=role, cwd=cwd, blank=kind == "blank")
    turn = await segue.run("k", text, agent="rehearsal", role=role, cwd=cwd, blank=kind == "blank")
    assert turn.attempts[0].mode == foreseen.mode, (step, role, kind)


@pytest.mark.parametrize("number", range(3))
def test_each_message_is_held_or_sent_once(number: int, segue: Program, seed: int) -> None:
    env = {**segue.env, "REHEARSAL_HOME": str(segue.home / "agent")}

    async def go() -> int:
        async with Segue(env=env) as library:
            return await story(library, env, segue.cwd, random.Random(seed + number))

    assert asyncio.run(go()) >= 1
