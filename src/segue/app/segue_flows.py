"""``Segue.flows``: flows are started, watched, answered, paused, resumed and cancelled.

async with Segue() as segue:
    shown = await segue.flows.run(tidy, {"path": "src"}, key="nightly")
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

from anyio.to_thread import run_sync

from segue.app import flows
from segue.app.flow_report import report
from segue.app.flow_shapes import FlowReport, FlowShown
from segue.core.errors import NotFound
from segue.flows.definition import FlowDefinition, built_in

if TYPE_CHECKING:
    from segue.app.comparisons import Comparison
    from segue.app.flow_driver import FlowDriver
    from segue.app.reviews import ReviewOptions
    from segue.app.segue import Segue
    from segue.app.workspace import Workspace


class Flows:
    """A flow is named by its id, or by its key if it has one."""

    def __init__(self, segue: Segue) -> None:
        self._segue = segue

    async def run(
        self,
        flow: FlowDefinition | str,
        given: Mapping[str, object] | None = None,
        *,
        key: str | None = None,
        label: str = "",
        cwd: str | Path | None = None,
        tree: bool = False,
        budget: float | None = None,
    ) -> FlowShown:
        """Run a flow until it ends or needs somebody. As ``start``."""
        started = await self._started(flow, given, cwd, key=key, label=label, tree=tree, budget=budget)
        await self._driver.join(started)
        return await self.show(started)

    async def start(
        self,
        flow: FlowDefinition | str,
        given: Mapping[str, object] | None = None,
        *,
        key: str | None = None,
        label: str = "",
        cwd: str | Path | None = None,
        tree: bool = False,
        budget: float | None = None,
    ) -> FlowShown:
        """Start a flow, and return at once. It runs in this process until this ``Segue`` is closed.

        ``flow``: a function with ``@flow``, or the name of a flow that comes with Segue. ``given``: its
        arguments. ``key``: your own name for it; the same key again continues the same flow. ``tree``: no
        other flow may work in the same working tree meanwhile. ``budget``: what it may cost, in dollars; then
        it asks.
        """
        started = await self._started(flow, given, cwd, key=key, label=label, tree=tree, budget=budget)
        return await self.show(started)

    async def escalate(
        self,
        file: str | Path,
        *,
        dry_run: bool = False,
        max_tier: int | None = None,
        cwd: str | Path | None = None,
        key: str | None = None,
        label: str = "",
        budget: float | None = None,
    ) -> FlowShown:
        """Run the escalation that a ``FLOW.toml`` describes. As ``start_escalation``, but waits for the end;
        ``end`` is ``done``, ``capped``, ``failed`` or ``cancelled``."""
        shown = await self.start_escalation(
            file, dry_run=dry_run, max_tier=max_tier, cwd=cwd, key=key, label=label, budget=budget
        )
        return await self.join(shown.flow)

    async def start_escalation(
        self,
        file: str | Path,
        *,
        dry_run: bool = False,
        max_tier: int | None = None,
        cwd: str | Path | None = None,
        key: str | None = None,
        label: str = "",
        budget: float | None = None,
    ) -> FlowShown:
        """Start an escalation, and return at once.

        ``dry_run``: nothing may be changed. ``max_tier``: the highest tier that is started. No other flow may
        work in the same working tree meanwhile.
        """
        from segue.app.escalations import start_escalation

        return await start_escalation(
            self._segue,
            file,
            dry_run=dry_run,
            max_tier=max_tier,
            cwd=cwd,
            key=key,
            label=label,
            budget=budget,
        )

    async def review(
        self,
        task: str,
        *,
        coder: str,
        reviewer: str,
        cwd: str | Path | None = None,
        key: str | None = None,
        label: str = "",
        budget: float | None = None,
        **options: Unpack[ReviewOptions],
    ) -> FlowShown:
        """Let a coder work on a task until a reviewer approves. As ``start_review``, but waits for the end;
        ``end`` is ``approved``, ``capped``, ``stalemate``, ``failed`` or ``cancelled``."""
        shown = await self.start_review(
            task, coder=coder, reviewer=reviewer, cwd=cwd, key=key, label=label, budget=budget, **options
        )
        return await self.join(shown.flow)

    async def start_review(
        self,
        task: str,
        *,
        coder: str,
        reviewer: str,
        cwd: str | Path | None = None,
        key: str | None = None,
        label: str = "",
        budget: float | None = None,
        **options: Unpack[ReviewOptions],
    ) -> FlowShown:
        """Start a review, and return at once.

        ``task``: what is to be done. ``coder``, ``reviewer``: agents. No other flow may work in the same
        working tree meanwhile, and it must be a git working tree.
        """
        from segue.app.reviews import order_of, start_review

        order = order_of(task, coder, reviewer, options)
        return await start_review(self._segue, order, cwd=cwd, key=key, label=label, budget=budget)

    async def compare(
        self,
        task: str,
        *,
        coder: str,
        reviewer: str,
        cwd: str | Path | None = None,
        key: str | None = None,
        label: str = "",
        budget: float | None = None,
        **options: Unpack[ReviewOptions],
    ) -> Comparison:
        """Run a review twice, and compare. As ``start_comparison``, but waits until both have ended or need
        somebody."""
        started = await self.start_comparison(
            task, coder=coder, reviewer=reviewer, cwd=cwd, key=key, label=label, budget=budget, **options
        )
        for each in started.reviews:
            await self.join(each.flow)
        return await self.comparison(started.comparison)

    async def start_comparison(
        self,
        task: str,
        *,
        coder: str,
        reviewer: str,
        cwd: str | Path | None = None,
        key: str | None = None,
        label: str = "",
        budget: float | None = None,
        **options: Unpack[ReviewOptions],
    ) -> Comparison:
        """Start the same review twice, at the same time in two worktrees: once with the full prompt in a new
        session for each turn, once as ``start_review``. Returns at once. ``budget``: for each of the two."""
        from segue.app.comparisons import start_comparison
        from segue.app.reviews import order_of

        order = order_of(task, coder, reviewer, options)
        return await start_comparison(self._segue, order, cwd=cwd, key=key, label=label, budget=budget)

    async def comparison(self, comparison: str) -> Comparison:
        """What both reviews have cost so far, and how they ended."""
        from segue.app.comparisons import compare

        return await run_sync(compare, self._workspace, comparison)

    async def join(self, flow: str) -> FlowShown:
        """Wait until a flow ends, or needs somebody, if this process runs it."""
        row = await run_sync(flows.find, self._workspace, flow)
        await self._driver.join(row.id)
        return await self.show(row.id)

    async def show(self, flow: str) -> FlowShown:
        """The flow as it is now, with its steps."""
        return await run_sync(flows.show, self._workspace, flow)

    async def report(self, flow: str) -> FlowReport:
        """The report of a flow: its end, its cost, and its steps; or how far it is."""
        return report(await self.show(flow))

    async def watch(self, flow: str) -> AsyncGenerator[FlowShown]:
        """The flow as it is now, and again whenever something about it has changed, until it is over."""
        async with aclosing(self._segue.service.watch_flow(flow)) as items:
            async for item in items:
                if item is not None:
                    yield item

    async def ls(self, *, every: bool = False, limit: int = 100, brief: bool = False) -> list[FlowShown]:
        """The flows that are not over; ``every``: also those that are. The newest first. ``brief``: without
        results, artefacts, and the steps that are over."""
        return await run_sync(partial(flows.ls, every=every, limit=limit, brief=brief), self._workspace)

    async def resume(
        self, flow: str, *, definition: FlowDefinition | None = None, from_step: str | None = None
    ) -> FlowShown:
        """Continue a flow in this process, and return at once.

        ``definition``: its code; without it, the code is found by what was recorded. Code that does not come
        with Segue is loaded from its file only if that is in the directory of this ``Segue``, or below it.
        ``from_step``: take back this step and all after it, and go on with the newest version of the code.
        """
        from segue.app.flow_changes import resume

        at = self._workspace
        await resume(at, self._driver, flow, definition=definition, from_step=from_step)
        return await self.show(flow)

    async def retry_step(
        self, flow: str, step: str, *, definition: FlowDefinition | None = None
    ) -> FlowShown:
        """Run a step again, and what came after it. A turn is another run of the same message, if nothing was
        said after it. As ``resume``."""
        from segue.app.flow_changes import resume

        at = self._workspace
        await resume(at, self._driver, flow, definition=definition, from_step=step, retry=True)
        return await self.show(flow)

    async def pause(self, flow: str) -> FlowShown:
        """Stop a flow at its next step, whichever process runs it. A turn that runs is not interrupted."""
        return await self._stop(flow, "pause")

    async def cancel(self, flow: str) -> FlowShown:
        """End a flow, whichever process runs it. A turn that runs is cancelled."""
        return await self._stop(flow, "cancel")

    async def artefact(self, hash_: str) -> bytes:
        """Something that a flow keeps, by its hash."""
        data = await run_sync(self._workspace.store.flows.artefact, hash_)
        if data is None:
            raise NotFound(f"there is no artefact {hash_!r:.70}")
        return data

    async def answer(self, flow: str, answer: str, *, step: str | None = None) -> FlowShown:
        """Answer what a flow asks. The first answer counts: ``Conflict`` if there is one. If the flow comes
        with Segue, it goes on here or in the daemon; otherwise ``resume`` it.

        ``step``: the step that asks, if several do.
        """
        row = await run_sync(flows.answer, self._workspace, flow, answer, step)
        return await self.show(row.id)

    async def _started(
        self,
        flow: FlowDefinition | str,
        given: Mapping[str, object] | None,
        cwd: str | Path | None,
        *,
        key: str | None,
        label: str,
        tree: bool,
        budget: float | None,
    ) -> str:
        """Start a flow. Returns its id."""
        definition = built_in(flow) if isinstance(flow, str) else flow
        at = self._workspace
        if tree:
            await run_sync(flows.refuse_busy_tree, at, cwd, key)
        add = partial(flows.add, cwd=cwd, key=key, label=label, tree=tree, budget=budget)
        row = await run_sync(add, at, definition, given or {})
        await self._driver.start(definition, row)
        return row.id

    async def _stop(self, flow: str, what: Literal["pause", "cancel"]) -> FlowShown:
        from segue.app.flow_changes import stop

        await stop(self._workspace, self._driver, flow, what)
        return await self.show(flow)

    @property
    def _workspace(self) -> Workspace:
        return self._segue.workspace

    @property
    def _driver(self) -> FlowDriver:
        return self._segue.service.flows
