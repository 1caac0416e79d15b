"""Chains on both databases: forwards and backwards from any turn, with an end even if there is a cycle."""

from __future__ import annotations

from segue.core.turn import LineageKind
from segue.core.usage import Usage
from segue.store.records import LineageRow
from segue.store.store import Store
from tests.integration.store.talking import Talk


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
    wanted = [("deploy", "", 1, 1000), ("restart", "web", 2, 1000), ("restart", "web", 1, 2000)]
    assert flows.actions_since("shop", 0) == wanted
    assert flows.actions_since("shop", 1000) == wanted[-1:]
