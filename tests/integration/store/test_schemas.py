"""A store of every earlier schema opens in the newest, and nothing of it is lost."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import psycopg
import pytest

from segue.core.usage import Usage
from segue.store.migrate import MIGRATIONS, known, migrate
from segue.store.postgres import Postgres
from segue.store.store import Store
from tests.integration.store.dumping import FIXTURES
from tests.integration.store.talking import CLAUDE, CODEX, OWNER, Talk
from tests.integration.store.where import Where

SCHEMAS = sorted(FIXTURES.glob("*.sql"))


def restore(where: Where, fixture: Path, upto: Path) -> None:
    """The store as the program of that time left it. On PostgreSQL: its migrations, then the same rows."""
    script = fixture.read_text()
    if where.url is None:
        file = sqlite3.connect(where.path)
        file.executescript(script)
        file.close()
        return
    version = int(fixture.stem)
    for path in MIGRATIONS.glob("*.sql"):
        if int(path.name[:4]) <= version:
            (upto / path.name).write_bytes(path.read_bytes())
    db = Postgres(where.url)
    migrate(db, upto)
    db.close()
    with psycopg.connect(where.url, autocommit=True) as connection:
        connection.execute("SET search_path TO segue; SET session_replication_role TO replica")
        for statement in statements(script):
            if statement.startswith("INSERT") and "segue_migrations" not in statement:
                connection.execute(re.sub(r"\bX'([0-9A-F]*)'", r"'\\x\1'", statement).encode())


def statements(script: str) -> list[str]:
    found, begun = [], ""
    for line in script.splitlines(keepends=True):
        begun += line
        if sqlite3.complete_statement(begun):
            found.append(begun.strip())
            begun = ""
    return found


@pytest.mark.parametrize("fixture", SCHEMAS, ids=lambda path: path.stem)
def test_a_store_of_an_earlier_schema_opens(where: Where, fixture: Path, tmp_path: Path) -> None:
    restore(where, fixture, tmp_path)
    with where.open() as store:
        conversation = store.conversation("old")
        assert conversation is not None
        assert_all_is_there(store, conversation.id)
        talk = Talk(store, "old")
        talk.pinned("and today?", "still here")
        assert [row.text for row in store.log(conversation.id)][-2:] == ["and today?", "still here"]


def assert_all_is_there(store: Store, conversation_id: str) -> None:
    rows = store.log(conversation_id)
    assert [(row.n, row.sender, row.voice, row.revision, row.text) for row in rows] == [
        (1, "user", CLAUDE, 2, "remember the number 457"),
        (2, "assistant", CLAUDE, 1, "Noted. 🎵"),
        (3, "user", CODEX, 1, "review this"),
        (4, "assistant", CODEX, 1, "Two problems."),
        (5, "user", CLAUDE, 1, "fix them"),
        (6, "assistant", CLAUDE, 1, "Fixed."),
        (7, "user", CLAUDE, 1, "and?"),
    ]
    assert store.revisions(rows[0].id)[0][1] == "remember 'the' number\n456"
    fixed = rows[5].turn
    assert fixed is not None
    assert fixed.told is not None
    assert (fixed.told.text, fixed.told.cost_usd, fixed.owner) == ("Fixed.", 0.25, OWNER)
    assert [(a.outcome, a.usage, a.tools_run) for a in store.attempts(fixed.id)] == [
        ("ok", Usage(1, 2, 3, 4), 2)
    ]
    assert store.events(fixed.id) == [(1, 100, '{"type":"text","text":"Fixed."}')]
    assert [turn.state for turn in store.turns(conversation_id)] == [
        "done",
        "done",
        "done",
        "failed",
        "done",
        "queued",
    ]
    assert store.texts([store.unplaced(conversation_id)[0].message]).popitem()[1] == "waiting"
    assert store.epochs(conversation_id) == {CLAUDE: 2, CODEX: 1}
    assert [(row.kind, row.parent) for row in store.lineage(conversation_id)] == [("retry", fixed.id)]
    pin = store.pin(conversation_id, CODEX, "work")
    assert pin is not None
    assert [held.message for held in pin.held] == [row.id for row in rows[:3]]
    assert {s.retired_reason for s in store.sessions(conversation_id)} == {"2 failing resumes in a row", None}
    assert store.switched_off("claude 2.1 resume") == {"branch": "ignored the anchor"}
    lease = store.lease(f"conversation:{conversation_id}")
    assert lease is not None
    assert lease.owner == OWNER
    fork = store.conversation("old~2")
    assert fork is not None
    assert [row.text for row in store.log(fork.id)] == ["remember the number 457", "Noted. 🎵"]
    shared = store.pin(fork.id, CLAUDE, "work")
    assert shared is not None
    assert (shared.foreign, len(shared.held)) == ("old", 1)


@pytest.mark.parametrize(
    "fixture", [path for path in SCHEMAS if int(path.stem) >= 14], ids=lambda path: path.stem
)
def test_the_flows_of_an_earlier_schema_are_there(where: Where, fixture: Path, tmp_path: Path) -> None:
    restore(where, fixture, tmp_path)
    with where.open() as store:
        flow = store.flows.by_key("nightly")
        assert flow is not None
        (step,) = store.flows.steps(flow.id)
        (artefact,) = store.flows.artefacts(flow.id)
        assert (step.key, step.state, artefact.name) == ("one", "done", "one")
        assert store.flows.artefact(artefact.hash) == b"large"
        assert [(run.step, run.tier) for run in store.flows.runs(flow.id)] == [("one", 2)]


def test_every_schema_has_its_fixture() -> None:
    """A new migration needs one: python -m tests.integration.store.dumping."""
    assert [int(path.stem) for path in SCHEMAS] == [migration.version for migration in known()]
