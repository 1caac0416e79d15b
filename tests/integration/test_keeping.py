"""A session that is gone comes back from Segue's copy, and the turn continues in it as before."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.config.schema import Keep
from segue.sessions.copies import keep
from segue.store.records import Conversation
from segue.store.store import open_store
from tests.integration.conftest import Program, Result
from tests.integration.talk import Talk, rehearsing, replayed, resumed
from tests.postgres import postgres_server, postgres_url
from tests.unit.sessions.test_copies import Shelf

__all__ = ["postgres_server", "postgres_url"]

ONE, TWO = "remember number 456", "[[say answer-two]]"
SAID = (ONE, "Noted: 456.", TWO)
RESTORED = "Rehearsal's session was gone from disk; restored from Segue's copy"


@pytest.fixture
def talk(segue: Program) -> Talk:
    """Two turns have been taken."""
    talk = rehearsing(segue)
    assert talk.run(ONE).mode == "fresh"
    assert talk.run(TWO).mode == "resume"
    return talk


def lose(talk: Talk) -> Path:
    (file,) = talk.sessions.glob("*.jsonl")
    file.unlink()
    return file


def test_a_session_that_is_gone_is_restored_and_resumed(talk: Talk) -> None:
    file = lose(talk)
    third = talk.run("what number?")
    resumed(third, *SAID)
    assert (third.text, third.prompt) == ("456", "what number?")
    assert third.turn["notices"] == [RESTORED]
    assert f"segue: {RESTORED}" in third.ran.stderr
    assert third.failed() == {}
    assert file.exists()
    resumed(talk.run("and now?"), *SAID, "what number?")


def test_a_lost_home_is_restored_as_well(talk: Talk) -> None:
    shutil.rmtree(talk.sessions.parent)
    resumed(talk.run("what number?"), *SAID)


def test_why_restores_nothing(talk: Talk) -> None:
    file = lose(talk)
    found = talk.why()
    assert found["mode"] == "resume"
    checks = {check["check"]: (check["verdict"], check["detail"]) for check in found["checks"]}
    assert checks["file"] == ("pass", "gone from disk; Segue's copy will be restored")
    assert not file.exists()


def test_nothing_is_restored_that_the_turn_would_not_use(talk: Talk) -> None:
    file = lose(talk)
    replayed(talk.run("what number?", "--fresh-session"), *SAID)
    assert not file.exists()


def test_a_branch_is_cut_from_the_copy(talk: Talk) -> None:
    lose(talk)
    talk("edit", "#3", "[[say answer-three]]")
    after = talk.run("what number?")
    assert (after.mode, after.text) == ("branch", "456")
    assert after.turn["notices"][0] == RESTORED


def test_a_fork_finds_the_session_again(talk: Talk) -> None:
    lose(talk)
    assert talk.segue("fork", "t", "other").code == 0
    after = Talk(talk.segue, "other").run("what number?")
    assert (after.mode, after.text) == ("branch", "456")


def test_nothing_is_kept_when_that_is_switched_off(segue: Program) -> None:
    talk = rehearsing(segue, "[keep]\nenabled = false\n")
    talk.run(ONE)
    lose(talk)
    after = talk.run("what number?")
    replayed(after, ONE, "Noted: 456.")
    assert after.failed()["file"] == "the session is gone from disk"
    assert not (segue.home / "kept").exists()


def test_a_damaged_copy_is_told_and_the_conversation_goes_as_text(talk: Talk) -> None:
    lose(talk)
    for chunk in (talk.segue.home / "kept").rglob("*.zst"):
        chunk.write_bytes(b"nonsense")
    after = talk.run("what number?")
    replayed(after, *SAID)
    assert after.text == "456"
    assert "and Segue's copy could not be restored (a part of the copy of sessions/" in after.failed()["file"]
    assert any("could not be restored" in notice for notice in after.turn["notices"])
    resumed(talk.run("and now?"), "what number?")


def test_a_copy_that_is_behind_does_not_pass_for_the_session(talk: Talk) -> None:
    """The third turn was not kept: what was said in it must not be lost."""
    talk.segue.config('[keep]\nenabled = false\n[defaults]\nagent = "rehearsal"\n')
    talk.run("[[say answer-three]]")
    lose(talk)
    talk.segue.config('[defaults]\nagent = "rehearsal"\n')
    after = talk.run("what number?")
    assert after.text == "456"
    assert (after.native + after.prompt).count("answer-three]]") == 1
    assert "end" in after.failed()


def test_a_turn_that_was_interrupted_after_tools_ran_is_kept(talk: Talk) -> None:
    cut = talk.run(
        "[[shell echo did-it]][[shell sleep 60]]", "--permission", "full", "--timeout", "2", code=124
    )
    assert cut.turn["tools_run"]
    lose(talk)
    after = talk.run("what number?")
    assert (after.mode, after.text) == ("resume", "456")
    assert "did-it" in after.native


def test_trouble_is_told_once_and_fails_nothing(talk: Talk) -> None:
    copies = talk.segue.home / "kept"
    shutil.rmtree(copies)
    copies.write_text("in the way")
    after = talk.run("what number?")
    resumed(after, *SAID)
    assert after.text == "456"
    assert after.turn["notices"] == ["no copy of the session could be kept: Not a directory"]


def test_only_what_is_new_is_stored(talk: Talk) -> None:
    def stored() -> dict[Path, int]:
        return {path: path.stat().st_size for path in (talk.segue.home / "kept").rglob("*.zst")}

    talk.run(f"look at this: {'x' * 100_000}")
    before = stored()
    talk.run("hello")
    new = stored().keys() - before.keys()
    assert len(new) == 1
    assert stored()[new.pop()] < 1000


def restore(talk: Talk, *args: str, code: int = 0) -> Result:
    ran = talk.segue("sessions", "restore", *args)
    assert ran.code == code, ran.stderr
    return ran


def copies(talk: Talk) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = msgspec.json.decode(restore(talk, "--json").stdout)
    return found


@pytest.mark.parametrize("name", ["id", "prefix", "agent", "key"])
def test_restoring_by_hand(talk: Talk, name: str) -> None:
    file = lose(talk)
    by = {"id": file.stem, "prefix": file.stem[:4], "agent": f"rehearsal:{file.stem[:8]}", "key": "t"}[name]
    assert restore(talk, by).stdout == f"Restored rehearsal's session {file.stem} to {file}\n"
    again = restore(talk, by, code=2)
    assert again.stderr == f"segue: {file} already exists; move it away to restore the copy\n"
    after = talk.run("what number?")
    resumed(after, *SAID)
    assert after.turn["notices"] == []


def test_what_is_restored_is_told_as_json(talk: Talk) -> None:
    file = lose(talk)
    (only,) = msgspec.json.decode(restore(talk, "t", "--json").stdout)["restored"]
    assert only == {
        "id": file.stem,
        "agent": "rehearsal",
        "account": None,
        "conversation": "t",
        "path": str(file),
        "files": 1,
        "size": file.stat().st_size,
    }


def test_the_copies_are_listed(talk: Talk) -> None:
    (file,) = talk.sessions.glob("*.jsonl")
    (copy,) = copies(talk)
    assert (copy["id"], copy["agent"], copy["conversation"]) == (file.stem, "rehearsal", "t")
    assert (copy["size"], copy["path"], copy["present"]) == (file.stat().st_size, str(file), True)
    assert 0 < copy["kept_size"] < copy["size"]
    lose(talk)
    head, row = restore(talk).stdout.splitlines()
    assert head.split() == ["agent", "session", "kept", "size", "kept", "size", "conversation"]
    assert row.startswith(f"rehearsal  {file.stem}")
    assert row.split()[-2:] == ["gone", "t"]


@pytest.mark.parametrize(
    ("name", "said"),
    [("abc", "too short"), ("ffffffff-none", "there is no copy"), ("nothing:ffff", "there is no copy")],
)
def test_a_copy_that_is_not_there(talk: Talk, name: str, said: str) -> None:
    assert said in restore(talk, name, code=2).stderr


def test_no_copies_yet(segue: Program) -> None:
    assert "No copies yet" in restore(Talk(segue)).stderr


def test_a_forgotten_conversation_is_forgotten_in_the_copies_too(talk: Talk) -> None:
    assert talk.segue("rm", "t", "--yes").code == 0
    assert copies(talk) == []


def forked_and_forgotten(talk: Talk) -> None:
    """What the fork needs of the conversation stays, and goes with the fork."""
    assert talk.segue("fork", "t", "other").code == 0
    assert talk.segue("rm", "t", "--yes").code == 0
    assert [copy["conversation"] for copy in copies(talk)] == ["other"]
    lose(talk)
    fork = Talk(talk.segue, "other")
    fork.sessions = talk.sessions
    after = fork.run("what number?")
    assert (after.mode, after.text) == ("branch", "456")
    assert after.turn["notices"][0] == RESTORED
    assert talk.segue("rm", "other", "--yes").code == 0
    assert copies(talk) == []


def test_a_copy_that_a_fork_needs_outlives_the_conversation(talk: Talk) -> None:
    forked_and_forgotten(talk)


def test_forgetting_a_fork_leaves_the_copy_to_the_conversation(talk: Talk) -> None:
    assert talk.segue("fork", "t", "other").code == 0
    assert talk.segue("rm", "other", "--yes").code == 0
    lose(talk)
    resumed(talk.run("what number?"), *SAID)


def test_what_a_conversation_would_go_on_with_is_not_too_old(talk: Talk) -> None:
    with open_store(None, talk.segue.home / "segue.db") as store:
        store._db.run("UPDATE kept SET used_ms = used_ms - 200 * 86400000")
    Talk(talk.segue, "another").run("hello")
    assert {copy["conversation"] for copy in copies(talk)} == {"t", "another"}
    with open_store(None, talk.segue.home / "segue.db") as store:
        store._db.run("UPDATE kept SET used_ms = used_ms - 200 * 86400000")
        store._db.run("DELETE FROM pins WHERE conversation = (SELECT id FROM conversations WHERE key = 't')")
    Talk(talk.segue, "another").run("hello")
    assert {copy["conversation"] for copy in copies(talk)} == {"another"}


def test_nothing_is_restored_while_a_turn_is_at_the_session(talk: Talk) -> None:
    with talk.busy():
        file = lose(talk)
        assert f"session {file.stem} is in use" in restore(talk, "t", code=75).stderr
        assert not file.exists()


class Host(Talk):
    """A machine of its own: its name, its Segue home, its agent's home. The store is shared."""

    def __init__(self, segue: Program, name: str, url: str) -> None:
        place = segue.home.parent / name
        env = {
            **segue.env,
            "SEGUE_HOME": str(place / "segue"),
            "SEGUE_STORE_URL": url,
            "SEGUE_STORE_HOST": name,
            "SEGUE_DEFAULTS_AGENT": "rehearsal",
            "REHEARSAL_HOME": str(place / "agent"),
        }
        place.mkdir()
        super().__init__(Program(place / "segue", segue.cwd, env))
        self.sessions = place / "agent" / "sessions"


