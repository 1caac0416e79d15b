"""What Segue adds to a turn: ``segue run`` on the real Claude beside the bare ``claude -p``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests import isolation
from tests.clis import CLIS, install
from tests.live.harness import clean_environment

from bench.measure import Row, alternating, compile_bytecode, run
from segue.agents import registry
from segue.config.schema import Config
from segue.core.request import ModelAddress
from segue.rehearsal.server import LoopbackModel
from segue.rehearsal.stage import stage

AGENTS = {name: registry.get(name, Config()).rehearse for name in registry.BUILT_IN}

SEGUE = str(Path(sys.executable).with_name("segue"))
PROMPT = "remember number 456"


def measure() -> list[Row]:
    obstacle = isolation.enter()
    if obstacle:
        raise RuntimeError(f"no isolation: {obstacle}")
    compile_bytecode()
    cli = CLIS["claude"]
    if reason := install(cli, cli.newest):
        raise RuntimeError(reason)
    with tempfile.TemporaryDirectory() as folder, LoopbackModel() as model:
        place, work = Path(folder) / "stage", Path(folder) / "project"
        work.mkdir()
        env = {
            **clean_environment(place),
            **stage(ModelAddress(model.url, model.key), place, AGENTS, registry.variables()).env,
        }
        env["PATH"] = f"{cli.program(cli.newest).parent}:{env['PATH']}"
        bare_argv = [
            str(cli.program(cli.newest)),
            "-p",
            "--output-format",
            "stream-json",
            "--verbose",
            PROMPT,
        ]
        keys = (
            f"bench-{number}" for number in range(100)
        )  # a new conversation each time, as the bare one is

        def ours_argv() -> list[str]:
            return [SEGUE, "run", next(keys), PROMPT, "--agent", "claude", "--json", "--quiet"]

        ours, bare = alternating(10, lambda: run(ours_argv(), env, work), lambda: run(bare_argv, env, work))
    seen = f"{ours / bare:.2f} × ({ours * 1000:.0f} ms / {bare * 1000:.0f} ms)"
    return [Row("segue run on Claude / claude -p", seen, "≤ 1.35 ×", ours <= 1.35 * bare)]
