from __future__ import annotations

import msgspec
import pytest

from segue.core.errors import Misuse
from segue.core.model import Host, Message, Voice
from segue.core.usage import Usage
from segue.store.records import Conversation, Remembered
from segue.store.store import Store
from tests.integration.store.talking import CLAUDE, CODEX, Talk, message, new_id, turn_row


def test_a_conversation_is_made_by_first_use_of_its_key(store: Store, talk: Talk) -> None:
    assert store.conversation("talk") is None
    talk.receive("hello")
    found = store.conversation("talk")
    assert found is not None
    assert found == msgspec.structs.replace(talk.made, updated_ms=talk.now_ms)


def test_whoever_comes_second_gets_the_conversation_that_is_there(store: Store, talk: Talk) -> None:
    talk.receive("first")
    mine = Conversation(id=new_id("c"), key="talk", agent="codex")
    said = message(CODEX)
    stored = store.receive(mine, said, "second", row := turn_row(mine.id, said, 2000))
    assert (stored.id, stored.agent) == (talk.id, "claude")
    kept = store.turn(row.id)
    assert kept is not None
    assert kept.conversation == talk.id
    store.place(row.id)
    assert talk.texts == ["second"]


def test_what_was_used_last_is_remembered(store: Store, talk: Talk) -> None:
    talk.say("hello", remember=Remembered(agent="codex", account="x", model="m", role="r", cwd="/elsewhere"))
    found = store.conversation("talk")
    assert found is not None
    assert (found.agent, found.account, found.model, found.role, found.cwd) == (
        "codex",
        "x",
        "m",
        "r",
        "/elsewhere",
    )
    talk.say("again")
    assert store.conversation("talk") == msgspec.structs.replace(found, updated_ms=talk.now_ms)


def test_a_title_is_the_first_paragraph(store: Store, talk: Talk) -> None:
    talk.say("\nfix the\nbug\n\nfrom datetime import UTC\n")
    assert store.conversations()[0].title == "fix the bug"


def test_the_list_adds_up_what_the_turns_cost(store: Store, talk: Talk) -> None:
    talk.say("  what\n is " + "long " * 100)
    talk.say("review it", voice=CODEX)
    talk.say("and now?", answer=None)
    (found,) = store.conversations()
    assert found.conversation == store.conversation("talk")
    assert (found.messages, found.agents) == (5, ("claude", "codex"))
    assert found.title == ("what is " + "long " * 100)[:200]
    assert found.last_used_ms == talk.now_ms
    assert found.usage == Usage(300, 150, 60, 30)
    assert (found.tokens, found.cost_usd, found.saved_usd, found.state) == (390, 0.75, 1.5, "failed")


def test_the_list_begins_with_what_was_used_last(store: Store) -> None:
    first, second = Talk(store, "first"), Talk(store, "second")
    first.say("a")
    second.now_ms = 5000
    second.say("b")
    assert [s.conversation.key for s in store.conversations()] == ["second", "first"]
    first.now_ms = 9000
    first.say("c")
    assert [s.conversation.key for s in store.conversations()] == ["first", "second"]


def test_what_is_not_known_of_a_conversation_is_none(store: Store, talk: Talk) -> None:
    assert store.conversations() == []
    talk.receive("waiting")
    (found,) = store.conversations()
    assert (found.messages, found.agents, found.title, found.state) == (0, (), "", "queued")
    assert (found.tokens, found.cost_usd, found.saved_usd) == (None, None, None)


def test_the_title_follows_what_stands(store: Store, talk: Talk) -> None:
    talk.say("old words")
    talk.say("others")
    first, answer, *_ = talk.ids
    store.edit(first, "new words", 5000)
    assert store.conversations()[0].title == "new words"
    store.truncate(talk.id, [first, answer], 6000)
    assert store.conversations()[0].title == "others"


def imported(key: str) -> tuple[Conversation, list[tuple[Message, str]]]:
    made = Conversation(id=new_id("c"), key=key, title="Given", created_ms=77)
    return made, [(message(), "question"), (message(Voice("codex"), sender="assistant"), "answer")]


def test_a_whole_conversation_can_be_added(store: Store) -> None:
    made, said = imported("brought")
    store.add(made, said, [5, 6])
    assert store.conversation("brought") == made
    assert [(row.n, row.text, row.created_ms, row.sender) for row in store.log(made.id)] == [
        (1, "question", 5, "user"),
        (2, "answer", 6, "assistant"),
    ]
    assert store.conversations()[0].title == "Given"
    Talk(store, "brought").say("go on")
    assert [row.text for row in store.log(made.id)] == ["question", "answer", "go on", "ok"]


def test_a_taken_key_is_not_added_to(store: Store, talk: Talk) -> None:
    talk.say("hello")
    made, said = imported("talk")
    with pytest.raises(Misuse, match='a conversation "talk" already exists'):
        store.add(made, said)
    assert talk.texts == ["hello", "ok"]
    assert store.messages(made.id) == []


def test_the_first_free_number_is_found(store: Store) -> None:
    assert store.free_key("k") == "k~2"
    for key in ("k", "k~2", "k~4", "kk~3", "k~3x"):
        store.add(Conversation(id=new_id("c"), key=key), [])
    assert store.free_key("k") == "k~3"
    assert store.free_key("k~2") == "k~2~2"


def test_a_free_key_is_never_too_long(store: Store) -> None:
    longest = "x" * 195 + "12345"
    for number in (2, 3, *range(4, 10)):
        key = store.free_key(longest)
        assert key == f"{longest[:198]}~{number}"
        store.add(Conversation(id=new_id("c"), key=key), [])
    assert store.free_key(longest) == f"{longest[:197]}~10"
    assert store.free_key("x" * 200) == "x" * 198 + "~2"


def test_removing_leaves_only_the_sessions(store: Store, talk: Talk) -> None:
    other = Talk(store, "other")
    other.pinned("stay", "yes")
    session = talk.pinned("go", "bye")
    (turn,) = store.turns(talk.id)
    store.record(turn.id, [(1, 1, "{}")])
    message_id = talk.ids[0]
    store.remove(talk.id)
    assert store.conversation("talk") is None
    assert (store.messages(talk.id), store.turns(talk.id), store.pins(talk.id)) == ([], [], [])
    assert (store.texts([message_id]), store.events(turn.id), store.turn(turn.id)) == ({}, [], None)
    left = store.session("claude", session.native_id, Host("here"))
    assert left is not None
    assert (left.id, left.conversation) == (session.id, None)
    assert other.texts == ["stay", "yes"]
    kept = store.pin(other.id, CLAUDE, "work")
    assert kept is not None
    assert len(kept.held) == 1
    Talk(store, "talk").say("anew")
    assert [s.messages for s in store.conversations()] == [2, 2]
