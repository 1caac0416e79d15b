from __future__ import annotations

import pytest

from segue.core.errors import Misuse
from segue.store.store import Store
from tests.integration.store.talking import CLAUDE, CODEX, Talk


def test_an_edit_adds_a_revision(store: Store, talk: Talk) -> None:
    talk.say("remember 456", "Noted.")
    first = talk.ids[0]
    assert store.edit(first, "remember 4567", 5000, [], [CLAUDE]) == 2
    assert store.edit(first, "remember ÄÖ", 6000, epochs=[CLAUDE, CODEX]) == 3
    assert talk.texts == ["remember ÄÖ", "Noted."]
    edited, answer = store.messages(talk.id)
    assert (edited.id, edited.revision, edited.size) == (first, 3, 13)
    assert (answer.revision, answer.size) == (1, 6)
    assert store.epochs(talk.id) == {CLAUDE: 2, CODEX: 1}
    assert store.revisions(first) == [
        (1, "remember 456", 1010),
        (2, "remember 4567", 5000),
        (3, "remember ÄÖ", 6000),
    ]


def test_an_edit_may_cut_what_follows(store: Store, talk: Talk) -> None:
    talk.say("one", "1")
    talk.say("two", "2")
    ids = talk.ids
    store.edit(ids[0], "uno", 5000, ids[1:], [CLAUDE])
    assert talk.texts == ["uno"]
    assert store.texts(ids) == {ids[0]: "uno", ids[1]: "1", ids[2]: "two", ids[3]: "2"}


def test_what_was_cut_is_kept_and_its_place_is_not_given_again(store: Store, talk: Talk) -> None:
    talk.say("one", "1")
    talk.say("two", "2")
    ids = talk.ids
    store.truncate(talk.id, ids[2:], 5000, [CLAUDE])
    assert talk.texts == ["one", "1"]
    assert store.epochs(talk.id) == {CLAUDE: 1}
    talk.say("three", "3")
    assert talk.texts == ["one", "1", "three", "3"]
    assert store.texts(ids[2:]) == {ids[2]: "two", ids[3]: "2"}
    removed = store._db.all("SELECT id, removed_ms FROM messages WHERE removed_ms IS NOT NULL ORDER BY place")
    assert removed == [(ids[2], 5000), (ids[3], 5000)]
    store.truncate(talk.id, ids[2:], 7000)
    assert store._db.all("SELECT DISTINCT removed_ms FROM messages WHERE removed_ms IS NOT NULL") == [(5000,)]


def test_only_messages_of_this_conversation_are_cut(store: Store, talk: Talk) -> None:
    other = Talk(store, "other")
    other.say("mine", "yours")
    talk.say("one", "1")
    store.truncate(talk.id, [*other.ids, talk.ids[1]], 5000)
    assert (talk.texts, other.texts) == (["one"], ["mine", "yours"])


def test_what_does_not_stand_cannot_be_edited(store: Store, talk: Talk) -> None:
    talk.say("one", "1")
    first, answer = talk.ids
    store.truncate(talk.id, [answer], 5000)
    with pytest.raises(Misuse, match="was dropped"):
        store.edit(answer, "2", 6000, [first], [CLAUDE])
    with pytest.raises(Misuse, match="message nobody does not exist"):
        store.edit("nobody", "2", 6000)
    assert (talk.texts, store.epochs(talk.id)) == (["one"], {})
