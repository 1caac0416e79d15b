"""Runs a prepared turn while the screen lives and Ctrl-C is heard."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import suppress

import anyio
from anyio.to_thread import run_sync

from segue.cli.form import Form
from segue.cli.output import say_json
from segue.cli.screen import Screen
from segue.core import events as ev
from segue.core.errors import SegueError
from segue.core.turn import Turn
from segue.store.store import Store
from segue.turns.attempt import Cancel
from segue.turns.prepared import Prepared
from segue.turns.turn import run

TICK_S = 0.2


async def follow(
    prepared: Prepared, store: Store, screen: Screen, print_events: bool, again: str | None
) -> tuple[Turn, bool]:
    """Take the turn. The first Ctrl-C (or TERM, or HUP) ends it in order, the second kills it.

    With whether that was wanted.
    """
    cancel = Cancel()
    printer = Printer(cancel) if print_events else None
    answer = Form(screen) if prepared.ask.answers else None

    def on_event(event: ev.Event) -> None:
        if isinstance(event, ev.Session):  # how it goes about it is decided by now
            tasks.start_soon(_entitle, screen, prepared, store)
        if answer is None or not isinstance(event, ev.Question):  # else it is asked
            screen.event(event)
        if printer is not None:
            printer(event)

    outcome: Turn | Exception
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_listen, signals, cancel, screen)
            tasks.start_soon(_tick, screen)
            try:
                outcome = await run(
                    prepared,
                    store,
                    on_event=on_event,
                    on_notice=lambda text: screen.note(f"segue: {text}"),
                    answer=answer,
                    cancel=cancel,
                    again=again,
                )
            except Exception as error:
                outcome = error  # raised below, so that the task group does not wrap it
            tasks.cancel_scope.cancel()
    screen.close()
    if isinstance(outcome, Exception):
        raise outcome
    if printer is not None and printer.broken:
        raise BrokenPipeError
    return outcome, cancel.asked > 0


async def _entitle(screen: Screen, prepared: Prepared, store: Store) -> None:
    """``claude · resume · fix-auth``. A store that is away holds up nobody for that."""
    with suppress(SegueError):
        row = await run_sync(store.turn, prepared.run, abandon_on_cancel=True)
        mode = row.mode if row is not None else None
        screen.entitle(" · ".join(filter(None, (prepared.agent.name, mode, prepared.ask.key))))


class Printer:
    """Events as JSON lines on stdout. When nobody reads them any more, the turn is cancelled; one that can
    write no more, because a disk is full, lets the agent work on."""

    def __init__(self, cancel: Cancel) -> None:
        self.broken = self._full = False
        self._cancel = cancel

    def __call__(self, event: ev.Event) -> None:
        if self.broken or self._full:
            return
        try:
            say_json(event)
        except BrokenPipeError:
            self.broken = True
            self._cancel()
        except OSError:
            self._full = True


async def _listen(signals: AsyncIterator[signal.Signals], cancel: Cancel, screen: Screen) -> None:
    async for _ in signals:
        if cancel.asked == 0:
            screen.note("Cancelling… (again to kill)")
        cancel()


async def _tick(screen: Screen) -> None:
    while True:
        screen.tick()
        await anyio.sleep(TICK_S)
