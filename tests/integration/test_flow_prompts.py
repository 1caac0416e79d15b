"""Turns of flows that have two prompts: a short one for a session that is continued, and a full one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
import pytest

from segue import Briefing, Flow, Segue, flow
from tests.integration.conftest import Program

T = TypeVar("T")
Within = Callable[[Callable[[Segue], Awaitable[Any]]], Any]


@pytest.fixture
def within(segue: Program) -> Within:
    env = {
        **segue.env,
        "REHEARSAL_HOME": str(segue.home / "agent"),
        "SEGUE_DEFAULTS_AGENT": "rehearsal",
        "SEGUE_DEFAULTS_PERMISSION": "full",
        "SEGUE_KEEP_ENABLED": "false",
    }

    def enter(work: Callable[[Segue], Awaitable[T]]) -> T:
        async def go() -> T:
            async with asyncio.timeout(120), Segue(env=env, cwd=segue.cwd) as library:
                return await work(library)

        return asyncio.run(go())

    return enter


@flow(version=1)
async def two(flow: Flow, first: str, remove: str = "") -> dict[str, Any]:
    key = flow.key("talk")
    one = await flow.turn("one", key, first, briefing=Briefing(full=first), role="escalation")
    if remove:
        await flow.step("remove", _remove, remove)
    two = await flow.turn(
        "two",
        key,
        "[[recall number \\d+]]",
        briefing=Briefing(full="[[say the full prompt]]"),
        after=one,
        variables={"FLOW_TIER": "2"},
        role="escalation",
    )
    return {"text": two.text, "mode": two.mode, "runs": [one.run, two.run], "tries": len(two.attempts)}


def _remove(directory: str) -> None:
    from pathlib import Path

    for each in Path(directory).rglob("*.jsonl"):
        each.unlink()


def test_a_session_that_can_be_continued_gets_the_short_prompt(within: Within) -> None:
    async def work(segue: Segue) -> None:
        shown = await segue.flows.run(two, {"first": "the number 456 [[say ok]]"})
        assert shown.result is not None, shown.failure
        told = msgspec.json.decode(shown.result)
        assert (told["text"], told["mode"]) == ("number 456", "resume")

    within(work)


def test_without_a_session_the_full_prompt_is_sent_and_nothing_else(within: Within, segue: Program) -> None:
    async def work(library: Segue) -> None:
        given = {"first": "the number 456 [[say ok]]", "remove": str(segue.home)}
        shown = await library.flows.run(two, given)
        assert shown.result is not None, shown.failure
        told = msgspec.json.decode(shown.result)
        assert (told["text"], told["mode"]) == ("the full prompt", "fresh")
        found = await library.conversations.lineage(f"flow/{shown.flow}/talk")
        first, second = found.turns
        assert [each.run for each in found.turns] == told["runs"]
        assert first.parents == ()
        assert [(each.kind, each.run) for each in second.parents] == [("escalation", first.run)]

    within(work)


def test_a_role_whose_context_is_full_hands_over(within: Within) -> None:
    async def work(segue: Segue) -> None:
        shown = await segue.flows.run(two, {"first": f"the number 456 [[say ok]] {'x' * 660_000}"})
        assert shown.result is not None, shown.failure
        told = msgspec.json.decode(shown.result)
        assert (told["text"], told["mode"]) == ("the full prompt", "fresh")

    within(work)


def test_variables_reach_the_agent(within: Within, segue: Program) -> None:
    @flow(version=1)
    async def told(flow: Flow) -> None:
        text = "[[shell echo $FLOW_TIER > tier]] [[say ok]]"
        await flow.turn("one", flow.key("talk"), text, variables={"FLOW_TIER": "7"})

    async def work(library: Segue) -> None:
        await library.flows.run(told)

    within(work)
    assert (segue.cwd / "tier").read_text() == "7\n"
