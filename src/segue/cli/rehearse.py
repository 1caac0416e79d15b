"""``segue rehearse``: a model on loopback that costs nothing, for trying out automation.

The command of a rehearsal, and the signals that reach us meanwhile.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

import click

from segue.cli.render.output import say
from segue.core.errors import InUse, Misuse

if TYPE_CHECKING:
    from segue.rehearsal.server import LoopbackModel
    from segue.rehearsal.stage import Staged


GRACE_S = 5.0
ENDING = (signal.SIGTERM, signal.SIGHUP)


class Signals:
    """INT, TERM and HUP while the stage stands: heard, not ignored, so that a command has the defaults."""

    def __init__(self) -> None:
        self.any = threading.Event()
        self.numbers: list[int] = []
        self._listener: Callable[[int], None] | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, *ENDING):
            if (
                number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN
            ):  # under nohup it stays so
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


REQUESTS_KEPT = 1000


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
    with ExitStack() as stack:
        heard = stack.enter_context(Signals())
        model = stack.enter_context(_model(port, scenario, log))
        place = _place(stack, home)
        staged = _staged(model, place, scenario)
        return _serve(model.url, staged, heard) if argv is None else _run(argv, staged, heard)


def _model(port: int, scenario: Path | None, log: Path | None) -> LoopbackModel:
    from segue.rehearsal.server import LoopbackModel

    if log is not None:
        _writable(log)
    try:
        return LoopbackModel(port=port, scenario=scenario, log=log, kept=REQUESTS_KEPT)
    except ValueError as error:
        raise Misuse(f"the scenario cannot be used: {error}") from error
    except OSError as error:
        how = "choose another one, or leave --port out"
        raise Misuse(f"port {port} cannot be listened on: {error.strerror}; {how}") from error


def _writable(log: Path) -> None:
    from segue.rehearsal.log import appending

    try:
        appending(log).close()
    except OSError as error:
        raise Misuse(f"the log {log} cannot be written: {error.strerror}") from error


def _place(stack: ExitStack, home: Path | None) -> Path:
    """Where the homes are: thrown away in the end, or the user's, and then for one rehearsal at a time."""
    if home is None:
        from tempfile import TemporaryDirectory

        made = TemporaryDirectory(prefix="segue-rehearse-", ignore_cleanup_errors=True)
        return Path(stack.enter_context(made)).resolve()
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(home / ".rehearsal.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unwritable(home, error) from error
    stack.callback(os.close, lock)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InUse(
            f"another rehearsal is running in {home}; wait until it ends, or choose another --home"
        ) from None
    return home.resolve()


def _staged(model: LoopbackModel, place: Path, scenario: Path | None) -> Staged:
    """With all that the user's own configuration says, as far as it does not lead away."""
    from segue.agents import registry
    from segue.config.load import own_tables
    from segue.config.schema import Config
    from segue.core.request import ModelAddress
    from segue.rehearsal.stage import stage

    own = own_tables(os.environ)
    told = scenario.resolve() if scenario is not None else None
    try:
        agents = {name: registry.get(name, Config()).rehearse for name in registry.BUILT_IN}
        address = ModelAddress(model.url, model.key, scenario=told)
        return stage(address, place, agents, registry.variables(), own)
    except OSError as error:
        raise _unwritable(place, error) from error


def _unwritable(place: Path, error: OSError) -> Misuse:
    return Misuse(f"the homes cannot be written under {place}: {error.strerror}")


def _serve(url: str, staged: Staged, heard: Signals) -> int:
    say(f"# The model listens at {url} until Ctrl-C.")
    say("# Point the CLIs at it with:")
    for title, lines in _exports(staged, os.environ).items():
        say("\n".join(["", f"# {title}", *lines]))
    heard.any.wait()
    return 0


def _exports(staged: Staged, env: Mapping[str, str]) -> dict[str, list[str]]:
    """Lines for a shell: what must not be set, then what must be, for everybody and for each CLI."""
    own = {name for each in staged.by_agent.values() for name in each}
    away = [
        name for name in env if staged.leads_away(name) and name not in staged.env and name.isidentifier()
    ]
    groups = {
        "all": {name: value for name, value in staged.env.items() if name not in own},
        **staged.by_agent,
    }
    lines = {
        title: [f"export {name}={shlex.quote(value)}" for name, value in group.items()]
        for title, group in groups.items()
    }
    if away:
        lines["all"].insert(0, f"unset {' '.join(sorted(away))}")
    return lines


def _run(argv: list[str], staged: Staged, heard: Signals) -> int:
    from segue.rehearsal.stage import on_stage

    env = on_stage(os.environ, staged)
    if shutil.which("segue", path=env.get("PATH")) is None:
        env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env.get('PATH', os.defpath)}"
    program = shutil.which(argv[0], path=env["PATH"])
    if program is None:
        raise Misuse(f'there is no program "{argv[0]}" on PATH')
    if heard.numbers:
        return 128 + heard.numbers[0]
    try:
        cast = ChildCommand([program, *argv[1:]], env)
    except OSError as error:
        raise Misuse(f"{program} cannot be started: {error.strerror}") from error
    heard.tell(cast.hear)
    return cast.wait()
