"""A value of an environment reaches the agent and the 0600 file of its run directory, and nothing else."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from segue import Segue, SegueError
from segue.core.laws import Door
from tests.laws.doors import ROWS, doors
from tests.laws.stage import TOKEN, VALUE, Stage, brief

Staged = Callable[..., Stage]
ONLY = {"SEGUE_MARK"}
"""All that the agent gets of Segue's own."""


@pytest.mark.parametrize("door", doors("secrets"))
def test_an_environment_reaches_the_agent_alone(staged: Staged, door: Door) -> None:
    """What the agent prints of a secret is stored nowhere either."""
    stage, row = staged(new="b" if door is Door.FAILOVER else "a"), ROWS[door]
    (stage.root / "prints").touch()
    if door is Door.FAILOVER:
        stage.config('[limits]\non_limit = "switch"\norder = "listed"\n')

    async def work(library: Segue) -> None:
        await row.before(stage, library, "k")
        await row.through(stage, library, "k")

    stage.play_out(work)
    starts = stage.starts
    assert starts, "no agent was started"
    for started in starts:
        assert (started.env["LAW_VALUE"], started.env["LAW_TOKEN"]) == (VALUE, TOKEN)
        ours = {name for name in started.env if name.startswith("SEGUE_")}
        assert ours <= ONLY, f"the agent was given {sorted(ours - ONLY)}"
    assert not _kept(stage), f"the value of a variable stands in {_kept(stage)}"


def _kept(stage: Stage) -> list[str]:
    """The files of Segue that hold the value, its private ones and the user's configuration left out."""
    files = [each for each in stage.home.rglob("*") if each.is_file()]
    found = [each for each in files for value in (VALUE, TOKEN) if value.encode() in each.read_bytes()]
    return [str(each) for each in found if each.name != "config.toml" and not _is_private(stage, each)]


def _is_private(stage: Stage, file: Path) -> bool:
    in_run_dir = file.is_relative_to(stage.home / "runs") and file.name == "secrets.json"
    return in_run_dir and stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["SEGUE_HOME", "SEGUE_RUN_ID", "SEGUE_TOKEN"])
def test_an_account_cannot_set_variables_of_segue(staged: Staged, name: str) -> None:
    """With this the agent could pass for Segue, or use its store."""
    stage = staged()
    config = (stage.home / "config.toml").read_text()
    added = config.replace("env = {", f'env = {{ {name} = "elsewhere",')
    (stage.home / "config.toml").write_text(added)

    async def work(library: Segue) -> str:
        return brief(await library.run("k", "hello"))

    try:
        told = stage.play_out(work)
    except SegueError as error:
        told = str(error)
    assert stage.starts == [], told
    assert name in told
