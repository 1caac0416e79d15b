"""Codex's rollouts on small files made by hand: ends, anchors, cuts and what is mended; damaged ones too."""

import stat
import threading
import time
import uuid
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from segue.agents import decoding
from segue.agents.base import CutRequest, Ended, StoredSession
from segue.agents.codex import rollouts
from segue.agents.codex import trace as rollout
from segue.agents.codex.adapter import AGENT
from segue.agents.codex.format import FORMAT
from segue.core.errors import Misuse
from segue.core.outcome import Exit
from segue.core.request import Request, Start
from segue.core.stream import TurnState
from segue.core.usage import Usage
from segue.core.view import UNREADABLE


def facts(stored: StoredSession | None) -> tuple[Path, int, str | None]:
    assert stored is not None
    return stored.path, stored.size, FORMAT.end(stored)


ONE = "01a1e0cb-9715-7cb1-a5f1-99ffe42ffa2c"
TWO = "01a1e0d0-7b2c-7750-9ce3-f5afa0e5cdcc"
MINE = "5b0c7c1e-3c6b-4d0e-9a63-1f2f7f6b9d10"
RUNTIME = AGENT.runtime(("/usr/bin/codex",), ["codex-cli 0.166.0\n", "  resume  Resume a session\n"])
HERE = Path("/home/me/project")


def line(kind: str, number: int | None = None, **payload: Any) -> bytes:
    ordinal = {} if number is None else {"ordinal": number}
    record = {"timestamp": "2026-01-02T03:04:05.678Z", **ordinal, "type": kind, "payload": payload}
    return msgspec.json.encode(record) + b"\n"


def head(thread: str, **more: Any) -> bytes:
    return line("session_meta", more.pop("number", None), session_id=thread, id=thread, **more)


def event(kind: str, number: int | None = None, **payload: Any) -> bytes:
    return line("event_msg", number, type=kind, **payload)


def turn(name: str, thread: str = ONE, number: int | None = None, **started: Any) -> bytes:
    """What one turn leaves: a question, its answer, and the marks around them."""
    numbers = [None] * 4 if number is None else list(range(number, number + 4))
    return (
        event("task_started", numbers[0], turn_id=name, **started)
        + line("response_item", numbers[1], type="message", role="user", content=f"question {name}")
        + line("response_item", numbers[2], type="message", role="assistant", content=f"answer {name}")
        + event("task_complete", numbers[3], turn_id=name, thread_id=thread)
    )


def put(home: Path, text: bytes, thread: str = ONE, suffix: str = ".jsonl", day: str = "02") -> Path:
    path = home / f"sessions/2026/01/{day}/rollout-2026-01-{day}T03-04-05-{thread}{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    return path


def look(home: Path, thread: str = ONE) -> StoredSession:
    found = FORMAT.find(home, thread, HERE)
    assert found is not None
    return found


def end(home: Path, thread: str = ONE) -> str:
    anchor = FORMAT.end(look(home, thread))
    assert anchor is not None
    return anchor


def anchors_of(home: Path, *parts: bytes) -> list[str]:
    """The anchor after each part, as the file grew."""
    text, found = b"", []
    for part in parts:
        text += part
        put(home, text)
        found.append(end(home))
    return found


def cut(home: Path, anchor: str, thread: str = ONE, found: StoredSession | None = None) -> Path | None:
    request = Request(prompt="x", cwd=HERE)
    start = FORMAT.cut(
        found or look(home, thread),
        CutRequest(anchor=anchor, new_id=MINE, home=home, request=request, runtime=RUNTIME),
    )
    if start is None:
        assert rollouts.find(home, MINE) is None
        return None
    assert start == Start("resume", MINE)
    return rollouts.find(home, MINE)


# --- where it ends ---------------------------------------------------------------------------------


def test_the_end_moves_with_what_is_said(tmp_path: Path) -> None:
    found = anchors_of(tmp_path, head(ONE), turn("t1"), turn("t2"))
    assert len(set(found)) == 3
    assert all(len(anchor) <= 200 for anchor in found)
    assert end(tmp_path) == found[-1]