@pytest.fixture
def hosts(segue: Program, postgres_url: str) -> tuple[Host, Host]:
    return Host(segue, "alpha", postgres_url), Host(segue, "beta", postgres_url)


def test_a_session_goes_from_host_to_host(hosts: tuple[Host, Host]) -> None:
    alpha, beta = hosts
    alpha.run(ONE)
    alpha.run(TWO)
    checks = {check["check"]: check["detail"] for check in beta.why()["checks"]}
    there = "the session is on alpha, this is beta; Segue's copy will be restored here"
    assert checks["host"] == there
    assert not beta.sessions.exists()
    third = beta.run("what number?")
    resumed(third, *SAID)
    assert (third.text, third.turn["notices"]) == (
        "456",
        ["Rehearsal's session was on alpha; restored here from Segue's copy"],
    )
    fourth = beta.run("[[say answer-four]]")
    resumed(fourth, *SAID, "what number?")
    assert fourth.turn["notices"] == []
    back = alpha.run("what number now?")
    resumed(back, *SAID, "what number?", "[[say answer-four]]")
    assert back.turn["notices"] == ["Rehearsal's session was on beta; restored here from Segue's copy"]


def test_with_a_shared_store_a_host_that_lost_everything_goes_on(hosts: tuple[Host, Host]) -> None:
    alpha, _ = hosts
    alpha.run(ONE)
    shutil.rmtree(alpha.segue.home.parent)
    alpha.segue.home.parent.mkdir()
    resumed(alpha.run("what number?"), ONE, "Noted: 456.")


