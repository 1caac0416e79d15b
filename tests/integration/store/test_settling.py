from __future__ import annotations

import msgspec
import pytest

from segue.core.errors import Broken, Misuse
from segue.core.model import Ended, Held, Host, Instructions
from segue.core.turn import RungShown
from segue.core.usage import Context, Totals, Usage
from segue.store.records import LineageRow, Settlement
from segue.store.store import Store
from tests.integration.store.talking import CLAUDE, CODEX, Talk, message, pin_to, session_row, told


def test_an_answer_stands_after_all_others(store: Store, talk: Talk) -> None:
    settled = talk.say("hello", "Noted.")
    assert talk.texts == ["hello", "Noted."]
    assert settled.answer is not None
    assert talk.ids[1] == settled.answer[0].id == settled.turn.answer
    assert store.messages(talk.id)[1].sender == "assistant"


def test_a_failed_turn_leaves_its_message_alone(store: Store, talk: Talk) -> None:
    talk.say("hello", None)
    talk.say("still there?", "yes")
    assert talk.texts == ["hello", "still there?", "yes"]
    assert [t.state for t in store.turns(talk.id)] == ["failed", "done"]
    assert store.unsettled(talk.id) == []


def test_the_version_of_the_cli_stays_with_the_turn(store: Store, talk: Talk) -> None:
    _, row = talk.receive("hello")
    store.place(row.id)
    ladder = (RungShown("resume", "barred", "no session"), RungShown("fresh", "chosen", "", 10, 20, 0.5))
    ran = msgspec.structs.replace(told(row, "hi"), rungs=ladder, agent_version="2.1.3")
    final = msgspec.structs.replace(row, conversation=talk.id, state="done", told=ran, ended_ms=2000)
    assert store.settle(Settlement(turn=final))
    kept = store.turn(row.id)
    assert kept is not None
    assert kept.told is not None
    assert (kept.told.rungs, kept.told.agent_version) == (ladder, "2.1.3")
    assert [each.name for each in store.reading.spent("version", 0)] == ["claude 2.1.3"]


def test_a_turn_is_settled_once(store: Store, talk: Talk) -> None:
    """A process that was taken for dead comes back and settles as well."""
    settled = talk.say("hello", "first")
    late = Settlement(turn=settled.turn, answer=(message(sender="assistant"), "second"), epochs=(CLAUDE,))
    assert store.settle(late) is False
    assert (talk.texts, store.epochs(talk.id)) == (["hello", "first"], {})


def test_a_removed_conversation_cannot_be_settled(store: Store, talk: Talk) -> None:
    _, row = talk.receive("hello")
    store.remove(talk.id)
    with pytest.raises(Misuse, match="was deleted while it ran"):
        store.settle(Settlement(turn=row))


def test_a_pin_comes_back_as_it_was_with_what_it_holds(store: Store, talk: Talk) -> None:
    session = session_row(talk.id, totals=Totals(Usage(1, 2, 3, 4), 0.5), context=Context(9, 10))
    held = (Held("m1", 1, "a1"), Held("m2", 3, None, True), Held("m2", 4, "a3", True, True))
    pin = pin_to(
        session,
        version="2.1",
        model="large",
        model_used="large-2",
        login="f",
        epoch=4,
        end="a3",
        totals=session.totals,
        context=session.context,
        instructions=Instructions("h", 2),
        failures=1,
        poisoned="too long",
        ended=Ended("killed", 2, "gone"),
        succeeded_ms=1020,
    )
    talk.say("hello", session=session, held=held, pin=pin)
    assert store.pin(talk.id, CLAUDE, "work", "f") == msgspec.structs.replace(pin, held=held)
    assert store.pin(talk.id, CLAUDE, "work", "another") is None
    assert store.pins(talk.id) == [pin]
    assert store.sessions(talk.id) == store.sessions() == [session]
    assert store.session("claude", session.native_id, Host("here")) == session
    for agent, native_id, host in (
        ("codex", session.native_id, Host("here")),
        ("claude", "other", Host("here")),
        ("claude", session.native_id, Host("there")),
    ):
        assert store.session(agent, native_id, host) is None


def test_a_pin_belongs_to_its_voice_and_account(store: Store, talk: Talk) -> None:
    talk.pinned("hello", "hi")
    assert store.pin(talk.id, CLAUDE, "work") is not None
    for voice, account in (
        (CLAUDE, ""),
        (CODEX, "work"),
        (msgspec.structs.replace(CLAUDE, role="r"), "work"),
    ):
        assert store.pin(talk.id, voice, account) is None
    assert store.pin("nobody", CLAUDE, "work") is None
    talk.pinned("you too", "hi", CODEX)
    assert [p.voice for p in store.pins(talk.id)] == [CODEX, CLAUDE]


