"""Who is logged in is a wall, as an account is: for every voice, and for what stands in older stores."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.database import database
from tests.integration.conftest import Program
from tests.integration.store.test_schemas import statements
from tests.integration.talk import Spoke, Talk, rehearsing, resumed

NOTHING = "I do not know any number."


@pytest.fixture
def talk(segue: Program) -> Talk:
    return rehearsing(segue)


def log_in(talk: Talk, name: str | None) -> None:
    """Who the rehearsal agent says is logged in; None: nobody."""
    file = talk.sessions.parent / "login.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.encode({"account": name, "token": f"of {name}"}))


def knows_nothing(spoke: Spoke, mode: str = "fresh") -> None:
    """``replay``: of what it said itself."""
    assert (spoke.mode, spoke.text) == (mode, NOTHING), spoke.failed()
    assert spoke.native == ""
    assert "number 1" not in spoke.prompt
    said = "said under another account or login are not carried over"
    assert (said in spoke.ran.stderr) == (mode == "fresh")


@pytest.mark.parametrize("options", [(), ("--role", "reviewer"), ("--fresh-session",)], ids=" ".join)
@pytest.mark.parametrize("modes", ['"resume", "branch", "replay", "recap", "fresh"', '"recap", "fresh"'])
def test_another_login_is_not_shown_what_was_said(
    segue: Program, options: tuple[str, ...], modes: str
) -> None:
    talk = rehearsing(segue, f"[continuity]\nmodes = [{modes}]\n")
    log_in(talk, "ann")
    talk.run("remember number 1")
    assert talk.run("what number?", *options).text == "1"
    log_in(talk, "bob")
    assert talk.why(*options)["mode"] == "fresh"
    knows_nothing(talk.run("what number?", *options))


def test_a_session_that_segue_wrote_is_not_adopted_by_another_login(segue: Program) -> None:
    talk = rehearsing(segue)
    log_in(talk, "ann")
    left = talk.run("remember number 1").turn["session_id"]
    talk.run("hello", "--fresh-session")
    log_in(talk, "bob")
    ran = talk.segue("run", "new", "what number?", "--adopt", left)
    assert (ran.code, "is not carried over" in ran.stderr) == (2, True), ran.stderr
    log_in(talk, "ann")
    assert talk.segue("run", "new", "what number?", "--adopt", left, "--json").turn["text"] == "1"


@pytest.mark.parametrize(("first", "second"), [(None, "ann"), ("ann", None)])
def test_who_cannot_be_told_is_somebody_else(talk: Talk, first: str | None, second: str | None) -> None:
    log_in(talk, first)
    talk.run("remember number 1")
    resumed(talk.run("what number?"), "remember number 1")
    log_in(talk, second)
    knows_nothing(talk.run("what number?", "--role", "reviewer"))


def test_going_back_resumes_without_what_the_other_said(talk: Talk) -> None:
    log_in(talk, "ann")
    talk.run("remember number 1")
    log_in(talk, "bob")
    talk.run("remember number 2")
    assert talk.run("what number?").text == "2"
    log_in(talk, "ann")
    back = talk.run("what number?")
    resumed(back, "remember number 1")
    assert (back.text, back.turn["sent"]["text_messages"]) == ("1", 1)
    log_in(talk, "bob")
    assert talk.why()["mode"] == "resume"


def test_the_log_does_not_claim_where_a_branch_went_on_from_across_a_wall(talk: Talk) -> None:
    log_in(talk, "ann")
    talk.run("hi")
    talk.run("[[error 429]]", code=75)
    log_in(talk, "bob")
    talk.run("hi")
    log_in(talk, "ann")
    assert talk.run("hi").mode == "branch"
    assert "↳" not in talk("log").stdout


def test_a_token_that_is_refreshed_and_a_new_login_of_the_same_user_are_no_wall(talk: Talk) -> None:
    log_in(talk, "ann")
    talk.run("remember number 1")
    (talk.sessions.parent / "login.json").write_text('{"token": "fresh", "account": "ann"}')
    resumed(talk.run("what number?"), "remember number 1")
    (talk.sessions.parent / "login.json").unlink()
    log_in(talk, "ann")
    resumed(talk.run("what number?"), "remember number 1")


def test_a_fork_and_an_export_keep_the_wall(talk: Talk) -> None:
    log_in(talk, "ann")
    talk.run("remember number 1")
    talk("fork", "copy")
    out = talk("export", "--json").stdout
    assert "ann" not in out, "a fingerprint, not the name"
    assert talk.segue("import", "-", "--key", "taken", stdin=out.encode()).code == 0
    for key in ("copy", "taken"):
        log_in(talk, "bob")
        knows_nothing(Talk(talk.segue, key).run("what number?"))
        log_in(talk, "ann")
        assert Talk(talk.segue, key).run("what number?").text == "1"


def from_before(talk: Talk) -> None:
    """As if an earlier Segue had written the store, which knew of no logins in its marks and pins."""
    with database(talk.segue.home / "segue.db") as db:
        for message, facts in db.execute("SELECT id, facts FROM messages").fetchall():
            *head, under, blank, _ = msgspec.json.decode(facts)
            old = [each.rpartition("/")[0] for each in under]
            text = msgspec.json.encode([*head, old, blank]).decode()
            db.execute("UPDATE messages SET facts = ? WHERE id = ?", (text, message))
        db.execute("UPDATE pins SET login = '', made_under = json_remove(made_under, '$.login')")
        db.execute("DELETE FROM logins")


def test_what_was_said_before_logins_were_noted_is_the_first_ones(talk: Talk) -> None:
    log_in(talk, "ann")
    talk.run("remember number 1")
    from_before(talk)
    resumed(talk.run("what number?"), "remember number 1")
    assert talk.run("what number?", "--role", "reviewer").text == "1"
    log_in(talk, "bob")
    knows_nothing(talk.run("what number?", "--role", "none"))
    knows_nothing(talk.run("what number?", "--role", "checker"), "replay")
    log_in(talk, "ann")
    resumed(talk.run("what number?", "--role", "none"), "remember number 1")


def test_the_first_login_of_any_conversation_is_the_first_of_all(talk: Talk) -> None:
    log_in(talk, "ann")
    talk.run("remember number 1")
    from_before(talk)
    Talk(talk.segue, "another").run("hi")
    log_in(talk, "bob")
    knows_nothing(talk.run("what number?", "--role", "none"))
    knows_nothing(talk.run("what number?", "--role", "reviewer"), "replay")


def test_looking_is_not_being_seen(talk: Talk) -> None:
    log_in(talk, "ann")
    talk.run("remember number 1")
    from_before(talk)
    log_in(talk, "bob")
    assert talk.why()["mode"] == "resume"
    log_in(talk, "ann")
    resumed(talk.run("what number?", "--role", "none"), "remember number 1")
    log_in(talk, "bob")
    assert talk.why()["mode"] == "fresh"


def test_a_store_that_named_logins_in_its_pins_keeps_the_wall(talk: Talk) -> None:
    """Somebody else is logged in when the program is updated."""
    log_in(talk, "ann")
    talk.run("remember number 1")
    rows = downgraded(talk)
    with database(talk.segue.home / "segue.db") as db:
        db.executescript(rows)
    log_in(talk, "bob")
    knows_nothing(talk.run("what number?", "--role", "none"))
    knows_nothing(talk.run("what number?", "--role", "reviewer"), "replay")
    log_in(talk, "ann")
    resumed(talk.run("what number?", "--role", "none"), "remember number 1")


def before_states(table: str, column: str) -> str:
    """What the older schema calls a column, read from the newer one."""
    done = "CASE state WHEN 'done' THEN 'ok' ELSE state END"
    return done if (table, column) == ("turns", "status") else column


def downgraded(talk: Talk) -> str:
    """The same rows in the schema of before, and the store gone. Pins have their login."""
    path = talk.segue.home / "segue.db"
    from_schema = (Path(__file__).parents[1] / "fixtures" / "stores" / "0002.sql").read_text()
    schema = [each for each in statements(from_schema) if not each.startswith(("INSERT", "BEGIN", "COMMIT"))]
    noted = [each for each in statements(from_schema) if 'INTO "segue_migrations"' in each]
    with database(":memory:") as old, database(path) as new:
        old.executescript("\n".join([*schema, *noted]))
        for (table,) in old.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            columns = [row[1] for row in old.execute(f"PRAGMA table_info({table})")]
            if table == "segue_migrations":
                continue
            named = [before_states(table, column) for column in columns]
            for row in new.execute(f"SELECT {', '.join(named)} FROM {table}").fetchall():
                old.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        for message, facts in old.execute("SELECT id, facts FROM messages").fetchall():
            *head, under, blank, _ = msgspec.json.decode(facts)
            text = msgspec.json.encode([*head, [each.rpartition("/")[0] for each in under], blank]).decode()
            old.execute("UPDATE messages SET facts = ? WHERE id = ?", (text, message))
        old.commit()
        dump = "\n".join(old.iterdump())
    for file in path.parent.glob("segue.db*"):
        file.unlink()
    return dump
