"""What the roles are told: everything once, then only what is new."""

from __future__ import annotations

import pytest

from segue.core.errors import Misuse
from segue.flows.commands import CheckResult
from segue.flows.review import prompts
from segue.flows.review.findings import Findings
from segue.flows.review.orders import review_order
from segue.flows.review.prompts import Place
from segue.flows.review.verdict import Finding, Verdict, parse

FOUND = Findings(
    known=(Finding("a", "it leaks"), Finding("b", "wrong name", "minor", "resolved")),
    outside=(Finding("z", "the logo", "minor", "outside"),),
)
FIRST = Place(task="# Fix the leak\n\nIn pool.py.", round=1, rounds=5, commands=("make test",))
LATER = Place(
    task=FIRST.task,
    round=3,
    rounds=5,
    commands=("make test",),
    findings=FOUND,
    notes="close it",
    checks=(
        CheckResult(command="make test", code=1, output="1 failed"),
        CheckResult(command="make lint", code=0, output="fine"),
        CheckResult(command="make slow", code=None),
    ),
)


def test_the_first_prompt_of_the_coder_has_the_task_and_the_checks() -> None:
    told = prompts.coder_full(FIRST)
    assert "In pool.py." in told
    assert "- `make test`" in told
    assert "Round" not in told
    assert "Open findings" not in told


def test_a_full_prompt_later_says_how_things_stand() -> None:
    told = prompts.coder_full(LATER, "The session before ended with an error.")
    for part in ("In pool.py.", "Round 3 of at most 5", "ended with an error", "- a (major, open): it leaks"):
        assert told.count(part) == 1
    assert "- b (minor, resolved): wrong name" in told
    assert "the logo" not in told, "what is outside of the task is not for the coder"


def test_a_delta_does_not_repeat_the_task() -> None:
    coder, reviewer = prompts.coder_delta(LATER), prompts.reviewer_delta(LATER, "+x", "done")
    assert "In pool.py." not in coder + reviewer
    assert "it leaks" in coder
    assert "close it" in coder
    assert "`make test`: exit code 1" in coder
    assert "`make slow`: took too long" in coder
    assert "make lint" not in coder
    assert "`make lint`: succeeded" in reviewer
    assert "since your last look" in reviewer


def test_a_delta_names_what_is_settled_without_its_text() -> None:
    """The session has read it before."""
    coder, reviewer = prompts.coder_delta(LATER), prompts.reviewer_delta(LATER, "+x", "done")
    assert "- a (major, open): it leaks" in coder
    assert "- a (major, open): it leaks" in reviewer
    assert "# Resolved; leave it as it is\n\nb" in coder
    assert "- resolved: b\n- outside: z" in reviewer
    assert "wrong name" not in coder + reviewer
    assert "the logo" not in coder + reviewer


def test_a_delta_does_not_repeat_the_output_of_a_check() -> None:
    same = CheckResult(command="make test", code=1, output="1 failed")
    coder = prompts.coder_delta(LATER, (same,))
    assert "`make test`: exit code 1, with the same output as last time" in coder
    assert "1 failed" not in coder
    reviewer = prompts.reviewer_delta(LATER, "+x", "done", LATER.checks)
    assert "1 failed" not in reviewer
    assert "`make lint`: succeeded, with the same output as last time" in reviewer
    assert "`make slow`: took too long and was ended" in reviewer, "it had no output"
    other = CheckResult(command="make test", code=1, output="2 failed")
    assert "1 failed" in prompts.reviewer_delta(LATER, "+x", "done", (other,))


def test_the_reviewer_sees_the_changes_and_how_to_answer() -> None:
    told = prompts.reviewer_full(LATER, "+```\n+x", "done")
    assert "````diff\n+```\n+x\n````" in told
    assert "In pool.py." in told
    assert "Nothing was changed." in prompts.reviewer_full(LATER, "", "done")


def test_the_example_of_a_verdict_is_one() -> None:
    assert isinstance(parse(prompts.VERDICT), Verdict)
    assert prompts.VERDICT in prompts.verdict_again("no block")


def test_what_the_coder_says_is_bounded() -> None:
    told = prompts.reviewer_delta(LATER, "", "x" * 10_000)
    assert len(told) < 6_000
    assert "(… 6,000 more characters)" in told


def test_the_coordinator_gets_everything() -> None:
    told = prompts.coordinator_full(LATER, "+x", 2)
    for part in ("2 times in a row", "In pool.py.", "it leaks", "close it", "+x"):
        assert part in told


@pytest.mark.parametrize(
    ("task", "line"),
    [("# Fix it\n\nmore", "Fix it"), ("\n\n  do\n", "do"), ("x" * 500, "x" * 200), ("#", "")],
)
def test_the_objective_is_the_first_line(task: str, line: str) -> None:
    assert prompts.objective(task) == line


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "missing required field"),
        ({"task": " ", "coder": {"agent": "x"}, "reviewer": {"agent": "y"}}, "the task is empty"),
        ({"task": "t", "coder": {"agent": "x"}, "reviewer": {"agent": "y"}, "rounds": 0}, "rounds"),
        ({"task": "t", "coder": {"agent": "x"}, "reviewer": {"agent": "y"}, "round": 1}, "unknown field"),
        ({"task": "t", "coder": {"agent": "x", "memory": "no"}, "reviewer": {"agent": "y"}}, "memory"),
    ],
)
def test_a_wrong_order_is_refused(given: dict[str, object], why: str) -> None:
    with pytest.raises(Misuse, match=why):
        review_order(given)
