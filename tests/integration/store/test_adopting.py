"""A conversation goes on with a session that no turn of it made; and whose sessions are whose."""

from __future__ import annotations

from typing import Any

from segue.core.model import Held, Host
from segue.core.usage import Usage
from segue.store.forks import Adoption, Successor
from segue.store.records import AttemptRow
from segue.store.store import Store
from tests.integration.store.talking import CLAUDE, CODEX, Talk, message, pin_to, session_row


def test_what_is_taken_in_stands_behind_what_was_said(store: Store, talk: Talk) -> None:
    talk.say("before", "answer")
    session = session_row(talk.id, how="adopt")
    said = [(message(), "hi", 5), (message(sender="assistant"), "hello", 6)]
    held = [Held(said[0][0].id, 1), Held(said[1][0].id, 1, "end")]
    store.adopt(talk.id, Adoption(said=said, session=session, pin=pin_to(session), held=held), 2000)
    rows = store.log(talk.id)
    assert [row.text for row in rows] == ["before", "answer", "hi", "hello"]
    assert [row.created_ms for row in rows][2:] == [5, 6]
    pin = store.pin(talk.id, CLAUDE, "work")
    assert pin is not None
    assert (pin.native_id, list(pin.held)) == (session.native_id, held)
    assert store.all_pins() == {session.id: "talk"}
    more = message()
    again = Adoption(
        said=[(more, "more", 7)], session=session, pin=pin_to(session), held=[Held(more.id, 1)], held_from=2
    )
    store.adopt(talk.id, again, 3000)
    pin = store.pin(talk.id, CLAUDE, "work")
    assert pin is not None
    assert [each.message for each in pin.held] == [*(each.message for each in held), more.id]


def test_a_pin_moves_to_a_copy_that_holds_the_same(store: Store, talk: Talk) -> None:
    session = talk.pinned("hi", "hello")
    talk.pinned("to another", "answer", CODEX)
    before = store.pin(talk.id, CLAUDE, "work")
    assert before is not None
    new = Successor(
        session="s-new", native_id="copy", home="/h2", end="there", how="repair", reason="it was repaired"
    )
    store.repin(talk.id, before, new, 5000)
    after = store.pin(talk.id, CLAUDE, "work")
    assert after is not None
    assert (after.native_id, after.session, after.end, after.failures) == ("copy", "s-new", "there", 0)
    assert (after.home, after.context.used) == ("/h2", None)
    assert [(each.message, each.revision) for each in after.held] == [
        (each.message, each.revision) for each in before.held
    ]
    assert [each.anchor for each in after.held] == [None] * (len(after.held) - 1) + ["there"]
    rows = {row.id: row for row in store.sessions(talk.id)}
    assert (rows[session.id].retired_ms, rows[session.id].retired_reason) == (5000, "it was repaired")
    assert (rows["s-new"].parent, rows["s-new"].how) == (session.id, "repair")
    assert store.all_pins()["s-new"] == "talk"


def test_sessions_that_turns_began_are_known_even_if_they_were_never_pinned(store: Store, talk: Talk) -> None:
    _, row = talk.receive("hi")
    for seq, new_id, native, resumed in (
        (1, "chosen", None, None),
        (2, None, "told", None),
        (3, None, "old", "old"),
    ):
        store.attempting(
            AttemptRow(
                id=f"{row.id}.{seq}",
                turn=row.id,
                seq=seq,
                mode="fresh",
                new_id=new_id,
                native_id=native,
                resumed_from=resumed,
                run_dir="/r",
                started_ms=1,
            )
        )
    assert store.tried(Host("here")) == {("claude", "chosen"), ("claude", "told")}
    assert store.tried(Host("elsewhere")) == set()


def test_pins_of_every_host_are_found_by_their_session_and_by_their_home(store: Store, talk: Talk) -> None:
    talk.say("before", "answer")
    session = session_row(talk.id, how="adopt", host="elsewhere", home="/there")
    store.adopt(talk.id, Adoption(said=[], session=session, pin=pin_to(session), held=[]), 2000)
    assert store.pinned_by("claude", session.native_id) == "talk"
    assert store.pinned_by("codex", session.native_id) is None
    assert store.pinned_by("claude", "another") is None
    assert store.pinned_homes() == ["/there"]


def test_sessions_in_which_attempts_are_at_work_are_under_way(store: Store, talk: Talk) -> None:
    _, row = talk.receive("hi")
    for seq, new_id in ((1, "ended"), (2, "begun")):
        store.attempting(
            AttemptRow(
                id=f"{row.id}.{seq}",
                turn=row.id,
                seq=seq,
                mode="fresh",
                new_id=new_id,
                native_id="told" if seq == 2 else None,
                run_dir="/r",
                started_ms=1,
            )
        )
    ended: dict[str, Any] = {
        "outcome": "ok",
        "native_id": "ended",
        "usage": Usage(),
        "cost_usd": None,
        "tools_run": 0,
    }
    store.attempted(f"{row.id}.1", **ended, ended_ms=5)
    whole = {("claude", "ended"), ("claude", "begun"), ("claude", "told")}
    assert store.under_way() == whole
    store.place(row.id)
    talk.settle(row)
    assert store.under_way() == whole - {("claude", "ended")}
    store.attempted(f"{row.id}.2", **ended, ended_ms=6)
    assert store.under_way() == set()