def test_a_host_on_which_something_else_stands_there(hosts: tuple[Host, Host]) -> None:
    """Somebody went on by hand on the other host: that is not overwritten, and the turn says so."""
    alpha, beta = hosts
    session = str(alpha.run(ONE).turn["session_id"])
    beta.sessions.mkdir(parents=True)
    file = beta.sessions / f"{session}.jsonl"
    file.write_text("something else\n")
    after = beta.run("what number?")
    replayed(after, ONE, "Noted: 456.")
    assert "differs from the copy" in after.failed()["host"]
    assert file.read_text() == "something else\n"


def test_a_fork_in_a_shared_store_outlives_the_conversation(hosts: tuple[Host, Host]) -> None:
    alpha, _ = hosts
    alpha.run(ONE)
    forked_and_forgotten(alpha)


def test_a_copy_of_another_hosts_account_is_listed_and_not_restored(hosts: tuple[Host, Host]) -> None:
    alpha, beta = hosts
    alpha.segue.config('[accounts.work]\nagent = "rehearsal"\n[defaults]\naccount = "work"\n')
    session = str(alpha.run(ONE).turn["session_id"])
    (copy,) = copies(beta)
    assert (copy["account"], copy["path"], copy["present"]) == ("work", None, False)
    said = restore(beta, session, code=2).stderr
    assert 'the account "work" of rehearsal on alpha, which is not known here' in said
    assert not beta.sessions.exists()


