"""The notices of a turn: in words, and as data for those who tell them in another language."""

from __future__ import annotations

import msgspec
import pytest

from segue.config.schema import Defaults
from segue.core.model import Owner, Voice
from segue.core.outcome import Failure, Outcome
from segue.core.request import Capabilities, Grant
from segue.core.tools import DeniedTools
from segue.core.turn import Clause, Mode, Turn
from segue.core.verdicts import NOTHING, Said, listed, notices_of, say, with_notices
from segue.store.records import TurnRow
from segue.turns.attempts import stepped_words
from segue.turns.permissions import grant_terms
from segue.turns.report import TurnFacts, build_turn, refused
from segue.turns.request import TurnRequest

ROW = TurnRow(
    id="r1",
    conversation="c1",
    message="m1",
    voice=Voice("rehearsal"),
    account="",
    owner=Owner(host="h", pid=1),
    started_ms=100,
)
TOLD = (say("one", "notice.one", count=1), Said("in the words of a CLI"))


def codes(said: Said) -> list[str]:
    return [clause.code for clause in said.clauses]


def made() -> Turn:
    return build_turn(TurnFacts.of_row(ROW, "k"), Outcome(text="hi"), duration_ms=1, notices=TOLD)


def test_a_turn_has_its_notices_in_words_and_as_data() -> None:
    turn = made()
    assert turn.notices == ("one", "in the words of a CLI")
    assert turn.notice_clauses == ((Clause("notice.one", {"count": 1}),), ())
    assert notices_of(turn) == list(TOLD)
    assert with_notices(turn, []).notice_clauses == ()


def test_a_turn_of_an_earlier_version_has_only_words() -> None:
    turn = made()
    old = {name: value for name, value in turn.to_dict().items() if name != "notice_clauses"}
    read = msgspec.convert(old, Turn)
    assert (read.notices, read.notice_clauses) == (turn.notices, ())
    assert notices_of(read) == [Said("one"), Said("in the words of a CLI")]


def test_what_is_partly_in_somebody_elses_words_has_no_clauses() -> None:
    assert listed(TOLD, "; ") == Said("one; in the words of a CLI")
    assert TOLD[0] + TOLD[1] == Said("onein the words of a CLI")
    assert codes(listed((TOLD[0], TOLD[0]), "; ")) == ["notice.one", "notice.one"]


def test_nothing_is_not_listed() -> None:
    assert listed((TOLD[0], NOTHING), "; ") == listed((NOTHING, TOLD[0]), "; ") == TOLD[0]
    assert NOTHING + TOLD[0] == TOLD[0] + NOTHING == TOLD[0]


def test_notices_that_the_clauses_do_not_fit_stay_readable() -> None:
    turn = msgspec.structs.replace(made(), notice_clauses=made().notice_clauses[:1])
    assert notices_of(turn) == list(map(Said, turn.notices))


@pytest.mark.parametrize(
    ("failure", "lower", "text", "told"),
    [
        (
            Failure("context_exceeded", "too long"),
            "recap",
            "The session no longer fit It's window; sent a part of the conversation instead.",
            ["notice.unfit", "notice.recapped"],
        ),
        (
            Failure("session_rejected", "no such session", "not_found"),
            "replay",
            "It refused the session (it is gone from disk); sent the conversation as text instead.",
            ["notice.refused", "notice.gone", "notice.replayed"],
        ),
        (
            Failure("session_rejected", "just so"),
            "fresh",
            "It refused the session (just so); sent the whole message instead.",
            ["notice.refused_why", "notice.sent_whole"],
        ),
    ],
)
def test_a_step_down(failure: Failure, lower: Mode, text: str, told: list[str]) -> None:
    said = stepped_words("It", failure, lower)
    assert (said.text, codes(said)) == (text, told)


@pytest.mark.parametrize(
    ("names", "code"), [(("Write", "Bash"), "notice.denied"), ((), "notice.denied_unnamed")]
)
def test_refused_tools(names: tuple[str, ...], code: str) -> None:
    (said,) = refused([Outcome(text="hi", tools_denied=DeniedTools(2, names))])
    assert (codes(said), said.clauses[0].values["count"]) == ([code], 2)


@pytest.mark.parametrize(
    ("defaults", "can", "told"),
    [
        (
            Defaults(max_turns=3),
            Capabilities(),
            (
                "[defaults] max_turns has no effect in this turn: it does not support --max-turns",
                {"setting": "max_turns", "agent": "it", "option": "--max-turns"},
            ),
        ),
        (
            Defaults(permission="edit"),
            Capabilities(postures=("read", "default")),
            (
                "[defaults] permission = edit cannot be applied: it does not support --permission edit;"
                " the turn runs with default, which grants less",
                {"agent": "it", "wanted": "edit", "granted": "default"},
            ),
        ),
    ],
    ids=["limit", "permission"],
)
def test_defaults_without_effect(
    defaults: Defaults, can: Capabilities, told: tuple[str, dict[str, str]]
) -> None:
    ask = TurnRequest(conversation="k", prompt="hi")
    (said,) = grant_terms(ask, Grant(), defaults, can, "it").notices
    assert (said.text, said.clauses[0].values) == told
