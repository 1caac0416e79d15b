"""What Segue adds to a turn: ``segue run`` on the real Claude beside the bare ``claude -p``.

Each turn is measured twice: as the first one of a conversation, and as one that resumes a session.
"""

from __future__ import annotations

import json
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
ROUNDS = 10


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
        claude = [str(cli.program(cli.newest)), "-p", "--output-format", "stream-json", "--verbose"]

        def bare(*more: str) -> bytes:
            return run([*claude, *more, PROMPT], env, work)

        def ours(key: str) -> bytes:
            return run([SEGUE, "run", key, PROMPT, "--agent", "claude", "--json", "--quiet"], env, work)

        keys = (f"bench-{number}" for number in range(100))
        first = alternating(ROUNDS, lambda: ours(next(keys)), bare)
        ours("resumed")
        session = json.loads(bare().splitlines()[-1])["session_id"]
        resumed = alternating(ROUNDS, lambda: ours("resumed"), lambda: bare("--resume", session))
    return [
        _row("segue run on Claude / claude -p", first, 1.35),
        _row("segue run, resumed / claude -p --resume", resumed, 1.25),
    ]


def _row(what: str, medians: list[float], goal: float) -> Row:
    ours, bare = medians
    seen = f"{ours / bare:.2f} × ({ours * 1000:.0f} ms / {bare * 1000:.0f} ms)"
    return Row(what, seen, f"≤ {goal} ×", ours <= goal * bare)
