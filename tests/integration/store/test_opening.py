"""A store is made, brought up to date, or refused in one clear line."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from segue.core.errors import Broken, Misuse, SegueError
from segue.store.lease_rows import Taken
from segue.store.migrate import MIGRATIONS, known, migrate
from segue.store.store import Store, open_store
from tests.integration.store.talking import OWNER, Talk
from tests.integration.store.where import Where

NEWEST = known()[-1].version


def refusal(where: Where) -> str:
    with pytest.raises(Broken) as refused:
        where.open()
    said = refused.value.message
    assert "\n" not in said
    return said


def test_a_store_is_still_there_when_it_is_opened_again(where: Where) -> None:
    with where.open() as store:
        Talk(store).say("hello", "hi")
    with where.open() as store:
        assert [summary.messages for summary in store.conversations()] == [2]


def test_a_file_is_for_its_user_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        path = tmp_path / "new" / "segue.db"
        with open_store(None, path) as store:
            Talk(store).say("hello")
            for file in path.parent.iterdir():
                assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
            assert path.with_name("segue.db-wal").exists()
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_eight_processes_make_it_at_once(where: Where) -> None:
    assert where.run_all(*[("open",)] * 8) == [["[]"]] * 8
    with where.open() as store:
        assert [row[0] for row in store._db.all("SELECT version FROM segue_migrations")] == [
            m.version for m in known()
        ]


def test_an_older_program_stops_at_a_newer_store(where: Where) -> None:
    with where.open() as store:
        store._db.run("INSERT INTO segue_migrations VALUES (:version, 'later', 'x', 1)", version=NEWEST + 1)
    said = refusal(where)
    assert f"was made by a newer Segue (schema {NEWEST + 1}, this one knows {NEWEST})" in said
    assert "install a newer one" in said


def test_another_schema_under_the_same_number_is_seen(where: Where) -> None:
    with where.open() as store:
        store._db.run("UPDATE segue_migrations SET checksum = '0000'")
    assert (
        "has a different schema 1 than this Segue (checksum 0000); install the Segue that made it"
        in refusal(where)
    )


def test_migrations_are_applied_in_order_and_once(where: Where, tmp_path: Path) -> None:
    """Today's schema, and two that come after it."""
    later = tmp_path / "later"
    later.mkdir()
    second, third = f"{NEWEST + 1:04}", f"{NEWEST + 2:04}"
    for path in MIGRATIONS.glob("*.sql"):
        (later / path.name).write_bytes(path.read_bytes())
    (later / f"{second}_notes.sql").write_text(
        "-- Notes.\nCREATE TABLE notes (id INTEGER PRIMARY KEY, note TEXT) STRICT;\n"
    )
    (later / f"{second}_notes.sqlite.sql").write_text("INSERT INTO notes VALUES (1, 'sqlite');\n")
    (later / f"{second}_notes.postgres.sql").write_text("INSERT INTO notes VALUES (1, 'postgres');\n")
    with where.open() as store:
        Talk(store).say("hello", "hi")
        migrate(store._db, later)
        (later / f"{third}_more.sql").write_text(
            "ALTER TABLE notes ADD COLUMN more REAL;\nUPDATE notes SET more = 2;\n"
        )
        migrate(store._db, later)
        migrate(store._db, later)
        assert store._db.all("SELECT id, note, more FROM notes") == [(1, store._db.name, 2.0)]
        assert store._db.all("SELECT version, name FROM segue_migrations ORDER BY version") == [
            *((migration.version, migration.name) for migration in known()),
            (NEWEST + 1, "notes"),
            (NEWEST + 2, "more"),
        ]
        assert [summary.messages for summary in store.conversations()] == [2]


def test_a_migration_that_fails_changes_nothing(where: Where, tmp_path: Path) -> None:
    later = tmp_path / "later"
    later.mkdir()
    for path in MIGRATIONS.glob("*.sql"):
        (later / path.name).write_bytes(path.read_bytes())
    (later / f"{NEWEST + 1:04}_wrong.sql").write_text(
        "CREATE TABLE notes (id TEXT) STRICT;\nDROP TABLE nowhere;\n"
    )
    with where.open() as store:
        with pytest.raises(Broken, match="nowhere"):
            migrate(store._db, later)
        with pytest.raises(Broken, match="notes"):
            store._db.all("SELECT id FROM notes")
        assert store._db.one("SELECT MAX(version) FROM segue_migrations") == (NEWEST,)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"something else entirely\n" * 100, "is not a database; move it away, or set SEGUE_HOME"),
        (b"SQLite format 3\0" + b"\xff" * 4000, "is not a database"),
    ],
)
def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "segue.db"
    path.write_bytes(content)
    assert f"the store {path} {said}" in refusal(Where(None, path))
    assert path.read_bytes() == content


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "segue.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE migrations (version)")
    other.close()
    assert "is a database of another program; move it away" in refusal(Where(None, path))


