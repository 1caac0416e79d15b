"""``segue sessions`` on the rehearsal agent: found, read, gone on with, checked, repaired, pruned."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from segue.app.workspace import open_workspace
from segue.core.model import Voice
from segue.sessions.catalog import SessionCatalog
from segue.sessions.idle_homes import IdleHome, idle_homes
from segue.sessions.prune import Prunable, Pruned, Rules, prunable, prune, wanted
from segue.store.forks import Adoption
from segue.store.records import AttemptRow
from segue.store.store import Store
from tests.integration.conftest import Program
from tests.integration.store.talking import Talk, pin_to, session_row
from tests.integration.talk import AGENT


def ls(segue: Program, *options: str) -> list[dict[str, Any]]:
    ran = segue("sessions", "ls", "--json", *options)
    assert ran.code == 0, ran.stderr
    rows: list[dict[str, Any]] = msgspec.json.decode(ran.stdout)
    return rows


def said(segue: Program, key: str, *texts: str) -> str:
    """A conversation; the id of its session."""
    for text in texts:
        ran = segue("run", key, text, "--agent", "rehearsal", "--json")
        assert ran.code == 0, ran.stderr
    return str(ran.turn["session_id"])


def file_of(segue: Program, session: str) -> Path:
    (row,) = [row for row in ls(segue, "--all") if row["id"] == session]
    return Path(row["path"])


def foreign(segue: Program, session: str, new: str) -> Path:
    """The same session as somebody else might have made it: Segue knows nothing of it."""
    old = file_of(segue, session)
    copy = old.with_name(f"{new}.jsonl")
    copy.write_text(old.read_text().replace(session, new))
    return copy


OTHER = "abcdef12-1111-4222-8333-444455556666"


def test_a_list_has_what_is_here_newest_first_and_says_whose_it_is(segue: Program, tmp_path: Path) -> None:
    first, second = said(segue, "a", "alpha words"), said(segue, "b", "beta words", "more words")
    rows = ls(segue)
    assert [row["id"] for row in rows] == [second, first]
    assert (rows[0]["title"], rows[0]["title_by"], rows[0]["last_prompt"]) == (
        "beta words",
        "prompt",
        "more words",
    )
    assert (rows[0]["conversation"], rows[0]["pinned"], rows[0]["ours"]) == ("b", True, True)
    assert (rows[0]["messages"], rows[0]["messages_estimated"]) == (4, False)
    assert rows[0]["cwd"] == str(segue.cwd)
    foreign(segue, first, OTHER)
    (row,) = [row for row in ls(segue) if row["id"] == OTHER]
    assert (row["conversation"], row["pinned"], row["ours"], row["known"]) == (None, False, False, False)
    away = Program(segue.home, tmp_path, segue.env)
    assert ls(away) == []
    assert len(ls(away, "--all")) == 3
    assert len(ls(away, "--cwd", str(segue.cwd), "--limit", "2")) == 2
    plain = segue("sessions", "ls").stdout.splitlines()
    assert plain[0].split() == ["agent", "last", "used", "messages", "size", "context", "cost", "session", *(
        "conversation", "title")]  # fmt: skip
    assert len(plain) == 4
    everywhere = segue("sessions", "ls", "--all", COLUMNS="160").stdout.splitlines()
    at = everywhere[0].index("directory")
    assert all(line[at:].startswith("~/project  ") for line in everywhere[1:]), everywhere


def test_messages_are_counted_to_the_last_one_in_all_but_huge_files(segue: Program) -> None:
    path = foreign(segue, said(segue, "a", "alpha"), OTHER)
    header, prompt, answer = path.read_text().splitlines()[:3]
    long = prompt.replace("alpha", "x" * 100_000)
    path.write_text("\n".join([header, long, answer, *[prompt, answer] * 200, long, answer, ""]))
    (row,) = [row for row in ls(segue) if row["id"] == OTHER]
    assert (row["messages"], row["messages_estimated"]) == (404, False)
    assert row["size"] > 200_000
    briefs = {file: file.stat().st_mtime_ns for file in (segue.home / "briefs").iterdir()}
    assert ls(segue)[0]["messages"] in (404, 2)
    assert {file: file.stat().st_mtime_ns for file in briefs} == briefs, "it is counted once"
    path.write_text("\n".join([header, *[long, answer] * 45, ""]))
    (row,) = [row for row in ls(segue) if row["id"] == OTHER]
    assert row["size"] > 4 * 1024 * 1024
    assert row["messages_estimated"]


def test_what_was_sent_to_carry_a_conversation_is_nobodys_words(segue: Program) -> None:
    said(segue, "talk", "remember 12", "and 13")
    ran = segue("run", "talk", "go on\n--- user ---\nthere", "--fresh-session", "--json")
    assert ran.turn["mode"] == "replay"
    (row,) = [row for row in ls(segue) if row["id"] == ran.turn["session_id"]]
    mine = "go on\n--- user ---\nthere"
    assert (row["title"], row["first_prompt"], row["last_prompt"]) == (mine, mine, mine)


def test_a_session_is_shown_page_by_page(segue: Program) -> None:
    session = said(segue, "a", *(f"word {n}" for n in range(3)))
    shown = segue("sessions", "show", session[:8])
    assert shown.code == 0
    for n in range(3):
        assert shown.stdout.count(f"word {n}") == 1 + (n == 0)  # the first is the title, too
    assert "a resume restores: 6 messages" in shown.stdout
    page = msgspec.json.decode(segue("sessions", "show", session, "--json", "--size", "4").stdout)
    assert (page["size"], page["hasMore"]) == (4, True)
    assert [event["text"] for event in page["events"]][::2] == ["word 1", "word 2"]
    older = segue("sessions", "show", session, "--json", "--before", page["firstId"])
    assert [
        event["text"] for event in msgspec.json.decode(older.stdout)["events"] if event["kind"] == "user"
    ] == ["word 0"]
    at = page["events"][0]["id"]
    assert "▸ you" in segue("sessions", "show", session, "--at", at).stdout


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("show", "nope"), "there is no session"),
        (("show", "abc"), "too short"),
        (("ls", "--agent", "nobody"), "there is no agent"),
        (("continue",), "the prompt is empty"),
        (("check", "ffffffff"), "there is no session"),
        (("prune", "--days", "-1"), "days"),
        *(
            ((("prune", option, what), f"{what} is not a finite number"))
            for option in ("--days", "--larger-than")
            for what in ("inf", "nan")
        ),
        *(((("prune", option, "1e308"), "1e308 is too large")) for option in ("--days", "--larger-than")),
        (("continue", "4f50c2d1"), '"4f50c2d1" was read as a session id'),
        (("lsss",), "did you mean ls?"),
    ],
)
def test_misuse_is_one_line_and_exit_2(segue: Program, args: tuple[str, ...], words: str) -> None:
    ran = segue("sessions", *args)
    assert ran.code == 2, ran.stderr
    assert ran.stderr.count("\n") == 1
    assert words in ran.stderr


def test_a_session_that_is_written_is_followed(segue: Program) -> None:
    session = said(segue, "a", "before")
    process = segue.start("sessions", "show", session, "--follow")
    try:
        assert process.stdout is not None
        while b"Understood" not in (line := process.stdout.readline()):
            assert line
        said(segue, "a", "while you look")
        seen = b""
        until = time.monotonic() + 30
        while b"while you look" not in seen and time.monotonic() < until:
            seen += process.stdout.readline()
        assert b"while you look" in seen
        assert b"before" not in seen
    finally:
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(20) == 130
        process.communicate()


def test_somebody_elses_session_becomes_a_conversation_and_is_resumed(segue: Program) -> None:
    foreign(segue, said(segue, "a", "remember number 456"), OTHER)
    ran = segue("run", "mine", "what number?", "--adopt", OTHER[:8], "--json")
    assert ran.code == 0, ran.stderr
    assert (ran.turn["mode"], ran.turn["text"], ran.turn["session_id"]) == ("resume", "456", OTHER)
    assert ran.turn["sent"]["native_messages"] == 2
    log = msgspec.json.decode(segue("log", "mine", "--json").stdout)
    assert [row["text"] for row in log][::2] == ["remember number 456", "what number?"]
    assert segue("run", "mine", "again", "--json").turn["mode"] == "resume"


def test_the_newest_session_of_the_directory_is_gone_on_with(segue: Program) -> None:
    copy = foreign(segue, said(segue, "a", "remember number 456"), OTHER)
    os.utime(copy)
    data = copy.read_text().replace('"time_ms":1', '"time_ms":2')
    copy.write_text(data)
    ran = segue("sessions", "continue", "what number?", "--json")
    assert ran.code == 0, ran.stderr
    assert (ran.turn["conversation"], ran.turn["text"]) == ("rehearsal-abcdef12", "456")
    again = segue("sessions", "continue", OTHER, "and now?", "--json")
    assert (again.turn["conversation"], again.turn["mode"]) == ("rehearsal-abcdef12", "resume")


def test_a_session_that_has_a_conversation_goes_on_there_and_is_not_taken_twice(segue: Program) -> None:
    session = said(segue, "a", "remember number 456")
    ran = segue("run", "b", "hi", "--adopt", session)
    assert (ran.code, "belongs to the conversation a" in ran.stderr) == (2, True)
    foreign(segue, session, OTHER)
    ran = segue("run", "a", "hi", "--adopt", OTHER)
    assert (ran.code, "has messages that the session does not hold" in ran.stderr) == (2, True)
    assert len(msgspec.json.decode(segue("log", "a", "--json").stdout)) == 2


def test_turns_that_somebody_else_made_are_taken_in(segue: Program) -> None:
    session = said(segue, "a", "remember number 456")
    subprocess.run(
        [*AGENT, "--input=text", f"--resume={session}"],
        input=b"remember number 789",
        cwd=segue.cwd,
        env=segue.env,
        check=True,
        capture_output=True,
        timeout=60,
    )
    assert segue("sessions", "check", session).stdout.count("it was continued outside of a:") == 1
    why = msgspec.json.decode(segue("why", "a", "--json").stdout)
    assert why["mode"] == "branch"
    ran = segue("run", "a", "what numbers?", "--adopt", session, "--json")
    assert (ran.turn["mode"], ran.turn["session_id"]) == ("resume", session)
    assert "789" in ran.turn["text"]
    texts = [row["text"] for row in msgspec.json.decode(segue("log", "a", "--json").stdout)]
    assert texts[::2] == ["remember number 456", "remember number 789", "what numbers?"]


def test_a_directory_that_is_gone_needs_another(segue: Program) -> None:
    foreign(segue, said(segue, "a", "remember number 456"), OTHER)
    shutil.rmtree(segue.cwd)
    segue.cwd.parent.joinpath("other").mkdir()
    there = Program(segue.home, segue.cwd.parent / "other", segue.env)
    ran = there("run", "mine", "what number?", "--adopt", OTHER)
    assert (ran.code, "--cwd" in ran.stderr) == (2, True)
    ran = there("run", "mine", "what number?", "--adopt", OTHER, "--cwd", ".", "--json")
    assert (ran.turn["mode"], ran.turn["text"]) == ("resume", "456")


def test_a_damaged_session_is_found_out_and_repaired_beside_it(segue: Program) -> None:
    session = said(segue, "a", "remember number 456", "[[shell echo hi]]")
    path = file_of(segue, session)
    with path.open("ab") as file:
        file.write(b'{"type":"message","id":"torn\n')
    before = path.read_bytes()
    checked = segue("sessions", "check", session, "--json")
    assert checked.code == 1
    found = {each["check"]: each["level"] for each in msgspec.json.decode(checked.stdout)["findings"]}
    assert found["parsable"] == "error"
    repaired = segue("sessions", "repair", session, "--json")
    assert repaired.code == 0, repaired.stderr
    told = msgspec.json.decode(repaired.stdout)
    assert path.read_bytes() == before
    assert segue("sessions", "check", told["session"]).code == 0
    assert told["conversation"] == "a"
    turn = segue("run", "a", "what number?", "--json").turn
    assert (turn["mode"], turn["text"], turn["session_id"]) == ("resume", "456", told["session"])


def test_what_nobody_needs_is_shown_and_deleted_only_when_told(segue: Program) -> None:
    old, kept = said(segue, "a", "one"), said(segue, "b", "two")
    assert segue("run", "a", "three", "--fresh-session").code == 0
    foreign(segue, old, OTHER)
    _age(segue)
    shown = segue("sessions", "prune")
    assert old[:8] in shown.stdout
    assert kept[:8] not in shown.stdout
    assert OTHER[:8] not in shown.stdout
    assert file_of(segue, old).exists()
    assert segue("sessions", "prune", "--keep-last", "5", "--json").stdout.count(old) == 0
    assert segue("sessions", "prune", "--agent", "claude", "--json").stdout.count(old) == 0
    ran = segue("sessions", "prune", "--yes", "--json")
    assert ran.code == 0, ran.stderr
    told = msgspec.json.decode(ran.stdout)
    assert ([row["id"] for row in told["sessions"]], told["deleted"]) == ([old], True)
    assert {row["id"] for row in ls(segue)} >= {kept, OTHER}
    assert old not in {row["id"] for row in ls(segue)}
    assert segue("run", "a", "four", "--json").turn["mode"] == "resume"


def test_what_others_made_goes_only_by_the_code_of_the_list(segue: Program) -> None:
    session = said(segue, "a", "one")
    copy = foreign(segue, session, OTHER)
    _age(segue)
    refused = segue("sessions", "prune", "--all-sessions", "--yes")
    assert (refused.code, copy.exists()) == (2, True)
    assert OTHER[:8] in refused.stderr
    code = refused.stderr.split("--confirm ")[1].strip()
    assert re.fullmatch(r"[0-9a-f]{8}", code)
    copy.unlink()
    another = foreign(segue, session, OTHER.replace("abcdef", "fedcba"))
    _age(segue)
    for wrong in (code, "1"):
        assert segue("sessions", "prune", "--all-sessions", "--yes", "--confirm", wrong).code == 2
    assert another.exists()
    foreign(segue, session, OTHER)
    another.unlink()
    _age(segue)
    assert segue("sessions", "prune", "--all-sessions", "--yes", "--confirm", code).code == 0
    assert not copy.exists()
    assert len(ls(segue)) == 1


def _age(segue: Program) -> None:
    """Everything was last used a month ago."""
    for row in ls(segue, "--all"):
        path = Path(row["path"])
        lines = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
        for line in lines:
            for name in ("time_ms", "created_ms"):
                if name in line:
                    line[name] -= 30 * 24 * 3_600_000
        path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        long_ago = time.time() - 30 * 24 * 3_600
        os.utime(path, (long_ago, long_ago))


def by_hand(segue: Program, session: str, text: str, *, well: bool = True) -> None:
    """Somebody goes on with the session without Segue."""
    subprocess.run(
        [*AGENT, "--input=text", f"--resume={session}"],
        input=text.encode(),
        cwd=segue.cwd,
        env=segue.env,
        check=well,
        capture_output=True,
        timeout=60,
    )


def texts_of(segue: Program, key: str) -> list[str]:
    return [row["text"] for row in msgspec.json.decode(segue("log", key, "--json").stdout)]


def test_equal_answers_do_not_hide_what_somebody_else_said(segue: Program) -> None:
    session = said(segue, "a", "[[say OK]]")
    by_hand(segue, session, "remember number 789 [[say OK]]")
    ran = segue("run", "a", "what number?", "--adopt", session, "--json")
    assert (ran.turn["mode"], ran.turn["text"]) == ("resume", "789")
    assert texts_of(segue, "a")[2:4] == ["remember number 789 [[say OK]]", "OK"]


def test_a_prompt_of_ours_that_failed_and_stayed_behind_is_not_taken_in_twice(segue: Program) -> None:
    session = said(segue, "a", "remember number 456")
    assert segue("run", "a", "a prompt [[error 429]]").code == 75
    by_hand(segue, session, "remember number 789")
    ran = segue("run", "a", "what numbers?", "--adopt", session, "--json")
    assert ran.code == 0, ran.stderr
    assert texts_of(segue, "a").count("a prompt [[error 429]]") == 1
    assert texts_of(segue, "a").count("remember number 789") == 1


def test_what_only_ends_like_a_message_of_ours_is_somebody_elses(segue: Program) -> None:
    session = said(segue, "a", "remember number 456")
    by_hand(segue, session, "remember number 789 and say [[error 429]]", well=False)
    assert segue("run", "a", "say [[error 429]]").code == 75
    ran = segue("run", "a", "what numbers?", "--adopt", session, "--json")
    assert ran.code == 0, ran.stderr
    assert texts_of(segue, "a").count("remember number 789 and say [[error 429]]") == 1
    assert "789" in ran.turn["text"]


def test_of_a_prompt_that_was_composed_the_users_own_words_are_taken_in(segue: Program) -> None:
    said(segue, "a", "remember number 456")
    words = "mine:\n--- user ---\nwhat number?"
    turn = segue("run", "a", words, "--role", "reviewer", "--json").turn
    assert (turn["mode"], turn["sent"]["text_messages"]) == ("replay", 3)
    foreign(segue, turn["session_id"], OTHER)
    assert segue("run", "mine", "thanks", "--adopt", OTHER).code == 0
    assert texts_of(segue, "mine")[:3] == [words, turn["text"], "thanks"]


def test_a_copy_with_more_than_the_conversation_is_not_handed_over(segue: Program) -> None:
    session = said(segue, "a", "remember number 456")
    sound = msgspec.json.decode(segue("sessions", "repair", session, "--json").stdout)
    assert (sound["session"], sound["done"]) == (session, [])
    by_hand(segue, session, "remember number 789")
    with file_of(segue, session).open("ab") as file:
        file.write(b'{"torn\n')
    told = msgspec.json.decode(segue("sessions", "repair", session, "--json").stdout)
    assert told["conversation"] is None
    assert "that the conversation does not" in told["stays"]
    turn = segue("run", "a", "what numbers?", "--json").turn
    assert turn["text"] == "456"


def test_going_on_with_a_pinned_session_takes_in_what_was_done_by_hand(segue: Program) -> None:
    session = said(segue, "a", "remember number 456")
    by_hand(segue, session, "remember number 789")
    ran = segue("sessions", "continue", session, "what numbers?", "--json")
    assert (ran.turn["conversation"], ran.turn["mode"]) == ("a", "resume")
    assert "789" in ran.turn["text"]
    refused = segue("sessions", "continue", session, "hi", "--key", "other")
    assert (refused.code, "belongs to the conversation a" in refused.stderr) == (2, True)


def test_stdin_is_left_alone_where_that_is_asked_for(segue: Program) -> None:
    session = said(segue, "a", "hi")
    ran = segue("sessions", "continue", session, "remember number 7", "--no-stdin", stdin=b"next line")
    assert ran.code == 0, ran.stderr
    assert texts_of(segue, "a")[-2:] == ["remember number 7", "Noted: 7."]


def test_a_mistyped_id_is_not_sent_as_a_prompt(segue: Program) -> None:
    said(segue, "a", "hi")
    ran = segue("sessions", "continue", "4f50c2g1")
    assert (ran.code, len(texts_of(segue, "a"))) == (2, 2)


def test_a_session_that_is_too_large_is_not_taken_in(segue: Program) -> None:
    copy = foreign(segue, said(segue, "a", "remember number 456"), OTHER)
    with copy.open("ab") as file:
        line = b'{"type":"message","id":"x","kind":"text","role":"user","text":"%s"}\n' % (b"x" * 1_000_000)
        for _ in range(2):
            file.write(line)
    ran = segue("run", "mine", "hi", "--adopt", OTHER, SEGUE_CONTINUITY_MAX_SESSION_MB="1")
    assert (ran.code, "segue sessions repair abcdef12 --trim" in ran.stderr) == (2, True)


def test_a_name_that_is_not_utf8_is_listed_all_the_same(segue: Program) -> None:
    home = segue.cwd.parent / "claude"
    folder = os.fsencode(home / "projects") + b"/\xff-x"
    os.makedirs(folder)
    record = b'{"type":"user","uuid":"u","message":{"role":"user","content":"hello there"}}\n'
    with open(folder + b"/11112222-3333-4444-8555-666677778888.jsonl", "wb") as file:
        file.write(record)
    ran = segue("sessions", "ls", "--all", "--json", CLAUDE_CONFIG_DIR=str(home))
    assert ran.code == 0, ran.stderr
    assert msgspec.json.decode(ran.stdout)[0]["title"] == "hello there"
    found = segue("sessions", "search", "hello", "--json", CLAUDE_CONFIG_DIR=str(home))
    assert found.code == 0, found.stderr


# --- what is looked at once more before it is deleted ----------------------------------------------

MONTH_S = 30 * 24 * 3_600


@contextmanager
def looking(segue: Program) -> Iterator[tuple[SessionCatalog, Store]]:
    with open_workspace(segue.env, segue.cwd) as workspace:
        yield SessionCatalog(segue.env, workspace.store, segue.cwd), workspace.store


def old_foreign(segue: Program) -> Path:
    copy = foreign(segue, said(segue, "a", "one"), OTHER)
    _age(segue)
    return copy


def of_other(shelf: SessionCatalog, store: Store) -> Prunable:
    found = prunable(shelf, store, Rules(all_sessions=True), None)
    (one,) = [each for each in found if each.session.id == OTHER]
    return one


def delete(shelf: SessionCatalog, store: Store, chosen: list[Prunable], homes: list[IdleHome]) -> Pruned:
    return anyio.run(prune, shelf, store, chosen, homes, shelf.home.locks)


def pin_elsewhere(store: Store, home: str = "/h") -> None:
    """Another host's conversation would go on with it."""
    talk = Talk(store)
    talk.say("before", "answer")
    session = session_row(talk.id, agent="rehearsal", native_id=OTHER, home=home, how="adopt")
    store.adopt(talk.id, Adoption(said=[], session=session, pin=pin_to(session), held=[]), 2000)