@pytest.mark.parametrize(
    "added",
    [
        event("thread_settings_applied", thread_id=ONE),
        event("thread_settings_applied") * 3 + event("thread_name_updated"),
        b"garbage\n",
        b'{"timestamp":"2026-01-02T03:04:0',
        b"\n\n",
        b"\0" * 5_000,
        b'["a list"]\n{"type":5}\n\xff\xfe\n',
        b"[" * 100_000 + b"\n",
    ],
    ids=[
        "opened",
        "opened and named",
        "garbage",
        "half a line",
        "empty lines",
        "zeros",
        "no records",
        "deep",
    ],
)
def test_the_end_stays_when_nobody_has_spoken(tmp_path: Path, added: bytes) -> None:
    text = head(ONE) + turn("t1")
    (before,) = anchors_of(tmp_path, text)
    put(tmp_path, text + added)
    assert end(tmp_path) == before
    assert look(tmp_path).size == len(text + added)


@pytest.mark.parametrize(
    "added",
    [
        line("response_item", type="message", role="user", content="refused"),
        line("compacted", message="a summary"),
        event("thread_rolled_back", num_turns=1),
        line("a_kind_of_tomorrow"),
        line("event_msg", type=5),
        b'{"type":"event_msg","payload":[1]}\n',
    ],
    ids=["a prompt", "a compaction", "taken back", "unknown", "odd", "odder"],
)
def test_anything_else_moves_it(tmp_path: Path, added: bytes) -> None:
    before, after = anchors_of(tmp_path, head(ONE) + turn("t1"), added)
    assert before != after


def test_a_last_line_without_a_line_break_counts_if_it_is_whole(tmp_path: Path) -> None:
    text = head(ONE) + turn("t1")
    (before,) = anchors_of(tmp_path, text)
    put(tmp_path, text[:-1])
    assert end(tmp_path) == before
    put(tmp_path, text[:-2])
    assert end(tmp_path) != before


@pytest.mark.parametrize(
    "text", [b"", b"\n", b"garbage", b"\0\0\0"], ids=["empty", "blank", "garbage", "zeros"]
)
def test_what_holds_no_record_has_no_end(tmp_path: Path, text: bytes) -> None:
    path = put(tmp_path, text)
    assert facts(look(tmp_path)) == (path, len(text), None)
    assert cut(tmp_path, f"{len(text)}:{'0' * 16}:t1") is None


def test_what_is_not_there_is_not_found(tmp_path: Path) -> None:
    assert FORMAT.find(tmp_path, ONE, HERE) is None
    assert FORMAT.find(tmp_path, "../*", HERE) is None
    put(tmp_path, head(ONE)).unlink()
    folder = tmp_path / "sessions/2026/01/02" / f"rollout-2026-01-02T03-04-05-{ONE}.jsonl"
    folder.mkdir()
    assert FORMAT.find(tmp_path, ONE, HERE) is None
    found = StoredSession(id=ONE, home=tmp_path, file=str(folder), size=0, changed_ns=0)
    assert FORMAT.end(found) is None
    assert cut(tmp_path, "5:0000000000000000:t1", found=found) is None
    FORMAT.make_resumable(found, RUNTIME)
    assert not FORMAT.continues(found, "5:0000000000000000:t1")


def test_a_large_rollout_is_read_at_its_end_only(tmp_path: Path) -> None:
    text = head(ONE) + turn("t1")
    (before,) = anchors_of(tmp_path, text)
    path = put(tmp_path, text)
    with path.open("r+b") as file:
        file.seek(10_000_000_000)
        file.write(b"\n" + turn("t2"))
    began = time.monotonic()
    found = look(tmp_path)
    assert time.monotonic() - began < 5
    assert FORMAT.end(found) not in (None, before)


def test_a_line_of_megabytes_is_a_line(tmp_path: Path) -> None:
    long = line("response_item", type="function_call_output", output="x" * 9_000_000)
    first, _, last = anchors_of(tmp_path, head(ONE) + turn("t1"), long, turn("t2"))
    assert look(tmp_path).size == len(head(ONE) + turn("t1") + long + turn("t2"))
    path = cut(tmp_path, last)
    assert path is not None
    assert long in path.read_bytes()
    assert end(tmp_path, MINE) == last != first


