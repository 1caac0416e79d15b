"""``segue rehearse``: a local test model, for trying out automation at no cost."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

import click

from segue.cli.render.output import say
from segue.core.errors import Misuse

if TYPE_CHECKING:
    from segue.app.rehearse import Rehearsal

GRACE_S = 5.0
ENDING = (signal.SIGTERM, signal.SIGHUP)


class RehearseCommand(click.Command):
    """What follows ``--`` is the command to run."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta["segue.command"] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND…]"]


@click.command(
    "rehearse", cls=RehearseCommand, short_help="Start a local test model, or run a command with it."
)
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65535),
    default=0,
    help="Listen on this port (default: a free one).",
)
@click.option(
    "--scenario",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Answer as this file says (see docs/rehearsal.md).",
)
@click.option(
    "--log",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write every request to this file, one JSON line each.",
)
@click.option(
    "--home",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Keep the homes and sessions of the rehearsal here (default: a temporary directory).",
)
@click.pass_context
def command(ctx: click.Context, port: int, scenario: Path | None, log: Path | None, home: Path | None) -> int:
    """Start a test model on 127.0.0.1 that speaks the protocols of all four CLIs. No tokens are spent.

    \b
    Print the settings that each CLI needs, and serve until Ctrl-C:
      segue rehearse
    Run one command with the test model:
      segue rehearse -- segue run t1 "hi" --agent codex

    COMMAND runs with separate home directories for the CLIs and its own SEGUE_HOME, so your files are not
    touched. API keys, proxies and other settings that lead to a real provider are removed from its
    environment. It uses your configuration: your defaults; your accounts, with their homes and addresses
    replaced; and the agents that you declared, unchanged.
    """
    argv: list[str] | None = ctx.meta.get("segue.command")
    if argv == []:
        raise Misuse("no command after --; for example: segue rehearse -- segue run t1 hi --agent rehearsal")
    from segue.app.rehearse import rehearsal

    with (
        Signals() as signals,
        rehearsal(os.environ, port=port, scenario=scenario, log=log, home=home) as staged,
    ):
        return _serve(staged, signals) if argv is None else _run(argv, staged, signals)


def _serve(staged: Rehearsal, signals: Signals) -> int:
    say(f"# The model listens at {staged.url} until Ctrl-C.")
    say("# Point the CLIs at it with:")
    for title, lines in staged.exports().items():
        say("\n".join(["", f"# {title}", *lines]))
    signals.any.wait()
    return 0


def _run(argv: list[str], staged: Rehearsal, signals: Signals) -> int:
    command, env = staged.command(argv)
    if signals.numbers:
        return 128 + signals.numbers[0]
    try:
        child = ChildCommand(command, env)
    except OSError as error:
        raise Misuse(f"cannot start {command[0]}: {error.strerror}") from error
    signals.forward_to(child.receive)
    return child.wait()


class Signals:
    """Receives INT, TERM and HUP during a rehearsal. They are handled, not ignored, so that a command starts
    with their defaults."""

    def __init__(self) -> None:
        self.any = threading.Event()
        self.numbers: list[int] = []
        self._listener: Callable[[int], None] | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, *ENDING):
            # Under nohup, HUP stays ignored.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def forward_to(self, listener: Callable[[int], None]) -> None:
        """Pass on all signals, beginning with those already received."""
        self._listener = listener
        for number in self.numbers:
            listener(number)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.numbers.append(number)
        self.any.set()
        if self._listener is not None:
            self._listener(number)


class ChildCommand:
    """The command and its process group. Ctrl-C reaches it as if we were not there; TERM and HUP end it, with
    KILL after a while.

    In the foreground of a terminal it stays in our group, which the terminal signals; otherwise it gets its
    own.
    """

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        self._apart = not _in_front()
        self._leading = os.getpgrp() == os.getpid()
        self._ended = 0.0
        self._last = threading.Timer(GRACE_S, self._kill)
        self._last.daemon = True
        self._process = subprocess.Popen(argv, env=env, process_group=0 if self._apart else None)

    def receive(self, number: int) -> None:
        if number in ENDING and not self._ended:
            self._ended = time.monotonic()
            self._send(number)
            self._last.start()
        elif number == signal.SIGINT and self._apart:
            self._send(number)

    def wait(self) -> int:
        """Wait for the command. Returns its exit code, or 128 + N if signal N ended it."""
        code = self._process.wait()
        if self._ended and self._apart:
            while self._group_exists() and time.monotonic() < self._ended + GRACE_S:
                time.sleep(0.02)
            self._kill()
        self._last.cancel()
        return 128 - code if code < 0 else code

    def _send(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if self._apart:
                os.killpg(self._process.pid, number)
            elif self._leading:
                os.killpg(0, number)  # this includes us, and we have already received it
            else:
                self._process.send_signal(number)

    def _kill(self) -> None:
        if self._apart:
            self._send(signal.SIGKILL)
        else:
            self._process.kill()

    def _group_exists(self) -> bool:
        try:
            os.killpg(self._process.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True


def _in_front() -> bool:
    """Whether our process group is in the foreground of a terminal."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
