"""``Flow``: what a flow's function is given to work with. Whatever has an effect is a step."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal, TypeVar, Unpack, overload

import msgspec

from segue.core.errors import Misuse
from segue.core.flow import FlowQuestion, Needs
from segue.core.laws import Consent
from segue.core.request import Briefing, FlowPlace
from segue.core.turn import Turn
from segue.flows.halt import Stopped, Waiting
from segue.flows.journal import Journal
from segue.flows.ports import Given, TurnPort
from segue.flows.results import unpack
from segue.flows.turn_step import TurnStep
from segue.store.flow_records import ArtefactRow, StepRow
from segue.store.flows import Flows
from segue.system import clock
from segue.system.loop import run_sync
from segue.turns.request import Options

T = TypeVar("T")
_GROUP: ContextVar[str] = ContextVar("segue_flow_group", default="")


class FlowEnd(msgspec.Struct, frozen=True):
    """What a flow returns that names its end itself."""

    end: str
    result: Any = None
    failed: bool = False


def conversation_of(flow: str, name: str) -> str:
    """The key of a conversation of a flow's own."""
    return f"flow/{flow}/{name}"


class Flow:
    """One flow, while its function runs.

    Keys name the steps; each is used once. Outside ``parallel``, steps come in the same order whenever the
    function is entered: take decisions from what steps return, not from the clock, chance or files.
    """

    def __init__(self, journal: Journal, port: TurnPort) -> None:
        self._journal, self._port = journal, port
        self._groups = 0
        self._rounds = journal.flow.rounds

    @property
    def id(self) -> str:
        return self._journal.flow.id

    @property
    def cwd(self) -> Path:
        """The directory it was started in. Turns work there unless they name another one."""
        return Path(self._journal.flow.cwd)

    @property
    def env(self) -> Mapping[str, str]:
        """The environment for programs that it runs itself."""
        return self._port.env

    @property
    def git_home(self) -> Path:
        """Where our own git directories are, for those flows that come with Segue."""
        return self._port.git_home

    @property
    def label(self) -> str:
        return self._journal.flow.label

    @property
    def rounds(self) -> int:
        return self._rounds

    @property
    def store(self) -> Flows:
        """What is stored about flows, for those that come with Segue."""
        return self._journal.store

    def key(self, name: str) -> str:
        """A conversation of this flow's own, such as ``flow.key("coder")``."""
        return conversation_of(self.id, name)

    @overload
    async def step(self, key: str, function: Callable[..., Any], *args: Any) -> Any: ...

    @overload
    async def step(self, key: str, function: Callable[..., Any], *args: Any, returns: type[T]) -> T: ...

    async def step(
        self, key: str, function: Callable[..., Any], *args: Any, returns: type[T] | None = None
    ) -> Any:
        """Call the function, and record what it returns as JSON. Once that is recorded, it is not called
        again. It runs *at least* once: after a kill it may run a second time, so it should not matter if it
        does. A function that is not async runs in a thread. If it raises, it runs again when the flow is
        entered again.

        ``returns``: a type to convert the result to; otherwise it is plain JSON values.
        """
        step = await self._journal.begin(key, "step", _GROUP.get())
        try:
            if step.state == "done":
                return unpack(await self._journal.result(step), returns)
            value = await self._call(step, function, args)
            return unpack((await self._journal.finish(step, value)).json, returns)
        finally:
            self._journal.leave(key)

    async def turn(
        self,
        key: str,
        conversation: str,
        text: str,
        *,
        tier: int | None = None,
        tier_budget: float | None = None,
        briefing: Briefing | None = None,
        after: Turn | None = None,
        came_by: Literal["escalation", "review"] = "escalation",
        variables: Mapping[str, str] | None = None,
        given: Sequence[Turn] | Given | None = None,
        **options: Unpack[Options],
    ) -> Turn:
        """Run a turn of a conversation, exactly once. The options are those of ``Segue.run``.

        If the turn is killed, it is continued. At a limit, and while the model cannot be reached, it waits.
        If a budget does not cover it, the flow asks. Any other failure is its result (``turn.failure``).

        ``briefing``: the whole prompt, for a new session; then the text has only what is new. ``after``: the
        turn that it comes from, if it begins a native session; ``came_by``: how. ``variables``: what the
        agent's environment has in addition. ``tier_budget``: what all turns of its tier may cost.

        ``given``: the turns whose words the text repeats; ``()``: it repeats nobody's. If it is left out, the
        text counts as made from all turns of this flow that have begun. Words of another account reach the
        turn only if it names its own account here, and no rule forbids it.
        """
        _check(options, tier, tier_budget)
        try:
            place = FlowPlace(
                flow=self.id,
                step=key,
                tier=tier,
                parent=after.run if after is not None else None,
                came_by=came_by,
                variables=dict(variables or {}),
                budget=self._journal.flow.budget,
                tier_budget=tier_budget,
            )
            whose = _given(given, options)
            step = TurnStep(self._journal, self._port, conversation, text, options, place, briefing, whose)
            return await step.take(_GROUP.get())
        finally:
            self._journal.leave(key)

    def forbidden(self, options: Options, marks: Sequence[str], consent: Consent = "none") -> str | None:
        """Why words with these marks may not reach the account of a turn with these options; None: they
        may."""
        return self._port.forbidden(options, marks, consent)

    async def ask(
        self,
        key: str,
        text: str,
        *,
        needs: Needs = "question",
        choices: tuple[str, ...] = (),
        tier: int | None = None,
    ) -> str:
        """Ask a person. The flow waits for the answer without a process (``needs_you``); ``segue answer``
        gives it, and the first answer counts.

        ``needs``: what the flow waits for. ``choices``: the answers that are accepted.
        """
        asked = FlowQuestion(text=text, needs=needs, choices=tuple(choices), asked=clock.now_ms())
        question = self._journal.redactor.text(msgspec.json.encode(asked).decode())
        step = await self._journal.begin(
            key, "ask", _GROUP.get(), state="waiting", question=question, tier=tier
        )
        try:
            if step.state == "done":
                return unpack(await self._journal.result(step), str)
            raise Waiting(needs)
        finally:
            self._journal.leave(key)

    async def wait(self, key: str, seconds: float) -> None:
        """Wait this long, without a process."""
        until = clock.now_ms() + round(seconds * 1000)
        step = await self._journal.begin(key, "wait", _GROUP.get(), wake_ms=until)
        try:
            if step.state == "done":
                return
            if step.wake_ms is not None and step.wake_ms > await run_sync(self._journal.store.clock_ms):
                raise Waiting(wake_ms=step.wake_ms)
            await self._journal.finish(step, None)
        finally:
            self._journal.leave(key)

    async def parallel(self, *work: Awaitable[T]) -> list[T]:
        """Run several at the same time, such as ``flow.turn(…)`` calls or functions of yours that take steps.
        Returns their results in order. Inside, the order of steps is free.

        If one fails, the others are still run to their end; then the first failure is raised.
        """
        self._groups += 1
        group = f"{_GROUP.get()}{self._groups}."
        outcomes = await asyncio.gather(*(_grouped(each, group) for each in work), return_exceptions=True)
        failures = [each for each in outcomes if isinstance(each, BaseException)]
        failures.sort(key=lambda each: not isinstance(each, Exception))  # failures before halts
        if failures:
            raise failures[0]
        return [each for each in outcomes if not isinstance(each, BaseException)]

    async def round(self, number: int) -> None:
        """Say that a round begins, for whoever watches."""
        if number > self._rounds:
            self._rounds = number
            store = self._journal.store
            await self._journal.fenced(lambda claim: store.count_round(claim, self.id, number))

    async def artefact(
        self, name: str, data: str | bytes, media_type: str = "text/plain; charset=utf-8"
    ) -> ArtefactRow:
        """Keep something under a name, to be looked at later. Secrets are removed."""
        raw = self._journal.redactor.bytes(data.encode() if isinstance(data, str) else data)
        store, now_ms = self._journal.store, clock.now_ms()
        return await self._journal.fenced(
            lambda claim: store.keep(claim, self.id, name, raw, media_type, now_ms)
        )

    async def spent(self) -> float:
        """What the turns of this flow have cost so far, in dollars, as far as that is known."""
        return await run_sync(self._journal.store.spent, self.id)

    def end(self, end: str, result: Any = None, *, failed: bool = False) -> FlowEnd:
        """What to return for an end with a name: ``return flow.end("approved", {...})``."""
        return FlowEnd(end, result, failed)

    async def _call(self, step: StepRow, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Call a step's function. Its failure is recorded."""
        try:
            if not inspect.iscoroutinefunction(function):
                found = await run_sync(function, *args)
                return await self._ended(found) if inspect.isawaitable(found) else found
            return await self._ended(function(*args))
        except Exception as error:
            await self._journal.fail(step, f"{type(error).__name__}: {error}")
            raise

    async def _ended(self, work: Awaitable[Any]) -> Any:
        """Wait for what a step does. If the flow is cancelled, so is the step."""
        loop, task, stop = asyncio.get_running_loop(), asyncio.ensure_future(work), self._journal.stop

        def cancel() -> None:
            loop.call_soon_threadsafe(task.cancel)

        stop.add(cancel)
        try:
            return await task
        except asyncio.CancelledError:
            if not task.done():
                task.cancel()
            if stop.kind == "cancel":
                raise Stopped("cancel") from None
            raise
        finally:
            stop.remove(cancel)


async def _grouped(work: Awaitable[T], group: str) -> T:
    """In a task of its own (``gather`` makes one), so that the group counts for this work only."""
    _GROUP.set(group)
    return await work


def _given(given: Sequence[Turn] | Given | None, options: Options) -> Given:
    """A flow is the user's own program: an account that it names for a turn is the user's word."""
    if isinstance(given, Given):
        return given
    named = options.get("account") is not None
    runs = None if given is None else tuple(turn.run for turn in given)
    return Given(runs=runs, consent="user" if named else "none")


def _check(options: Options, tier: int | None, tier_budget: float | None) -> None:
    if "run_key" in options or "fork" in options:
        raise Misuse("a turn of a flow has a run key of its own, and is not forked")
    if tier_budget is not None and tier is None:
        raise Misuse("a tier's budget needs the number of the tier")
