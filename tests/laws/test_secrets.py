"""A value of an environment reaches the agent and the 0600 file of its run directory, and nothing else."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from segue import Segue, SegueError
from segue.core.laws import Door
from segue.turns.prepare import Prepared
from tests.laws.doors import ROWS, doors
from tests.laws.last_moment import at_the_gate
from tests.laws.stage import TOKEN, VALUE, Stage, brief

Staged = Callable[..., Stage]
SETTLES = (Door.RECOVERY, Door.ADOPTION)
"""They start nothing."""
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


@pytest.mark.parametrize("door", [each for each in doors("secrets") if each not in SETTLES])
def test_a_variable_of_segue_that_slipped_in_starts_nothing(
    staged: Staged, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it came into the agent's environment."""
    stage, row = staged(new="b" if door in (Door.FAILOVER, Door.SUMMARY) else "a"), ROWS[door]
    if door is Door.FAILOVER:
        stage.config('[limits]\non_limit = "switch"\norder = "listed"\n')

    def slip(now: Prepared) -> Prepared:
        child = replace(now.child, env={**now.child.env, "SEGUE_TOKEN": "planted"})
        return replace(now, child=child)

    async def work(library: Segue) -> tuple[list[str], str]:
        await row.before(stage, library, "k")
        runs = at_the_gate(monkeypatch, stage, door, slip)
        try:
            return runs, brief(await row.through(stage, library, "k"))
        except SegueError as error:
            return runs, str(error)

    runs, told = stage.play_out(work)
    assert runs, told
    assert not [each for each in stage.starts if "SEGUE_TOKEN" in each.env], told
    if door is not Door.SUMMARY:  # without one, the turns themselves are carried over
        assert "SEGUE_TOKEN" in told


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