def test_a_resumed_session_holds_more(store: Store, talk: Talk) -> None:
    session = talk.pinned("one", "1")
    pin = store.pin(talk.id, CLAUDE, "work")
    assert pin is not None
    later = msgspec.structs.replace(
        session, how="resume", parent=None, path=None, created_ms=9999, last_used_ms=5000
    )
    more = (Held("m8", 1), Held("m9", 1, "end"))
    talk.say("two", session=later, held=more, held_from=1, pin=msgspec.structs.replace(pin, end="end"))
    resumed = store.pin(talk.id, CLAUDE, "work")
    assert resumed is not None
    assert (resumed.held, resumed.end) == (pin.held + more, "end")
    (kept,) = store.sessions(talk.id)
    assert kept == msgspec.structs.replace(session, last_used_ms=5000)


def test_a_cut_session_holds_less(store: Store, talk: Talk) -> None:
    session = talk.pinned("one", "1")
    held = tuple(Held(f"m{n}", 1) for n in range(5))
    talk.say("two", session=session, held=held)
    talk.say("three", pin=pin_to(session), held=(Held("new", 1),), held_from=2)
    pin = store.pin(talk.id, CLAUDE, "work")
    assert pin is not None
    assert [h.message for h in pin.held] == ["m0", "m1", "new"]
    talk.say("four", pin=pin_to(session), held=())
    emptied = store.pin(talk.id, CLAUDE, "work")
    assert emptied is not None
    assert emptied.held == ()


def test_a_new_session_takes_the_pin_and_the_old_one_is_kept(store: Store, talk: Talk) -> None:
    old = talk.pinned("one", "1")
    new = session_row(talk.id, parent=old.id, how="branch", last_used_ms=9000)
    talk.say(
        "two",
        session=new,
        held=(Held("m", 1),),
        pin=pin_to(new),
        retire=((old.id, "2 failing resumes in a row"),),
    )
    pin = store.pin(talk.id, CLAUDE, "work")
    assert pin is not None
    assert (pin.session, len(pin.held)) == (new.id, 1)
    first, second = store.sessions(talk.id)
    assert (first.id, first.parent, first.retired_ms) == (new.id, old.id, None)
    assert (second.id, second.retired_ms, second.retired_reason) == (
        old.id,
        talk.now_ms,
        "2 failing resumes in a row",
    )


def test_a_retired_session_stays_retired(store: Store, talk: Talk) -> None:
    session = talk.pinned("one", "1")
    talk.say("two", retire=((session.id, "poisoned"),))
    when = talk.now_ms
    talk.say("three", session=session, retire=((session.id, "again"),))
    (kept,) = store.sessions(talk.id)
    assert (kept.retired_ms, kept.retired_reason) == (when, "poisoned")


def test_an_intended_id_is_confirmed_later(store: Store, talk: Talk) -> None:
    session = session_row(talk.id, intended=True)
    talk.say("one", None, session=session)
    assert store.sessions(talk.id)[0].intended is True
    talk.say("two", session=msgspec.structs.replace(session, intended=False))
    assert store.sessions(talk.id)[0].intended is False


def test_lineage_tells_where_a_turn_came_from(store: Store, talk: Talk) -> None:
    first = talk.say("one").turn.id
    _, row = talk.receive("two")
    rows = (
        LineageRow(child=row.id, parent=first, kind="resume", session="s1", parent_session="s0", ms=5),
        LineageRow(child=row.id, kind="step_down", ms=6),
    )
    talk.settle(row, lineage=rows)
    assert store.lineage(talk.id) == list(rows)
    assert store.lineage("nobody") == []


def test_epochs_rise_by_one(store: Store, talk: Talk) -> None:
    talk.say("one", epochs=(CLAUDE, CODEX))
    talk.say("two", epochs=(CODEX,))
    assert store.epochs(talk.id) == {CLAUDE: 1, CODEX: 2}


def test_a_settlement_is_whole_or_not_at_all(store: Store, talk: Talk) -> None:
    _, row = talk.receive("one")
    store.place(row.id)
    answer = message(sender="assistant")
    missing = pin_to(session_row(talk.id))
    with pytest.raises(Broken) as refused:
        store.settle(
            Settlement(
                turn=msgspec.structs.replace(row, state="done"),
                answer=(answer, "x"),
                pin=missing,
                epochs=(CLAUDE,),
            )
        )
    assert "\n" not in refused.value.message
    with pytest.raises(ValueError, match="held needs a session or a pin"):
        store.settle(Settlement(turn=row, answer=(answer, "x"), held=()))
    assert (talk.texts, store.epochs(talk.id), store.pins(talk.id)) == (["one"], {}, [])
    assert [t.state for t in store.unsettled(talk.id)] == ["running"]
    talk.settle(row, "after all")
    assert talk.texts == ["one", "after all"]


def test_a_pin_that_cannot_be_read_any_more_counts_as_none(store: Store, talk: Talk) -> None:
    talk.pinned("one", "1")
    store._db.run('UPDATE pins SET made_under = \'{"of": "another time"}\'')
    assert (store.pin(talk.id, CLAUDE, "work"), store.pins(talk.id)) == (None, [])
