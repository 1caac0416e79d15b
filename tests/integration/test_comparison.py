"""``segue review --compare``: the same review with full prompts and with what is new."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue import NotFound, Segue
from tests.integration.conftest import Program
from tests.integration.test_review import (
    APPROVE,
    CODER_DELTA,
    CODER_FULL,
    REVIEWER_DELTA,
    REVIEWER_FULL,
    Stage,
    reject,
)


@pytest.fixture
def stage(segue: Program) -> Stage:
    """Two rounds. In a new session, both the coder and the reviewer first read a long file."""
    stage = Stage(segue)
    (stage.cwd / "long.txt").write_text("a long line of words\n" * 2_000)
    (stage.cwd / "new.txt").write_text("untracked\n")
    stage.play(
        (CODER_FULL, "[[read long.txt]] [[shell echo x >> done.txt]] [[say done]]"),
        (CODER_DELTA, "[[shell echo x >> done.txt]] [[say done]]"),
        (REVIEWER_DELTA, APPROVE),
        ("about f1", f"[[read long.txt]] {APPROVE}"),  # the second round
        (REVIEWER_FULL, f"[[read long.txt]] {reject('f1')}"),
    )
    return stage


def own_tree(stage: Stage) -> tuple[object, ...]:
    index = (stage.cwd / ".git" / "index").read_bytes()
    return stage.git("status", "--porcelain"), index, stage.git("branch", "--all")


def compared(found: Any) -> dict[str, Any]:
    return {each["prompts"]: each for each in found["reviews"]}


def test_both_end_alike_and_the_second_costs_less(stage: Stage) -> None:
    (stage.segue.cwd.parent / "TASK.md").write_text("Build it")
    before = (
        stage.git("status", "--porcelain"),
        (stage.cwd / ".git" / "index").read_bytes(),
        stage.git("branch"),
    )
    stage.segue.env |= stage.env
    given = ("--coder", "rehearsal", "--reviewer", "rehearsal", "--permission", "full")
    done = stage.segue("review", "../TASK.md", *given, "--compare", "--key", "k", "--json")
    assert done.code == 0, done.stderr
    found = msgspec.json.decode(done.stdout)
    full, delta = compared(found)["full"], compared(found)["delta"]
    for each in (full, delta):
        assert (each["end"], each["approved"], each["rounds"]) == ("approved", True, 2), each
        tree = Path(each["cwd"])
        assert (tree / "done.txt").read_text() == "x\nx\n"
        assert (tree / "new.txt").read_text() == "untracked\n", "what is not committed is there, too"
    assert full["cwd"] != delta["cwd"]
    assert delta["new_tokens"] < 0.8 * full["new_tokens"]
    assert found["saved_new"] == pytest.approx(1 - delta["new_tokens"] / full["new_tokens"], abs=1e-4)
    assert found["saved_cost"] == pytest.approx(1 - delta["cost_usd"] / full["cost_usd"], abs=1e-4)
    assert own_tree(stage) == before, "the user's own tree is left alone"
    assert not (stage.cwd / "done.txt").exists()
    again = stage.segue("review", "../TASK.md", *given, "--compare", "--key", "k")
    assert again.code == 0, again.stderr
    assert "delta prompts" in again.stdout
    assert "% less" in again.stdout
    assert len(msgspec.json.decode(stage.segue("flow", "ls", "--all", "--json").stdout)) == 2
    nothing = stage.segue("review", "../TASK.md", *given, "--compare", "--memory", "fresh")
    assert (nothing.code, "nothing to compare" in nothing.stderr) == (2, True)


def test_with_the_library(stage: Stage) -> None:
    async def work(segue: Segue) -> None:
        found = await segue.flows.compare("Build it", coder="rehearsal", reviewer="rehearsal", rounds=1)
        assert [(each.prompts, each.end) for each in found.reviews] == [
            ("full", "capped"),
            ("delta", "capped"),
        ]
        assert await segue.flows.comparison(found.comparison) == found

    stage.within(work)


def test_an_unknown_one_is_not_found(stage: Stage) -> None:
    async def work(segue: Segue) -> None:
        with pytest.raises(NotFound, match="there is no comparison"):
            await segue.flows.comparison("nothing")

    stage.within(work)
