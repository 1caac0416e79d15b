"""``segue export`` and ``segue import``: what goes out comes in again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.integration.conftest import Program, Result
from tests.integration.talk import OTHER, Talk, rehearsing, replayed


@pytest.fixture
def talk(segue: Program) -> Talk:
    talk = rehearsing(segue, OTHER)
    talk.run("remember number 1 \u202e\x1b[31m ## not a heading")
    talk.run("what number?", "--agent", "other", "--role", "reviewer")
    talk("edit", "#3", "what number, please?")
    talk.run("[[error 401]]", code=1)
    return talk


def exported(talk: Talk) -> dict[str, Any]:
    export: dict[str, Any] = msgspec.json.decode(talk("export", "--json").stdout)
    return export


def taken_in(segue: Program, export: Any, *args: str) -> Result:
    return segue("import", "-", *args, stdin=msgspec.json.encode(export))


def test_a_round_trip_keeps_texts_voices_order_and_times(talk: Talk) -> None:
    ran = taken_in(talk.segue, exported(talk), "--key", "copy")
    assert (ran.code, ran.stdout) == (0, "copy\n")
    copy = Talk(talk.segue, "copy")
    fields = ("from", "text", "agent", "role", "account", "created", "blank")
    assert [[row[f] for f in fields] for row in copy.log()] == [
        [row[f] for f in fields] for row in talk.log()
    ]
    first, second = exported(talk), exported(copy)
    for one, two in zip(first["messages"], second["messages"], strict=True):
        assert [one[f] for f in (*fields, "under")] == [two[f] for f in (*fields, "under")]


def test_the_next_turn_sends_it_as_text(talk: Talk) -> None:
    taken_in(talk.segue, exported(talk), "--key", "copy")
    copy = Talk(talk.segue, "copy")
    after = copy.run("[[recall numbe., please]]")
    replayed(after, "remember number 1", "number, please")
    assert (after.turn["agent"], after.turn["role"]) == ("other", "reviewer"), "as it was last"
    assert after.text == "number, please"


def test_no_id_of_a_session_goes_out(talk: Talk) -> None:
    ids = [file.stem for file in talk.sessions.glob("*.jsonl")]
    out = talk("export").stdout + talk("export", "--json").stdout
    assert ids
    assert not [each for each in ids if each in out]
    marks = [line["session"] for line in exported(talk)["messages"] if line["session"]]
    assert marks
    assert all(len(mark) == 8 for mark in marks)


def test_markdown_is_for_reading(talk: Talk) -> None:
    lines = talk("export").stdout.splitlines()
    heads = [line for line in lines if line.startswith(("# ", "## #"))]
    assert heads == [
        "# t",
        "## #1 you → rehearsal",
        "## #2 rehearsal · fresh · < $0.001",
        "## #3 you → other (reviewer) · edited",
        "## #4 other (reviewer) · replay",
        "## #5 you → other (reviewer) · failed",
    ]


def test_an_account_comes_along(segue: Program) -> None:
    segue.config('[accounts.work]\nagent = "rehearsal"\n')
    talk = Talk(segue)
    talk.run("remember number 1", "--account", "work")
    taken_in(segue, exported(talk), "--key", "copy")
    after = Talk(segue, "copy").run("what number?")
    assert (after.mode, after.text, after.turn["account"]) == ("replay", "1", "work")


def test_a_key_that_is_taken_is_refused(talk: Talk) -> None:
    ran = taken_in(talk.segue, exported(talk))
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr == 'segue: a conversation "t" already exists; choose another key\n'


GOOD: dict[str, Any] = {"from": "user", "text": "hi", "agent": "rehearsal"}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not an export"),
        (b"not json", "not an export"),
        (b'{"schema": 1, "key": "k", "messages": [{"from": "user"', "not an export"),
        (b"\xff\xfe", "not an export"),
        (b"[" * 100_000, "not an export"),
        (b"[]", "not an export"),
        (b'{"schema": 2, "key": "k"}', "schema 2"),
        (b'{"schema": 1, "key": "k"}', "no messages"),
        (b'{"schema": 1, "key": "../k", "messages": [MESSAGE]}', "not a conversation key"),
        (b'{"schema": 1, "key": "k", "messages": [MESSAGE, {"from": "nobody"}]}', "not an export"),
        (b'{"schema": 1, "key": "k", "messages": [MESSAGE, EMPTY]}', "message 2 of this export has no text"),
        (b'{"schema": 1, "key": "k", "messages": [STRANGE]}', "message 1 of this export names the agent"),
        (b'{"schema": 1, "key": "k", "messages": [LATE]}', "which is not valid"),
    ],
)
def test_a_damaged_file_is_one_line(segue: Program, data: bytes, says: str) -> None:
    wrong: dict[bytes, dict[str, Any]] = {
        b"MESSAGE": {},
        b"EMPTY": {"text": "  "},
        b"STRANGE": {"agent": "--x"},
        b"LATE": {"created": 1 << 60},
    }
    for name, fields in wrong.items():
        data = data.replace(name, msgspec.json.encode(GOOD | fields))
    ran = segue("import", "-", stdin=data)
    assert (ran.code, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert says in ran.stderr
    assert segue("ls", "--json").stdout == "[]\n"


def test_what_an_editor_adds_does_no_harm(segue: Program) -> None:
    export = {"schema": 1, "key": "k", "messages": [GOOD], "some_later_field": True}
    file = segue.cwd / "k.json"
    file.write_bytes(b"\xef\xbb\xbf" + msgspec.json.encode(export) + b"\r\n")
    assert segue("import", "k.json").stdout == "k\n"