def test_a_damaged_database_is_told(tmp_path: Path) -> None:
    path = tmp_path / "segue.db"
    with open_store(None, path) as store:
        Talk(store).say("hello")
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xaa" * (len(content) - 4096)
    path.write_bytes(content)
    assert "is damaged" in refusal(Where(None, path))


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "cannot be opened: Not a directory" in refusal(Where(None, tmp_path / "file" / "segue.db"))
    (tmp_path / "dir.db").mkdir()
    assert "cannot be opened: Is a directory" in refusal(Where(None, tmp_path / "dir.db"))


def test_a_file_that_another_program_keeps_is_waited_for_then_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "segue.db"
    open_store(None, path).close()
    monkeypatch.setattr("segue.store.sqlite.WAIT_S", 0.2)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with open_store(None, path) as store:
        assert store.conversations() == [], "a reader does not wait"
        with pytest.raises(Broken, match="is busy: another program has been writing"):
            Talk(store).receive("hello")
        other.execute("ROLLBACK")
        Talk(store).receive("hello")
    other.close()


def test_a_server_that_cannot_be_reached_is_told_without_the_password(tmp_path: Path) -> None:
    said = refusal(Where(f"postgresql://me:s3cret@/db?host={tmp_path}&connect_timeout=1", tmp_path))
    assert "the store PostgreSQL/db cannot be reached" in said
    assert "s3cret" not in said
    for url in ("postgresql://me:s3cret@db:s3cret/x", "postgresql://me@db:s3cret/x?password=s3cret"):
        assert "s3cret" not in refusal(Where(url, tmp_path))
    with pytest.raises(Misuse, match="cannot read the URL"):
        open_store("postgresql://[/x", tmp_path)


def test_a_lost_connection_is_made_again(postgres_url: str, tmp_path: Path) -> None:
    where = Where(postgres_url, tmp_path)
    with where.open() as store, where.open() as other:
        talk = Talk(store)
        talk.say("hello", "hi")

        def cut() -> None:
            other._db.all(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'segue' AND pid <> pg_backend_pid()"
            )

        cut()
        assert talk.texts == ["hello", "hi"]
        cut()
        talk.say("still there?", "yes")

        def interrupted() -> None:
            with store._db.writing():
                cut()
                store._db.one("SELECT 1")

        with pytest.raises(Broken, match="cannot be used"):
            interrupted()
        assert talk.texts == ["hello", "hi", "still there?", "yes"]
        cut()
        store.record(store.turns(talk.id)[0].id, [(1, 100, "{}"), (2, 100, "{}")])
        assert len(store.events(store.turns(talk.id)[0].id)) == 2
        cut()
        taken = store.take_lease("any", OWNER, lambda _: "alive")
        assert isinstance(taken, Taken)
        cut()
        assert store.renew_lease(taken.claim)


def test_what_is_sent_together_is_written_as_a_whole_or_not_at_all(store: Store) -> None:
    add = "INSERT INTO counters (name, n) VALUES (:name, 1)"
    find = "SELECT name FROM counters WHERE name IN ('one', 'two') ORDER BY name"
    with pytest.raises(Broken):
        store._db.together((add, {"name": "one"}), (add, {"name": "two"}), (add, {"name": "one"}))
    assert store._db.together((add, {"name": "two"}), (find, {})) == [[], [("two",)]]
    assert store._db.found_by((find, {}), ("SELECT :n", {"n": "1"})) == [[("two",)], [("1",)]]


def test_what_fails_on_a_new_connection_is_told_in_one_line(postgres_url: str, tmp_path: Path) -> None:
    """The server is back, but not as it was."""
    where = Where(postgres_url, tmp_path)
    with where.open() as store, psycopg.connect(postgres_url, autocommit=True) as admin:
        Talk(store).say("hello", "hi")
        admin.execute("ALTER SCHEMA segue RENAME TO away")
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'segue'"
        )
        with pytest.raises(Broken, match=r"the store .* cannot be used: .*turns") as raised:
            store.turn("any")
        assert "\n" not in str(raised.value)


def test_a_connection_that_is_lost_while_it_is_rolled_back_hides_nothing(
    postgres_url: str, tmp_path: Path
) -> None:
    with Where(postgres_url, tmp_path).open() as store, psycopg.connect(postgres_url) as admin:

        def mistaken() -> None:
            with store._db.writing():
                admin.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'segue'"
                )
                raise Misuse("for another reason")

        with pytest.raises(Misuse, match="for another reason"):
            mistaken()
        assert store.conversations() == []


def test_without_psycopg_one_is_told_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from pathlib import Path\nfrom segue.core.errors import SegueError\n"
        "from segue.store.store import open_store\n"
        "try: open_store('postgresql://x/y', Path('z'))\n"
        "except SegueError as error: print(type(error).__name__, error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout == 'Misuse a PostgreSQL store needs psycopg: pip install "segue[postgres]"\n'
    assert issubclass(Misuse, SegueError)


def test_a_file_needs_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom segue.store.store import open_store\n"
        "import segue.store.lease_rows\nopen_store(None, Path('segue.db')).close()\nprint(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert not {"psycopg", "aiosql", "hashlib", "importlib.metadata"} & set(done.stdout.split())
