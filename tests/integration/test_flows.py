"""Flows: the steps of a function are recorded, and entering it again goes on where it was."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from segue import Cancel, Conflict, Flow, FlowEnd, FlowShown, Gone, InUse, Misuse, Segue, flow
from segue.core.errors import StoreAway
from segue.store.store import Store
from tests.integration.conftest import Program

T = TypeVar("T")
PATIENCE_S = 120.0


@pytest.fixture
def env(segue: Program) -> dict[str, str]:
    return {
        **segue.env,
        "REHEARSAL_HOME": str(segue.home / "agent"),
        "SEGUE_DEFAULTS_AGENT": "rehearsal",
        "SEGUE_DEFAULTS_PERMISSION": "full",
        "SECRET_TOKEN": "this-is-a-secret-value",
    }


@pytest.fixture
def within(segue: Program, env: dict[str, str]) -> Callable[[Callable[[Segue], Awaitable[T]]], T]:
    def enter(work: Callable[[Segue], Awaitable[T]]) -> T:
        async def go() -> T:
            async with asyncio.timeout(PATIENCE_S), Segue(env=env, cwd=segue.cwd) as library:
                return await work(library)

        return asyncio.run(go())

    return enter


Within = Callable[[Callable[[Segue], Awaitable[Any]]], Any]


async def begun(segue: Segue, name: str) -> None:
    """Wait until the flow has begun a step."""
    async for _ in polled():
        if (await segue.flows.show(name)).steps:
            return


async def polled() -> AsyncIterator[None]:
    while True:
        yield
        await asyncio.sleep(0.01)


def result(shown: FlowShown) -> Any:
    return msgspec.json.decode(shown.result) if shown.result is not None else None


def test_steps_and_turns_are_recorded_and_reported(within: Within) -> None:
    @flow(version=3)
    async def small(flow: Flow, name: str) -> dict[str, Any]:
        length = await flow.step("measure", len, name)
        first = await flow.turn("ask", flow.key("coder"), "remember 456", role="coder", tier=1)
        second = await flow.turn("again", flow.key("coder"), "[[say done]]", role="coder")
        return {"length": length, "modes": [first.mode, second.mode], "text": second.text}

    async def work(segue: Segue) -> None:
        shown = await segue.flows.run(small, {"name": "tidy"}, label="a label")
        assert (shown.kind, shown.version, shown.state, shown.end) == ("small", 3, "done", "done")
        assert result(shown) == {"length": 4, "modes": ["fresh", "resume"], "text": "done"}
        assert [(each.key, each.kind, each.state, each.tries) for each in shown.steps] == [
            ("measure", "step", "done", 1),
            ("ask", "turn", "done", 1),
            ("again", "turn", "done", 1),
        ]
        asked = shown.steps[1]
        assert (asked.agent, asked.role, asked.tier, asked.mode) == ("rehearsal", "coder", 1, "fresh")
        run = await segue.runs.show(asked.run or "")
        assert run.turn is not None
        assert asked.cost_usd == run.turn.cost_usd
        assert shown.cost_usd == pytest.approx(sum(each.cost_usd or 0 for each in shown.steps))
        assert not shown.held
        assert await segue.flows.ls() == []
        assert [each.flow for each in await segue.flows.ls(every=True)] == [shown.flow]

    within(work)


def test_a_finished_step_is_not_run_again(within: Within, segue: Program) -> None:
    effects = segue.cwd / "effects"

    def effect(name: str) -> str:
        with effects.open("a") as file:
            file.write(f"{name}\n")
        return name

    broken = True

    @flow(version=1)
    async def stumbles(flow: Flow) -> str:
        await flow.step("one", effect, "one")
        turn = await flow.turn("two", "talk", "[[shell echo two >> effects]] [[say two]]")
        await flow.step("three", fails_once)
        return turn.text

    def fails_once() -> str:
        if broken:
            raise OSError("the disk is full")
        return effect("three")

    async def work(segue: Segue) -> None:
        nonlocal broken
        shown = await segue.flows.run(stumbles, key="k")
        assert (shown.state, shown.failure) == ("failed", "OSError: the disk is full")
        assert shown.steps[-1].failure == "OSError: the disk is full"
        broken = False
        shown = await segue.flows.resume("k", definition=stumbles)
        shown = await segue.flows.join("k")
        assert (shown.state, result(shown)) == ("done", "two")
        assert len(await segue.log("talk")) == 2

    within(work)
    assert effects.read_text().split() == ["one", "two", "three"]


def test_a_question_suspends_without_a_process_and_the_first_answer_counts(within: Within) -> None:
    @flow(version=1)
    async def asks(flow: Flow) -> list[str]:
        color = await flow.ask("color", "Which color?", choices=("red", "blue"), needs="human")
        return [color, await flow.ask("why", "And why?")]

    async def work(segue: Segue) -> None:
        shown = await segue.flows.run(asks, key="k")
        assert (shown.state, shown.needs, shown.held) == ("needs_you", "human", False)
        assert [(each.step, each.text, each.choices) for each in shown.questions] == [
            ("color", "Which color?", ("red", "blue"))
        ]
        with pytest.raises(Misuse, match="the answer is one of: red, blue"):
            await segue.flows.answer("k", "green")
        answers = await asyncio.gather(
            segue.flows.answer("k", "red", step="color"),
            segue.flows.answer("k", "blue", step="color"),
            return_exceptions=True,
        )
        assert sum(isinstance(each, Conflict) for each in answers) == 1, answers
        shown = await segue.flows.run(asks, key="k")
        assert (shown.state, shown.needs) == ("needs_you", "question")
        assert shown.next == f"segue answer {shown.flow} ANSWER"
        await segue.flows.answer(shown.flow, "because")
        shown = await segue.flows.run(asks, key="k")
        assert result(shown)[0] in ("red", "blue")
        assert result(shown)[1] == "because"
        with pytest.raises(Conflict, match="asks nothing now"):
            await segue.flows.answer("k", "late")

    within(work)


def test_steps_at_the_same_time(within: Within) -> None:
    met = asyncio.Barrier(2)

    @flow(version=1)
    async def both(flow: Flow) -> list[Any]:
        async def meet(name: str) -> str:
            await met.wait()
            return name

        await flow.step("before", lambda: None)
        found = await flow.parallel(
            flow.step("a", meet, "a"), flow.step("b", meet, "b"), flow.turn("c", "talk", "[[say c]]")
        )
        await flow.step("after", lambda: None)
        return [found[0], found[1], found[2].text]

    async def work(segue: Segue) -> None:
        shown = await segue.flows.run(both)
        assert result(shown) == ["a", "b", "c"], shown.failure

    within(work)


def test_steps_at_the_same_time_without_parallel_are_an_error(within: Within) -> None:
    @flow(version=1)
    async def careless(flow: Flow) -> None:
        await asyncio.gather(flow.step("a", asyncio.sleep, 0.01), flow.step("b", asyncio.sleep, 0.01))

    async def work(segue: Segue) -> None:
        shown = await segue.flows.run(careless)
        assert shown.state == "failed"
        assert shown.failure == "the steps a and b run at the same time: use flow.parallel for that"

    within(work)


def test_an_order_that_does_not_fit_is_an_error_that_says_so(within: Within) -> None:
    keys = ["one", "two", "question"]

    @flow(version=1)
    async def changing(flow: Flow) -> None:
        for key in keys[:-1] or keys:
            await flow.step(key, lambda: None)
        if len(keys) > 1:
            await flow.ask(keys[-1], "Go on?")

    async def work(segue: Segue) -> None:
        shown = await segue.flows.run(changing, key="k")
        keys[:] = ["one", "other", "question"]
        await segue.flows.answer("k", "yes")
        shown = await segue.flows.run(changing, key="k")
        assert shown.state == "failed"
        assert shown.failure is not None
        assert shown.failure.startswith("the step other comes where two is recorded: the code of the flow ")
        assert f"segue flow resume {shown.flow} --from two" in shown.failure
        keys[:] = ["one", "question"]
        shown = await segue.flows.resume("k", definition=changing)
        shown = await segue.flows.join("k")
        assert "the step question comes where two is recorded" in (shown.failure or "")
        keys[:] = ["one"]
        await segue.flows.resume("k", definition=changing)
        shown = await segue.flows.join("k")
        assert (shown.failure or "").startswith("the flow ended, but step two is recorded after this point: ")
        keys[:] = ["one", "new", "question"]
        await segue.flows.resume("k", definition=changing, from_step="two")
        shown = await segue.flows.join("k")
        assert [each.key for each in shown.steps] == ["one", "new", "question"]
        assert shown.state == "needs_you"

    within(work)


def test_large_results_are_artefacts_and_secrets_are_not_recorded(within: Within, segue: Program) -> None:
    calls: list[str] = []

    @flow(version=1)
    async def large(flow: Flow) -> Any:
        def make(size: int) -> dict[str, str]:
            calls.append(str(size))
            return {"text": "x" * size, "secret": "the token is this-is-a-secret-value."}

        small = await flow.step("small", make, 10)
        big = await flow.step("big", make, 70_000)
        await flow.ask("go", "Go on?")
        await flow.artefact("notes", "a note with this-is-a-secret-value")
        return flow.end("approved", [small, len(big["text"]), big["secret"]])

    async def work(segue: Segue) -> None:
        shown = await segue.flows.run(large, key="k")
        big = shown.steps[1]
        assert big.result is None
        assert [(each.name, each.hash) for each in shown.artefacts] == [("big", big.artefact)]
        await segue.flows.answer("k", "yes")
        shown = await segue.flows.run(large, key="k")
        hidden = "the token is [redacted]."
        assert result(shown) == [{"text": "x" * 10, "secret": hidden}, 70_000, hidden]
        assert shown.end == "approved"
        notes = next(each for each in shown.artefacts if each.name == "notes")
        assert await segue.flows.artefact(notes.hash) == b"a note with [redacted]"

    within(work)
    assert calls == ["10", "70000"]


def test_the_same_key_is_the_same_flow_and_another_input_is_refused(within: Within) -> None:
    @flow(version=1)
    async def named(flow: Flow, n: int = 0) -> int:
        return n

    async def work(segue: Segue) -> None:
        first = await segue.flows.run(named, {"n": 1}, key="k")
        again = await segue.flows.run(named, {"n": 1}, key="k")
        assert first.flow == again.flow
        with pytest.raises(Conflict, match="the key k belongs to another flow"):
            await segue.flows.run(named, {"n": 2}, key="k")
        with pytest.raises(Misuse, match="cannot be started with this"):
            await segue.flows.run(named, {"m": 2})

    within(work)


def test_a_wrong_definition_is_refused() -> None:
    with pytest.raises(Misuse, match="must be an async function"):
        flow(version=1)(print)  # type: ignore[arg-type]
    with pytest.raises(Misuse, match="the version of a flow is a number from 1 on"):
        flow(version=0)
    with pytest.raises(Misuse, match="is not the name of a flow"):
        flow(version=1, name="a b")(asyncio.sleep)


def test_a_waiting_flow_goes_on_when_its_time_has_come(within: Within) -> None:
    entered: list[int] = []

    @flow(version=1)
    async def patient(flow: Flow) -> str:
        entered.append(1)
        await flow.wait("a-while", 0.2)
        return "done"

    async def work(segue: Segue) -> None:
        shown = await segue.flows.run(patient)
        assert (shown.state, result(shown)) == ("done", "done")
        assert shown.wake is None

    within(work)
    assert len(entered) == 2


def test_a_failed_turn_is_a_result_and_the_flow_decides(within: Within) -> None:
    @flow(version=1)
    async def decides(flow: Flow) -> FlowEnd:
        turn = await flow.turn("t", "talk", "[[error 400]]")
        return flow.end("failed" if turn.failure else "approved", failed=turn.failure is not None)

    async def work(segue: Segue) -> None:
        shown = await segue.flows.run(decides)
        assert (shown.state, shown.end) == ("failed", "failed")

    within(work)


def test_two_flows_do_not_work_in_one_tree(within: Within, segue: Program) -> None:
    (segue.cwd / ".git").mkdir()
    (segue.cwd / "below").mkdir()

    @flow(version=1)
    async def works(flow: Flow) -> None:
        await flow.turn("t", flow.key("c"), "[[shell while [ ! -e gate ]; do sleep 0.05; done]] [[say k]]")

    async def work(library: Segue) -> None:
        first = await library.flows.start(works, tree=True)
        await begun(library, first.flow)
        with pytest.raises(InUse, match="another flow works in"):
            await library.flows.start(works, tree=True, cwd=segue.cwd / "below")
        for each in (segue.cwd, segue.cwd / "below"):
            (each / "gate").touch()
        assert (await library.flows.join(first.flow)).state == "done"
        second = await library.flows.run(works, tree=True, cwd=segue.cwd / "below")
        assert second.state == "done"

    within(work)


def test_a_definition_knows_where_its_code_is() -> None:
    @flow(version=1)
    async def here(flow: Flow) -> None: ...

    assert here.source is not None
    assert Path(here.source.file) == Path(__file__)
    assert here.source.function.endswith("here")


FLAKY = """
[agents.flaky]
command = ["/bin/sh", "-c", "cat >/dev/null; [ -e t ] && exec echo $FINE; touch t; echo $BROKEN; exit 1"]
stdin = "prompt"
output = "jsonl"
text = { path = "$.text" }
error = { path = "$.problem", kind = "KIND" }
"""


@pytest.mark.parametrize("kind", ["rate_limited", "network"])
def test_at_a_limit_and_without_a_connection_a_turn_waits_and_is_tried_again(
    within: Within, segue: Program, env: dict[str, str], kind: str
) -> None:
    segue.config(FLAKY.replace("KIND", kind))
    env |= {"FINE": '{"text":"fine"}', "BROKEN": '{"problem":"not now"}'}

    @flow(version=1)
    async def patient(flow: Flow) -> str:
        return (await flow.turn("work", flow.key("a"), "hello", agent="flaky")).text

    async def work(segue: Segue) -> None:
        first = await segue.flows.start(patient)
        parked = [each async for each in segue.flows.watch(first.flow) if each.state == "parked"]
        assert parked
        assert parked[0].wake is not None
        assert not all(each.held for each in parked), "nothing is held while it waits"
        shown = await segue.flows.show(first.flow)
        assert (shown.state, result(shown)) == ("done", "fine"), shown.failure
        (step,) = shown.steps
        assert (step.tries, len(step.runs), step.wake) == (2, 2, None)
        assert len(await segue.log(step.conversation or "")) == 2, "it was one message"

    within(work)


def test_a_turn_that_the_user_cancels_is_a_result(within: Within, segue: Program) -> None:
    @flow(version=1)
    async def hangs(flow: Flow) -> str:
        turn = await flow.turn("hang", flow.key("a"), "[[hang]]")
        return turn.failure.kind if turn.failure is not None else "none"

    async def work(segue: Segue) -> None:
        shown = await segue.flows.start(hangs)
        run = ""
        async for now in segue.flows.watch(shown.flow):
            if not run and now.steps and now.steps[0].mode is not None:
                run = now.steps[0].run or ""
                await segue.runs.cancel(run)
        shown = await segue.flows.join(shown.flow)
        assert (shown.state, result(shown)) == ("done", "cancelled")
        assert shown.steps[0].tries == 1

    within(work)


def test_a_flow_that_is_cancelled_ends_its_turn(within: Within) -> None:
    @flow(version=1)
    async def hangs(flow: Flow) -> None:
        await flow.turn("hang", flow.key("a"), "[[hang]]")

    async def work(segue: Segue) -> None:
        shown = await segue.flows.start(hangs)
        async for now in segue.flows.watch(shown.flow):
            if now.state == "running" and now.steps and now.steps[0].mode is not None and now.stops is None:
                await segue.flows.cancel(shown.flow)
        shown = await segue.flows.show(shown.flow)
        assert (shown.state, shown.end) == ("cancelled", "cancelled")
        assert await segue.runs.ls() == []
        with pytest.raises(Gone):
            await segue.flows.pause(shown.flow)

    within(work)


def test_a_turn_that_waits_for_its_conversation_is_paused_with_its_flow(within: Within) -> None:
    @flow(version=1)
    async def waits(flow: Flow) -> str:
        return (await flow.turn("turn", "talk", "[[say done]]")).text

    async def work(library: Segue) -> None:
        cancel = Cancel()
        other = asyncio.create_task(library.run("talk", "[[hang]]", cancel=cancel))
        async for _ in polled():
            if any(each.state == "running" for each in await library.runs.ls()):
                break
        await library.flows.start(waits, key="k")
        waiting = asyncio.create_task(library.flows.join("k"))
        async for _ in polled():
            if any(each.state == "queued" for each in await library.runs.ls()):
                break
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await library.flows.show("k")).state == "paused", "nothing of it has begun"
        cancel()
        await other
        await library.flows.resume("k", definition=waits)
        assert result(await library.flows.join("k")) == "done"

    within(work)


def test_what_the_caller_gives_up_is_paused_and_closing_leaves_it(within: Within) -> None:
    @flow(version=1)
    async def hangs(flow: Flow) -> None:
        await flow.turn("hang", flow.key("a"), "[[hang]]")

    async def works(library: Segue, tries: int) -> None:
        async for now in library.flows.watch("k"):
            if now.steps and now.steps[0].tries == tries and len(now.steps[0].runs) == tries:
                return

    async def give_up(library: Segue) -> None:
        await library.flows.start(hangs, key="k")
        waiting = asyncio.create_task(library.flows.join("k"))
        await works(library, 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        shown = await library.flows.show("k")
        assert (shown.state, shown.held, shown.steps[0].state) == ("paused", False, "running")

    async def leave(library: Segue) -> None:
        await library.flows.resume("k", definition=hangs)
        await works(library, 2)

    async def end(library: Segue) -> None:
        shown = await library.flows.show("k")
        assert (shown.state, shown.held, shown.steps[0].tries) == ("running", False, 3)
        assert (await library.flows.cancel("k")).state == "cancelled"
        assert len(await library.log(shown.steps[0].conversation or "")) == 1, "it was one message"

    within(give_up)
    within(leave)
    within(end)


def test_a_turn_that_could_not_begin_while_the_store_was_away_is_begun_again(
    within: Within, monkeypatch: pytest.MonkeyPatch
) -> None:
    @flow(version=1)
    async def small(flow: Flow) -> str:
        return (await flow.turn("ask", flow.key("a"), "[[say done]]")).text

    since: list[float] = []

    def at_first(real: Callable[..., Any]) -> Callable[..., Any]:
        """Away for a moment, from when the turn is stored and wants its conversation."""

        def call(store: Store, *args: Any) -> Any:
            if not since and isinstance(args[0], str) and args[0].startswith("conversation:"):
                since.append(time.monotonic())
            if since and time.monotonic() - since[0] < 0.5:
                raise StoreAway("the store is away")
            return real(store, *args)

        return call

    for name in ("take_lease", "settle"):
        monkeypatch.setattr(Store, name, at_first(getattr(Store, name)))

    async def work(library: Segue) -> None:
        shown = await library.flows.run(small)
        assert (shown.state, result(shown)) == ("done", "done"), shown.failure
        (step,) = shown.steps
        assert (step.tries, len(step.runs)) == (2, 2)
        assert [each.status for each in await library.log(step.conversation or "")] == ["ok", "ok"]

    within(work)
