"""Chains on both databases: forwards and backwards from any turn, with an end even if there is a cycle."""

from __future__ import annotations

import msgspec

from segue.core.turn import LineageKind
from segue.core.usage import Usage
from segue.store.records import LineageRow
from segue.store.store import Store
from segue.store.turns import Predecessor
from tests.integration.store.talking import CODEX, Talk, message, new_id, turn_row


def link(talk: Talk, child: str, parent: str, kind: LineageKind) -> str:
    """Written with another turn, which is not part of it."""
    row = LineageRow(child=child, parent=parent, kind=kind, session="s", ms=talk.now_ms)
    return talk.say("another", lineage=(row,)).turn.id


def test_the_whole_chain_from_any_of_its_turns(store: Store) -> None:
    talk = Talk(store)
    first, second, third = (talk.say(text).turn.id for text in ("one", "two", "three"))
    link(talk, second, first, "resume")
    other = link(talk, third, first, "fork")
    for each in (first, second, third):
        rows = store.chains.chain([each])
        assert [row.run for row in rows] == [first, second, third]
        assert [row.parents for row in rows] == [(), ((first, "resume"),), ((first, "fork"),)]
        assert rows[0].usage == Usage(100, 50, 20, 10)
        assert (rows[0].conversation, rows[0].duration_ms, rows[0].cost_usd) == ("talk", 5, 0.25)
    assert [row.run for row in store.chains.chain([other])] == [other]
    assert store.chains.chain([]) == []
    assert store.chains.chain(["nothing"]) == []
    assert len(store.chains.runs_of_conversation(talk.id)) == 5


def test_the_chain_of_a_turn_with_two_parents_is_the_same_from_all_of_them(store: Store) -> None:
    talk = Talk(store)
    left, right, both, after, beside = (talk.say(text).turn.id for text in "abcde")
    link(talk, both, left, "resume")
    link(talk, both, right, "review")
    link(talk, after, both, "resume")
    link(talk, beside, right, "fork")
    for each in (left, right, both, after, beside):
        rows = store.chains.chain([each])
        assert [row.run for row in rows] == [left, right, both, after, beside]
        assert set(rows[2].parents) == {(left, "resume"), (right, "review")}


def test_a_retry_has_one_parent_although_it_is_noted_twice(store: Store) -> None:
    talk = Talk(store)
    first = talk.say("one").turn
    again = msgspec.structs.replace(first, id=new_id("t"), retry_of=first.id, started_ms=talk.now_ms + 10)
    store.add_retry(again)
    rows = store.chains.chain([first.id])
    assert [row.run for row in rows] == [first.id, again.id]
    assert rows[1].parents == ((first.id, "retry"),)


def test_a_turn_that_was_parked_is_noted_once(store: Store) -> None:
    talk = Talk(store)
    first, second = talk.say("one").turn.id, talk.say("two").turn.id
    for session in (None, "s"):
        row = LineageRow(child=second, parent=first, kind="resume", session=session, ms=talk.now_ms)
        talk.say("another", lineage=(row,))
    assert store.chains.chain([first])[1].parents == ((first, "resume"),)
    assert len([each for each in store.descents(talk.id) if each.run == second]) == 1


def test_what_a_turn_follows(store: Store) -> None:
    """The last message before it that stands; in a fork without one, where it was forked."""
    talk = Talk(store)
    first = talk.say("one").turn
    failed = talk.say("two", None).turn
    cut = talk.say("three").turn
    talk.receive("it waits")
    store.truncate(talk.id, [cut.message], talk.now_ms)
    last = talk.say("four", voice=CODEX).turn
    again = msgspec.structs.replace(last, id=new_id("t"), retry_of=last.id)
    store.add_retry(again)
    follows = {run.id: store.before(run.id) for run in (first, failed, last, again)}
    assert follows[first.id] is None
    assert follows[failed.id] == Predecessor(first.id, "claude", "work")
    assert follows[last.id] == follows[again.id] == Predecessor(failed.id, "claude", "work")
    _, blank = talk.receive("five", blank=True)
    store.place(blank.id)
    assert store.before(blank.id) is None
    assert store.before("nobody") is None

    for key, of in (("a fork", talk.made.key), ("its fork", "a fork")):
        conversation = store.conversation(of)
        assert conversation is not None
        made = store.fork(conversation, key, None, talk.now_ms, lambda: new_id("f"))
        said = message()
        forked = turn_row(made.id, said, talk.now_ms + 100)
        if key == "its fork":
            store.receive(made, said, "six", forked)
            store.place(forked.id)
            assert store.before(forked.id) == Predecessor(blank.id, "claude", "work", forked=True)


def test_a_cycle_ends_the_walk(store: Store) -> None:
    talk = Talk(store)
    first, second = talk.say("one").turn.id, talk.say("two").turn.id
    link(talk, second, first, "resume")
    link(talk, first, second, "resume")
    assert [row.run for row in store.chains.chain([second])] == [first, second]


def test_actions_are_counted_once_per_step(store: Store) -> None:
    flows = store.flows
    for _ in range(2):
        flows.note_actions("f1", "tier-1", "shop", {("restart", "web"): 2, ("deploy", ""): 1}, 1000)
    flows.note_actions("f2", "tier-1", "shop", {("restart", "web"): 1}, 2000)
    flows.note_actions("f3", "tier-1", "other", {("restart", "web"): 9}, 2000)
    wanted = [
        ("deploy", "", 1, 1000, "f1", "tier-1"),
        ("restart", "web", 2, 1000, "f1", "tier-1"),
        ("restart", "web", 1, 2000, "f2", "tier-1"),
    ]
    assert flows.actions_since("shop", 0) == wanted
    assert flows.actions_since("shop", 1000) == wanted[-1:]
