"""Whose words turns were given: recorded as they begin, and told from messages if they began before that."""

from __future__ import annotations

import msgspec

from segue.core.laws import Door
from segue.core.request import FlowPlace
from segue.store.carries import CarryRow
from segue.store.flow_records import FlowRow
from segue.store.store import Store
from tests.integration.store.talking import Talk, message, new_id, turn_row


def turned(talk: Talk, step: str, *under: str, flow: str = "f1", begun: bool = True) -> str:
    """A turn of a flow; ``under``: as it is recorded."""
    said = message()
    talk.now_ms += 10
    row = turn_row(talk.id, said, talk.now_ms, flow=FlowPlace(flow=flow, step=step))
    talk.id = talk.store.receive(talk.made, said, "words", row).id
    if begun:
        talk.store.place(row.id, door=Door.FLOW)
        talk.store.started(row.id, "fresh", None, under)
    return row.id


def test_a_flow_knows_whose_words_its_turns_were_given_that_have_begun(talk: Talk) -> None:
    marks = talk.store.marks
    one = turned(talk, "one", "claude/a/x")
    two = turned(talk, "two", "+claude/a/x", "claude/b/y")
    turned(talk, "three", "claude/c/z", begun=False)
    turned(talk, "other", "claude/d/z", flow="f2")
    assert marks.of_flow("f1") == ("+claude/a/x", "claude/a/x", "claude/b/y")
    assert marks.of_flow("f1", two) == ("claude/a/x",)
    assert marks.of_runs([two]) == ("+claude/a/x", "claude/b/y")
    assert marks.of_runs([]) == ()
    talk.store.started(one, "replay", None)
    assert marks.of_runs([one]) == ("claude/a/x",), "what is recorded stays"


def test_a_turn_from_before_is_told_by_its_messages(talk: Talk) -> None:
    turned(talk, "one")
    assert talk.store.marks.of_flow("f1") == ("claude/work",)


def test_an_answer_says_more_than_its_message(talk: Talk) -> None:
    run = turned(talk, "one")
    row = talk.store.turn(run)
    assert row is not None
    settled = talk.settle(row)
    assert settled.turn.answer is not None
    talk.store.address(
        msgspec.structs.replace(
            message(sender="assistant"), id=settled.turn.answer, under=("claude/work/me", "codex//you")
        )
    )
    assert talk.store.marks.of_flow("f1") == ("claude/work/me", "codex//you")


def test_the_steps_whose_actions_count_have_the_marks_of_all_their_turns(talk: Talk) -> None:
    turned(talk, "tier-1", "claude/a/x")
    turned(talk, "tier-1/again", "claude/b/y")
    turned(talk, "tier-10", "claude/c/z")
    talk.store.flows.note_actions("f1", "tier-1", "shop", {("restart", "web"): 2}, 1000)
    talk.store.flows.note_actions("f1", "tier-1", "other", {("restart", "db"): 2}, 1000)
    assert talk.store.marks.of_actions("shop", 0) == {("f1", "tier-1"): ("claude/a/x", "claude/b/y")}
    assert talk.store.marks.of_actions("shop", 1000) == {}


def test_what_segue_composed_is_told_from_what_the_user_said(talk: Talk) -> None:
    run = turned(talk, "one")
    row = talk.store.turn(run)
    assert row is not None
    assert talk.store.marks.of_message(row.message) == (("claude/work",), True)
    plain = talk.say("hello").turn.message
    assert talk.store.marks.of_message(plain) == (("claude/work",), False)
    assert talk.store.marks.of_message("nowhere") == ((), False)


def test_what_a_flow_carries_over_is_recorded_with_it_and_once(store: Store) -> None:
    def row(source: str) -> CarryRow:
        return CarryRow(
            id=new_id("k"),
            conversation="flow/f1/review",
            at_ms=1000,
            from_agent="claude",
            from_account=source,
            to_agent="claude",
            to_account="b",
            mode="flow",
            asked_by="flow",
        )

    new = FlowRow(id="f1", key="mine", kind="review", version=1, cwd="/w", host="here", created_ms=1000)
    store.flows.add(new, [row("a")])
    store.flows.add(msgspec.structs.replace(new, id="f2"), [row("c")])
    assert [each.from_account for each in store.carries.carries()] == ["a"], "the second is the first one"
    store.carries.record_once("f1", [row("a"), row("c")])
    assert sorted(each.from_account for each in store.carries.carries("flow/f1/review")) == ["a", "c"]
    assert {each.mode for each in store.carries.carries()} == {"flow"}
