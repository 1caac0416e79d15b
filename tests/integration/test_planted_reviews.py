"""Reviews in a repository in which everything is planted that git can be made to run."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from segue import FlowShown, Segue
from segue.system.git import WorkTree
from tests.integration import planted
from tests.integration.conftest import Program
from tests.integration.planted import content, plain_git, ran
from tests.integration.test_review import (
    APPROVE,
    CODER_DELTA,
    CODER_FULL,
    REVIEWER_DELTA,
    REVIEWER_FULL,
    Stage,
    reject,
)

ROLES = ("--coder", "rehearsal", "--reviewer", "rehearsal")
FULL = ("--permission", "full", "--reviewer-permission", "full")
MORE = "*.txt diff=x\nnew.txt binary\ncode.py -diff\n"


@pytest.fixture
def stage(segue: Program) -> Stage:
    stage = Stage(segue)
    planted.make(stage.cwd)
    (segue.home.parent / "TASK.md").write_text("Build it\n")
    stage.segue.env |= stage.env
    return stage


@pytest.fixture
def marks(stage: Stage, tmp_path: Path) -> Path:
    """Everything is planted; what has run leaves a mark here."""
    planted.plant(stage.cwd, tmp_path / "marks")
    return tmp_path / "marks"


@pytest.mark.parametrize("misled", [False, True], ids=["it-runs", "it-misleads"])
def test_a_review_runs_nothing_that_is_planted(stage: Stage, marks: Path, misled: bool) -> None:
    if misled:
        planted.mislead(stage.cwd)
    before = content(stage.cwd / ".git")
    (stage.cwd / ".gitattributes").write_text(MORE)
    stage.play(
        (CODER_FULL, "[[write code.py one]] [[write new.txt changed]]"),
        (CODER_DELTA, "[[write code.py two]]"),
        (REVIEWER_FULL, reject("a")),
        (REVIEWER_DELTA, APPROVE),
    )
    done = stage.segue("review", "../TASK.md", *ROLES, "--json")
    assert done.code == 0, done.stderr
    assert (done.turn["end"], done.turn["rounds"]) == ("approved", 2)
    assert ran(marks) == []
    assert content(stage.cwd / ".git") == before, "byte for byte"
    told = stage.prompts(stage.within(_shown))
    for words in ("+one", "-new\n+changed", '- "mod/": a git repository'):
        assert words in told["reviewer/1"]
    for words in ("-one\n", "+two", '- "mod/": a git repository'):
        assert words in told["reviewer/2"]
    assert "Binary files" not in told["reviewer/1"] + told["reviewer/2"]


def test_a_comparison_runs_nothing_that_is_planted(stage: Stage, marks: Path) -> None:
    config = (stage.cwd / ".git" / "config").read_bytes()
    stage.play(
        (CODER_FULL, "[[write code.py one]] [[write new.txt changed]]"),
        (CODER_DELTA, "[[write code.py two]]"),
        (REVIEWER_DELTA, APPROVE),
        ("about a", APPROVE),
        (REVIEWER_FULL, reject("a")),
    )
    again = ("review", "../TASK.md", *ROLES, "--compare", "--key", "k", "--json")
    for _ in range(2):  # the second time, it is there
        done = stage.segue(*again)
        assert done.code == 0, done.stderr
        found = msgspec.json.decode(done.stdout)["reviews"]
        assert [each["end"] for each in found] == ["approved", "approved"]
        for each in found:
            place = Path(each["cwd"])
            assert (place / "code.py").read_text() == {"full": "one", "delta": "two"}[each["prompts"]]
            assert (place / "a.txt").read_text() == "one\nmore\n"
            assert not (place / "ignored").exists()
    assert ran(marks) == []
    assert (stage.cwd / ".git" / "config").read_bytes() == config
    assert not (stage.cwd / "code.py").exists()


def test_both_of_a_comparison_begin_alike_if_the_first_has_committed(stage: Stage) -> None:
    """The second worktree is made after the first coder has changed its own, as after an interruption."""
    stage.play((CODER_FULL, "[[write code.py one]]"), (REVIEWER_FULL, APPROVE))
    words = ("review", "../TASK.md", *ROLES, "--compare", "--key", "k", "--json")
    first = stage.segue(*words)
    assert first.code == 0, first.stderr
    full, delta = (Path(each["cwd"]) for each in msgspec.json.decode(first.stdout)["reviews"])
    plain_git(full, "add", "--all")
    plain_git(full, "commit", "--quiet", "-m", "by the coder")
    plain_git(stage.cwd, "worktree", "remove", "--force", "--force", str(delta))
    assert stage.segue(*words).code == 0
    assert not (delta / "code.py").exists()
    assert (delta / "a.txt").read_text() == "one\nmore\n"


def test_what_is_ignored_stays_so_when_another_process_goes_on(stage: Stage) -> None:
    """The coder adds to the list of ignored files."""
    exclude = stage.cwd / ".git" / "info" / "exclude"
    exclude.parent.mkdir(exist_ok=True)
    exclude.write_text("pid\nruns\n")
    stage.play(
        (CODER_FULL, f"[[shell echo code.py >> {exclude}]] [[write code.py one]]"),
        (CODER_DELTA, "[[write code.py two]]"),
        (REVIEWER_FULL, f"[[shell kill -9 $(cat {stage.cwd}/pid); sleep 0.1]] {reject('a')}"),
        (REVIEWER_DELTA, APPROVE),
    )
    killed = stage.killed("review", "../TASK.md", *ROLES, *FULL, "--json")
    assert killed.returncode == -9, killed.stderr
    flow = stage.within(_shown).flow
    resumed = stage.segue("flow", "resume", flow, "--json")
    assert resumed.code == 0, resumed.stderr
    told = stage.prompts(stage.within(_shown))
    assert "b/code.py" in told["reviewer/1"]
    assert "b/code.py" in told["reviewer/2"]
    assert "+++ b/pid" not in told["reviewer/1"]


def test_the_reviewer_is_told_that_earlier_content_is_gone(stage: Stage) -> None:
    gone = "git rm -q --cached staged.txt; echo other > staged.txt; git gc -q --prune=now"
    (stage.cwd / "staged.txt").write_text("staged\n")
    plain_git(stage.cwd, "add", "staged.txt")
    stage.play((CODER_FULL, f"[[shell {gone}]] [[write code.py one]]"), (REVIEWER_FULL, APPROVE))
    done = stage.segue("review", "../TASK.md", *ROLES, *FULL, "--json")
    assert done.code == 0, done.stderr
    told = stage.prompts(stage.within(_shown))["reviewer/1"]
    assert "whose earlier content is gone from the repository" in told
    assert '"staged.txt"' in told
    assert "+one" in told


def test_a_review_goes_on_from_a_new_base_if_its_looks_are_gone(stage: Stage) -> None:
    """The trees of its looks are gone as well: with our git directory, and from the repository."""
    commit = "git add -A; git commit -q --amend -m other"
    lose = (
        f"{commit}; git reflog expire --expire=now --all; git gc -q --prune=now; rm -r {stage.segue.home}/git"
    )
    plain_git(stage.cwd, "add", "--all")
    plain_git(stage.cwd, "commit", "--quiet", "-m", "all")
    stage.git("config", "user.name", "a")
    stage.git("config", "user.email", "a@b.c")
    options = ("--memory", "reviewer=fresh", *FULL, "--json")
    stage.play(
        (CODER_FULL, f"[[write code.py one]] [[shell {lose}]]"),
        (CODER_DELTA, "[[write code.py two]]"),
        (REVIEWER_FULL, reject("a"), 1),
        (REVIEWER_FULL, APPROVE, 2),
    )
    done = stage.segue("review", "../TASK.md", *ROLES, *options)
    assert done.code == 0, done.stderr
    told = stage.prompts(stage.within(_shown))
    assert "it is not known what has changed up to round 1. Read the files." in told["reviewer/1"]
    assert "it is not known what has changed up to round 1; the changes since then:" in told["reviewer/2"]
    assert "-one\n" in told["reviewer/2"]
    assert "+two" in told["reviewer/2"]


def test_a_review_removes_git_directories_that_nobody_needs(stage: Stage, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    plain_git(gone, "init", "--quiet")
    old = WorkTree(gone, stage.segue.home / "git", stage.segue.env)
    old.prepare()
    shutil.rmtree(gone)
    stage.play((CODER_FULL, "[[write code.py one]]"), (REVIEWER_FULL, APPROVE))
    assert stage.segue("review", "../TASK.md", *ROLES).code == 0
    assert [each.name for each in (stage.segue.home / "git").iterdir()] != [old.ours.name]
    assert not old.ours.exists()


def test_prune_removes_git_directories_that_nobody_needs(stage: Stage) -> None:
    home = stage.segue.home / "git"
    stage.play((CODER_FULL, "[[write code.py one]]"), (REVIEWER_FULL, APPROVE))
    assert stage.segue("review", "../TASK.md", *ROLES).code == 0
    assert stage.segue("sessions", "prune", "--yes").code == 0
    assert len(list(home.iterdir())) == 1, "it is not old yet"
    shutil.rmtree(stage.cwd / ".git")
    assert stage.segue("sessions", "prune").code == 0
    assert len(list(home.iterdir())) == 1, "nothing is deleted without --yes"
    assert stage.segue("sessions", "prune", "--yes").code == 0
    assert list(home.iterdir()) == []


async def _shown(segue: Segue) -> FlowShown:
    (row,) = await segue.flows.ls(every=True)
    return await segue.flows.show(row.flow)
