"""Budgets of flows: a turn that they do not cover suspends the flow, and raising the budget goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
import pytest

from segue import Conflict, Flow, FlowShown, Misuse, Segue, flow
from segue.core.budget import ReachedBudget
from segue.flows.aftermath import MOST_TRIES
from tests.integration.conftest import Program

T = TypeVar("T")
Within = Callable[..., Any]


@pytest.fixture
def within(segue: Program) -> Within:
    env = {
        **segue.env,
        "REHEARSAL_HOME": str(segue.home / "agent"),
        "SEGUE_DEFAULTS_AGENT": "rehearsal",
        "SEGUE_DEFAULTS_PERMISSION": "full",
    }

    def enter(work: Callable[[Segue], Awaitable[T]], **more: str) -> T:
        async def go() -> T:
            async with asyncio.timeout(120), Segue(env={**env, **more}, cwd=segue.cwd) as library:
                return await work(library)

        return asyncio.run(go())

    return enter


@flow(version=1)
async def three(flow: Flow) -> list[str]:
    """Three turns, each of which leaves a line in a file."""
    said = []
    for n in (1, 2, 3):
        text = f"[[shell echo {n} >> effects]] [[say turn {n}]]"
        turn = await flow.turn(f"turn-{n}", flow.key("coder"), text, role="coder")
        said.append(turn.failure.kind if turn.failure is not None else turn.text)
    return said


def reached(shown: FlowShown) -> ReachedBudget:
    (question,) = shown.questions
    assert question.budget is not None
    return question.budget


def effects(segue: Program) -> list[str]:
    file = segue.cwd / "effects"
    return file.read_text().split() if file.exists() else []


async def on(segue: Segue, name: str) -> FlowShown:
    await segue.flows.resume(name, definition=three)
    return await segue.flows.join(name)


def test_what_the_budget_does_not_cover_waits_for_you(within: Within, segue: Program) -> None:
    async def work(library: Segue) -> None:
        one = await library.flows.run(three, key="measured")
        cost = one.steps[0].cost_usd
        assert cost is not None
        (segue.cwd / "effects").unlink()
        shown = await library.flows.run(three, key="k", budget=1.5 * cost)
        assert (shown.state, shown.needs, shown.held) == ("needs_you", "budget", False)
        assert effects(segue) == ["1"], "the first was covered, the second did not begin"
        budget = reached(shown)
        assert (budget.scope, budget.name, budget.limit) == ("flow", shown.flow, shown.budget_usd)
        assert budget.spent == pytest.approx(cost, abs=1e-6)
        assert [each.name for each in budget.spent_on] == ["rehearsal (coder)"]
        assert "turn 2" in budget.message, "what is open"
        assert shown.next == f"segue answer {shown.flow} ANSWER"
        assert msgspec.json.decode(segue("answer", "--json").stdout) == [], "the flow asks, not its run"
        for short in ("0.0000000001", "much", str(cost)):
            with pytest.raises(Misuse, match="in dollars, or stop"):
                await library.flows.answer(shown.flow, short)
        await library.flows.answer(shown.flow, str(budget.suggested))
        with pytest.raises(Conflict):
            await library.flows.answer(shown.flow, "1000")
        shown = await on(library, "k")
        assert effects(segue)[:2] == ["1", "2"], "what was suggested covers the turn"
        while shown.state == "needs_you":
            await library.flows.answer(shown.flow, "$1000")
            shown = await on(library, "k")
        assert msgspec.json.decode(shown.result or b"null") == ["turn 1", "turn 2", "turn 3"]
        assert effects(segue) == ["1", "2", "3"]
        assert (shown.budget_usd or 0) > 1.5 * cost
        texts = [each.text for each in await library.log(shown.steps[0].conversation or "")]
        assert len(texts) == 6, "each message once, with its answer"

    within(work)


def test_stopped_the_turn_ends_with_it(within: Within, segue: Program) -> None:
    async def work(library: Segue) -> None:
        shown = await library.flows.run(three, key="k", budget=1e-9)
        assert (shown.needs, effects(segue)) == ("budget", [])
        await library.flows.answer(shown.flow, "stop")
        shown = await on(library, "k")
        assert (shown.needs, shown.steps[0].state) == ("budget", "done")
        for _ in range(2):
            await library.flows.answer(shown.flow, "Stop")
            shown = await on(library, "k")
        assert msgspec.json.decode(shown.result or b"null") == ["budget"] * 3
        assert effects(segue) == []

    within(work)


def test_the_configured_budget_of_flows_counts_and_is_looked_at_again(within: Within, segue: Program) -> None:
    async def work(library: Segue) -> None:
        shown = await library.flows.run(three, key="k")
        assert (shown.needs, shown.budget_usd, reached(shown).scope) == ("budget", 1e-9, "flow")
        shown = await on(library, "k")
        assert shown.needs == "budget", "nothing has changed"

    async def later(library: Segue) -> None:
        shown = await on(library, "k")
        assert (shown.end, shown.needs, effects(segue)) == ("done", None, ["1", "2", "3"])

    within(work, SEGUE_BUDGETS_FLOW="0.000000001")
    within(later, SEGUE_BUDGETS_FLOW="1000")


@pytest.mark.parametrize("name", ["day", "conversation"])
def test_other_budgets_suspend_a_flow_too(within: Within, segue: Program, name: str) -> None:
    async def work(library: Segue) -> None:
        shown = await library.flows.run(three, key="k")
        assert (shown.state, reached(shown).scope) == ("needs_you", name)
        await library.flows.answer(shown.flow, "$100")
        shown = await on(library, "k")
        assert (shown.end, effects(segue)) == ("done", ["1", "2", "3"])

    within(work, **{f"SEGUE_BUDGETS_{name.upper()}": "0.000000001"})


def test_from_the_command_line(within: Within, segue: Program) -> None:
    async def work(library: Segue) -> None:
        await library.flows.run(three, key="k", budget=1e-9)

    within(work)
    listed = segue("answer")
    assert listed.code == 0
    assert "the budget of this flow is" in listed.stdout.lower()
    refused = segue("answer", "k", "--budget", "0.0000000005")
    assert refused.code == 2
    assert len(refused.stderr.strip().splitlines()) == 1
    assert segue("answer", "k", "--budget", "7").code == 0
    told = msgspec.json.decode(segue("flow", "show", "k", "--json").stdout)
    assert (told["state"], told["budget_usd"]) == ("running", 7.0)
    assert segue("answer", "k", "--deny").code != 0, "it was answered"


def test_an_option_for_budgets_does_not_answer_another_question(within: Within, segue: Program) -> None:
    @flow(version=1)
    async def asks(flow: Flow) -> str:
        return await flow.ask("why", "Why?")

    async def work(library: Segue) -> None:
        await library.flows.run(asks, key="k")

    within(work)
    for words in (["--deny"], ["--budget", "5"], ["--allow"], []):
        refused = segue("answer", "k", *words)
        assert (refused.code, len(refused.stderr.strip().splitlines())) == (2, 1), words
    assert segue("answer", "k", "because").code == 0


def test_what_is_not_known_about_a_reached_budget_is_found_out_again(within: Within, segue: Program) -> None:
    """Killed after the turn was withdrawn, before it was noted which budget it was."""

    async def work(library: Segue) -> None:
        shown = await library.flows.run(three, key="k", budget=1e-9)
        await library.flows.pause(shown.flow)
        forget(library, shown)
        await library.flows.resume("k", definition=three)
        again = await library.flows.join("k")
        assert (again.state, again.needs, reached(again).scope) == ("needs_you", "budget", "flow")
        assert effects(segue) == []

    def forget(library: Segue, shown: FlowShown) -> None:
        store = library.workspace.store
        (step,) = store.flows.steps(shown.flow)
        with store._db.writing():
            store._db.run(
                "UPDATE flow_steps SET state = 'running', question = NULL WHERE flow = :flow", flow=shown.flow
            )
            store._db.run("DELETE FROM questions WHERE run = :run", run=step.run)

    within(work)


def test_after_a_pause_the_budgets_are_looked_at_again(within: Within, segue: Program) -> None:
    async def work(library: Segue) -> None:
        await library.flows.run(three, key="k")
        await library.flows.pause("k")

    async def later(library: Segue) -> None:
        assert (await on(library, "k")).end == "done"

    within(work, SEGUE_BUDGETS_FLOW="0.000000001")
    within(later, SEGUE_BUDGETS_FLOW="1000")


def test_the_same_key_with_another_budget_is_refused(within: Within) -> None:
    async def work(library: Segue) -> None:
        await library.flows.run(three, key="k", budget=1e-9)
        with pytest.raises(Conflict, match="another budget"):
            await library.flows.run(three, key="k", budget=5)
        assert (await library.flows.run(three, key="k")).needs == "budget"

    within(work)


@flow(version=1)
async def struck(flow: Flow) -> list[str]:
    """Two turns; the agent of the second is killed once, when its tool has run."""
    await flow.turn("one", flow.key("coder"), "[[say one]]")
    tool = "echo 2 >> effects; [ -e killed ] || { touch killed; kill -9 $PPID; }"
    turn = await flow.turn("two", flow.key("coder"), f"[[shell {tool}]] [[say two]]")
    return [turn.failure.kind if turn.failure is not None else turn.text]


def test_only_setbacks_use_up_the_tries_of_a_turn(within: Within, segue: Program) -> None:
    """However often a budget was looked at again before: a turn that is then killed is continued."""

    async def work(library: Segue) -> None:
        shown = await library.flows.run(struck, key="k", budget=0.000001)
        for _ in range(MOST_TRIES):
            assert (shown.state, shown.needs) == ("needs_you", "budget")
            await library.flows.resume("k", definition=struck)
            shown = await library.flows.join("k")
        assert shown.steps[1].tries > MOST_TRIES
        await library.flows.answer("k", "$1000")
        await library.flows.resume("k", definition=struck)
        shown = await library.flows.join("k")
        assert msgspec.json.decode(shown.result or b"null") == ["Understood."], "it was told to go on"
        assert (segue.cwd / "killed").exists()
        assert effects(segue) == ["2"]

    within(work)
