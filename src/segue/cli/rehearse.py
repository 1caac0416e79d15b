"""``segue rehearse``: a model on loopback that costs nothing, for trying out automation."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from segue.core.errors import Misuse


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


@click.command("rehearse", cls=RehearseCommand, short_help="A loopback model for trying things out.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Listen here (default: a free port).")
@click.option("--scenario", type=click.Path(path_type=Path), help="A file that says how the model answers.")
@click.option(
    "--log", type=click.Path(path_type=Path), help="Write every request to this file, a JSON line each."
)
@click.option(
    "--home", type=click.Path(path_type=Path), help="Keep homes and sessions here (default: thrown away)."
)
@click.pass_context
def command(ctx: click.Context, port: int, scenario: Path | None, log: Path | None, home: Path | None) -> int:
    """Start a model on 127.0.0.1 that speaks the protocols of all four CLIs, and spend no token.

    \b
      segue rehearse                                    prints what to point each CLI at
      segue rehearse -- segue run t1 "hi" --agent codex  runs one command against it

    With a COMMAND, the CLIs and a private SEGUE_HOME are set up for it, so that nothing of yours is touched.
    """
    from segue.rehearsal.model import LoopbackModel

    if scenario is not None and not scenario.is_file():
        raise Misuse(f"there is no scenario file {scenario}")
    with ExitStack() as stack:
        model = stack.enter_context(LoopbackModel(port=port, scenario=scenario, log=log))
        place = _place(stack, home)
        if "segue.command" not in ctx.meta:
            return _serve(model, place)
        return _run(ctx.meta["segue.command"], model, place)


def _place(stack: ExitStack, home: Path | None) -> Path:
    if home is not None:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        return home.resolve()
    from tempfile import TemporaryDirectory

    return Path(stack.enter_context(TemporaryDirectory(prefix="segue-rehearse-", ignore_cleanup_errors=True)))


def _serve(model: Any, place: Path) -> int:
    from segue.rehearsal.stage import stage

    staged = stage(model.url, place)
    click.echo(f"The model listens at {model.url} (Ctrl-C ends it). Point the CLIs at it with:")
    for agent, env in staged.by_agent.items():
        click.echo(f"\n# {agent}")
        for name, value in env.items():
            click.echo(f"export {name}={value}")
    click.echo(f"\n# segue\nexport SEGUE_HOME={staged.env['SEGUE_HOME']}")
    sys.stdout.flush()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        return 0


def _run(argv: list[str], model: Any, place: Path) -> int:
    from segue.rehearsal.stage import stage

    if not argv:
        raise Misuse(
            "there is no command after --; for example: segue rehearse -- segue run t1 hi --agent claude"
        )
    env = {**os.environ, **stage(model.url, place).env}
    if shutil.which("segue", path=env.get("PATH")) is None:
        env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env.get('PATH', os.defpath)}"
    program = shutil.which(argv[0], path=env["PATH"])
    if program is None:
        raise Misuse(f'there is no program "{argv[0]}" on PATH')
    held = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command hears Ctrl-C itself
    try:
        code = subprocess.Popen([program, *argv[1:]], env=env, restore_signals=True).wait()
    finally:
        signal.signal(signal.SIGINT, held)
    return 128 - code if code < 0 else code
