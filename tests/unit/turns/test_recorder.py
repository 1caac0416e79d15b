from __future__ import annotations

from typing import Any

import msgspec
import pytest

from segue.core import events as ev
from segue.core.usage import Usage
from segue.turns.recorder import FIELD_BYTES, TEXT_BYTES, recorded

LONG = "x" * 1_000_000
SMALL: list[ev.Event] = [
    ev.Session("s", "m", "/w"),
    ev.Text("hello"),
    ev.ToolCall("1", "Bash", {"command": "ls"}),
    ev.ToolResult("1", True, "listing", exit_code=0),
    ev.UsageReport(Usage(1, 2, 3, 4)),
    ev.Question("q", [{"question": "why?"}]),
]
LARGE: list[ev.Event] = [
    ev.Text(LONG),
    ev.Text("ä€🎵" * 100_000),
    ev.Thinking(LONG),
    ev.ToolCall("1", "Write", {"path": "a", "content": LONG}),
    ev.ToolCall("1", "Write", LONG),
    ev.ToolResult("1", False, LONG, exit_code=1),
    ev.Permission("p", "Write", {"content": [LONG]}),
    ev.Question("q", [{"question": LONG}]),
    ev.End(True, LONG, LONG, {"result": LONG}),
    ev.Unknown(LONG, LONG),
]


@pytest.mark.parametrize("event", SMALL, ids=lambda event: type(event).__name__)
def test_what_is_short_is_recorded_as_it_is(event: ev.Event) -> None:
    assert recorded(event) == msgspec.json.encode(event).decode()


@pytest.mark.parametrize("event", LARGE, ids=lambda event: type(event).__name__)
def test_what_is_long_is_recorded_in_short(event: ev.Event) -> None:
    json = recorded(event)
    most = TEXT_BYTES if isinstance(event, ev.Text | ev.Thinking) else FIELD_BYTES
    assert len(json.encode()) < 3 * most
    assert json.startswith(f'{{"type":"{decoded(event)["type"]}"')
    assert isinstance(msgspec.json.decode(json, type=ev.AnyEvent), type(event))


def test_a_shortened_call_is_still_known_by_its_id_and_name() -> None:
    call = msgspec.json.decode(recorded(LARGE[3]))
    assert (call["id"], call["name"]) == ("1", "Write")
    assert call["input"].startswith('{"path":"a","content":"xxx')


def test_the_final_word_is_recorded_without_the_answer() -> None:
    end = ev.End(True, "the answer", "", {"result": "the answer"})
    assert recorded(end) == '{"type":"end","ok":true}'


def decoded(event: ev.Event) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(event))
    return found
