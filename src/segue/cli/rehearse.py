"""``segue rehearse``: a model on loopback that costs nothing, for trying out automation."""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from segue.cli.cast import Cast, Signals
from segue.cli.output import say
from segue.core.errors import InUse, Misuse

if TYPE_CHECKING:
    from segue.rehearsal.model import LoopbackModel
    from segue.rehearsal.stage import Staged

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
            "there is no command after --; for example: segue rehearse -- segue run t1 hi --agent claude"
        )
    with ExitStack() as stack:
        heard = stack.enter_context(Signals())
        model = stack.enter_context(_model(port, scenario, log))
        place = _place(stack, home)
        staged = _staged(model, place, scenario)
        return _serve(model.url, staged, heard) if argv is None else _run(argv, staged, heard)


def _model(port: int, scenario: Path | None, log: Path | None) -> LoopbackModel:
    from segue.rehearsal.model import LoopbackModel

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
    from segue.config.load import own_tables
    from segue.rehearsal.stage import stage

    own = own_tables(os.environ)
    told = scenario.resolve() if scenario is not None else None
    try:
        return stage(model.url, model.key, place, own=own, scenario=told)
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
    from segue.rehearsal.roads import leads_away

    own = {name for each in staged.by_agent.values() for name in each}
    away = [name for name in env if leads_away(name) and name not in staged.env and name.isidentifier()]
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
        cast = Cast([program, *argv[1:]], env)
    except OSError as error:
        raise Misuse(f"{program} cannot be started: {error.strerror}") from error
    heard.tell(cast.hear)
    return cast.wait()