@pytest.mark.parametrize("order", [1, -1])
def test_a_plain_rollout_counts_before_a_packed_one(tmp_path: Path, order: int) -> None:
    for suffix in (".jsonl", ".jsonl.zst", ".jsonl.tmp")[::order]:
        put(tmp_path, head(ONE), suffix=suffix)
    found = rollouts.find(tmp_path, ONE)
    assert found is not None
    assert found.suffix == ".jsonl"
    found.unlink()
    packed = rollouts.find(tmp_path, ONE)
    assert packed is not None
    assert packed.suffix == ".zst"


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("day", ["02", "03"], ids=["the same second", "later"])
def test_a_thread_taken_back_goes_on_in_its_newest_file(tmp_path: Path, day: str, order: int) -> None:
    for suffix, when in ((".jsonl", "02"), (f"_{TWO}.jsonl", day))[::order]:
        put(tmp_path, head(ONE), suffix=suffix, day=when)
    found = rollouts.find(tmp_path, ONE)
    assert found is not None
    assert found.name.endswith(f"{ONE}_{TWO}.jsonl")
    assert rollouts.find(tmp_path, TWO) is None


# --- cutting ---------------------------------------------------------------------------------------


def test_a_cut_is_the_lines_up_to_its_anchor_under_the_new_id(tmp_path: Path) -> None:
    parts = (head(ONE, history_mode="paginated", number=0), turn("t1", number=1), turn("t2", number=5))
    found = anchors_of(tmp_path, *parts)
    original = look(tmp_path).path.read_bytes()
    path = cut(tmp_path, found[1])
    assert path is not None
    kept = parts[0] + parts[1]
    session = f'"session_id":"{ONE}"'.encode()
    assert path.read_bytes() == kept.replace(ONE.encode(), MINE.encode()).replace(
        session.replace(ONE.encode(), MINE.encode()), session
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert look(tmp_path).path.read_bytes() == original
    assert [child.name for child in path.parent.iterdir()] == [path.name]
    now = time.strftime("%Y/%m/%d")
    assert path.parent == tmp_path / "sessions" / now
    assert path.name.startswith(f"rollout-{now.replace('/', '-')}T")


def test_only_ids_are_renamed_never_what_was_said(tmp_path: Path) -> None:
    said = line("response_item", type="message", content=f'my "id":"{ONE}" is {ONE}', text=ONE)
    ids = event("item_completed", thread_id=ONE, threadId=ONE, turn_id="t1", forked_from_id=TWO)
    (anchor,) = anchors_of(tmp_path, head(ONE) + said + ids)
    path = cut(tmp_path, anchor)
    assert path is not None
    first, second, third = path.read_bytes().splitlines(keepends=True)
    assert first == line("session_meta", session_id=ONE, id=MINE)
    assert second == said
    assert third == event("item_completed", thread_id=MINE, threadId=MINE, turn_id="t1", forked_from_id=TWO)


def test_anchors_hold_while_a_session_grows_and_in_its_branches(tmp_path: Path) -> None:
    found = anchors_of(tmp_path, head(ONE), turn("t1"), turn("t2"), turn("t3"))
    assert cut(tmp_path, found[2]) is not None
    assert end(tmp_path, MINE) == found[2]
    again = FORMAT.cut(
        look(tmp_path, MINE),
        CutRequest(
            anchor=found[1], new_id=TWO, home=tmp_path, request=Request(prompt="x", cwd=HERE), runtime=RUNTIME
        ),
    )
    assert again == Start("resume", TWO)
    assert end(tmp_path, TWO) == found[1]
    assert b"answer t2" not in look(tmp_path, TWO).path.read_bytes()


@pytest.mark.parametrize(
    "anchor",
    [
        "",
        "x",
        "12",
        "0:0000000000000000",
        "999999999999999:0000000000000000",
        "9999999999999999999999:0000000000000000:t1",
        "-5:0000000000000000",
        "40:0000000000000000:t9",
        "40:0000000000000000:../t1",
    ],
)
def test_an_anchor_that_is_not_there_is_not_cut_at(tmp_path: Path, anchor: str) -> None:
    anchors_of(tmp_path, head(ONE) + turn("t1"))
    assert cut(tmp_path, anchor) is None
    assert not FORMAT.continues(look(tmp_path), anchor)


def test_a_file_that_was_written_anew_is_not_cut_in_the_wrong_place(tmp_path: Path) -> None:
    """The end of a turn is found by the turn; the end of one that was broken off is not found."""
    broken_off = line("response_item", type="function_call_output", output="hi")
    first, second, third = anchors_of(tmp_path, head(ONE) + turn("t1"), broken_off, turn("t3"))
    put(tmp_path, head(ONE, added="by a new version") + turn("t1") + broken_off + turn("t3"))
    assert cut(tmp_path, second) is None
    path = cut(tmp_path, first)
    assert path is not None
    assert path.read_bytes().endswith(turn("t1", MINE))
    path.unlink()
    assert end(tmp_path) != third
    assert cut(tmp_path, third) is not None


def test_a_line_that_went_on_behind_the_anchor_is_not_cut(tmp_path: Path) -> None:
    text = (head(ONE) + line("response_item", content="x"))[:-1]
    (anchor,) = anchors_of(tmp_path, text)
    put(tmp_path, text + turn("t2"))
    assert cut(tmp_path, anchor) is None
    put(tmp_path, text + b"\n" + turn("t2"))
    assert cut(tmp_path, anchor) is not None


def test_lines_an_old_version_added_without_numbers_end_the_numbering(tmp_path: Path) -> None:
    paged = head(ONE, history_mode="paginated", number=0)
    numbered, plain = anchors_of(tmp_path, paged + turn("t1", number=1), turn("t2"))
    for anchor, mode in ((numbered, b'"history_mode":"paginated"'), (plain, b'"history_mode":"legacy"')):
        path = cut(tmp_path, anchor)
        assert path is not None
        assert mode in path.read_bytes()
        assert end(tmp_path, MINE) == anchor
        path.unlink()
    FORMAT.make_resumable(look(tmp_path), RUNTIME)
    first = look(tmp_path).path.read_bytes().splitlines()[0]
    assert msgspec.json.decode(first)["payload"]["history_mode"] == "legacy"
    assert end(tmp_path) == plain
    assert cut(tmp_path, numbered) is not None


def base(thread: str, place: int) -> dict[str, Any]:
    return {"thread_id": thread, "end_ordinal_exclusive": 5, "end_byte_offset": place}


def test_a_fork_is_cut_in_itself_or_in_what_it_comes_from(tmp_path: Path) -> None:
    parent = head(ONE) + turn("t1")
    inherited, later = anchors_of(tmp_path, parent, turn("t2"))
    put(tmp_path, head(TWO, history_base=base(ONE, len(parent))) + turn("t3", TWO), thread=TWO)
    own = end(tmp_path, TWO)
    path = cut(tmp_path, own, TWO)
    assert path is not None
    assert (
        msgspec.json.decode(path.read_bytes().splitlines()[0])["payload"]["history_base"]["thread_id"] == ONE
    )
    path.unlink()
    path = cut(tmp_path, inherited, TWO)
    assert path is not None
    assert path.read_bytes().splitlines()[0] == line("session_meta", session_id=ONE, id=MINE).strip()
    path.unlink()
    assert cut(tmp_path, later, TWO) is None


def test_a_session_taken_back_is_cut_in_the_file_it_came_from(tmp_path: Path) -> None:
    """Both files are of one thread; the new one goes on from the old one, whose id is the thread's."""
    old = head(ONE) + turn("t1")
    kept, dropped = anchors_of(tmp_path, old, turn("t2"))
    text = head(ONE, history_base=base(ONE, len(old))) + turn("t3")
    put(tmp_path, text, suffix=f"_{TWO}.jsonl", day="03")
    own = end(tmp_path)
    assert own != dropped
    assert cut(tmp_path, dropped) is None
    path = cut(tmp_path, own)
    assert path is not None
    payload = msgspec.json.decode(path.read_bytes().splitlines()[0])["payload"]
    assert (payload["id"], payload["history_base"]["thread_id"]) == (MINE, ONE)
    path.unlink()
    assert cut(tmp_path, kept) is not None


@pytest.mark.parametrize(
    "odd", [{"thread_id": "*", "end_byte_offset": 1}, {"thread_id": TWO}, base(TWO, 5), base(ONE, 5), "x"]
)
def test_an_odd_origin_ends_the_search(tmp_path: Path, odd: Any) -> None:
    anchors_of(tmp_path, head(ONE, history_base=odd) + turn("t1"))
    assert cut(tmp_path, "5:0000000000000000:t9") is None


def test_a_cut_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (anchor,) = anchors_of(tmp_path, head(ONE) + turn("t1"))

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("segue.agents.codex.rollouts.os.fsync", full)
    assert cut(tmp_path, anchor) is None
    assert [path for path in tmp_path.rglob("*") if MINE in path.name] == []


def test_an_id_that_is_none_is_refused(tmp_path: Path) -> None:
    (anchor,) = anchors_of(tmp_path, head(ONE) + turn("t1"))
    with pytest.raises(Misuse):
        FORMAT.cut(
            look(tmp_path),
            CutRequest(
                anchor=anchor,
                new_id="../x",
                home=tmp_path,
                request=Request(prompt="x", cwd=HERE),
                runtime=RUNTIME,
            ),
        )


# --- packed ----------------------------------------------------------------------------------------


def test_a_packed_rollout_is_read_cut_and_unpacked(tmp_path: Path) -> None:
    text = head(ONE) + turn("t1") + turn("t2")
    first, last = anchors_of(tmp_path, head(ONE) + turn("t1"), turn("t2"))
    plain = look(tmp_path).path
    plain.unlink()
    frames = zstandard.compress(text[:100]) + zstandard.compress(text[100:])
    packed = put(tmp_path, frames, suffix=".jsonl.zst")
    assert facts(look(tmp_path)) == (packed, len(text), last)
    path = cut(tmp_path, first)
    assert path is not None
    assert (path.suffix, end(tmp_path, MINE)) == (".jsonl", first)
    assert packed.exists()
    FORMAT.make_resumable(look(tmp_path), RUNTIME)
    assert (plain.read_bytes(), packed.exists()) == (text, False)


@pytest.mark.parametrize("text", [b"", b"x", b"x" * 99, zstandard.compress(head(ONE) * 2_000)[:-9]])
def test_a_broken_packed_rollout_stays_as_it_is(tmp_path: Path, text: bytes) -> None:
    packed = put(tmp_path, text, suffix=".jsonl.zst")
    found = look(tmp_path)
    assert found.path == packed
    assert cut(tmp_path, "5:0000000000000000:t1") is None
    FORMAT.make_resumable(found, RUNTIME)
    assert packed.read_bytes() == text
    assert [path.name for path in packed.parent.iterdir()] == [packed.name]


def test_what_is_packed_too_large_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollouts, "UNPACKED_BYTES", 1_000_000)
    packed = put(tmp_path, zstandard.compress(b"\n" * 3_000_000), suffix=".jsonl.zst")
    assert facts(look(tmp_path)) == (packed, packed.stat().st_size, None)
    FORMAT.make_resumable(look(tmp_path), RUNTIME)
    assert [path.name for path in packed.parent.iterdir()] == [packed.name]


