from __future__ import annotations

import msgspec
import pytest

from segue.core.errors import Misuse
from segue.core.model import Held, Host
from segue.store.records import Remembered
from segue.store.store import Store
from tests.integration.store.talking import CLAUDE, CODEX, Talk, new_id, pin_to, session_row


def test_a_fork_begins_with_a_copy(store: Store, talk: Talk) -> None:
    talk.say("one", "1", remember=Remembered(agent="codex", role="reviewer", model="m", cwd="/x"))
    talk.say("two", "2", voice=CODEX, epochs=(CLAUDE,))
    talk.receive("in line")
    store.edit(talk.ids[0], "uno", 5000)
    source = store.conversation("talk")
    assert source is not None
    fork = store.fork(source, "talk~2", None, 9000, new_id)
    assert store.conversation("talk~2") == fork
    assert fork == msgspec.structs.replace(
        source,
        id=fork.id,
        key="talk~2",
        created_ms=9000,
        updated_ms=9000,
        forked_from="talk",
        forked_at=talk.ids[-1],
    )
    copies, originals = store.messages(fork.id), store.messages(talk.id)
    assert not {m.id for m in copies} & {m.id for m in originals}
    assert [msgspec.structs.replace(m, id="") for m in copies] == [
        msgspec.structs.replace(m, id="") for m in originals
    ]
    assert [row.text for row in store.log(fork.id)] == ["uno", "1", "two", "2"]
    assert [row.created_ms for row in store.log(fork.id)] == [row.created_ms for row in store.log(talk.id)]
    assert store.epochs(fork.id) == {CLAUDE: 1}


def test_a_fork_goes_its_own_way(store: Store, talk: Talk) -> None:
    talk.say("one", "1")
    talk.say("two", "2")
    source = store.conversation("talk")
    assert source is not None
    store.fork(source, "other", talk.ids[1], 9000, new_id)
    other = Talk(store, "other")
    other.say("zwei", "II")
    store.edit(other.ids[0], "eins", 9500)
    assert other.texts == ["eins", "1", "zwei", "II"]
    assert talk.texts == ["one", "1", "two", "2"]
    store.remove(talk.id)
    assert other.texts == ["eins", "1", "zwei", "II"]


def test_a_fork_may_use_the_session_as_far_as_it_knows_it(store: Store, talk: Talk) -> None:
    talk.say("one", "1")
    session = session_row(talk.id)
    talk.say("two", "2")
    u1, a1, u2, a2 = talk.ids
    held = (Held(u1, 1), Held(a1, 1, "A1"), Held(u2, 1, None, True), Held(a2, 7, "A2", True, True))
    pin = pin_to(session, end="A2", succeeded_ms=77)
    talk.say("three", "3", session=session, held=held, pin=pin)
    source = store.conversation("talk")
    assert source is not None
    fork = store.fork(source, "fork", u2, 9000, new_id)
    copied = store.pin(fork.id, CLAUDE, "work")
    assert copied is not None
    mine = [m.id for m in store.messages(fork.id)]
    assert copied.held == (Held(mine[0], 1), Held(mine[1], 1, "A1"), Held(mine[2], 1, None, True))
    assert copied == msgspec.structs.replace(pin, session=copied.session, foreign="talk", held=copied.held)
    (row,) = store.sessions(fork.id)
    assert (row.id, row.native_id, row.parent, row.how) == (
        copied.session,
        session.native_id,
        session.id,
        "fork",
    )
    original = store.pin(talk.id, CLAUDE, "work")
    assert original is not None
    assert (original.held, original.foreign) == (held, None)
    owner = store.session("claude", session.native_id, Host("here"))
    assert owner is not None
    assert owner.id == session.id


def test_a_fork_of_a_fork_knows_whose_session_it_is(store: Store, talk: Talk) -> None:
    talk.pinned("one", "1")
    source = store.conversation("talk")
    assert source is not None
    first = store.fork(source, "first", None, 9000, new_id)
    second = store.fork(first, "second", None, 9001, new_id)
    pin = store.pin(second.id, CLAUDE, "work")
    assert pin is not None
    assert (pin.foreign, second.forked_from) == ("talk", "first")


def test_a_session_that_knows_nothing_of_the_copy_is_no_use(store: Store, talk: Talk) -> None:
    talk.say("one", "1")
    first = talk.ids[0]
    session = session_row(talk.id)
    talk.say("two", "2", session=session, held=(Held("elsewhere", 1),), pin=pin_to(session))
    source = store.conversation("talk")
    assert source is not None
    fork = store.fork(source, "fork", first, 9000, new_id)
    assert (store.pins(fork.id), store.sessions(fork.id)) == ([], [])


def test_what_cannot_be_forked_leaves_nothing_behind(store: Store, talk: Talk) -> None:
    talk.pinned("one", "1")
    Talk(store, "taken").say("mine", "yes")
    source = store.conversation("talk")
    assert source is not None
    with pytest.raises(Misuse, match='"taken" already'):
        store.fork(source, "taken", None, 9000, new_id)
    with pytest.raises(Misuse, match="is not in this conversation"):
        store.fork(source, "free", "nobody", 9000, new_id)
    assert store.conversation("free") is None
    assert len(store.sessions()) == 1


def test_an_empty_conversation_can_be_forked(store: Store, talk: Talk) -> None:
    talk.receive("waiting")
    source = store.conversation("talk")
    assert source is not None
    fork = store.fork(source, "fork", None, 9000, new_id)
    assert (store.messages(fork.id), fork.forked_at) == ([], None)
