"""Runs or follows a flow in the terminal: by the daemon if it can, otherwise in this process.

Everything about a flow is in the store. So a flow that comes with Segue is left to the daemon by storing it,
and what the daemon does is read from the store.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from segue.cli.render.flow_view import FlowView, reason_of, summary
from segue.cli.render.output import say, say_json
from segue.core.errors import InUse, StoreAway

if TYPE_CHECKING:
    from segue.app.flow_shapes import FlowShown
    from segue.app.segue import Segue

TICK_S = 0.2
LOST_S = 10.0
"""How long a flow that should run may have no process before nobody is expected to run it."""
AWAY_S = 120.0
"""How long the store may be away while a flow is followed: as long as for whoever runs it."""
SHORT = ("capped", "stalemate")
"""Ends of flows that could not finish what they were for."""
Work = Callable[["Segue"], Awaitable[str]]
Told = Callable[["FlowShown", bool, bool], int]


def run_flow(work: Work, *, as_json: bool, quiet: bool = False, told: Told | None = None) -> int:
    """Do something that starts or continues a flow, then follow the flow until it ends or waits for somebody.

    ``work``: returns the flow's id. Ctrl-C pauses a flow that runs in this process. ``told``: prints how it
    is at the end instead of ``tell``, and returns the exit code."""

    async def one(segue: Segue) -> dict[str, FlowView]:
        return {await work(segue): FlowView(quiet=quiet)}

    (shown,), interrupted = follow_flows(one)
    return (told or tell)(shown, as_json, interrupted)


def follow_flows(work: Callable[[Segue], Awaitable[dict[str, FlowView]]]) -> tuple[list[FlowShown], bool]:
    """Follow the flows that are started or continued, each in its view, until all have ended or wait for
    somebody. Returns them, and whether the user has interrupted that."""
    return asyncio.run(_run(work))


def daemon_runs() -> bool:
    """Whether a daemon can be used that runs flows."""
    from segue.client import Daemon, find_daemon

    return isinstance(find_daemon(os.environ), Daemon)


def tell(shown: FlowShown, as_json: bool, interrupted: bool = False) -> int:
    """Print how the flow is now. Returns the exit code."""
    from segue.app.flow_report import report

    if as_json:
        say_json(report(shown))
    else:
        say(f"segue: {shown.flow} {summary(shown)}", err=True)
        if shown.waits is not None:
            say(f"segue: {shown.waits.why}", err=True)
        if reason := reason_of(shown):
            say(f"{shown.end}: {reason}")
        if shown.failure is not None:
            say(f"segue: {shown.failure}", err=True)
        for each in shown.questions:
            choices = f" ({' / '.join(each.choices)})" if each.choices else ""
            say(f"segue: {each.text}{choices}", err=True)
        if shown.next is not None:
            say(f"segue: next: {shown.next}", err=True)
    return 130 if interrupted else exit_code(shown)


def exit_code(shown: FlowShown) -> int:
    """0: it is done, or goes on; 1: it failed, ended too early, or needs somebody; 130: it was cancelled or
    paused."""
    codes = {"failed": 1, "needs_you": 1, "cancelled": 130, "paused": 130}
    return codes.get(shown.state, 1 if shown.end in SHORT else 0)


async def _run(
    work: Callable[[Segue], Awaitable[dict[str, FlowView]]],
) -> tuple[list[FlowShown], bool]:
    from segue.app.segue import Segue

    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(each, task.cancel)
    interrupted, views = False, dict[str, FlowView]()
    async with Segue(env=os.environ, cwd=Path.cwd()) as segue:
        try:
            views = await work(segue)
            await asyncio.gather(*(_follow(segue, flow, view) for flow, view in views.items()))
        except asyncio.CancelledError:
            if not views:
                raise KeyboardInterrupt from None
            interrupted = True
        finally:
            for view in views.values():
                view.close()
        return [await _shown(segue, flow) for flow in views], interrupted


async def _follow(segue: Segue, flow: str, view: FlowView) -> None:
    """Show the flow until it ends or waits. If this process runs it, wait until it has left it."""
    ticking = asyncio.create_task(_tick(view))
    showing = asyncio.create_task(_show(segue, flow, view))
    try:
        if flow in segue.service.flows.running:
            with suppress(InUse):  # another process has it: it is followed
                await segue.service.flows.join(flow)
        await showing
    finally:
        for each in (ticking, showing):
            each.cancel()
        await asyncio.wait([ticking, showing])


async def _show(segue: Segue, flow: str, view: FlowView) -> None:
    lost_since: float | None = None
    async with aclosing(segue.service.watch_flow(flow, LOST_S / 4)) as items:
        async for shown in items:
            if shown is not None:
                view.show(shown)
            now = shown or await _shown(segue, flow)
            view.waits(now)
            if now.state not in ("running", "parked"):
                return
            if now.held or now.state == "parked":
                lost_since = None
                continue
            here = asyncio.get_running_loop().time()
            lost_since = here if lost_since is None else lost_since
            if here - lost_since > LOST_S:
                return  # nobody runs it


async def _shown(segue: Segue, flow: str) -> FlowShown:
    """The flow as it is now. If the store is away, it is waited for."""
    until = time.monotonic() + AWAY_S
    while True:
        try:
            return await segue.flows.show(flow)
        except StoreAway:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(TICK_S)


async def _tick(view: FlowView) -> None:
    while True:
        view.tick()
        await asyncio.sleep(TICK_S)