# --- going on --------------------------------------------------------------------------------------


def test_one_turn_after_the_anchor_continues_it(tmp_path: Path) -> None:
    first, second, third = anchors_of(tmp_path, head(ONE) + turn("t1"), turn("t2"), turn("t3"))
    found = look(tmp_path)
    assert FORMAT.continues(found, second)
    assert not FORMAT.continues(found, third)
    assert not FORMAT.continues(found, first)


def test_what_codex_began_out_of_a_turn_belongs_to_it(tmp_path: Path) -> None:
    anchor, _ = anchors_of(
        tmp_path, head(ONE) + turn("t1"), turn("t2") + turn("t3", root_turn_id="t2") + b"garbage\n"
    )
    assert FORMAT.continues(look(tmp_path), anchor)


def test_a_turn_that_is_only_spoken_of_is_none(tmp_path: Path) -> None:
    anchor, _ = anchors_of(
        tmp_path, head(ONE) + turn("t1"), line("response_item", content='"task_started"', type="task_started")
    )
    assert not FORMAT.continues(look(tmp_path), anchor)


# --- mending ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        (b"", b""),
        (head(ONE) + b"half", head(ONE) + b"half\n"),
        (head(ONE)[:-1], head(ONE)),
        (b"garbage", b"garbage\n"),
    ],
)
def test_a_line_that_was_not_finished_is_ended(tmp_path: Path, text: bytes, mended: bytes) -> None:
    path = put(tmp_path, text)
    FORMAT.make_resumable(look(tmp_path), RUNTIME)
    assert path.read_bytes() == mended


