"""Whose words may reach whom: what is said under one account never reaches another one against its rule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from segue import Flow, Segue, SegueError, flow
from segue.core.laws import Door
from tests.integration.talk import AGENT, declared
from tests.laws.doors import ROWS, carry, doors, kill_alone, kill_whole, own_flow, park, says
from tests.laws.doors import ask as ask_under
from tests.laws.stage import SECRET, Stage, brief

Staged = Callable[..., Stage]
NEVER_A_TO_B = '[carry]\nrule = "allow"\nnever = [["a", "b"]]\n'
NEVER_A_TO_C = '[carry]\nrule = "allow"\nnever = [["a", "c"]]\n'
SWITCHES = '[limits]\non_limit = "switch"\norder = "listed"\n'
SETTLES = (Door.RECOVERY, Door.ADOPTION)
"""They send nothing: what was sent was admitted before."""


@pytest.mark.parametrize("door", [each for each in doors("wall") if each not in SETTLES])
def test_a_rule_that_says_never_holds(staged: Staged, door: Door) -> None:
    """The secret is said under ``a``. Then the door is used for ``b``, to which ``a`` never carries."""
    stage, row = staged(new="b"), ROWS[door]
    rule = NEVER_A_TO_B + (SWITCHES if door is Door.FAILOVER else "")
    stage.config(rule if door is not Door.RETRY_STEP else "")

    async def work(library: Segue) -> str:
        await row.before(stage, library, "k")
        stage.config(rule)  # for a step that is tried again, the rule is made meanwhile
        seen = len(stage.lines("b"))
        told = await _told(library, row.through, stage)
        if door in (Door.FORK, Door.IMPORT):
            told += await _told(library, ROWS[Door.RUN].through, stage, "k-2")
        assert not stage.knows("b", after=seen), f"{told}: {SECRET} was sent under b"
        return told

    told = stage.play_out(work)
    assert stage.knows("a") or "never" in told, "nothing was said that could have been sent"
    if row.flow or door is Door.SUMMARY:
        assert "never" in told, f"it says why it is refused: {told}"


@pytest.mark.parametrize("door", doors("wall"))
def test_words_that_were_carried_are_not_passed_on(staged: Staged, door: Door) -> None:
    """With consent ``b`` is given what was said under ``a``. It does not reach ``c`` as words of ``b``."""
    stage = staged(new="b")
    stage.asks = SECRET
    stage.config(NEVER_A_TO_C + (SWITCHES if door is Door.FAILOVER else ""))

    async def work(library: Segue) -> None:
        key = await _given_to_b(stage, library, door)
        if door in (Door.FORK, Door.IMPORT):
            await library.run(key, "what word?", account="b")
        assert stage.knows("b"), "b was never given what it could pass on"
        for carried in ("raw", None):
            told = await _switched(library, key, carried)
            await library.run(key, "and what word?", account="c", cwd=_place(stage, door))
            assert not stage.knows("c"), f"{told}: {SECRET} was sent under c"

    stage.play_out(work)


def _place(stage: Stage, door: Door) -> Path:
    return stage.tree("k") if ROWS[door].flow else stage.cwd


async def _given_to_b(stage: Stage, library: Segue, door: Door) -> str:
    """Returns the key of the conversation in which ``b`` speaks."""
    row = ROWS[door]
    if row.flow:
        await row.before(stage, library, "k")
        shown = await row.through(stage, library, "k")
        shown = shown[-1] if isinstance(shown, list) else shown
        assert shown.state == "done", shown.failure
        return row.spoke.format(key="k", flow=shown.flow)
    if door in (Door.SUMMARY, Door.FAILOVER):  # these carry themselves
        await row.before(stage, library, "k")
        await row.through(stage, library, "k")
        await library.run("k", "what word?", account="b")
        return "k"
    await says(stage, library, "k")
    await carry(stage, library, "k")
    if door in (Door.RETRY, *SETTLES):
        await library.run("k", "and what word?", account="b")
    if door in SETTLED:
        await SETTLED[door](stage, library, "k")
    await row.through(stage, library, "k")
    return row.spoke.format(key="k")


SETTLED: dict[Door, Any] = {
    Door.WAKES: park,
    Door.ANSWER: ask_under,
    Door.RECOVERY: kill_whole,
    Door.ADOPTION: kill_alone,
}
"""What must be there before, under ``b``."""


async def _told(library: Segue, through: Any, stage: Stage, key: str = "k") -> str:
    """What the caller is told: an error, or how it ended."""
    try:
        return brief(await through(stage, library, key))
    except SegueError as error:
        return str(error)


async def _switched(library: Segue, key: str, how: Any) -> str:
    try:
        return brief(await library.accounts.switch(key, "c", carry=how))
    except SegueError as error:
        return str(error)


def test_a_retried_prompt_of_a_flow_stays_behind_the_wall(staged: Staged) -> None:
    """What a flow composes is a message like any other: its own retry, under another account, is judged by
    whose words it repeats."""
    stage = staged(new="b")
    stage.config(NEVER_A_TO_C)

    async def work(library: Segue) -> str:
        shown = await own_flow(stage, library, "k")
        assert stage.knows("b")
        try:
            place = stage.tree("k")
            return brief(await library.retry(f"flow/{shown.flow}/second", account="c", cwd=place))
        except SegueError as error:
            return str(error)

    told = stage.play_out(work)
    assert not stage.knows("c"), told


def test_a_rule_that_is_made_while_a_run_waits_counts(staged: Staged) -> None:
    """A step of a flow is parked with the first agent's words in its prompt; then the rule is made."""
    from tests.laws.doors import LIMIT

    stage = staged(new="b")
    stage.config('[carry]\nrule = "allow"\n')

    async def work(library: Segue) -> str:
        stage.play(("say what you keep", f"[[say I keep {SECRET}]]"))
        stage.play(("The other one", LIMIT[1]), account="b")
        shown = await library.flows.start(waits, {"old": "a", "new": "b"}, key="k", cwd=stage.cwd)
        while not (runs := await library.runs.ls(states=("parked",))):
            await _pause()
        seen = len(stage.lines("b"))
        stage.config(NEVER_A_TO_B)
        stage.play(account="b")
        await library.runs.now(runs[0].run)
        shown = await library.flows.join("k")
        assert not stage.knows("b", after=seen), brief(shown)
        return brief(shown)

    assert "never" in stage.play_out(work)


@pytest.mark.parametrize("rule", ["never", "none"])
def test_naming_another_agent_is_the_users_word_unless_a_rule_says_never(staged: Staged, rule: str) -> None:
    stage = staged()
    (stage.root / "d").mkdir()
    other = declared("other", AGENT)
    other += f'[accounts.d]\nagent = "other"\nenv = {{ REHEARSAL_HOME = "{stage.root}/d" }}\n'
    stage.config(other + ('[carry]\nnever = [["a", "d"]]\n' if rule == "never" else ""))

    async def work(library: Segue) -> None:
        await says(stage, library, "k")
        await library.run("k", "what word?", agent="other", account="d")

    stage.play_out(work)
    assert stage.knows("d", "what word?")
    assert stage.knows("d") is (rule == "none")


async def _pause() -> None:
    import asyncio

    await asyncio.sleep(0.01)


@flow(version=1, name="waits")
async def waits(flow: Flow, old: str, new: str) -> str:
    said = await flow.turn("first", flow.key("first"), "say what you keep", account=old)
    text = f"The other one said: {said.text}"
    told = await flow.turn("second", flow.key("second"), text, account=new, park=True)
    return told.text or (told.failure.message if told.failure is not None else "")
