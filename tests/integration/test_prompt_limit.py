"""An agent that takes only short prompts: what is carried keeps to the room that the new message leaves."""

from __future__ import annotations

import pytest

from tests.integration.conftest import Program, Result
from tests.integration.talk import AGENT, declared

LIMIT = 6_000
COUNTS = f'[agents.narrow]\ncommand = ["wc", "-c"]\nstdin = "prompt"\nprompt_limit = {LIMIT}\n'
"""It says how many bytes it was sent, and has no sessions: all that was said comes as text."""


@pytest.fixture
def narrow(segue: Program) -> Program:
    segue.config(COUNTS)
    for number in range(2):
        ran = say(segue, f"message {number} " + "x" * 3_000)
        assert ran.code == 0, ran.stderr
    return segue


def say(segue: Program, text: str) -> Result:
    return segue("run", "t", "--agent", "narrow", "--json", stdin=text.encode())


@pytest.mark.parametrize("size", [1_000, LIMIT - 1_200])
def test_a_recap_keeps_to_the_room_that_is_left(narrow: Program, size: int) -> None:
    ran = say(narrow, "y" * size)
    assert (ran.code, ran.turn["mode"]) == (0, "recap"), ran.stderr
    assert size + 500 < int(ran.turn["text"]) <= LIMIT
    assert int(ran.turn["text"]) == ran.turn["sent"]["bytes"]


@pytest.mark.parametrize("size", [LIMIT - 500, LIMIT])
def test_where_no_recap_fits_nothing_is_carried_and_that_is_said(narrow: Program, size: int) -> None:
    ran = say(narrow, "y" * size)
    assert (ran.code, ran.turn["mode"], ran.turn["text"]) == (0, "fresh", str(size)), ran.stderr
    assert ran.turn["notices"][0] == (
        "nothing of the conversation was carried over: the new message leaves no room for what was said"
        " before (narrow accepts at most 6,000 bytes)"
    )


@pytest.mark.parametrize(("size", "mode"), [(1_000, "recap"), (LIMIT - 500, "fresh")])
def test_why_says_beforehand_what_has_no_room(narrow: Program, size: int, mode: str) -> None:
    told = narrow("why", "t", "y" * size, "--agent", "narrow", "--json")
    assert told.turn["mode"] == mode == say(narrow, "y" * size).turn["mode"]


def test_a_session_that_would_have_too_much_to_catch_up_is_left_and_that_is_said(segue: Program) -> None:
    segue.config(f"{declared('narrow', AGENT)}prompt_limit = {LIMIT}\n")
    assert say(segue, "remember number 7").code == 0
    long = f"remember number 8 {'x' * LIMIT}"
    assert segue("run", "t", "--agent", "rehearsal", stdin=long.encode()).code == 0
    told = segue("why", "t", "--agent", "narrow", "--json").turn
    ran = say(segue, "what number?")
    assert (told["mode"], ran.turn["mode"], ran.turn["text"]) == ("recap", "recap", "8"), ran.stderr
    assert ran.turn["notices"] == [
        "the messages that the session has not seen are 6.0 KB; narrow accepts at most 5.9 KB;"
        " sent a bounded part of the conversation instead"
    ]
    assert say(segue, "what number?").turn["mode"] == "resume", "the new session goes on"


def test_instructions_take_their_room_too(narrow: Program) -> None:
    narrow.config(COUNTS + f'[defaults]\ninstructions = "{"z" * 2_000}"\n')
    ran = say(narrow, "y" * 2_000)
    assert (ran.code, ran.turn["mode"]) == (0, "recap"), ran.stderr
    assert 4_500 < int(ran.turn["text"]) <= LIMIT
    fresh = say(narrow, "y" * 3_900).turn
    assert fresh["mode"] == "fresh"
    assert "the new message leaves no room for what was said before" in fresh["notices"][0]
    (fits,) = [each for each in fresh["why"] if each["check"] == "fits"]
    assert fits["bars"] == ["replay", "recap"]
    too_long = say(narrow, "y" * 5_000)
    assert (too_long.code, too_long.stderr.count("\n")) == (2, 1), too_long.stderr
