"""The hand-off: what a tier leaves to the next one."""

from __future__ import annotations

import msgspec
import pytest

from segue.flows.escalation_signal import CheckFound, Signal
from segue.flows.hand_off import HandOff, ToolRun, encoded, hand_off


def test_a_tier_that_says_what_it_found_writes_its_own_hand_off() -> None:
    signal = Signal(
        escalate=True, reason="db", findings=("disk full",), checks=(CheckFound("web", "502"),), done=("df",)
    )
    made = hand_off(
        1, "observe", signal=signal, answer="long", tools=[ToolRun("sh", "df", True)], most=24_000
    )
    assert (made.source, made.answer, made.reason, made.findings) == ("tier", "", "db", ("disk full",))
    assert msgspec.json.decode(encoded(made), type=HandOff) == made


def test_otherwise_it_is_taken_from_the_answer_and_the_tools() -> None:
    made = hand_off(
        1, "observe", signal=None, answer="web is down", tools=[ToolRun("sh", "df")], most=24_000, failure="x"
    )
    assert (made.source, made.answer, made.failure) == ("transcript", "web is down", "x")
    assert made.tools == (ToolRun("sh", "df"),)


def test_earlier_tiers_are_kept() -> None:
    first = hand_off(1, "a", signal=None, answer="one", tools=[], most=24_000)
    second = hand_off(2, "b", signal=None, answer="two", tools=[], most=24_000, earlier=first)
    third = hand_off(3, "c", signal=None, answer="three", tools=[], most=24_000, earlier=second)
    assert [(each.tier, each.answer) for each in third.earlier] == [(2, "two"), (1, "one")]
    assert all(each.earlier == () for each in third.earlier)


@pytest.mark.parametrize("most", [1_000, 3_000, 24_000])
def test_it_is_bounded(most: int) -> None:
    tools = [ToolRun("sh", "x" * 5_000, True, "ö" * 5_000)] * 500
    signal = Signal(
        escalate=True,
        reason="r" * 9_000,
        findings=("f" * 9_000,) * 200,
        checks=(CheckFound("c" * 900),) * 99,
    )
    first = hand_off(1, "a", signal=None, answer="ä" * 90_000, tools=tools, most=most)
    made = hand_off(2, "b", signal=signal, answer="", tools=tools, most=most, earlier=first)
    assert len(encoded(first)) <= most
    assert len(encoded(made)) <= most
    assert made.shortened
    assert made.findings
    assert first.answer.endswith("ä")
