"""A caller's own functions may fail: that is none of the agent's business."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest

from segue.agents.base import Answer
from segue.app.segue import Segue
from segue.app.sync import SyncSegue
from segue.core.events import Event, Permission, Question
from segue.core.turn import Turn
from segue.turns.request import Options
from tests.integration.conftest import Program


@pytest.fixture
def door(segue: Program) -> Iterator[SyncSegue]:
    segue.config('[defaults]\nagent = "rehearsal"\npermission = "full"\n')
    with SyncSegue(home=segue.home, env=segue.env) as opened:
        yield opened


def test_an_error_in_on_event_does_not_end_the_turn(
    door: SyncSegue, segue: Program, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    def on_event(event: Event) -> None:
        heard.append(type(event).__name__)
        raise RuntimeError("a mistake of the caller's")

    caplog.set_level(logging.DEBUG, "segue")
    text = "[[shell echo x >> effects]] [[say done]]"
    turn = door.run("t", text, cwd=str(segue.cwd), on_event=on_event)
    assert (turn.status, turn.text, heard) == ("ok", "done", ["Session"])
    assert (segue.cwd / "effects").read_text() == "x\n"
    assert any("on_event raised RuntimeError" in notice for notice in turn.notices)
    (warning,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert "on_event raised RuntimeError" in warning.getMessage()
    assert any(each.exc_info for each in caplog.records if each.levelno == logging.DEBUG)
    door.run("t", "again", cwd=str(segue.cwd), on_event=on_event)
    assert heard == ["Session", "Session"]  # each turn gives it a new chance


def test_an_error_in_on_notice_does_not_end_the_turn(
    door: SyncSegue, segue: Program, caplog: pytest.LogCaptureFixture
) -> None:
    def on_notice(text: str) -> None:
        raise RuntimeError(text)

    session = door.run("t", "remember number 7", cwd=str(segue.cwd)).session_id
    for file in segue.home.parent.rglob(f"{session}.jsonl"):
        file.unlink()
    turn = door.run("t", "what number?", cwd=str(segue.cwd), on_notice=on_notice)
    assert (turn.status, turn.text) == ("ok", "7")
    assert any("on_notice raised RuntimeError" in notice for notice in turn.notices)
    assert "on_notice raised RuntimeError" in caplog.text


ASKS = "[[ask Which? | a | b]] [[ask Sure? | a | b]] [[shell echo x >> effects]] [[say done]]"


@pytest.mark.parametrize("what", ["raises", "returns no answer"])
def test_an_error_in_answer_does_not_end_the_turn(
    segue: Program, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    """The agent is told that nobody answers, as where there is no such function, and goes on."""
    asked: list[Question | Permission] = []

    async def answer(event: Question | Permission) -> Answer:
        asked.append(event)
        if what == "raises":
            raise RuntimeError("a mistake of the caller's")
        return None  # type: ignore[return-value]

    async def run(key: str, text: str) -> Turn:
        async with Segue(home=segue.home, env=segue.env) as door:
            options: Options = {"agent": "rehearsal", "permission": "full", "cwd": str(segue.cwd)}
            return await door.run(key, text, answer=answer, **options)

    turn = asyncio.run(run("t", ASKS))
    assert (turn.status, turn.text, len(asked)) == ("ok", "done", 1)
    assert (segue.cwd / "effects").read_text() == "x\n"
    assert any("answer raised" in notice for notice in turn.notices)
    assert "answer raised" in caplog.text
    assert "nobody can answer now" in asyncio.run(run("other", "[[ask Which? | a | b]] [[result]]")).text
    assert len(asked) == 2  # each turn gives it a new chance
