"""One builder makes every turn that is reported, however far it came."""

from __future__ import annotations

import msgspec

from segue.core.model import Owner, Voice
from segue.core.outcome import Failure, Outcome
from segue.core.turn import Turn
from segue.store.records import TurnRow
from segue.turns.report import TurnFacts, build_turn, report_row

ROW = TurnRow(
    id="r1",
    conversation="c1",
    message="m1",
    voice=Voice("rehearsal", "coder"),
    account="work",
    owner=Owner(host="h", pid=1),
    started_ms=100,
    retry_of="r0",
)


def test_a_row_alone_makes_a_turn() -> None:
    failure = Failure("killed", "it was killed")
    outcome = Outcome(failure=failure, tools_run=None, tools_denied=None)
    turn = build_turn(TurnFacts.of_row(ROW, "k"), outcome, duration_ms=5)
    assert (turn.run, turn.conversation, turn.message, turn.retry_of) == ("r1", "k", "m1", "r0")
    assert (turn.agent, turn.role, turn.account, turn.mode) == ("rehearsal", "coder", "work", "fresh")
    assert (turn.state, turn.status, turn.tools_run, turn.tools_denied) == ("failed", "failed", None, None)
    assert (turn.attempts, turn.cost_usd, turn.resumed, turn.duration_ms) == ((), None, False, 5)


def test_a_turn_of_an_earlier_version_has_no_ladder() -> None:
    turn = report_row(ROW, "k")
    assert (turn.rungs, turn.agent_version) == ((), None)
    old = {name: value for name, value in turn.to_dict().items() if name not in ("rungs", "agent_version")}
    assert msgspec.convert(old, Turn) == turn


def test_a_settled_run_that_nobody_reported_is_told_as_withdrawn() -> None:
    turn = report_row(msgspec.structs.replace(ROW, state="withdrawn"), "k")
    assert isinstance(turn, Turn)
    assert (turn.state, turn.status, turn.tools_run, turn.duration_ms) == ("withdrawn", "failed", 0, 0)
    assert turn.next == "segue retry k m1"
