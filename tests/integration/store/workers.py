"""Processes that work on a store while a test watches.

    python -m tests.integration.store.workers URL PATH JOB …

They print what has been acknowledged to them, line by line.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import msgspec

from segue.core.ids import id_of as sortable_id
from segue.core.model import Held, Message, Owner
from segue.store import lease_rows
from segue.store.records import Conversation, LeaseRow, SessionRow, Settlement, TurnRow
from segue.store.store import Store, open_store
from tests.integration.store.talking import CLAUDE, pin_to, session_row

ME = Owner(host="here", pid=os.getpid())
DEAD = Owner(host="here", pid=0)


def main() -> None:
    url, path, job, *args = sys.argv[1:]
    with open_store(None if url == "-" else url, Path(path)) as store:
        match job:
            case "open":
                say(store.conversations())
            case "append":
                append(store, args[0], int(args[1]))
            case "line":
                line(store, int(args[0]))
            case "settle":
                settle(store, args[0])
            case "inherit":
                inherit(store, float(args[0]), int(args[1]))
            case "guard":
                guard(store, Path(args[0]), int(args[1]))
            case _:
                raise SystemExit(f"no job {job}")


def append(store: Store, name: str, count: int) -> None:
    """So many turns in the conversation that all of them share, without any lease."""
    conversation = Conversation(id=fresh(), key="shared", agent="claude")
    for n in range(count):
        text = f"{name} {n}"
        row = heard(store, conversation, text)
        store.place(row.id)
        store.settle(Settlement(turn=ok(row), answer=(reply(), f"to {text}")))
        say(text)


def line(store: Store, count: int) -> None:
    """A line of runs in the shared conversation that is turned round again and again; then all are ended."""
    conversation = Conversation(id=fresh(), key="shared", agent="claude")
    rows = [heard(store, conversation, f"queued {n}") for n in range(4)]
    for row in rows:
        store._enqueue(row.id, "{}", None)
    for n in range(count):
        runs = [row.id for row in rows]
        store.reorder(runs if n % 2 else runs[::-1])
        store.ask_cancel(runs[n % 4])
        store.record(runs[0], [(n, n, '{"type":"end","ok":true}')])
    for row in rows:
        store.settle(Settlement(turn=msgspec.structs.replace(row, state="withdrawn")))


def settle(store: Store, key: str) -> None:
    """Mend what was left behind; then turn after turn until it is killed, in a session that holds more."""
    conversation = store.conversation(key) or Conversation(id=fresh(), key=key, agent="claude")
    lost = store.unplaced(conversation.id)
    for gone in store.unsettled(conversation.id):
        if gone.state == "running":
            store.settle(Settlement(turn=msgspec.structs.replace(gone, state="failed")))
    pin = store.pin(conversation.id, CLAUDE, "work")
    held = len(pin.held) if pin else 0
    session = known_session(store, conversation.id) if pin else None
    until = time.monotonic() + 60
    while time.monotonic() < until:
        text = fresh()
        row = heard(store, conversation, text)
        say("heard", row.message, text)
        session = session or session_row(row.conversation, id=fresh(), native_id=fresh())
        store.place(row.id, [turn.id for turn in lost])
        store.started(row.id, "resume", None)
        answer = reply()
        store.settle(
            Settlement(
                turn=ok(row),
                answer=(answer, f"to {text}"),
                session=session,
                held=(Held(row.message, 1), Held(answer.id, 1, answer.id)),
                held_from=held,
                pin=pin_to(session, end=answer.id),
            )
        )
        held += 2
        say("settled", row.id, answer.id)


def inherit(store: Store, start: float, rounds: int) -> None:
    """From a given moment on: one try for each of the leases of the dead."""
    time.sleep(max(0.0, start - time.time()))
    for n in range(rounds):
        got = store.take_lease(f"dead-{n}", ME, judge)
        if isinstance(got, lease_rows.Taken):
            assert got.previous is not None
            assert got.previous.owner == DEAD
            say(n)


def guard(store: Store, door: Path, count: int) -> None:
    """So many times through a door that only one may pass at a time."""
    passed = 0
    until = time.monotonic() + 90
    while passed < count and time.monotonic() < until:
        got = store.take_lease("door", ME, judge)
        if isinstance(got, lease_rows.Busy):
            time.sleep(0.001)
            continue
        os.close(os.open(door, os.O_CREAT | os.O_EXCL))
        assert store.renew_lease(got.claim)
        door.unlink()
        assert store.release_lease(got.claim)
        passed += 1
        say(passed)


def judge(row: LeaseRow) -> lease_rows.Verdict:
    return "dead" if row.owner == DEAD else "alive"


def known_session(store: Store, conversation_id: str) -> SessionRow:
    (session,) = store.sessions(conversation_id)
    return session


def heard(store: Store, conversation: Conversation, text: str) -> TurnRow:
    said = Message(id=fresh(), sender="user", voice=CLAUDE, account="work")
    row = TurnRow(
        id=fresh(),
        conversation=conversation.id,
        message=said.id,
        voice=CLAUDE,
        account="work",
        owner=ME,
        started_ms=now_ms(),
    )
    stored = store.receive(conversation, said, text, row)
    return msgspec.structs.replace(row, conversation=stored.id)


def ok(row: TurnRow) -> TurnRow:
    return msgspec.structs.replace(row, state="done", ended_ms=now_ms())


def reply() -> Message:
    return Message(id=fresh(), sender="assistant", voice=CLAUDE, account="work")


def fresh() -> str:
    return sortable_id(now_ms(), os.urandom(10))


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def say(*words: object) -> None:
    print(*words, flush=True)


if __name__ == "__main__":
    main()
