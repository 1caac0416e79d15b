"""``segue run --attach``: files go with a message, are kept with it, and are sent again where needed."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from segue import Attachment, Misuse, SyncSegue
from tests.images import png
from tests.integration.conftest import Program
from tests.integration.talk import OTHER, Talk, rehearsing, replayed, resumed


@pytest.fixture
def talk(segue: Program) -> Talk:
    for number in (1, 2):
        (segue.cwd / f"{number}.png").write_bytes(png(number))
    return rehearsing(segue, OTHER)


def arrived(number: int) -> str:
    """What the rehearsal agent keeps of an image that it was given."""
    return f"[file {number}.png: image/png, 99 bytes, {sha256(png(number)).hexdigest()}]"


def test_a_file_is_sent_once_and_again_when_the_session_is_not_continued(talk: Talk) -> None:
    first = talk.run("look", "--attach", "1.png")
    assert first.prompt == f"look\n{arrived(1)}"
    second = talk.run("and this", "-a", "2.png")
    resumed(second, arrived(1))
    assert second.prompt == f"and this\n{arrived(2)}"
    third = talk.run("compare", "--fresh-session")
    replayed(third, "look", "and this", arrived(1), arrived(2), "attached: 2.png, file 2 of")
    assert not list(talk.segue.home.glob("runs/*/attachments"))


def test_an_agent_that_takes_none_is_refused_or_told_in_words(talk: Talk) -> None:
    refused = talk.segue("run", "t", "look", "--agent", "other", "--attach", "1.png")
    line = "segue: other does not take 1.png (image/png), nor any other attachment; agents that do: "
    assert (refused.code, refused.stderr.startswith(line)) == (2, True), refused.stderr
    assert "there is no conversation t" in talk.segue("log", "t").stderr
    talk.run("look", "--attach", "1.png")
    other = talk.run("what did I show?", "--agent", "other")
    words = "attachment 1.png, 99 bytes, was not sent again: other does not take image/png"
    assert other.prompt.count(words) == 1
    assert words in other.turn["notices"]


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("gone.png", None, "No such file"),
        ("empty.png", b"", "is empty"),
        ("large.bin", b"x" * (10 * 1024 * 1024 + 1), "at most 10.5 MB"),
        ("program", b"\x7fELF\0", "does not take program (application/octet-stream)"),
    ],
)
def test_what_cannot_be_attached_is_one_line(talk: Talk, name: str, data: bytes | None, words: str) -> None:
    if data is not None:
        (talk.segue.cwd / name).write_bytes(data)
    refused = talk.segue("run", "t", "look", "--attach", name)
    assert (refused.code, len(refused.stderr.splitlines())) == (2, 1)
    assert words in refused.stderr


def test_a_pipe_and_too_many_are_refused(talk: Talk) -> None:
    os.mkfifo(talk.segue.cwd / "pipe")
    assert "it is not a regular file" in talk.segue("run", "t", "look", "--attach", "pipe").stderr
    many = talk.segue("run", "t", "look", *(["--attach", "1.png"] * 9))
    assert (many.code, "at most 8 attachments, not 9" in many.stderr) == (2, True)
    assert "--attach" in talk.segue("run", "t", "look", "--attach", "").stderr


def test_the_same_text_is_a_retry_only_with_the_same_files(talk: Talk) -> None:
    failed = talk.run("[[error 429]]", "--attach", "1.png", code=75)
    again = talk.run("[[error 429]]", "--attach", "1.png", code=75)
    assert (again.turn["retry_of"], again.turn["message"]) == (failed.turn["run"], failed.turn["message"])
    without = talk.run("[[error 429]]", code=75)
    assert without.turn["retry_of"] is None
    other = talk.run("[[error 429]]", "--attach", "2.png", code=75)
    assert other.turn["retry_of"] is None
    assert [len(row["attachments"]) for row in talk.log()] == [1, 0, 1]


def test_retry_edit_and_fork_keep_them(talk: Talk) -> None:
    first = talk.run("look", "--attach", "1.png")
    assert talk.retry().prompt.count(arrived(1)) == 1
    talk("edit", "#1", "look closely")
    edited = talk.run("now?")
    replayed(edited, "look closely", arrived(1))
    talk("fork", "copy")
    forked = Talk(talk.segue, "copy").run("and here?", "--fresh-session")
    replayed(forked, "look closely", arrived(1))
    refused = talk.segue("retry", "t", first.turn["message"], "--cut", "--agent", "other")
    assert (refused.code, "does not take 1.png" in refused.stderr) == (2, True)


def test_export_import_and_rm(talk: Talk) -> None:
    talk.run("look", "--attach", "1.png")
    assert "Attached: 1.png (99 bytes)" in talk("export").stdout
    exported = talk("export", "--json").stdout
    taken = talk.segue("import", "-", "--key", "copy", stdin=exported.encode())
    assert taken.code == 0, taken.stderr
    copy = Talk(talk.segue, "copy")
    assert copy.log()[0]["attachments"] == talk.log()[0]["attachments"]
    replayed(copy.run("what was it?"), "look", arrived(1))
    forged = msgspec.json.decode(exported)
    forged["messages"][0]["attachments"][0] |= {"name": "../../up.png", "id": "0" * 64}
    talk.segue("import", "-", "--key", "forged", stdin=msgspec.json.encode(forged))
    (shown,) = Talk(talk.segue, "forged").log()[0]["attachments"]
    assert (shown["name"], shown["id"]) == ("up.png", sha256(png(1)).hexdigest())
    talk.segue("rm", "t", "copy", "forged")
    with closing(sqlite3.connect(talk.segue.home / "segue.db")) as file:
        assert file.execute("SELECT count(*) FROM attachment_data").fetchone() == (0,)


def test_the_library_takes_paths_and_bytes(talk: Talk) -> None:
    with SyncSegue(home=talk.segue.home, env=talk.segue.env, cwd=talk.segue.cwd) as door:
        turn = door.run("t", "look", attachments=[Path("1.png"), Attachment("../2.png", png(2))])
        assert turn.failure is None
        shown = door.log("t")[0].attachments
        assert [(each.name, each.media_type, each.bytes) for each in shown] == [
            ("1.png", "image/png", 99),
            ("2.png", "image/png", 99),
        ]
        assert door.conversations.attachment("t", shown[1].id).data == png(2)
        with pytest.raises(Misuse, match="takes a list"):
            door.run("t", "look", attachments="1.png")
        with pytest.raises(Misuse, match="its own attachments"):
            door.retry("t", attachments=["1.png"])