def test_a_session_that_was_taken_in_is_not_ours_for_being_forked(segue: Program) -> None:
    foreign(segue, said(segue, "a", "remember number 456"), OTHER)
    assert segue("run", "mine", "what number?", "--adopt", OTHER).code == 0
    assert segue("fork", "mine", "again").code == 0
    with looking(segue) as (shelf, _):
        known = shelf.known("rehearsal", OTHER)
        assert (known.pinned, known.ours) == (True, False)


def test_a_session_is_as_old_as_its_file_where_that_is_younger(segue: Program) -> None:
    copy = old_foreign(segue)
    yesterday = time.time() - 24 * 3_600
    with looking(segue) as (shelf, store):
        assert of_other(shelf, store).verdict.goes
        os.utime(copy, (yesterday, yesterday))
        assert of_other(shelf, store).verdict.why.text == "used 1 day ago"


def test_another_hosts_pin_counts_for_a_session_that_is_here(segue: Program) -> None:
    old_foreign(segue)
    with looking(segue) as (_, store):
        pin_elsewhere(store)
    with looking(segue) as (shelf, store):
        assert of_other(shelf, store).verdict.why.text == "pinned by talk"
        assert not shelf.known("rehearsal", OTHER).ours


def test_a_session_that_was_pinned_since_stays(segue: Program) -> None:
    copy = old_foreign(segue)
    with looking(segue) as (shelf, store):
        one = of_other(shelf, store)
        pin_elsewhere(store)
        done = delete(shelf, store, [one], [])
    assert (done.kept, done.deleted, done.failed) == (((one, "pinned by talk"),), (), ())
    assert copy.exists()


