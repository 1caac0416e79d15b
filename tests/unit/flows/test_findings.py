"""Findings over several rounds, and when the rounds change nothing any more.

A round is a table of words: ``a:open b:resolved c:outside``.
"""

from __future__ import annotations

from typing import cast

import pytest

from segue.flows.review.findings import Findings, Mark, mark, merged, stalled
from segue.flows.review.verdict import Finding, FindingState, Verdict


def after(*rounds: str) -> Findings:
    found = Findings()
    for words in rounds:
        said = (word.split(":") for word in words.split())
        findings = tuple(Finding(id_, f"about {id_}", "major", cast("FindingState", s)) for id_, s in said)
        found = merged(found, Verdict("reject", findings, "notes"))
    return found


def words(found: Findings) -> str:
    return " ".join(f"{each.id}:{each.state}" for each in (*found.known, *found.outside))


@pytest.mark.parametrize(
    ("rounds", "end"),
    [
        (["a:open b:open"], "a:open b:open"),
        (["a:open b:open", "a:resolved"], "a:resolved b:open"),
        (["a:open", ""], "a:open"),
        (["a:open", "a:resolved", "a:open"], "a:resolved"),
        (["a:open", "b:open"], "a:open b:open"),
        (["a:open", "b:outside"], "a:open b:outside"),
        (["b:outside", "b:open"], "b:outside"),
        (["a:open", "a:outside"], "a:open"),
        (["a:resolved"], "a:resolved"),
    ],
)
def test_states_over_rounds(rounds: list[str], end: str) -> None:
    assert words(after(*rounds)) == end


def said(*findings: Finding) -> Verdict:
    return Verdict("reject", findings)


def test_what_is_raised_again_in_the_same_words_stays_resolved() -> None:
    found = after("a:open", "a:resolved")
    assert words(merged(found, said(Finding("z", "About  A")))) == "a:resolved"


def test_a_finding_without_an_id_gets_one_and_is_known_by_its_words() -> None:
    found = merged(Findings(), said(Finding("f1", "x"), Finding("", "y"), Finding("", "z", state="outside")))
    assert words(found) == "f1:open f2:open outside1:outside"
    found = merged(found, said(Finding("", "Y ", state="resolved")))
    assert words(found) == "f1:open f2:resolved outside1:outside"


def test_a_finding_keeps_its_text_if_only_its_state_is_told() -> None:
    found = merged(after("a:open"), said(Finding("a", "", state="resolved")))
    assert found.resolved == (Finding("a", "about a", "major", "resolved"),)


@pytest.mark.parametrize(
    ("marks", "rounds", "end"),
    [
        ("t1/a", 1, False),
        ("t1/a t1/a", 1, True),
        ("t1/a t1/a", 2, False),
        ("t1/a t1/a t1/a", 2, True),
        ("t1/a t2/a t1/a", 2, False),
        ("t1/a t1/ab t1/ab", 2, False),
        ("t1/a t2/b t2/b t2/b", 2, True),
        ("t1/ t1/ t1/", 2, True),
    ],
)
def test_a_stalemate_is_the_same_tree_and_the_same_open_findings(marks: str, rounds: int, end: bool) -> None:
    made = [Mark(tree, tuple(ids)) for tree, ids in (each.split("/") for each in marks.split())]
    assert stalled(made, rounds) is end


def test_the_order_of_findings_does_not_matter() -> None:
    assert mark("t", after("a:open b:open")) == mark("t", after("b:open a:open c:resolved d:outside"))
