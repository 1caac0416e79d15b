"""Flows and their steps on both databases: written under a lease, answered once, told by the feed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from segue.core.request import FlowPlace
from segue.store.database import Row, Statement
from segue.store.flow_records import FlowRow, StepRow
from segue.store.flows import Overtaken, hash_of
from segue.store.lease_rows import Taken
from segue.store.postgres import Postgres
from segue.store.records import Claim, Receipt
from segue.store.store import Store
from tests.integration.store.talking import OWNER, Talk, message, new_id, turn_row
from tests.integration.store.where import Where


def new_flow(**more: object) -> FlowRow:
    fields: dict[str, object] = {
        "id": new_id("f"),
        "kind": "tidy",
        "version": 1,
        "cwd": "/w",
        "host": "here",
        "created_ms": 1000,
    }
    return msgspec.convert(fields | more, FlowRow)


def claimed(store: Store, flow: FlowRow, *, over: bool = False) -> Claim:
    taken = store.take_lease(f"flow:{flow.id}", OWNER, lambda row: "dead" if over else "alive")
    assert isinstance(taken, Taken)
    return taken.claim


def new_step(flow: FlowRow, key: str, n: int = 1, **more: object) -> StepRow:
    fields: dict[str, object] = {"flow": flow.id, "key": key, "n": n, "kind": "step", "began_ms": 5}
    return msgspec.convert(fields | more, StepRow)


def test_a_flow_is_stored_once_per_key(store: Store) -> None:
    first = store.flows.add(new_flow(key="nightly", input='{"a":1}', label="cycle 42"))
    assert store.flows.add(new_flow(key="nightly")) == first
    other = store.flows.add(new_flow(created_ms=2000))
    assert store.flows.by_key("nightly") == store.flows.flow(first.id) == first
    assert store.flows.newest(10) == [other, first]
    assert store.flows.unfinished() == [first, other]
    assert store.flows.flow("nothing") is None


def test_steps_are_written_under_the_lease_and_by_nobody_else(store: Store) -> None:
    flow = store.flows.add(new_flow())
    claim = claimed(store, flow)
    step = new_step(flow, "one", tier=2, role="coder", run="r1")
    store.flows.write_step(claim, step)
    done = msgspec.structs.replace(step, state="done", result='{"x":"ü"}', ended_ms=9, tries=2)
    store.flows.write_step(claim, done)
    assert store.flows.steps(flow.id) == [done]
    claimed(store, flow, over=True)
    with pytest.raises(Overtaken):
        store.flows.write_step(claim, new_step(flow, "two", 2))
    with pytest.raises(Overtaken):
        store.flows.begin_step(claim, new_step(flow, "two", 2))
    with pytest.raises(Overtaken):
        store.flows.write_step(claim, new_step(flow, "two", 2), data=b"large")
    with pytest.raises(Overtaken):
        store.flows.change(claim, msgspec.structs.replace(flow, state="done"))
    with pytest.raises(Overtaken):
        store.flows.keep(claim, flow.id, "notes", b"x", "text/plain", 1)
    assert store.flows.steps(flow.id) == [done]
    assert store.flows.flow(flow.id) == flow
    assert store.flows.artefacts(flow.id) == []


def test_the_first_answer_counts(store: Store) -> None:
    flow = store.flows.add(new_flow())
    claim = claimed(store, flow)
    assert not store.flows.wait_for_answer(claim, flow.id, "human"), "nothing is asked"
    store.flows.write_step(claim, new_step(flow, "ask", kind="ask", state="waiting", question="{}"))
    assert store.flows.wait_for_answer(claim, flow.id, "human")
    waiting = store.flows.flow(flow.id)
    assert waiting is not None
    assert (waiting.state, waiting.needs) == ("needs_you", "human")
    assert store.flows.answer(flow.id, "ask", '"yes"', 50)
    assert not store.flows.answer(flow.id, "ask", '"no"', 60)
    step = store.flows.step(flow.id, "ask")
    assert step is not None
    assert (step.state, step.result, step.ended_ms) == ("done", '"yes"', 50)
    assert store.flows.flow(flow.id) == flow, "it can go on"


def test_a_step_does_not_begin_if_the_flow_is_to_stop(store: Store) -> None:
    flow = store.flows.add(new_flow())
    claim = claimed(store, flow)
    assert store.flows.begin_step(claim, new_step(flow, "one")) is None
    store.flows.ask_for(flow.id, "pause")
    assert store.flows.begin_step(claim, new_step(flow, "two", 2)) == "pause"
    assert [step.key for step in store.flows.steps(flow.id)] == ["one"]
    store.flows.write_step(claim, new_step(flow, "one", state="done"))
    assert [step.state for step in store.flows.steps(flow.id)] == ["done"], (
        "what began is recorded to its end"
    )


def test_what_a_step_adds_to_a_turn_is_few_statements(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """And on PostgreSQL two round trips: it is sent as a whole."""
    flow = store.flows.add(new_flow())
    claim, talk = claimed(store, flow), Talk(store)
    talk.receive("hello")
    sent: list[str] = []
    database, execute = store.flows._db, store.flows._db._execute

    def counted(sql: str, values: dict[str, Any]) -> Any:
        sent.append(sql)
        return execute(sql, values)

    monkeypatch.setattr(database, "_execute", counted)
    if isinstance(database, Postgres):
        together = database._execute_together

        def counted_once(statements: list[Statement]) -> list[list[Row]]:
            sent.append(" + ".join(sql for sql, _ in statements))
            return together(statements)

        monkeypatch.setattr(database, "_execute_together", counted_once)

    def statements(work: Callable[[], object]) -> int:
        sent.clear()
        work()
        return len(sent)

    def receive(n: int, place: FlowPlace | None, receipt: Receipt | None) -> None:
        said = message()
        row = turn_row(talk.id, said, talk.now_ms + n, flow=place)
        store.receive(talk.made, said, "hello", row, receipt)

    is_server = isinstance(database, Postgres)
    place = FlowPlace(flow=flow.id, step="one", tier=2)
    receive(1, None, Receipt(key="old", body=""))
    plain = statements(lambda: receive(2, None, None))
    more = 0 if is_server else 1
    assert statements(lambda: receive(3, place, Receipt(key="new", body=""))) == plain + more, sent
    step = new_step(flow, "one")
    most = 1 if is_server else 4
    assert statements(lambda: store.flows.begin_step(claim, step)) == most, sent
    assert statements(lambda: store.flows.write_step(claim, step)) == most, sent
    (run,) = store.flows.runs(flow.id)
    assert (run.step, run.tier) == ("one", 2)


def test_the_wish_to_cancel_stays(store: Store) -> None:
    flow = store.flows.add(new_flow())
    assert store.flows.asked_for(flow.id) is None
    assert store.flows.ask_for(flow.id, "pause")
    assert store.flows.ask_for(flow.id, "cancel")
    assert not store.flows.ask_for(flow.id, "pause")
    assert store.flows.asked_for(flow.id) == "cancel"
    claim = claimed(store, flow)
    store.flows.count_round(claim, flow.id, 3)
    store.flows.count_round(claim, flow.id, 2)
    now = store.flows.flow(flow.id)
    assert now is not None
    assert now.rounds == 3
    store.flows.change(claim, msgspec.structs.replace(now, state="cancelled", ended_ms=7))
    assert store.flows.asked_for(flow.id) is None
    assert not store.flows.ask_for(flow.id, "pause"), "it is over"
    assert store.flows.unfinished() == []


def test_an_artefact_is_stored_once(store: Store) -> None:
    flow = store.flows.add(new_flow())
    claim, data = claimed(store, flow), b"\x00large\xff" * 100
    made = store.flows.keep(claim, flow.id, "notes", data, "text/plain", 5)
    step = new_step(flow, "big", state="done", artefact=hash_of(data), ended_ms=9)
    store.flows.write_step(claim, step, data=data)
    assert made.hash == hash_of(data)
    assert [(each.name, each.hash, each.size) for each in store.flows.artefacts(flow.id)] == [
        ("notes", made.hash, len(data)),
        ("big", made.hash, len(data)),
    ]
    assert store.flows.artefact(made.hash) == data
    assert store.flows.artefact("other") is None


def test_turns_know_their_flow_and_what_they_cost(store: Store) -> None:
    flow, talk = store.flows.add(new_flow()), Talk(store, "k")
    said = message()
    place = FlowPlace(flow=flow.id, step="one", tier=3)
    row = msgspec.structs.replace(turn_row(talk.id, said), flow=place)
    store.receive(talk.made, said, "hello", row)
    (run,) = store.flows.runs(flow.id)
    assert (run.run, run.step, run.tier, run.conversation) == (row.id, "one", 3, "k")
    assert store.flows.spent(flow.id) == 0
    assert not store.flows.cancel_asked(row.id)
    store.ask_cancel(row.id)
    assert store.flows.cancel_asked(row.id)


def test_when_a_flow_worked_and_who_answered_last(store: Store, talk: Talk) -> None:
    flow = store.flows.add(new_flow())
    claim = claimed(store, flow)
    store.flows.write_step(claim, new_step(flow, "check", began_ms=100, state="done", ended_ms=200))
    store.flows.write_step(claim, new_step(flow, "ask", 2, kind="ask", began_ms=200, ended_ms=900))
    assert store.flows.worked(flow.id, 199) == [(100, 200)], "waiting for a person is no work"
    assert store.flows.worked(flow.id, 200) == []
    said = message()
    row = turn_row(talk.id, said, talk.now_ms, flow=FlowPlace(flow=flow.id, step="one"))
    store.receive(talk.made, said, "hello", row)
    role = row.voice.role or ""
    assert store.flows.last_answer(flow.id, talk.made.key, role, talk.now_ms + 1000) is None
    talk.settle(row)
    assert store.flows.last_answer(flow.id, talk.made.key, role, talk.now_ms + 1000) == talk.now_ms
    assert store.flows.last_answer(flow.id, talk.made.key, role, talk.now_ms - 1) is None
    assert store.flows.failures_since(flow.id, "one", 0) == {}
    assert store.flows.at_work() == []


def test_the_feed_tells_of_flows(store: Store) -> None:
    flow = store.flows.add(new_flow())
    claim = claimed(store, flow)
    store.flows.write_step(claim, new_step(flow, "one"))
    store.flows.write_step(claim, new_step(flow, "one", state="done"))
    store.flows.ask_for(flow.id, "pause")
    rows = [row for row in store.feed_after(0, 100) if row.kind == "flow"]
    assert [(row.item, row.conversation, row.run) for row in rows] == [(flow.id, None, None)] * 4
    assert store.flows.flow(flow.id) is not None


def test_two_processes_get_one_flow_of_a_key(where: Where) -> None:
    with where.open() as one, where.open() as other:
        first = one.flows.add(new_flow(key="k"))
        assert other.flows.add(new_flow(key="k")) == first
