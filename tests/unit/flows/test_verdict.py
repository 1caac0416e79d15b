"""The reviewer's verdict: the last JSON block of the answer, or nothing."""

from __future__ import annotations

import pytest

from segue.flows.answer_block import Unreadable
from segue.flows.review.verdict import Finding, Verdict, parse

APPROVE = '{"verdict": "approve"}'
REJECT = '{"verdict": "reject", "findings": [{"id": "a", "text": "it leaks"}]}'


def fenced(text: str, label: str = "json", fence: str = "```") -> str:
    return f"{fence}{label}\n{text}\n{fence}"


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (APPROVE, Verdict("approve")),
        (f"\n  {APPROVE}\n", Verdict("approve")),
        (fenced(APPROVE), Verdict("approve")),
        (fenced(APPROVE, "JSON"), Verdict("approve")),
        (fenced(APPROVE, ""), Verdict("approve")),
        (fenced(APPROVE, fence="~~~~"), Verdict("approve")),
        (f"I looked.\n\n{fenced(APPROVE)}\nThat is all.", Verdict("approve")),
        (f"As before: {fenced(REJECT)}\n{fenced(APPROVE)}", Verdict("approve")),
        (f"{fenced(APPROVE)}\nNo, wait.\n{fenced(REJECT)}", Verdict("reject", (Finding("a", "it leaks"),))),
        (f"{fenced(APPROVE)}\n{fenced('print(1)', 'python')}", Verdict("approve")),
        (f"{fenced(APPROVE)}\n{fenced('make test', '')}", Verdict("approve")),
        (
            '{"verdict": "reject", "notes": "start over ", "context_reset": true, "else": 1}',
            Verdict("reject", (), "start over", True),
        ),
        ('{"verdict": "approve", "notes": null}', Verdict("approve")),
        (
            '{"verdict": "reject", "findings": [{"id": 7, "text": " x ", "severity": "low", "state":'
            ' "fixed"}, {"text": "y", "state": "out_of_scope"}, {"id": "z"}, {}]}',
            Verdict(
                "reject",
                (
                    Finding("7", "x", "low", "resolved"),
                    Finding("", "y", state="outside"),
                    Finding("z", ""),
                ),
            ),
        ),
    ],
)
def test_the_last_block_of_the_answer_is_the_verdict(answer: str, verdict: Verdict) -> None:
    assert parse(answer) == verdict


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "the answer has no JSON block"),
        ("Looks good to me, I approve.", "the answer has no JSON block"),
        (f"Give {APPROVE} or not", "the answer has no JSON block"),
        (fenced("approve", "text"), "the answer has no JSON block"),
        (fenced('{"verdict": "approve"'), "the JSON block cannot be read: "),
        (f"{fenced(APPROVE)}\n{fenced('{broken')}", "the JSON block cannot be read: "),
        (fenced('{"verdict": "maybe"}'), "the JSON block is no verdict: Invalid enum value 'maybe'"),
        (fenced('{"findings": []}'), "the JSON block is no verdict: "),
        (fenced("[1]"), "the JSON block is no verdict: "),
        (fenced('{"verdict": "approve", "context_reset": "no"}'), "the JSON block is no verdict: "),
        ('{"verdict": "reject"}', "it rejects without a finding or a note"),
        ('{"verdict": "reject", "findings": [{}], "notes": " "}', "it rejects without a finding or a note"),
        ("```json\n" + APPROVE, "the answer has no JSON block"),
        ('{"verdict": "\udcff"}', "the JSON block cannot be read: "),
    ],
)
def test_anything_else_is_unreadable_and_says_why(answer: str, reason: str) -> None:
    found = parse(answer)
    assert isinstance(found, Unreadable)
    assert found.reason.startswith(reason)
    assert len(found.reason) <= 300


def test_a_long_answer_is_read_in_no_time() -> None:
    assert parse("```\n" * 19_999 + "`" * 100_000) == Unreadable("the answer has no JSON block")