def test_without_a_copy_another_host_sends_the_conversation_as_text(hosts: tuple[Host, Host]) -> None:
    alpha, beta = hosts
    alpha.segue.env["SEGUE_KEEP_ENABLED"] = "false"
    alpha.run(ONE)
    after = beta.run("what number?")
    replayed(after, ONE, "Noted: 456.")
    assert after.failed()["host"] == "the session is on alpha, this is beta"


def test_copies_in_the_database_are_bounded_as_well(postgres_url: str, tmp_path: Path) -> None:
    with open_store(postgres_url, tmp_path / "unused") as store:
        store.add(Conversation(id="c", key="talk"), [])
        shelf = Shelf(tmp_path, store, Keep(max_mb=1))
        for n in range(3):
            shelf.path(str(n)).write_bytes(random.Random(n).randbytes(400_000))
            shelf.keep(str(n))
        assert [row.native_id for row in store.session_copies()] == ["2", "1"]
        shelf.path("2").write_bytes(b"other")
        shelf.keep("2")
        assert len(shelf.stored()) == 4, "somebody may just be about to name them"
        keep.collect_garbage(store, shelf.chunks, shelf.directory, unused_s=-1)
        assert len(shelf.stored()) == 2
        for name in ("1", "2"):
            assert shelf.back(tmp_path / "back", name).read_bytes() == shelf.path(name).read_bytes()
        assert not (shelf.directory / "chunks").exists()


def test_two_hosts_that_keep_at_once_leave_a_whole_copy(postgres_url: str, tmp_path: Path) -> None:
    """Each reads the copy, makes a new one, and stores it only if nobody else did meanwhile."""
    with open_store(postgres_url, tmp_path) as one, open_store(postgres_url, tmp_path) as two:
        one.add(Conversation(id="c", key="talk"), [])
        mine, theirs = Shelf(tmp_path, one), Shelf(tmp_path, two)
        mine.path().write_bytes(b"first\n")
        mine.keep()
        seen = mine.row()
        mine.path().write_bytes(b"first\nsecond\n")
        theirs.keep()
        assert not one.save_copy(seen, seen)
        mine.keep()
        assert mine.row().version == 3
        assert mine.back(tmp_path / "back").read_bytes() == b"first\nsecond\n"


def test_a_copy_that_another_host_renews_in_the_same_moment_is_not_dropped(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(postgres_url, tmp_path) as one, open_store(postgres_url, tmp_path) as two:
        one.add(Conversation(id="c", key="talk"), [])
        mine, theirs = Shelf(tmp_path, one), Shelf(tmp_path, two)
        for name in ("old", "older"):
            mine.path(name).write_bytes(b"first\n")
            mine.keep(name)
        one._db.run("UPDATE kept SET used_ms = used_ms - 7862400000")
        look = one._db.all

        def meanwhile(sql: str, **values: Any) -> Any:
            found = look(sql, **values)
            theirs.limits = Keep(days=1000)
            theirs.keep("old")
            return found

        monkeypatch.setattr(one._db, "all", meanwhile)
        now_ms = time.time_ns() // 1_000_000
        assert one.drop_oldest_copies(now_ms - 90 * 86_400_000, 0, now_ms - 86_400_000) == 1
        monkeypatch.undo()
        assert [row.native_id for row in one.session_copies()] == ["old"]


def test_a_host_whose_clock_is_ahead_takes_no_piece_from_another(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(postgres_url, tmp_path) as store:
        shelf, clock = Shelf(tmp_path, store), time.time_ns
        shelf.chunks.put("just-stored", b"x")
        monkeypatch.setattr(time, "time_ns", lambda: clock() + 86_400 * 10**9)
        keep.collect_garbage(store, shelf.chunks, shelf.directory)
        assert shelf.stored() == {"just-stored"}


def test_a_piece_that_the_database_lost_is_stored_again(postgres_url: str, tmp_path: Path) -> None:
    with open_store(postgres_url, tmp_path) as store:
        store.add(Conversation(id="c", key="talk"), [])
        shelf = Shelf(tmp_path, store)
        for harm in ("DELETE FROM kept_chunks", "UPDATE kept_chunks SET data = substring(data from 1 for 3)"):
            with shelf.path().open("ab") as file:
                file.write(b"said\n")
            shelf.keep()
            store._db.run(harm)
            with shelf.path().open("ab") as file:
                file.write(b"more\n")
            shelf.keep()
            assert shelf.back(tmp_path / harm[:6]).read_bytes() == shelf.path().read_bytes()
