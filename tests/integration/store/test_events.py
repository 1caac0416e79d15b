from __future__ import annotations

import msgspec

from segue.core.events import Text, ToolCall, ToolResult
from segue.store.store import Store
from tests.integration.store.talking import Talk


def test_events_are_read_from_where_one_left_off(store: Store, talk: Talk) -> None:
    turn = talk.say("one").turn.id
    store.record(turn, [(1, 100, '{"a":1}'), (2, 101, '{"a":2}')])
    store.record(turn, [])
    store.record(turn, [(3, 102, '{"a":3}')])
    assert store.events(turn) == [(1, 100, '{"a":1}'), (2, 101, '{"a":2}'), (3, 102, '{"a":3}')]
    assert store.events(turn, after=2) == [(3, 102, '{"a":3}')]
    assert store.events("nobody") == []


def test_what_was_recorded_stays(store: Store, talk: Talk) -> None:
    """Whoever adopts a turn reads its stream from the beginning."""
    turn = talk.say("one").turn.id
    store.record(turn, [(1, 100, "{}")])
    store.record(turn, [(1, 999, '{"other":1}'), (2, 999, "{}")])
    assert store.events(turn) == [(1, 100, "{}"), (2, 999, "{}")]


def test_what_tools_did_is_found_by_the_answer(store: Store, talk: Talk) -> None:
    def json(event: object) -> str:
        return msgspec.json.encode(event).decode()

    call, result = json(ToolCall("1", "Bash", '{"x": 1}')), json(ToolResult("1", True, "listing"))
    with_tools, without = talk.say("one").turn, talk.say("two").turn
    store.record(with_tools.id, [(1, 1, json(Text("hm"))), (2, 2, call), (3, 3, result)])
    store.record(without.id, [(1, 1, json(Text('{"type":"tool-')))])
    assert with_tools.answer is not None
    assert without.answer is not None
    assert store.tool_events([without.answer, with_tools.answer]) == {with_tools.answer: [call, result]}
    assert store.tool_events([]) == {}


def test_events_have_their_time_but_for_those_of_tools(store: Store, talk: Talk) -> None:
    call, said = '{"type":"tool-call","id":"1","name":"Bash"}', '{"type":"text","text":"hm"}'
    over, runs = talk.say("one").turn.id, talk.receive("two")[1].id
    for turn in (over, runs):
        store.record(turn, [(1, 100, said), (2, 100, call), (3, 200, said)])
    assert store.forget_events(200) == 1
    assert store.events(over) == [(2, 100, call), (3, 200, said)]
    assert store.events(runs) == [(1, 100, said), (2, 100, call), (3, 200, said)]
    assert store.forget_events(200) == 0


def test_a_capability_is_switched_off_for_one_runtime(store: Store) -> None:
    assert store.switched_off("claude") == {}
    store.switch_off("claude", "branch", "ignored the anchor", 5)
    store.switch_off("claude", "branch", "ignored it again", 6)
    store.switch_off("claude", "fork", "no", 7)
    assert store.switched_off("claude") == {"branch": "ignored it again", "fork": "no"}
    assert store.switched_off("codex") == {}
