from __future__ import annotations

import msgspec
import pytest

from segue.core.errors import Misuse
from segue.core.usage import Usage
from segue.store.receipts import RECEIPT_MS
from segue.store.records import AttemptRow, KnownRun, NotWaiting, Receipt, Settlement
from segue.store.store import Store
from tests.integration.store.talking import CLAUDE, CODEX, OWNER, Talk, message, new_id, told, turn_row


def test_a_message_is_kept_before_it_has_its_place(store: Store, talk: Talk) -> None:
    said, row = talk.receive("hello")
    assert store.messages(talk.id) == []
    assert store.texts([said.id]) == {said.id: "hello"}
    kept = store.turn(row.id)
    assert kept == row
    assert kept is not None
    assert (kept.state, kept.owner) == ("queued", OWNER)
    assert store.unsettled(talk.id) == store.unplaced(talk.id) == [row]


def test_a_turn_is_stored_once_whoever_comes_first(store: Store, talk: Talk) -> None:
    said, row = talk.receive("hello")
    conversation = store.conversation_by_id(talk.id)
    assert conversation is not None
    with pytest.raises(KnownRun, match=row.id):
        store.receive(conversation, message(), "hello again", row)
    with pytest.raises(KnownRun, match=row.id):
        store.add_retry(row)
    assert store.unplaced(talk.id) == [row]
    assert store.texts([said.id]) == {said.id: "hello"}


def test_a_turn_gets_its_place_then_runs(store: Store, talk: Talk) -> None:
    said, row = talk.receive("hello")
    store.place(row.id)
    assert store.messages(talk.id) == [msgspec.structs.replace(said, size=5)]
    assert [(t.state, t.mode) for t in store.unsettled(talk.id)] == [("running", None)]
    assert store.unplaced(talk.id) == []
    store.started(row.id, "replay", 0.5)
    (running,) = store.unsettled(talk.id)
    assert (running.state, running.mode, running.predicted_usd) == ("running", "replay", 0.5)
    with pytest.raises(NotWaiting):
        store.place(row.id)
    assert talk.texts == ["hello"]


def test_the_order_is_that_of_the_turns_not_of_the_messages(store: Store, talk: Talk) -> None:
    _, first = talk.receive("first")
    _, second = talk.receive("second")
    store.place(second.id)
    talk.settle(second, "to the second")
    store.place(first.id)
    talk.settle(first, "to the first")
    assert talk.texts == ["second", "to the second", "first", "to the first"]


def test_turns_that_died_waiting_are_withdrawn_and_their_messages_get_no_place(
    store: Store, talk: Talk
) -> None:
    _, dead = talk.receive("dead")
    _, waiting = talk.receive("waiting")
    _, given_up = talk.receive("given up")
    talk.settle(given_up, None)
    _, mine = talk.receive("mine")
    assert [t.id for t in store.unplaced(talk.id)] == [dead.id, waiting.id, given_up.id, mine.id]
    store.place(mine.id, [dead.id, "nobody"])
    assert talk.texts == ["mine"]
    lost = store.turn(dead.id)
    assert lost is not None
    assert (lost.state, lost.ended_ms) == ("withdrawn", None)
    assert [t.id for t in store.unsettled(talk.id)] == [waiting.id, mine.id]
    log = store.log(talk.id, withdrawn=True)
    assert [(row.n, row.text) for row in log] == [(0, "dead"), (0, "waiting"), (0, "given up"), (1, "mine")]


def test_a_turn_can_be_made_a_run_of_an_earlier_message(store: Store, talk: Talk) -> None:
    failed = talk.say("again", answer=None).turn
    said, mine = talk.receive("again")
    merged = store.merge(mine, failed)
    assert (merged.message, merged.retry_of) == (failed.message, failed.id)
    assert store.texts([said.id]) == {}
    assert [row.text for row in store.log(talk.id, withdrawn=True)] == ["again"]
    assert [run.id for run in store.runs_of([failed.message])[failed.message]] == [failed.id, mine.id]


def test_lost_turns_of_other_conversations_are_left_alone(store: Store, talk: Talk) -> None:
    other = Talk(store, "other")
    _, foreign = other.receive("not yours")
    _, mine = talk.receive("mine")
    store.place(mine.id, [foreign.id])
    assert [t.state for t in store.unsettled(other.id)] == ["queued"]
    assert (other.texts, talk.texts) == ([], ["mine"])


def test_a_turn_that_is_not_there_has_no_place(store: Store) -> None:
    assert store.turn("nobody") is None
    with pytest.raises(Misuse, match="turn nobody does not exist"):
        store.place("nobody")


def test_a_message_can_be_answered_again(store: Store, talk: Talk) -> None:
    settled = talk.say("hello", answer=None)
    said = store.messages(talk.id)[0]
    again = turn_row(talk.id, said, 2000, retry_of=settled.turn.id)
    store.add_retry(again)
    assert store.unsettled(talk.id) == [again]
    store.place(again.id)
    talk.settle(again, "now")
    assert talk.texts == ["hello", "now"]
    assert [t.state for t in store.turns(talk.id)] == ["failed", "done"]


def test_a_second_try_that_died_while_it_waited_is_withdrawn_too(store: Store, talk: Talk) -> None:
    talk.say("hello", answer=None)
    again = turn_row(talk.id, store.messages(talk.id)[0], 2000)
    store.add_retry(again)
    _, mine = talk.receive("mine")
    assert [t.id for t in store.unplaced(talk.id)] == [again.id, mine.id]
    store.place(mine.id, [again.id])
    assert talk.texts == ["hello", "mine"]
    lost = store.turn(again.id)
    assert lost is not None
    assert lost.state == "withdrawn"
    assert [t.id for t in store.unsettled(talk.id)] == [mine.id]