def test_a_session_in_which_a_turn_is_at_work_is_running(segue: Program) -> None:
    copy = old_foreign(segue)
    with looking(segue) as (shelf, store):
        before = of_other(shelf, store)
        _, row = Talk(store).receive("hi", Voice("rehearsal"))
        attempt = {"id": "one", "turn": row.id, "seq": 1, "mode": "fresh", "run_dir": "/r", "started_ms": 1}
        store.attempting(msgspec.convert(attempt | {"new_id": OTHER}, AttemptRow))
        assert before.verdict.goes
        assert of_other(shelf, store).verdict.why.text == "running"
        assert [why for _, why in delete(shelf, store, [before], []).kept] == ["running"]
    assert copy.exists()


def test_a_name_in_the_midst_of_a_long_session_keeps_it(segue: Program) -> None:
    lines = [
        {"type": "user", "uuid": f"{n:032}", "message": {"role": "user", "content": "word " * 200}}
        for n in range(400)
    ]
    lines.insert(200, {"type": "custom-title", "customTitle": "mine", "sessionId": OTHER})
    path = Path(segue.env["HOME"], ".claude", "projects", "here", f"{OTHER}.jsonl")
    path.parent.mkdir(parents=True)
    long_ago = time.time() - MONTH_S
    for named in (True, False):
        path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        os.utime(path, (long_ago, long_ago))
        with looking(segue) as (shelf, store):
            one = of_other(shelf, store)
            assert one.verdict.goes
            done = delete(shelf, store, [one], [])
        assert [why for _, why in done.kept] == ["named by the user"] * named
        assert path.exists() is named
        del lines[200]


