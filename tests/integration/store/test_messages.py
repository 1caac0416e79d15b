from __future__ import annotations

import threading

import pytest

from segue.core.model import Message, Voice
from segue.store.records import Conversation
from segue.store.store import Store
from tests.integration.store.talking import CLAUDE, CODEX, Talk, message, new_id


def test_a_message_comes_back_as_it_was_said(store: Store, talk: Talk) -> None:
    said = Message(
        id=new_id("m"),
        sender="assistant",
        voice=Voice("gemini", 'a "role"'),
        account="private",
        under=("claude/work", "gemini/private"),
        blank=True,
        size=3,
    )
    store.add(talk.made, [(message(), "x"), (said, "abc")])
    assert store.messages(talk.id)[1] == said
    assert store.messages("nobody") == []


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("", ""),
        ("naïve 🎵 %s %(x)s :name 'quoted' \\ \n\t", None),
        ("a\0b", "a\ufffdb"),
        ("lone \ud83d surrogate", "lone \ufffd surrogate"),
        ("bytes \udcff of a name", "bytes \ufffd of a name"),
    ],
)
def test_any_text_can_be_kept(store: Store, talk: Talk, given: str, kept: str | None) -> None:
    wanted = given if kept is None else kept
    settled = talk.say(given, given)
    assert talk.texts == [wanted, wanted]
    assert [m.size for m in store.messages(talk.id)] == [len(wanted.encode())] * 2
    store.edit(talk.ids[0], given + "!", 5000)
    assert talk.texts[0] == wanted + "!"
    row = store.turn(settled.turn.id)
    assert row is not None
    assert row.told is not None
    if "\0" not in given:
        assert row.told.text == wanted


def test_a_megabyte_is_a_text_too(store: Store, talk: Talk) -> None:
    text = "line of words\n" * 80_000
    talk.say(text, text)
    assert talk.texts == [text, text]


def test_many_texts_at_once(store: Store, talk: Talk) -> None:
    said = [(message(), f"text {n}") for n in range(1203)]
    store.add(Conversation(id=talk.id, key="talk"), said)
    wanted = {m.id: text for m, text in said}
    assert store.texts([]) == {}
    for count in (1, 2, 500, 501, 1203):
        ids = list(wanted)[:count]
        assert store.texts(ids) == {i: wanted[i] for i in ids}
    assert store.texts([*list(wanted)[:2], "nobody"]) == dict(list(wanted.items())[:2])
    assert talk.texts == list(wanted.values())


def test_threads_share_a_store(store: Store) -> None:
    """The pipeline calls from worker threads; the lease is renewed from another."""
    failed: list[BaseException] = []

    def chat(key: str) -> None:
        try:
            talk = Talk(store, key)
            for n in range(15):
                talk.say(f"{key} {n}", f"answer {n}")
                assert talk.texts[-2:] == [f"{key} {n}", f"answer {n}"]
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=chat, args=(f"k{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert [s.messages for s in store.conversations()] == [30] * 4


def test_voices_are_told_apart(store: Store, talk: Talk) -> None:
    talk.say("one", "1")
    talk.say("two", "2", voice=CODEX)
    assert [m.voice for m in store.messages(talk.id)] == [CLAUDE, CLAUDE, CODEX, CODEX]
