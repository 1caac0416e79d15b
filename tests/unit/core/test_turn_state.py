"""The fold of a turn's events."""

from __future__ import annotations

import pytest

from segue.core import events as ev
from segue.core.stream import TurnState
from segue.core.tools import DeniedTools
from segue.core.usage import Usage


def read(*events: ev.Event) -> TurnState:
    reading = TurnState()
    for event in events:
        reading.add(event)
    return reading


CALL = ev.ToolCall("t1", "Bash", {"command": "ls"})


@pytest.mark.parametrize(
    ("events", "answer"),
    [
        ([ev.Text("one"), ev.Text("two")], "two"),
        ([ev.TextDelta("a"), ev.TextDelta("b")], "ab"),
        ([ev.TextDelta("a"), ev.Text("ab")], "ab"),
        ([ev.TextDelta("first"), CALL, ev.ToolResult("t1", True), ev.TextDelta("last")], "last"),
        ([ev.Text("said"), ev.End(True, "the result")], "the result"),
        ([ev.Text("said"), ev.End(True)], "said"),
        ([], ""),
    ],
)
def test_the_answer_is_the_last_thing_said(events: list[ev.Event], answer: str) -> None:
    assert read(*events).answer == answer


@pytest.mark.parametrize(
    ("events", "run", "denied"),
    [
        ([CALL, ev.ToolResult("t1", True)], 1, DeniedTools()),
        ([CALL], 1, DeniedTools()),
        ([CALL, ev.ToolResult("t1", False, denied=True)], 0, DeniedTools(1, (CALL.name,))),
        ([CALL, ev.ToolResult("t1", False, name="other", denied=True)], 0, DeniedTools(1, ("other",))),
        ([ev.ToolResult("t9", True)], 1, DeniedTools()),
        ([ev.ToolResult("t9", False, denied=True)], 0, DeniedTools(1)),
        ([CALL, ev.ToolResult("t1", False, denied=True)] * 2, 0, DeniedTools(2, (CALL.name,))),
        ([CALL, ev.ToolResult("t1", False, denied=True), ev.Heard("x")], 0, DeniedTools()),
    ],
)
def test_a_call_that_never_reported_back_counts_as_run(
    events: list[ev.Event], run: int, denied: DeniedTools
) -> None:
    reading = read(*events)
    assert (reading.tools_run, reading.tools_denied) == (run, denied)


def test_reports_of_one_request_replace_each_other_and_requests_add_up() -> None:
    reading = read(
        ev.UsageReport(Usage(input=5, output=1), "m", "r1"),
        ev.UsageReport(Usage(input=5, output=9), "m", "r1"),
        ev.UsageReport(Usage(input=7, output=2), "m", "r2"),
        ev.UsageReport(Usage(input=100, output=1), "small", "r3", side=True),
    )
    assert reading.usage == Usage(input=112, output=12)
    assert reading.requests == 3
    assert reading.last_request == Usage(input=7, output=2)
    assert reading.model == "m"
