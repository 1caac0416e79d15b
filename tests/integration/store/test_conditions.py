"""How conversations are doing: one by one, and all at once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from segue.core.turn import FailureShown
from segue.core.usage import Context
from segue.store.conditions import Condition
from segue.store.database import Database
from segue.store.records import Settlement
from segue.store.store import Store
from tests.integration.store.talking import Talk, told

FAILURE = FailureShown("network", None, "no connection", True)


def condition(store: Store, talk: Talk) -> Condition:
    found = store.reading.conditions()[talk.id]
    assert store.reading.conditions(talk.id) == {talk.id: found}
    return found


def fail(store: Store, talk: Talk, context: Context) -> None:
    _, row = talk.receive("fails")
    store.place(row.id)
    failed = msgspec.structs.replace(told(row, "", state="failed"), failure=FAILURE, context=context)
    ended = msgspec.structs.replace(row, conversation=talk.id, state="failed", told=failed, ended_ms=9)
    assert store.settle(Settlement(turn=ended))


def test_the_failure_is_that_of_the_newest_turn(store: Store, talk: Talk) -> None:
    talk.say("one")
    assert condition(store, talk) == Condition(context=Context(170, 1000))
    fail(store, talk, Context())
    assert condition(store, talk) == Condition(failure=FAILURE, context=Context(170, 1000))
    fail(store, talk, Context(5, None))
    assert condition(store, talk) == Condition(failure=FAILURE, context=Context(5, None))
    talk.say("two")
    assert condition(store, talk).failure is None


def test_a_conversation_without_turns_has_nothing_to_say(store: Store, talk: Talk) -> None:
    talk.receive("waits for its caller")
    assert condition(store, talk) == Condition()


def test_what_waits_is_counted(store: Store, talk: Talk) -> None:
    Talk(store, "other").say("something else")
    talk.say("one")
    runs = [talk.receive(f"later {n}")[1] for n in range(3)]
    for row, until in zip(runs, (None, 7000, 6000), strict=True):
        store._enqueue(row.id, "{}", until)
    found = condition(store, talk)
    assert (found.queued, found.until_ms, found.context) == (3, 7000, Context(170, 1000))


def test_the_first_open_question_is_told(store: Store, talk: Talk) -> None:
    _, row = talk.receive("ask me")
    store.place(row.id)
    store.ask(row.id, "q1", '{"id":"q1","kind":"permission","tool":"Bash","asked":1}')
    store.ask(row.id, "q2", '{"id":"q2","kind":"permission","tool":"Write","asked":2}')
    asked = condition(store, talk).asked
    assert asked is not None
    assert asked.id == "q1"
    store.answer(row.id, "q1", "{}")
    asked = condition(store, talk).asked
    assert asked is not None
    assert asked.id == "q2"


@pytest.mark.parametrize("count", [3, 30])
def test_the_number_of_queries_does_not_depend_on_the_number_of_conversations(
    store: Store, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(count):
        fail(store, Talk(store, f"talk{n}"), Context())
    sent: list[str] = []
    execute = type(store._db)._execute

    def counted(db: Database, sql: str, values: dict[str, Any]) -> Any:
        sent.append(sql)
        return execute(db, sql, values)

    monkeypatch.setattr(type(store._db), "_execute", counted)
    assert len(store.reading.conditions()) == count
    assert len(sent) == 6, "a transaction and four questions"
