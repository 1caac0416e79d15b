"""What is changed about a flow from outside: it is paused, cancelled, resumed, or goes back to a step.

A flow that a process runs is asked to stop, and does so itself. One that nobody runs is changed here, under
its lease.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from anyio.to_thread import run_sync

from segue.app.flow_driver import FlowDriver
from segue.app.flows import find
from segue.app.runs import cancel_run, settle_lost
from segue.app.workspace import Workspace
from segue.core.errors import Gone, InUse, NotFound
from segue.core.flow import UNFINISHED
from segue.core.turn import status_of
from segue.flows.definition import FlowDefinition, FlowSource, built_in, load
from segue.flows.entry import flow_lease, held
from segue.flows.halt import Stop
from segue.store.flow_records import FlowRow, StepRow
from segue.system import clock

LEAVE_S = 1.0
"""How long to wait for a process that may be about to leave the flow, before it is left to that process."""
HELD_S = 10.0
"""How long to wait for a process that is about to leave the flow."""


async def stop(workspace: Workspace, driver: FlowDriver, name: str, what: Literal["pause", "cancel"]) -> None:
    """Pause or cancel a flow, whichever process runs it. Raises ``Gone`` if it is over."""
    row = await run_sync(find, workspace, name)
    if not await run_sync(workspace.store.flows.ask_for, row.id, what):
        raise Gone(f"the flow {row.id} is {row.state}")
    if (running := driver.stop(row.id)) is not None:
        running.ask(what)
        return
    try:
        async with held(driver.around(), flow_lease(row.id), Stop(), LEAVE_S, "it runs") as lease:
            row = await run_sync(find, workspace, row.id)
            if row.state not in UNFINISHED:
                return
            if what == "cancel":
                await _end_runs(workspace, row)
                ended = {"state": "cancelled", "ending": "cancelled", "ended_ms": clock.now_ms()}
            else:
                ended = {"state": "paused"}
            changed = msgspec.structs.replace(row, needs=None, wake_ms=None, **ended)
            await run_sync(workspace.store.flows.change, lease.claim, changed)
    except InUse:
        pass  # whoever runs it has been asked


async def resume(
    workspace: Workspace,
    driver: FlowDriver,
    name: str,
    *,
    definition: FlowDefinition | None = None,
    from_step: str | None = None,
    retry: bool = False,
    elsewhere: bool = False,
) -> None:
    """Continue a flow. ``from_step``: first take back this step and all after it; then the newest version of
    its code is used. ``retry``: only to try that step again. ``elsewhere``: the daemon runs it, not this
    process."""
    row = await run_sync(find, workspace, name)
    newest = from_step is not None and not retry
    code = definition if definition is not None else await run_sync(code_of, workspace, row, newest)
    async with held(driver.around(), flow_lease(row.id), Stop(), HELD_S, "the flow runs") as lease:
        row, flows = await run_sync(find, workspace, row.id), workspace.store.flows
        if row.state == "cancelled" or (row.state == "done" and from_step is None):
            raise Gone(f"the flow {row.id} is {row.state}")
        if from_step is not None:
            steps = await run_sync(flows.steps, row.id)
            back = taken_back(row, steps, from_step, together=not retry)
            await run_sync(lambda: flows.write_step(lease.claim, *back))
        else:
            await run_sync(flows.look_again, lease.claim, row.id)
        wake_ms = None if from_step is not None else row.wake_ms
        changed = _going_on(row, code.version if newest else row.version, wake_ms)
        await run_sync(flows.change, lease.claim, changed)
    if not elsewhere:
        await driver.start(code, changed)


def _going_on(row: FlowRow, version: int, wake_ms: int | None) -> FlowRow:
    return msgspec.structs.replace(
        row,
        version=version,
        state="running",
        needs=None,
        wake_ms=wake_ms,
        ending=None,
        result=None,
        artefact=None,
        failure=None,
        ended_ms=None,
    )


def code_of(workspace: Workspace, row: FlowRow, newest: bool = False) -> FlowDefinition:
    """The code of a flow. ``newest``: whatever its version is. Raises ``NotFound`` if it is not here."""
    if row.source is None:
        return built_in(row.kind, None if newest else row.version, of=row.id)
    source = msgspec.json.decode(row.source, type=FlowSource)
    return load(source, None if newest else row.version, workspace.cwd, of=row.id)


def taken_back(row: FlowRow, steps: list[StepRow], key: str, *, together: bool) -> list[StepRow]:
    """The step and those that began after it, as they are to begin anew. ``together``: also those that ran at
    the same time."""
    first = next((each for each in steps if each.key == key and each.n is not None), None)
    if first is None or first.n is None:
        known = ", ".join(each.key for each in steps if each.n is not None) or "none yet"
        raise NotFound(f"the flow {row.id} has no step {key!r:.60}; recorded: {known}")
    return [_anew(each) for each in steps if each.n is not None and _goes(each, first, together)]


def _goes(step: StepRow, first: StepRow, together: bool) -> bool:
    beside = bool(first.together) and step.together == first.together
    if beside:
        return together or step.key == first.key
    return (step.n or 0) >= (first.n or 0)


def _anew(step: StepRow) -> StepRow:
    return msgspec.structs.replace(
        step,
        n=None,
        tries=step.tries + 1,
        state="running",
        previous=step.run,
        run=None,
        question=None,
        result=None,
        artefact=None,
        failure=None,
        wake_ms=None,
        ended_ms=None,
    )


async def _end_runs(workspace: Workspace, row: FlowRow) -> None:
    """End the turns of a flow that nobody runs: their agents may still work."""
    for run in await run_sync(workspace.store.flows.runs, row.id):
        if status_of(run.state) is None:
            await run_sync(cancel_run, workspace, run.run)
            await settle_lost(workspace, run.run)
