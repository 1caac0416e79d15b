"""Runs a prepared turn while the screen lives and Ctrl-C is heard."""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncIterator

import anyio
import msgspec

from segue.cli.screen import Screen
from segue.core import events as ev
from segue.core.errors import SegueError
from segue.core.turn import Turn
from segue.turns.attempt import Cancel
from segue.turns.turn import Prepared, take

TICK_S = 0.2


async def follow(prepared: Prepared, screen: Screen, print_events: bool) -> Turn:
    """Take the turn. The first Ctrl-C (or TERM) ends it in order, the second kills it."""
    cancel = Cancel()

    def on_event(event: ev.Event) -> None:
        screen.event(event)
        if print_events:
            sys.stdout.buffer.write(msgspec.json.encode(event) + b"\n")
            sys.stdout.buffer.flush()

    outcome: Turn | SegueError
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_listen, signals, cancel, screen)
            tasks.start_soon(_tick, screen)
            try:
                outcome = await take(prepared, on_event=on_event, cancel=cancel)
            except SegueError as error:
                outcome = error  # raised below, so that the task group does not wrap it
            tasks.cancel_scope.cancel()
    screen.close()
    if isinstance(outcome, SegueError):
        raise outcome
    return outcome


async def _listen(signals: AsyncIterator[signal.Signals], cancel: Cancel, screen: Screen) -> None:
    async for _ in signals:
        if cancel.asked == 0:
            screen.note("Cancelling… (again to kill)")
        cancel()


async def _tick(screen: Screen) -> None:
    while True:
        screen.tick()
        await anyio.sleep(TICK_S)
