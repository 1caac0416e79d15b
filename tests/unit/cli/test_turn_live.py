"""Signals while a turn runs: before the event loop, in it, and after the turn."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any, cast

import anyio
import pytest

from segue.app.ready_turn import Cancel, ReadyTurn
from segue.cli.render.screen import Screen
from segue.cli.turn_live import SIGNALS, TurnOnScreen
from segue.core.errors import Misuse
from segue.core.turn import Turn
from segue.system.loop import in_loop, run_sync
from tests.unit.cli.test_words import turn


class Notes:
    """A screen that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.closed = False

    def note(self, line: str) -> None:
        self.lines.append(line)

    def tick(self) -> None: ...

    def close(self) -> None:
        self.closed = True


class SignalledTurn:
    """A turn that receives signals, in the phase that is asked for."""

    answers = False

    def __init__(self, number: int, early: int, late: int, error: Exception | None = None) -> None:
        self.number, self.early, self.late, self.error = number, early, late, error
        self.cancel: Cancel | None = None

    async def run(self, *, cancel: Cancel, **_: Any) -> Turn:
        self.cancel = cancel
        for _n in range(self.early):
            os.kill(os.getpid(), self.number)
            await run_sync(lambda: None)
        if self.error is not None:
            raise self.error
        if self.late:
            await in_loop()
        for n in range(self.late):
            os.kill(os.getpid(), self.number)
            with anyio.fail_after(20):
                while cancel.asked <= self.early + n:  # noqa: ASYNC110 - it is what a turn looks at
                    await anyio.sleep(0.01)
        return turn()


def on_screen(signalled: SignalledTurn) -> tuple[TurnOnScreen, Notes]:
    screen = Notes()
    return TurnOnScreen(cast("ReadyTurn", signalled), cast("Screen", screen), print_events=False), screen


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: signal.Signals(number).name)
@pytest.mark.parametrize(("early", "late"), [(1, 0), (2, 0), (0, 1), (0, 2), (1, 1)])
def test_a_signal_cancels_the_turn_whenever_it_comes(number: int, early: int, late: int) -> None:
    before = [signal.getsignal(each) for each in SIGNALS]
    signalled = SignalledTurn(number, early, late)
    live, screen = on_screen(signalled)
    live.run()
    assert signalled.cancel is not None
    assert signalled.cancel.asked == early + late
    assert live.cancelled
    assert screen.lines == ["Cancelling… (press Ctrl-C again to kill it)"]
    assert screen.closed
    assert [signal.getsignal(each) for each in SIGNALS] == before


class InterruptedScreen(Notes):
    """A screen that receives a signal while it prints, and cannot print two things at once."""

    printing = False

    def note(self, line: str) -> None:
        assert not self.printing
        self.printing = True
        if not self.lines:
            os.kill(os.getpid(), signal.SIGINT)
        super().note(line)
        self.printing = False


class NoticedTurn(SignalledTurn):
    agent = key = "t"

    async def run(self, *, cancel: Cancel, on_notice: Callable[[str], None] = print, **more: Any) -> Turn:
        on_notice("a notice")
        return await super().run(cancel=cancel, **more)


def test_a_signal_while_something_is_printed_cancels_the_turn_too() -> None:
    screen = InterruptedScreen()
    ready = NoticedTurn(signal.SIGINT, 0, 0)
    live = TurnOnScreen(cast("ReadyTurn", ready), cast("Screen", screen), print_events=False)
    live.run()
    assert live.cancelled
    assert screen.lines == ["segue: a notice", "Cancelling… (press Ctrl-C again to kill it)"]


class CancelledTurn(SignalledTurn):
    """A turn that is cancelled by another process, not by a signal."""

    async def run(self, *, cancel: Cancel, **more: Any) -> Turn:
        await in_loop()
        cancel()
        return await super().run(cancel=cancel, **more)


def test_only_who_pressed_ctrl_c_is_told_about_it() -> None:
    live, screen = on_screen(CancelledTurn(signal.SIGINT, 0, 0))
    live.run()
    assert live.cancelled
    assert screen.lines == []


def test_a_signal_while_the_loop_is_loaded_is_answered_too(monkeypatch: pytest.MonkeyPatch) -> None:
    run = anyio.run

    def late(*args: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return run(*args)

    monkeypatch.setattr(anyio, "run", late)
    signalled = SignalledTurn(signal.SIGINT, 0, 1)
    live, screen = on_screen(signalled)
    live.run()
    assert live.cancelled
    assert screen.lines == ["Cancelling… (press Ctrl-C again to kill it)"]


def test_a_question_form_loads_no_asyncio() -> None:
    """It is made before the agent starts."""
    code = """
import sys
from segue.cli.question import QuestionForm
QuestionForm(None)
assert "asyncio" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_wrong_is_said_before_there_is_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anyio, "run", None)
    live, screen = on_screen(SignalledTurn(signal.SIGINT, 0, 0, Misuse("wrong")))
    before = [signal.getsignal(each) for each in SIGNALS]
    with pytest.raises(Misuse, match="wrong"):
        live.run()
    assert not live.cancelled
    assert screen.closed
    assert [signal.getsignal(each) for each in SIGNALS] == before