def test_the_newest_turns_come_last(store: Store, talk: Talk) -> None:
    for n in range(5):
        talk.say(f"m{n}")
    everything = store.turns(talk.id)
    assert [t.started_ms for t in everything] == sorted(t.started_ms for t in everything)
    assert store.turns(talk.id, 2) == everything[-2:]
    assert store.turns(talk.id, 99) == everything
    assert store.turns("nobody") == []


def test_what_was_told_of_a_turn_comes_back_as_it_was(store: Store, talk: Talk) -> None:
    settled = talk.say("hello", "it is\n«done» 🎵", voice=CODEX)
    assert store.turn(settled.turn.id) == settled.turn
    assert settled.turn.told == told(settled.turn, "it is\n«done» 🎵")


def test_a_turn_of_another_time_that_cannot_be_read_is_still_a_turn(store: Store, talk: Talk) -> None:
    settled = talk.say("hello")
    store._db.run(
        "UPDATE turns SET told = '{\"from\": 2040}', owner = '[]' WHERE id = :id", id=settled.turn.id
    )
    kept = store.turn(settled.turn.id)
    assert kept is not None
    assert (kept.told, kept.owner.pid, kept.state) == (None, 0, "done")


def attempt_of(turn: str, seq: int = 1) -> AttemptRow:
    return AttemptRow(
        id=new_id("a"),
        turn=turn,
        seq=seq,
        mode="resume",
        session="s",
        resumed_from="n1",
        new_id="n2",
        run_dir="/runs/1",
        task=b'{"prompt": "\xc3\xa9"}',
        started_ms=9,
    )


def test_an_attempt_is_known_before_during_and_after(store: Store, talk: Talk) -> None:
    _, row = talk.receive("hello")
    attempt = attempt_of(row.id)
    store.attempting(attempt)
    assert store.attempts(row.id) == [attempt]
    running = msgspec.structs.replace(attempt, process='{"pid": 5}')
    store.attempting(running)
    assert store.attempts(row.id) == [running]
    store.attempted(attempt.id, "network", "n3", Usage(1, 2, None, 4), 0.5, 3, 77)
    second = attempt_of(row.id, 2)
    store.attempting(second)
    ended = msgspec.structs.replace(
        running,
        outcome="network",
        native_id="n3",
        usage=Usage(1, 2, None, 4),
        cost_usd=0.5,
        tools_run=3,
        ended_ms=77,
    )
    assert store.attempts(row.id) == [ended, second]


def test_an_attempt_that_ended_is_not_undone_by_a_late_note_of_its_process(store: Store, talk: Talk) -> None:
    _, row = talk.receive("hello")
    attempt = attempt_of(row.id)
    store.attempting(attempt)
    store.attempted(attempt.id, "ok", "n3", Usage(), None, 0, 77)
    store.attempting(msgspec.structs.replace(attempt, process="{}"))
    (kept,) = store.attempts(row.id)
    assert (kept.outcome, kept.native_id, kept.ended_ms, kept.process) == ("ok", "n3", 77, "{}")


def test_a_settled_turn_does_not_start_again(store: Store, talk: Talk) -> None:
    settled = talk.say("hello")
    store.started(settled.turn.id, "replay", None)
    assert store.turn(settled.turn.id) == settled.turn
    assert store.unsettled(talk.id) == []
    assert not store.settle(Settlement(turn=settled.turn))
    assert settled.turn.voice == CLAUDE


def test_the_turns_of_one_agent_are_found_behind_any_number_of_others(store: Store, talk: Talk) -> None:
    _, first = talk.receive("to codex", voice=CODEX)
    for number in range(3):
        talk.receive(f"to claude {number}")
    assert [row.id for row in store.turns_of(talk.id, CODEX.agent, 2)] == [first.id]
    assert len(store.turns_of(talk.id, CLAUDE.agent, 2)) == 2


def test_a_key_has_one_run_for_thirty_days(store: Store, talk: Talk) -> None:
    talk.receive("hello")
    conversation = store.conversations()[0].conversation
    receipt = Receipt(key="k", body="b")

    def receive(at_ms: int, receipt: Receipt) -> str:
        said = message()
        row = turn_row(conversation.id, said, at_ms)
        store.receive(conversation, said, "hello", row, receipt)
        return row.id

    first = receive(1_000, receipt)
    with pytest.raises(KnownRun) as known:
        receive(2_000, receipt)
    assert known.value.run == first
    with pytest.raises(Misuse, match="another request"):
        receive(2_000, Receipt(key="k", body="other"))
    assert len(store.unsettled(talk.id)) == 2, "nothing of the others is stored"
    later = receive(3_000, Receipt(key="k", body="b", failed=first))
    with pytest.raises(KnownRun) as known:
        receive(4_000, receipt)
    assert known.value.run == later, "it was tried again"
    assert receive(1_001 + RECEIPT_MS, receipt) not in (first, later)


def test_a_turn_is_asked_to_end_until_it_is_over(store: Store, talk: Talk) -> None:
    _, row = talk.receive("hello")
    assert not store.cancel_asked(row.id)
    assert store.ask_cancel(row.id)
    assert store.cancel_asked(row.id)
    talk.settle(row, "done")
    assert not store.ask_cancel(row.id)
    assert not store.ask_cancel("nobody")