@pytest.mark.parametrize(
    "text",
    [
        head(ONE) + turn("t1"),
        head(ONE, history_mode="paginated", number=0) + turn("t1", number=1),
        head(ONE, history_mode="paginated", number=0) + turn("t1", number=1) + b"garbage\n",
        head(ONE, history_mode="legacy") + turn("t1"),
        head(ONE, note='"history_mode":"paginated"') + turn("t1"),
    ],
)
def test_what_is_well_stays_as_it_is(tmp_path: Path, text: bytes) -> None:
    path = put(tmp_path, text)
    before = path.stat().st_mtime_ns
    FORMAT.make_resumable(look(tmp_path), RUNTIME)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (text, before)


# --- the totals a turn starts from -----------------------------------------------------------------


def test_a_version_that_counts_only_its_own_turns_does_not_change_the_base(tmp_path: Path) -> None:
    """The first turn was an old version's: the new one's own records know nothing of it."""

    def count(total: int, seconds: int) -> bytes:
        record = {
            "timestamp": f"2026-01-02T03:04:{seconds:02d}.000Z",
            "type": "event_msg",
            "payload": {"type": "token_count", "info": {"total_token_usage": {"input_tokens": total}}},
        }
        return msgspec.json.encode(record) + b"\n"

    own: dict[str, Any] = {f"{scope}_token_usage": {"input_tokens": 30} for scope in ("turn", "thread")}
    path = put(tmp_path, head(ONE) + count(100, 1) + line("token_usage_record", **own) + count(130, 6))
    trace = rollout.trace(path, 1_767_323_043_000)
    assert trace is not None
    assert (trace.before, trace.total) == (Usage(100, 0, 0, 0), Usage(130, 0, 0, 0))


