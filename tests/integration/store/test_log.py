from __future__ import annotations

import msgspec

from segue.store.store import Store
from tests.integration.store.talking import CODEX, Talk, turn_row


def test_the_log_has_each_message_with_its_turn(store: Store, talk: Talk) -> None:
    first = talk.say("one", "1").turn
    failed = talk.say("two", None).turn
    second = talk.say("three", "3", voice=CODEX).turn
    talk.receive("waiting")
    rows = store.log(talk.id)
    assert [(row.n, row.sender, row.text) for row in rows] == [
        (1, "user", "one"),
        (2, "assistant", "1"),
        (3, "user", "two"),
        (4, "user", "three"),
        (5, "assistant", "3"),
    ]
    assert [row.turn for row in rows] == [None, first, failed, None, second]
    assert [row.voice for row in rows[3:]] == [CODEX, CODEX]
    assert [(row.created_ms, row.edited_ms) for row in rows[:2]] == [(1010, None), (1020, None)]
    assert {row.account for row in rows} == {"work"}
    assert [row.id for row in rows] == talk.ids


def test_the_log_says_what_was_edited(store: Store, talk: Talk) -> None:
    talk.say("one", "1")
    store.edit(talk.ids[0], "uno", 5000)
    row = store.log(talk.id)[0]
    assert (row.text, row.revision, row.created_ms, row.edited_ms) == ("uno", 2, 1010, 5000)


def test_an_answer_that_was_cut_leaves_its_question_with_the_turn(store: Store, talk: Talk) -> None:
    cut = talk.say("one", "1").turn
    store.truncate(talk.id, talk.ids[1:], 5000)
    (row,) = store.log(talk.id)
    assert row.turn is not None
    assert (row.turn.id, row.turn.answer) == (cut.id, cut.answer)
    again = turn_row(talk.id, store.messages(talk.id)[0], 6000)
    store.add_retry(again)
    store.place(again.id)
    (row,) = store.log(talk.id)
    assert row.turn == msgspec.structs.replace(again, state="running")
    settled = talk.settle(again, "I")
    assert [row.turn for row in store.log(talk.id)] == [None, settled.turn]
