"""A CLI that waits by itself is shown to wait; what an answer that broke off took is unknown."""

from __future__ import annotations

import pytest

from tests.live.talk import Talk

WAITING = [
    pytest.param(("claude", "2.1.325"), "it waits 1 s, then tries again (1 of 2): rate_limit", id="claude"),
    pytest.param(("codex", "0.166.0"), "it waits, then tries again (1 of 2): Reconnecting", id="codex"),
]


@pytest.mark.parametrize(("talk", "line"), WAITING, indirect=["talk"])
def test_that_it_waits_is_shown(talk: Talk, line: str) -> None:
    said = talk.run("[[error 429 retry-after 1 times 1]][[say back]]")
    assert (said.text, said.turn["failure"]) == ("back", None)
    assert line in said.stderr


@pytest.mark.parametrize("talk", [pytest.param(("codex", "0.166.0"), id="codex")], indirect=True)
def test_what_a_broken_answer_took_is_unknown(talk: Talk) -> None:
    turn = talk("run", "t", "[[say one two three four five six]][[drop]]", "--json").turn
    assert turn["failure"]["kind"] == "network"
    assert set(turn["usage"].values()) == {None}
    assert turn["cost_usd"] is None
