"""Instructions go out once per session, and again when the session may not have them any more."""

from __future__ import annotations

import pytest

from segue.core.model import Instructions
from segue.core.prompt import RoutedInstructions, instructions_due, route
from segue.core.request import Capabilities

GIVEN = Instructions("h1", at=2)

DUE = [
    ("none wanted", None, GIVEN, 9, True, False),
    ("never given", "h1", None, 0, False, True),
    ("given", "h1", GIVEN, 4, False, False),
    ("changed", "h2", GIVEN, 4, False, True),
    ("cut behind them", "h1", GIVEN, 3, False, False),
    ("cut right before them", "h1", GIVEN, 2, False, True),
    ("cut long before them", "h1", GIVEN, 0, False, True),
    ("summarised away", "h1", GIVEN, 4, True, True),
]


@pytest.mark.parametrize(
    ("wanted", "given", "cut_at", "compacted", "due"),
    [case[1:] for case in DUE],
    ids=[case[0] for case in DUE],
)
def test_when_they_are_due(
    wanted: str | None, given: Instructions | None, cut_at: int, compacted: bool, due: bool
) -> None:
    assert instructions_due(wanted, given, cut_at, compacted) is due


STAYS, RUN = Capabilities(system_prompt="session"), Capabilities(system_prompt="run")


@pytest.mark.parametrize(
    ("text", "can", "fresh", "placed"),
    [
        (None, STAYS, True, RoutedInstructions()),
        (" \n", STAYS, True, RoutedInstructions()),
        ("be brief\n", STAYS, True, RoutedInstructions(system_prompt="be brief\n")),
        ("be brief\n", STAYS, False, RoutedInstructions(in_message="be brief")),
        ("be brief\n", RUN, True, RoutedInstructions(in_message="be brief")),
    ],
)
def test_where_they_go(text: str | None, can: Capabilities, fresh: bool, placed: RoutedInstructions) -> None:
    assert route(text, can, fresh=fresh) == placed
