"""The rehearsal agent's session files, made by hand: where they end, how they are cut. Also damaged."""

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.agents.base import CutRequest, SessionFormat, StoredSession
from segue.agents.rehearsal.adapter import AGENT
from segue.agents.rehearsal.format import FORMAT
from segue.core.request import Request, Start
from segue.core.view import UNREADABLE


def facts(stored: StoredSession | None) -> tuple[Path, int, str | None]:
    assert stored is not None
    return stored.path, stored.size, FORMAT.end(stored)


RUNTIME = AGENT.runtime(AGENT.facts.builtin, ())
HEADER = {"type": "session", "id": "old", "cwd": "/work", "model": "rehearsal-1", "created_ms": 1}


def message(number: int, kind: str, role: str, text: str = "words") -> Any:
    return {"type": "message", "id": f"m{number}", "kind": kind, "role": role, "text": text}


def prompt(number: int) -> Any:
    return message(number, "text", "user")


def answer(number: int) -> Any:
    return message(number, "text", "assistant")


def call(number: int) -> Any:
    return message(number, "call", "assistant")


def result(number: int) -> Any:
    return message(number, "result", "user")


TWO_TURNS = (HEADER, prompt(1), answer(2), prompt(3), call(4), result(5), answer(6))


class Home:
    """A home with one session in it."""

    def __init__(self, root: Path) -> None:
        self.home = root
        self.path = root / "sessions" / "old.jsonl"
        self.path.parent.mkdir()

    def write(self, *lines: Any) -> None:
        data = [line if isinstance(line, bytes) else msgspec.json.encode(line) + b"\n" for line in lines]
        self.path.write_bytes(b"".join(data))

    def look(self, session: str = "old") -> StoredSession | None:
        return FORMAT.find(self.home, session, Path("/work"))

    @property
    def found(self) -> StoredSession:
        found = self.look()
        assert found is not None
        return found

    def cut(self, anchor: str) -> Start | None:
        request = Request(prompt="", cwd=Path("/work"))
        found = StoredSession(id=self.path.stem, home=self.home, file=str(self.path), size=0, changed_ns=0)
        return FORMAT.cut(
            found, CutRequest(anchor=anchor, new_id="new", home=self.home, request=request, runtime=RUNTIME)
        )


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_the_adapter_has_the_format() -> None:
    sessions: SessionFormat | None = AGENT.format
    assert sessions is FORMAT


@pytest.mark.parametrize(
    ("later", "end"),
    [
        ((), "m6"),
        ((prompt(7),), "m7"),
        ((prompt(7), call(8)), "m8"),
        ((b'{"type":"message","id":"torn',), "m6"),
        ((msgspec.json.encode(prompt(7)),), "m6"),
        ((b"garbage\n",), None),
        ((b"\xff\n",), None),
        ((b"garbage\n", prompt(7)), "m7"),
        (({**prompt(7), "text": "x" * 1_000_000},), "m7"),
    ],
)
def test_the_end_is_the_last_message_that_is_whole(home: Home, later: Any, end: str | None) -> None:
    home.write(*TWO_TURNS, *later)
    assert facts(home.found) == (home.path, home.path.stat().st_size, end)


def test_files_without_an_end(home: Home) -> None:
    assert home.look() is None
    for lines in ((), (HEADER,), (b"torn",), (b"\x00" * 100_000,)):
        home.write(*lines)
        assert facts(home.found) == (home.path, home.path.stat().st_size, None)
        assert not FORMAT.continues(home.found, "m1")
        assert home.cut("m1") is None


@pytest.mark.parametrize("session", ["", "..", "../old", "-old", "old/../old"])
def test_what_is_no_id_is_not_looked_for(home: Home, session: str) -> None:
    home.write(*TWO_TURNS)
    assert home.look(session) is None


def test_only_the_end_of_a_huge_file_is_read(home: Home) -> None:
    """It is nearly all a hole; to read it would take minutes."""
    home.write(*TWO_TURNS)
    ending = b"\n" + home.path.read_bytes()
    with home.path.open("wb") as file:
        file.seek(50_000_000_000)
        file.write(ending)
    began = time.monotonic()
    assert FORMAT.end(home.found) == "m6"
    assert time.monotonic() - began < 5


def test_at_an_answer_the_agent_cuts_by_itself(home: Home) -> None:
    home.write(*TWO_TURNS)
    assert home.cut("m2") == Start("branch", "old", "m2", "new")
    assert home.cut("m6") == Start("branch", "old", "m6", "new")
    assert list(home.path.parent.iterdir()) == [home.path]


@pytest.mark.parametrize("anchor", ["m9", "", "m", "old"])
def test_an_anchor_that_is_not_there(home: Home, anchor: str) -> None:
    home.write(*TWO_TURNS)
    assert home.cut(anchor) is None
    assert list(home.path.parent.iterdir()) == [home.path]


@pytest.mark.parametrize(("anchor", "kept"), [("m3", 4), ("m4", 5), ("m5", 6)])
def test_where_a_turn_was_interrupted_the_session_is_copied(home: Home, anchor: str, kept: int) -> None:
    home.write(*TWO_TURNS)
    whole = home.path.read_bytes()
    assert home.cut(anchor) == Start("resume", "new")
    copy = home.path.with_name("new.jsonl")
    header, *lines = copy.read_bytes().splitlines()
    assert msgspec.json.decode(header) == {**HEADER, "id": "new", "parent": "old", "at": anchor}
    assert lines == whole.splitlines()[1:kept]
    assert copy.stat().st_mode & 0o777 == 0o600
    assert (home.path.read_bytes(), len(list(home.path.parent.iterdir()))) == (whole, 2)


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ((), True),
        ((prompt(3),), True),
        ((prompt(3), call(4), result(5), answer(6)), True),
        ((prompt(3), answer(4), prompt(5), answer(6)), False),
        ((answer(3), prompt(4)), False),
    ],
)
def test_whether_the_newest_turn_came_behind_the_anchor(home: Home, later: Any, expected: bool) -> None:
    home.write(HEADER, prompt(1), answer(2), *later)
    assert FORMAT.continues(home.found, "m2") is expected
    assert not FORMAT.continues(home.found, "m77")


def test_nothing_is_mended(home: Home) -> None:
    home.write(*TWO_TURNS, b'{"torn')
    before = home.path.read_bytes()
    FORMAT.make_resumable(home.found, RUNTIME)
    assert home.path.read_bytes() == before


def test_a_login_is_known_by_its_account(home: Home) -> None:
    path = home.home / "login.json"
    assert FORMAT.login(home.home, {}) is None
    seen = set()
    for name in ("ann", "bob"):
        path.write_bytes(msgspec.json.encode({"account": name}))
        found = FORMAT.login(home.home, {})
        assert found is not None
        assert name not in found
        seen.add(found)
    assert {len(found) for found in seen} == {16}
    assert len(seen) == 2


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b"\xff", b'{"account":7}'])
def test_an_unknown_login(home: Home, data: bytes) -> None:
    (home.home / "login.json").write_bytes(data)
    assert FORMAT.login(home.home, {}) == (UNREADABLE if data in (b"", b"{", b"\xff") else None)


def test_a_login_that_is_just_being_written_is_read_again(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = home.home / "login.json"
    path.write_bytes(b'{"acc')
    monkeypatch.setattr(time, "sleep", lambda _: path.write_bytes(b'{"account":"ann"}'))
    assert FORMAT.login(home.home, {}) is not None
