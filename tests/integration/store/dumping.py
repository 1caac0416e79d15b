"""Makes the fixture of today's schema: a store with a bit of everything, as SQL.

    python -m tests.integration.store.dumping

Run it once for each new migration, before that is released; what it wrote is never written again.
"""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

import msgspec

from segue.core.attachments import Attachment, checked
from segue.core.request import FlowPlace
from segue.core.usage import Usage
from segue.store.budgets import RaisedTo
from segue.store.flow_records import FlowRow, StepRow
from segue.store.lease_rows import Taken
from segue.store.migrate import known
from segue.store.records import AttemptRow, LineageRow, Receipt
from segue.store.store import Store, open_store
from tests.integration.store.talking import CLAUDE, CODEX, OWNER, Talk, message, new_id, turn_row

FIXTURES = Path(__file__).parents[2] / "fixtures" / "stores"


def fill(store: Store) -> None:
    """Two conversations: edited, cut, forked, failed, waiting; sessions, pins, leases and the rest."""
    talk = Talk(store, "old")
    session = talk.pinned("remember 'the' number\n456", "Noted. 🎵")
    talk.pinned("review this", "Two problems.", CODEX)
    settled = talk.say(
        "fix them",
        "Fixed.",
        retire=((session.id, "2 failing resumes in a row"),),
        epochs=(CLAUDE,),
    )
    child = talk.say("and?", None).turn.id
    talk.say(
        "cut this", "yes", lineage=(LineageRow(child=child, parent=settled.turn.id, kind="retry", ms=5),)
    )
    store.truncate(talk.id, talk.ids[-2:], 5000, [CODEX])
    store.edit(talk.ids[0], "remember the number 457", 6000, [], [CLAUDE])
    store.record(settled.turn.id, [(1, 100, '{"type":"text","text":"Fixed."}')])
    attempt = AttemptRow(
        id=new_id("a"), turn=settled.turn.id, seq=1, mode="resume", run_dir="/r", started_ms=9
    )
    store.attempting(attempt)
    store.attempted(attempt.id, "ok", "n1", Usage(1, 2, 3, 4), 0.5, 2, 10)
    store.switch_off("claude 2.1 resume", "branch", "ignored the anchor", 7)
    store.take_lease(f"conversation:{talk.id}", OWNER, lambda row: "alive")
    source = store.conversation("old")
    assert source is not None
    store.fork(source, "old~2", talk.ids[1], 9000, new_id)
    waiting, _ = talk.receive("waiting")
    store._attach(waiting.id, [checked(Attachment("note.txt", b"a note"))])
    _, keyed = Talk(store, "keyed").receive("hello")
    again = msgspec.structs.replace(keyed, id=new_id("t"), retry_of=keyed.id)
    store.add_retry(again, Receipt(key="step-1", body="digest"))
    store.ask_cancel(again.id)
    store.ask(again.id, "question-1", '{"id":"question-1","kind":"question","asked":9}')
    store.allow_tool(talk.id, CLAUDE, "Bash")
    store.budgets.raise_budget(
        RaisedTo(scope="conversation", name=talk.id, day="", usd=7.5, conversation=talk.id)
    )
    flow = store.flows.add(
        FlowRow(id=new_id("f"), key="nightly", kind="tidy", version=1, cwd="/w", host="here", created_ms=9)
    )
    taken = store.take_lease(f"flow:{flow.id}", OWNER, lambda row: "alive")
    assert isinstance(taken, Taken)
    step = StepRow(flow=flow.id, key="one", n=1, kind="step", state="done", artefact="x", began_ms=9)
    store.flows.write_step(taken.claim, step, data=b"large")
    tidy, said = Talk(store, "tidy"), message()
    row = turn_row(tidy.id, said, flow=FlowPlace(flow=flow.id, step="one", tier=2))
    store.receive(tidy.made, said, "tidy up", row)


def dump(path: Path) -> str:
    """All of it, as statements."""
    connection = sqlite3.connect(path)
    try:
        return "\n".join(connection.iterdump()) + "\n"
    finally:
        connection.close()


def main() -> None:
    target = FIXTURES / f"{known()[-1].version:04}.sql"
    if target.exists():
        raise SystemExit(f"{target} is there already; a released schema does not change")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "segue.db"
        with open_store(None, path) as store:
            fill(store)
        target.write_text(dump(path))
    print(f"wrote {target}")


if __name__ == "__main__":
    main()
