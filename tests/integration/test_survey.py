"""The quick look at a conversation says the same as the thorough one, whatever happened in it."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from segue.app.segue import Segue
from segue.core.ladder import decide
from segue.turns.prepare import prepare
from segue.turns.request import Options, request_from_options
from segue.turns.situation import Survey, gather
from tests.integration.conftest import Program

ROLES = ("none", "coder", "reviewer")


def looked(segue: Segue, env: dict[str, str], cwd: Path, role: str, quick: bool) -> Survey:
    options: Options = {"cwd": cwd, "role": role, "agent": "rehearsal"}
    prepared = prepare(request_from_options("k", "x", options), env, segue.store, cwd)
    return gather(prepared, segue.store, prepared.conversation.id, quick=quick)


def essence(surveyed: Survey) -> tuple[object, ...]:
    """What the rest of a turn goes by."""
    now = surveyed.situation
    kept = now.cut.rows, now.cut.whole, now.cut.kept
    text = [message.id for message in now.cut.text], [message.id for message in now.cut.corrections]
    sizes = now.view_messages, now.view_bytes, now.new_bytes, now.hidden
    return decide(now).mode, kept, text, sizes, surveyed.under, surveyed.view[-1].id


async def story(segue: Segue, env: dict[str, str], cwd: Path, chance: random.Random) -> int:
    quick = 0
    for step in range(12):
        role = chance.choice(ROLES) if step > 1 else ROLES[step]  # so that one has heard nothing of the other
        await act(segue, cwd, role, step, chance)
        for each in ROLES:
            brief = looked(segue, env, cwd, each, quick=True)
            if brief.quick and decide(brief.situation).mode == "resume":
                quick += 1
                assert essence(brief) == essence(looked(segue, env, cwd, each, quick=False)), (step, each)
    return quick


async def act(segue: Segue, cwd: Path, role: str, step: int, chance: random.Random) -> None:
    count = len(await segue.history("k")) if step else 0
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
    await segue.run("k", text, agent="rehearsal", role=role, cwd=cwd, blank=kind == "blank")


@pytest.mark.parametrize("number", range(3))
def test_the_quick_look_says_the_same(number: int, segue: Program, seed: int) -> None:
    env = {**segue.env, "REHEARSAL_HOME": str(segue.home / "agent")}

    async def go() -> int:
        async with Segue(env=env) as library:
            return await story(library, env, segue.cwd, random.Random(seed + number))

    assert asyncio.run(go()) >= 1
