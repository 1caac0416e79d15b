"""``segue rehearse``: a model on loopback that costs nothing, for trying out automation."""

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
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Listen here (default: a free port).")
@click.option("--scenario", type=click.Path(path_type=Path), help="A file that says how the model answers.")
@click.option(
    "--log", type=click.Path(path_type=Path), help="Write every request to this file, one JSON line each."
)
@click.option(
    "--home",
    type=click.Path(path_type=Path),
    help="Keep homes and sessions here (default: a temporary directory).",
)
@click.pass_context
def command(ctx: click.Context, port: int, scenario: Path | None, log: Path | None, home: Path | None) -> int:
    """Start a model on 127.0.0.1 that speaks the protocols of all four CLIs. No tokens are spent.

    \b
      segue rehearse                    prints the settings that each CLI needs
      segue rehearse -- segue run t1 "hi" --agent codex    runs one command

    For a COMMAND, the CLIs and a private SEGUE_HOME are set up, so that nothing of yours is touched; keys,
    proxies and other ways to a real provider are kept from it. It gets your configuration: your accounts by
    their names, with homes and addresses of the rehearsal; your defaults; and the agents that you declared,
    which run as you declared them.
    """
    argv: list[str] | None = ctx.meta.get("segue.command")
    if argv == []:
        raise Misuse(
            "there is no command after --; for example: segue rehearse -- segue run t1 hi --agent rehearsal"
        )
    from segue.app.rehearse import rehearsal

    with (
        Signals() as heard,
        rehearsal(os.environ, port=port, scenario=scenario, log=log, home=home) as staged,
    ):
        return _serve(staged, heard) if argv is None else _run(argv, staged, heard)


def _serve(staged: Rehearsal, heard: Signals) -> int:
    say(f"# The model listens at {staged.url} until Ctrl-C.")
    say("# Point the CLIs at it with:")
    for title, lines in staged.exports().items():
        say("\n".join(["", f"# {title}", *lines]))
    heard.any.wait()
    return 0


def _run(argv: list[str], staged: Rehearsal, heard: Signals) -> int:
    command, env = staged.command(argv)
    if heard.numbers:
        return 128 + heard.numbers[0]
    try:
        child = ChildCommand(command, env)
    except OSError as error:
        raise Misuse(f"{command[0]} cannot be started: {error.strerror}") from error
    heard.tell(child.hear)
    return child.wait()


class Signals:
    """INT, TERM and HUP while the stage stands: heard, not ignored, so that a command has the defaults."""

    def __init__(self) -> None:
        self.any = threading.Event()
        self.numbers: list[int] = []
        self._listener: Callable[[int], None] | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, *ENDING):
            # Under nohup, HUP stays ignored.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def tell(self, listener: Callable[[int], None]) -> None:
        """From now on; what was heard before comes first."""
        self._listener = listener
        for number in self.numbers:
            listener(number)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.numbers.append(number)
        self.any.set()
        if self._listener is not None:
            self._listener(number)


class ChildCommand:
    """The command and its group. It hears Ctrl-C as if we were not there; TERM and HUP end it for good.

    In front of a terminal it stays in our group, which the terminal talks to; elsewhere it has its own.
    """

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        self._apart = not _in_front()
        self._leading = os.getpgrp() == os.getpid()
        self._ended = 0.0
        self._last = threading.Timer(GRACE_S, self._kill)
        self._last.daemon = True
        self._process = subprocess.Popen(argv, env=env, process_group=0 if self._apart else None)

    def hear(self, number: int) -> None:
        if number in ENDING and not self._ended:
            self._ended = time.monotonic()
            self._send(number)
            self._last.start()
        elif number == signal.SIGINT and self._apart:
            self._send(number)

    def wait(self) -> int:
        """The command's exit code; 128 + N when signal N ended it."""
        code = self._process.wait()
        if self._ended and self._apart:
            while self._anybody() and time.monotonic() < self._ended + GRACE_S:
                time.sleep(0.02)
            self._kill()
        self._last.cancel()
        return 128 - code if code < 0 else code

    def _send(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if self._apart:
                os.killpg(self._process.pid, number)
            elif self._leading:
                os.killpg(0, number)  # that is us as well, and we have heard it
            else:
                self._process.send_signal(number)

    def _kill(self) -> None:
        if self._apart:
            self._send(signal.SIGKILL)
        else:
            self._process.kill()

    def _anybody(self) -> bool:
        try:
            os.killpg(self._process.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True


def _in_front() -> bool:
    """Whether our group is the one that a terminal talks to."""
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
