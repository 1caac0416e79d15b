"""Logins in the store: each has pins of its own, and what older stores hold is the first one's."""

from __future__ import annotations

from pathlib import Path

from segue.core.view import account_mark
from segue.store.store import Store
from tests.integration.store.dumping import FIXTURES
from tests.integration.store.talking import CLAUDE, CODEX, Talk, message, pin_to, session_row, turn_row
from tests.integration.store.test_schemas import restore
from tests.integration.store.where import Where

ANN, BOB = "0a" * 8, "0b" * 8


def old(where: Where, tmp_path: Path, login: str | None) -> Store:
    """A store from before, whose pins name this login."""
    text = (FIXTURES / "0002.sql").read_text()
    named = text if login is None else text.replace('"login":null', f'"login":"{login}"')
    fixture, upto = tmp_path / "0002.sql", tmp_path / "upto"
    fixture.write_text(named)
    upto.mkdir()
    restore(where, fixture, upto)
    return where.open()


def say(store: Store, key: str, login: str) -> None:
    talk = Talk(store, key)
    said = message()
    said = type(said)(id=said.id, sender="user", voice=CLAUDE, under=(account_mark("claude", "work", login),))
    store.receive(talk.made, said, "hi", turn_row(talk.id, said))


def marks(store: Store, conversation_id: str) -> set[str]:
    return {each for said in store.messages(conversation_id) for each in said.under}


def test_a_pin_of_an_older_store_keeps_its_login(where: Where, tmp_path: Path) -> None:
    with old(where, tmp_path, ANN) as store:
        for key in ("old", "old~2"):
            conversation = store.conversation(key)
            assert conversation is not None
            say(store, "another", BOB)
            assert store.pin(conversation.id, CLAUDE, "work", ANN) is not None
            assert store.pin(conversation.id, CODEX, "work", ANN) is not None
            assert store.pin(conversation.id, CLAUDE, "work", BOB) is None
            assert marks(store, conversation.id) == {f"claude/work/{ANN}"}


def test_one_that_names_none_is_that_of_the_first_who_says_something(where: Where, tmp_path: Path) -> None:
    with old(where, tmp_path, None) as store:
        conversation = store.conversation("old")
        assert conversation is not None
        assert all(store.pin(conversation.id, CLAUDE, "work", login) for login in (ANN, BOB)), (
            "nobody did yet"
        )
        assert marks(store, conversation.id) == {"claude/work"}
        say(store, "another", ANN)
        say(store, "another", BOB)
        pin = store.pin(conversation.id, CLAUDE, "work", ANN)
        assert pin is not None
        assert pin.login == ANN
        assert store.pin(conversation.id, CLAUDE, "work", BOB) is None
        assert marks(store, conversation.id) == {f"claude/work/{ANN}"}
        made = store.fork(conversation, "copy", None, 1, iter(map("f{}".format, range(99))).__next__)
        assert marks(store, made.id) == {f"claude/work/{ANN}"}
        assert store.pin(made.id, CLAUDE, "work", ANN) is not None
        assert store.pin(made.id, CLAUDE, "work", BOB) is None


def test_each_login_has_its_own_pin(where: Where) -> None:
    with where.open() as store:
        talk = Talk(store)
        sessions = {login: session_row(None) for login in (ANN, BOB)}
        for login, session in sessions.items():
            talk.say("hi", session=session, pin=pin_to(session, login=login))
        for login, session in sessions.items():
            pin = store.pin(talk.id, CLAUDE, "work", login)
            assert pin is not None
            assert (pin.session, pin.login) == (session.id, login)
        assert len(store.pins(talk.id)) == 2
        assert store.pin(talk.id, CLAUDE, "work", "unknown") is None