@pytest.mark.parametrize(("year", "compacted"), [(2025, True), (2027, False)], ids=["in it", "before it"])
def test_a_compaction_of_this_turn_is_told(tmp_path: Path, year: int, compacted: bool) -> None:
    path = put(tmp_path, head(ONE) + line("compacted", message="a summary") + turn("t1"))
    trace = rollout.trace(path, (year - 1970) * 31_557_600_000)
    request = Request(prompt="x", cwd=HERE)
    ended = Ended(
        request=request, runtime=RUNTIME, reading=TurnState(), exit=Exit(0), evidence={"trace": trace}
    )
    assert AGENT.conclude(ended).compacted is compacted


# --- who is logged in ------------------------------------------------------------------------------


def test_a_login_is_a_hash_of_the_account(tmp_path: Path) -> None:
    account = str(uuid.uuid4())
    auth = {"tokens": {"account_id": account, "access_token": "made up"}, "last_refresh": "2026-01-02"}
    (tmp_path / "auth.json").write_bytes(msgspec.json.encode(auth))
    first = FORMAT.login(tmp_path, {})
    assert first == sha256(account.encode()).hexdigest()[:16]
    auth["last_refresh"] = "2026-01-03"
    (tmp_path / "auth.json").write_bytes(msgspec.json.encode(auth))
    assert FORMAT.login(tmp_path, {}) == first


@pytest.mark.parametrize(
    "text", [None, b"", b"{", b"[]", b"{}", b'{"tokens":null}', b'{"tokens":{"account_id":null}}', b"\xff"]
)
def test_a_login_that_is_not_there_is_unknown(tmp_path: Path, text: bytes | None) -> None:
    if text is not None:
        (tmp_path / "auth.json").write_bytes(text)
    assert FORMAT.login(tmp_path, {}) == (UNREADABLE if text in (b"", b"{", b"\xff") else None)


def test_a_login_in_mid_rewrite_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "auth.json"
    path.write_bytes(b'{"tokens":')
    monkeypatch.setattr(decoding, "REREAD_S", 1.0)
    whole = b'{"tokens":{"account_id":"made-up"}}'
    writer = threading.Timer(0.2, path.write_bytes, (whole,))
    writer.start()
    assert FORMAT.login(tmp_path, {}) == sha256(b"made-up").hexdigest()[:16]
    writer.join()
