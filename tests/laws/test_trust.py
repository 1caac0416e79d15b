"""What a project's file may decide: nothing that costs, opens or runs something, before it is trusted."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from segue import Segue, SegueError
from segue.config.load import load
from segue.core.laws import Door
from tests.integration.test_review import APPROVE, REVIEWER_FULL, reject
from tests.laws.doors import CODER, ROWS, TASK, crew, doors, write_escalation
from tests.laws.stage import Stage, brief

Staged = Callable[..., Stage]
PRIVATE = "xprivatex"
CONFIGURED = (Door.RUN, Door.QUEUE, Door.SCHEDULED, Door.CONTINUE, Door.ADOPT)
"""What a project's ``segue.toml`` says counts for these."""
REVIEWS = (Door.REVIEW, Door.COMPARE)
TIERS = (Door.ESCALATE, Door.HAND_OFF)


def test_each_door_that_takes_a_file_of_a_project_is_tried() -> None:
    assert set(doors("trust")) == {*CONFIGURED, *REVIEWS, *TIERS}


@pytest.mark.parametrize("door", CONFIGURED)
def test_a_project_cannot_raise_a_permission_or_set_variables(staged: Staged, door: Door) -> None:
    """That the file says so is said, with the way to trust it."""
    stage, row = staged(), ROWS[door]
    stage.deny = ()

    async def work(library: Segue) -> None:
        await row.before(stage, library, "k")
        (stage.cwd / "segue.toml").write_text(
            '[defaults]\npermission = "full"\n[accounts.a]\nenv = { PLANTED = "1" }\n'
            f'[agents.rehearsal]\ncommand = ["{stage.root}/planted"]\n'
        )
        await row.through(stage, library, "k")

    stage.play_out(work)
    last = stage.starts[-1]
    assert "PLANTED" not in last.env
    assert last.option("permission") == ["default"]
    said = " ".join(str(each) for each in load(stage.env, stage.cwd).mentions)
    assert "segue trust" in said


ASKED: dict[str, dict[str, Any]] = {
    "a permission": {"second": "", "permission": "full"},
    "a tool that changes things": {"second": 'allow = ["shell"]\n'},
    "an account": {"second": ""},
    "a command": {"top": '[policy]\nsignal = "exit_code"\ncommand = "touch planted"\n'},
}


@pytest.mark.parametrize("what", ASKED)
@pytest.mark.parametrize("door", TIERS)
def test_an_escalation_of_an_untrusted_directory_is_refused(staged: Staged, door: Door, what: str) -> None:
    stage, asked = staged(), dict(ASKED[what])
    stage.permission = asked.pop("permission", "read")
    tree = stage.tree("k")
    write_escalation(stage, "k", **asked)
    if what != "an account":
        file = tree / "FLOW.toml"
        file.write_text(file.read_text().replace('account = "a"\n', ""))

    told = stage.play_out(lambda library: _told(library, ROWS[door].through, stage))
    assert stage.starts == [], told
    assert "segue trust" in told
    assert not (tree / "planted").exists()


@pytest.mark.parametrize("door", TIERS)
def test_an_escalation_reads_no_file_outside_its_folder(staged: Staged, door: Door) -> None:
    for name in ("../private.md", "link.md"):
        stage = staged()
        (stage.root / "private.md").write_text(PRIVATE)
        tree = stage.tree("k")
        (tree / "link.md").symlink_to(stage.root / "private.md")
        write_escalation(stage, "k")
        file = tree / "FLOW.toml"
        text = file.read_text().replace('account = "a"\n', "").replace('"default"', '"read"')
        file.write_text(text.replace('full = "1.md"', f'full = "{name}"'))
        told = stage.play_out(lambda library, at=stage: _told(library, ROWS[door].through, at))  # type: ignore[misc]
        assert not stage.knows("a", PRIVATE), f"{told}: the agent was sent a file outside the project"
        assert stage.starts == [], told


@pytest.mark.parametrize("door", TIERS)
def test_a_tier_of_an_untrusted_file_may_only_read(staged: Staged, door: Door) -> None:
    """It names no permission."""
    stage = staged()
    write_escalation(stage, "k")
    file = stage.tree("k") / "FLOW.toml"
    text = file.read_text().replace('account = "a"\n', "").replace('permission = "default"\n', "")
    file.write_text(text)
    told = stage.play_out(lambda library: _told(library, ROWS[door].through, stage))
    assert stage.starts, told
    assert {each.option("permission")[0] for each in stage.starts} == {"read"}


@pytest.mark.parametrize("door", REVIEWS)
def test_a_task_that_is_a_link_out_of_the_project_is_not_read(staged: Staged, door: Door) -> None:
    stage = staged()
    stage.play(CODER, ("has worked on your findings", APPROVE), (REVIEWER_FULL, reject("f1")))
    (stage.root / "private.md").write_text(PRIVATE)
    tree = stage.tree("k")
    (tree / "TASK.md").symlink_to(stage.root / "private.md")
    start: Any = {Door.REVIEW: "review", Door.COMPARE: "compare"}[door]

    async def work(library: Segue) -> str:
        given = {**crew(stage), "task_file": tree / "TASK.md", "cwd": tree, "rounds": 2}
        try:
            return brief(await getattr(library.flows, start)(TASK, **given))
        except SegueError as error:
            return str(error)

    told = stage.play_out(work)
    assert not stage.knows("a", PRIVATE), f"{told}: the agent was sent a file outside the project"


@pytest.mark.parametrize("door", REVIEWS)
def test_looking_at_a_repository_runs_nothing_that_was_planted_in_it(staged: Staged, door: Door) -> None:
    stage, row = staged(), ROWS[door]
    stage.deny = ()
    tree, planted = stage.tree("k"), stage.root / "planted"
    _plant(stage, tree, planted)
    told = stage.play_out(lambda library: _told(library, row.through, stage))
    assert stage.starts, told
    assert not planted.exists(), f"it ran {planted.read_text().split()}"


def _plant(stage: Stage, tree: Path, planted: Path) -> None:
    """Filters, a monitor, a text conversion and hooks."""
    script = stage.root / "plant"
    script.write_text(f'#!/bin/sh\necho "$1" >> {planted}\ncat\n')
    script.chmod(0o700)
    for name, value in (
        *((f"filter.f.{kind}", f"{script} {kind}") for kind in ("clean", "smudge")),
        ("core.fsmonitor", f"{script} fsmonitor"),
        ("diff.d.textconv", f"{script} textconv"),
        ("diff.external", f"{script} external"),
    ):
        subprocess.run(["git", "-C", str(tree), "config", name, value], env=stage.env, check=True)
    for hook in ("post-checkout", "post-index-change", "reference-transaction", "pre-commit"):
        file = tree / ".git" / "hooks" / hook
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/sh\necho {hook} >> {planted}\n")
        file.chmod(0o700)
    (tree / ".gitattributes").write_text("* filter=f diff=d\n")
    (tree / "more.txt").write_text("more\n")


async def _told(library: Segue, through: Any, stage: Stage) -> str:
    try:
        return brief(await through(stage, library, "k"))
    except SegueError as error:
        return str(error)
