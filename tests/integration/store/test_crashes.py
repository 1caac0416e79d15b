"""Many writers, and writers that die at any moment."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

from segue.store.records import Conversation
from segue.store.store import Store
from tests.integration.store.talking import CLAUDE, Talk
from tests.integration.store.where import Where
from tests.postgres import Server, at, own_postgres

__all__ = ["own_postgres"]

ROUNDS = 40


def test_eight_processes_lose_no_message(where: Where) -> None:
    """The first of them makes the store, whichever that is."""
    count = 15
    printed = where.run_all(*[("append", f"p{n}", count) for n in range(8)])
    said = {line for lines in printed for line in lines}
    assert len(said) == 8 * count
    with where.open() as store:
        conversation = store.conversation("shared")
        assert conversation is not None
        messages = store.messages(conversation.id)
        texts = store.texts([m.id for m in messages])
        assert sorted(texts.values()) == sorted([*said, *(f"to {text}" for text in said)])
        in_order = [texts[m.id] for m in messages]
        for n in range(8):
            mine = [text for text in in_order if text.startswith(f"p{n} ")]
            assert mine == [f"p{n} {i}" for i in range(count)]
        assert_whole(store)


def test_what_was_acknowledged_survives_a_kill(where: Where, seed: int) -> None:
    chance = random.Random(seed)
    heard: dict[str, str] = {}
    settled: dict[str, str] = {}
    where.open().close()
    for _ in range(ROUNDS):
        for line in killed(where, chance.randint(1, 8), chance.uniform(0, 0.02)):
            kind, first, second = line.split()
            (heard if kind == "heard" else settled)[first] = second
    assert len(settled) >= ROUNDS
    with where.open() as store:
        conversation = store.conversation("k")
        assert conversation is not None
        assert store.texts(list(heard)) == heard
        for turn_id, answer in settled.items():
            turn = store.turn(turn_id)
            assert turn is not None
            assert (turn.state, turn.answer) == ("done", answer)
        assert_whole(store)
        assert_settlements_are_whole(store, conversation)


def test_what_was_acknowledged_survives_a_kill_of_the_server(own_postgres: Server, tmp_path: Path) -> None:
    """Although the server is set up to confirm changes before it has written them down."""
    where, said = Where(at(own_postgres.url, "postgres"), tmp_path / "unused"), list[str]()
    for n in range(5):
        with where.open() as store:
            talk = Talk(store, "k")
            talk.say(f"hello {n}", f"hi {n}")
            said += [f"hello {n}", f"hi {n}"]
            own_postgres.stop(kill=True)
            own_postgres.start()
            assert talk.texts == said


def killed(where: Where, words: int, and_s: float) -> list[str]:
    """What a process was acknowledged before it was killed: after so many lines, and so long."""
    process = where.start("settle", "k")
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(words)]
    time.sleep(and_s)
    process.send_signal(signal.SIGKILL)
    lines += process.stdout.read().splitlines(keepends=True)
    process.stdout.close()
    process.wait()
    return [line for line in lines if line.endswith("\n")]


def assert_settlements_are_whole(store: Store, conversation: Conversation) -> None:
    """Each settlement added an answer, two rows that are held, and the pin's end; never a part of that."""
    questions = {t.answer: t.message for t in store.turns(conversation.id) if t.state == "done"}
    answers = [m.id for m in store.messages(conversation.id) if m.sender == "assistant"]
    assert set(answers) == set(questions)
    pin = store.pin(conversation.id, CLAUDE, "work")
    assert pin is not None
    assert [h.message for h in pin.held[1::2]] == answers
    assert [h.message for h in pin.held[::2]] == [questions[answer] for answer in answers]
    assert pin.end == answers[-1]
    # PostgreSQL may commit the last words of a killed process after the next process has looked.
    assert len(store.unsettled(conversation.id)) <= (1 if store._db.name == "sqlite" else 3)


def assert_whole(store: Store) -> None:
    if store._db.name == "sqlite":
        assert store._db.all("PRAGMA integrity_check") == [("ok",)]
        assert store._db.all("PRAGMA foreign_key_check") == []
    rows = store._db.all(
        "SELECT m.id FROM messages AS m LEFT JOIN revisions AS r"
        " ON r.message = m.id AND r.revision = m.revision WHERE r.text IS NULL"
    )
    assert rows == []
