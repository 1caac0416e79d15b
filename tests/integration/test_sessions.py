"""``segue sessions`` on the rehearsal agent: found, read, gone on with, checked, repaired, pruned."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.integration.conftest import Program
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
        while b"it does not restore" not in (line := process.stdout.readline()):
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
    assert (ran.code, "has messages of its own" in ran.stderr) == (2, True)
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
    assert segue("sessions", "check", session).stdout.count("somebody went on with it since a left it") == 1
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
    assert old in shown.stdout
    assert kept not in shown.stdout
    assert OTHER not in shown.stdout
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


def test_what_others_made_goes_only_by_number(segue: Program) -> None:
    copy = foreign(segue, said(segue, "a", "one"), OTHER)
    _age(segue)
    refused = segue("sessions", "prune", "--all-sessions", "--yes")
    assert (refused.code, copy.exists()) == (2, True)
    assert OTHER in refused.stderr
    assert "--confirm 1" in refused.stderr
    assert segue("sessions", "prune", "--all-sessions", "--yes", "--confirm", "1").code == 0
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
