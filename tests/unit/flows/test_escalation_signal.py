"""What a tier says at its end."""

from __future__ import annotations

import pytest

from segue.flows.answer_block import Unreadable
from segue.flows.escalation_plan import Policy
from segue.flows.escalation_signal import Action, CheckFound, Signal, read_signal

JSON, TEXT = Policy(), Policy(signal="text", text="NEXT TIER")


def block(text: str) -> str:
    return f"I looked.\n\n```json\n{text}\n```\n"


@pytest.mark.parametrize(
    ("answer", "signal"),
    [
        (block('{"escalate": false}'), Signal(escalate=False)),
        (
            block('{"escalate": true, "reason": "db", "failed_checks": []}'),
            Signal(escalate=True, reason="db"),
        ),
        ('{"escalate": true, "reason": null}', Signal(escalate=True)),
        (
            block('{"escalate": true, "reason": "first"}') + block('{"escalate": false, "reason": "last"}'),
            Signal(escalate=False, reason="last"),
        ),
        ('~~~\n{"escalate": true}\n~~~', Signal(escalate=True)),
        (
            block('{"escalate": true, "actions": [{"kind": "restart", "key": "web"}, "page"]}'),
            Signal(escalate=True, actions=(Action("restart", "web"), Action("page"))),
        ),
        (
            block('{"escalate": true, "failed_checks": "web", "checks": ["a", {"name": "b", "result": 3}]}'),
            Signal(escalate=True, failed_checks=("web",), checks=(CheckFound("a"), CheckFound("b", "3"))),
        ),
    ],
)
def test_the_last_block_counts(answer: str, signal: Signal) -> None:
    assert read_signal(answer, JSON) == signal


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "escalate please",
        block('{"verdict": "approve"}'),
        block('{"escalate": "yes"}'),
        block("[true]"),
        *(block('{"escalate": true}') + block('{"other": 1}'), block('{"escalate": true, "actions": [3]}')),
    ],
)
def test_what_cannot_be_read_is_no_signal(answer: str) -> None:
    assert isinstance(read_signal(answer, JSON), Unreadable)


def test_a_line_of_text_can_be_the_signal() -> None:
    assert read_signal("All is well.", TEXT) == Signal(escalate=False)
    assert read_signal("no NEXT TIER here", TEXT) == Signal(escalate=False)
    found = read_signal("NEXT TIER: one\nmore\n  NEXT TIER: the disk is full\nbye", TEXT)
    assert found == Signal(escalate=True, reason="the disk is full")