class TestHomes:
    """Private homes of runs that are over."""

    @pytest.fixture
    def home(self, segue: Program) -> Path:
        home = segue.home / "runners" / "rehearsal-default" / "0"
        (home / "logs").mkdir(parents=True)
        (home / "logs" / "gone").symlink_to("nowhere")
        self.age(home)
        return home

    def age(self, home: Path) -> None:
        long_ago = time.time() - MONTH_S
        for path in (*home.rglob("*"), home):
            os.utime(path, (long_ago, long_ago), follow_symlinks=False)

    def put(self, segue: Program, home: Path) -> Path:
        """A session of somebody else's in it, and nowhere else."""
        copy = old_foreign(segue)
        (home / "sessions").mkdir()
        moved = copy.rename(home / "sessions" / copy.name)
        self.age(home)
        return moved

    def idle(self, shelf: SessionCatalog, store: Store, *chosen: Prunable) -> list[IdleHome]:
        return idle_homes(shelf.home.runners, 7, wanted(shelf, store, chosen))

    def test_one_that_nobody_uses_goes(self, segue: Program, home: Path) -> None:
        with looking(segue) as (shelf, store):
            idle = self.idle(shelf, store)
            assert [each.home for each in idle] == [home]
            assert delete(shelf, store, [], idle).homes == (home,)
        assert not home.exists()

    @pytest.mark.parametrize("meanwhile", ["used", "taken", "pinned", "no lock"])
    def test_one_that_is_used_meanwhile_stays(self, segue: Program, home: Path, meanwhile: str) -> None:
        lock = home.with_name("0.lock")
        with looking(segue) as (shelf, store), ExitStack() as held:
            idle = self.idle(shelf, store)
            if meanwhile == "used":
                (home / "logs" / "new").write_text("x")
            elif meanwhile == "taken":
                file = held.enter_context(lock.open("w"))
                fcntl.flock(file, fcntl.LOCK_EX)
            elif meanwhile == "pinned":
                pin_elsewhere(store, str(home))
            else:
                lock.unlink()
                lock.mkdir()
            assert delete(shelf, store, [], idle).homes == ()
        assert home.is_dir()

    def test_the_home_of_a_pin_is_never_idle(self, segue: Program, home: Path) -> None:
        with looking(segue) as (shelf, store):
            pin_elsewhere(store, str(home))
            assert self.idle(shelf, store) == []

    def test_one_with_a_session_that_stays_stays(self, segue: Program, home: Path) -> None:
        session = self.put(segue, home)
        with looking(segue) as (shelf, store):
            assert self.idle(shelf, store) == []
            one = of_other(shelf, store)
            idle = self.idle(shelf, store, one)
            assert [each.home for each in idle] == [home]
            pin_elsewhere(store)
            assert delete(shelf, store, [one], idle).homes == ()
        assert session.exists()

    def test_one_whose_last_session_goes_goes_too(self, segue: Program, home: Path) -> None:
        self.put(segue, home)
        with looking(segue) as (shelf, store):
            one = of_other(shelf, store)
            assert delete(shelf, store, [one], self.idle(shelf, store, one)).homes == (home,)
        assert not home.exists()

    def test_an_older_copy_keeps_its_home(self, segue: Program, home: Path) -> None:
        shutil.copytree(home, home.with_name("1"), symlinks=True)
        session = self.put(segue, home)
        copy = home.with_name("1") / "sessions" / session.name
        copy.parent.mkdir()
        shutil.copy(session, copy)
        self.age(copy.parents[1])
        os.utime(copy, (1, 1))
        with looking(segue) as (shelf, store):
            one = of_other(shelf, store)
            assert one.session.stored.path == session
            assert [each.home for each in self.idle(shelf, store, one)] == [home]
