"""Codex's sessions read, repaired and removed where the real CLI left them, and what it makes of that."""

import json
import re
import shutil
import signal
import sqlite3
import subprocess
import threading
import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.agents.base import RepairOptions, StoredSession
from segue.agents.codex.adapter import REHEARSED_MODEL
from segue.agents.codex.archive import ARCHIVE
from segue.agents.codex.format import FORMAT
from segue.agents.repair_words import INTERRUPTED
from segue.core import events as ev
from segue.core.errors import InUse, Misuse
from segue.core.request import Start
from segue.core.transcript import Entry
from tests.live.harness import Bench, Ran, live
from tests.live.wire import carried, last_prompt, said

NEW, OLD = "0.166.0", "0.104.0"
FIXTURES = Path(__file__).parents[1] / "fixtures" / "sessions"
ONE, TWO = "remember number 111 [[think hm]] [[say done-1]]", "[[shell echo tool-ran]] [[say done-2]]"


def stored(bench: Bench, session: str | None) -> StoredSession:
    found = FORMAT.find(bench.home, session or "")
    assert found is not None
    return found


def talk(bench: Bench) -> str:
    session = bench.attempt(ONE, permission="full").outcome.session_id
    assert session is not None
    bench.resume(session, TWO, permission="full")
    return session


def entries(bench: Bench, session: str | None) -> list[Entry]:
    return [entry for record in ARCHIVE.read(stored(bench, session)) for entry in record.entries]


def spoken(found: list[Entry]) -> list[tuple[str, str]]:
    return [(e.kind, e.text) for e in found if e.kind in ("user", "assistant") and not e.inserted]


def tools(ran: Ran) -> tuple[int, int]:
    kinds = [item.get("type") for item in (ran.requests[-1].body or {})["input"]]
    return kinds.count("function_call"), kinds.count("function_call_output")


def serve(bench: Bench, *calls: tuple[str, dict[str, Any]]) -> None:
    """What an editor asks of Codex, one call after the other."""
    asked = [("initialize", {"clientInfo": {"name": "test", "version": "1"}}), *calls]
    with subprocess.Popen(
        [*bench.runtime.command, "app-server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=bench.env,
        cwd=bench.cwd,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        limit = threading.Timer(30, server.kill)
        limit.start()
        for number, (method, params) in enumerate(asked):
            server.stdin.write(
                msgspec.json.encode({"id": number, "method": method, "params": params}) + b"\n"
            )
            server.stdin.flush()
            answers = (msgspec.json.decode(line) for line in server.stdout)
            answer = next(answer for answer in answers if answer.get("id") == number)
            assert "error" not in answer, answer
        server.stdin.close()
        server.wait(20)
        limit.cancel()


# --- reading ---------------------------------------------------------------------------------------


@live("codex")
def test_what_was_said_is_read(bench: Bench) -> None:
    (bench.cwd / "AGENTS.md").write_text("Be brief.\n")
    session = talk(bench)
    serve(
        bench,
        ("thread/resume", {"threadId": session}),
        ("thread/name/set", {"threadId": session, "name": "My talk"}),
    )
    ran = bench.resume(session, "third [[say done-3]]", permission="full")
    found = entries(bench, session)
    assert spoken(found) == [
        *(("user", ONE), ("assistant", "done-1"), ("user", TWO), ("assistant", "done-2")),
        *(("user", "third [[say done-3]]"), ("assistant", "done-3")),
    ]
    call, result = (next(entry for entry in found if entry.kind == kind) for kind in ("call", "result"))
    assert (call.tool, call.input["cmd"], call.call) == ("exec_command", "echo tool-ran", result.call)
    assert "tool-ran" in result.text
    assert [entry.text for entry in found if entry.kind == "thinking"] == ["hm"]
    assert any("Be brief." in entry.text and entry.inserted for entry in found)
    brief = ARCHIVE.brief(stored(bench, session))
    assert (brief.cwd, brief.title, brief.title_by) == (str(bench.cwd), "My talk", "user")
    assert (brief.first_prompt, brief.last_prompt, brief.messages) == (ONE, "third [[say done-3]]", 6)
    assert (brief.version, brief.model) == (bench.version, REHEARSED_MODEL)
    assert (brief.context, brief.window) == (last_prompt(ran), ran.outcome.context.window)
    assert brief.trouble is None
    keep(bench, "talk", session)


@live("codex")
def test_a_compaction_is_a_boundary_and_its_summary_no_message(bench: Bench) -> None:
    session = talk(bench)
    bench.resume(session, "much " + "x" * 6_000 + " [[say done-3]]")
    bench.resume(session, "after [[say done-4]]", native_args=("-c", "model_auto_compact_token_limit=9000"))
    found = entries(bench, session)
    (boundary,) = [entry for entry in found if entry.kind == "boundary"]
    assert "A rehearsal took place." in boundary.text
    assert [text for kind, text in spoken(found) if kind == "assistant"] == [
        f"done-{n}" for n in (1, 2, 3, 4)
    ]
    assert ARCHIVE.brief(stored(bench, session)).messages == 8
    keep(bench, "compacted", session)


@live("codex", NEW)
def test_a_fork_shows_what_it_goes_on_from(bench: Bench) -> None:
    session = talk(bench)
    forked = bench.attempt("forked [[say done-3]]", start=Start("fork", session)).outcome.session_id
    bench.resume(session, "elsewhere [[say done-4]]")
    assert [text for _, text in spoken(entries(bench, forked))] == [
        *(ONE, "done-1", TWO, "done-2", "forked [[say done-3]]", "done-3")
    ]
    found = stored(bench, forked)
    assert list(ARCHIVE.back(found)) == list(ARCHIVE.read(found))[::-1]
    assert ARCHIVE.brief(found).parent == session
    assert set(ARCHIVE.files(found)) == {found.path, stored(bench, session).path}
    keep(bench, "fork", session, forked)
    with pytest.raises(Misuse, match="continues this one"):
        ARCHIVE.remove(stored(bench, session))


@live("codex", NEW)
def test_an_archived_session_is_read_but_not_resumed(bench: Bench) -> None:
    """Neither is a fork of it hurt."""
    session = talk(bench)
    forked = bench.attempt("forked [[say done-3]]", start=Start("fork", session)).outcome.session_id
    archive = [*bench.runtime.command, "archive", session]
    subprocess.run(archive, env=bench.env, cwd=bench.cwd, capture_output=True, check=True, timeout=60)
    assert stored(bench, session).path.parent.name == "archived_sessions"
    assert ARCHIVE.brief(stored(bench, session)).messages == 4
    assert FORMAT.find(bench.home, session, bench.cwd) is None
    refused = bench.resume(session, "what number?").outcome.failure
    assert refused is not None
    assert "is archived" in refused.message
    assert [text for _, text in spoken(entries(bench, forked))][:2] == [ONE, "done-1"]
    assert bench.resume(forked, "what number?").outcome.text == "111"


# --- repairing -------------------------------------------------------------------------------------


def damage(path: Path) -> None:
    """Without the result of its call, torn in its middle, with a result of nothing at its end, unnumbered."""
    lines = path.read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if b'"payload":{"type":"function_call_output"' in line)
    stray = re.sub(rb'"ordinal":\d+,', b"", lines[at]).replace(b'"call_id":"call_', b'"call_id":"stray_')
    path.write_bytes(b"".join((*lines[:at], lines[at + 1][:60] + b"\n", *lines[at + 2 :], stray)))


@live("codex", NEW, OLD)
def test_a_damaged_session_resumes_once_it_is_repaired(bench: Bench) -> None:
    session = talk(bench)
    damage(stored(bench, session).path)
    before = stored(bench, session).path.read_bytes()
    mended = ARCHIVE.repair(stored(bench, session), str(uuid.uuid4()), RepairOptions())
    assert mended.done == (
        "1 damaged record was left out",
        "1 call without a result was closed",
        "1 result without a call was left out",
    )
    assert stored(bench, session).path.read_bytes() == before
    ran = bench.resume(mended.session, "what number? [[say done-3]]", permission="full")
    assert (ran.outcome.failure, ran.outcome.session_id) == (None, mended.session)
    assert (tools(ran), carried(ran, INTERRUPTED)) == ((1, 1), 1)
    assert [said(ran, f"done-{number}") for number in (1, 2)] == [1, 1]
    assert carried(ran, "remember number 111") == 1
    again = bench.resume(mended.session, "what number?", permission="full")
    assert (said(again, "done-3"), tools(again)) == (1, (1, 1))
    original = bench.resume(session, "what number?", permission="full")
    if bench.version == NEW:
        assert original.outcome.failure is not None
        assert original.outcome.failure.kind == "session_rejected"
    else:
        assert (carried(original, INTERRUPTED), carried(original, "aborted")) == (0, 1)


@live("codex")
def test_a_trimmed_session_and_a_later_part_resume(bench: Bench) -> None:
    session = talk(bench)
    bench.resume(session, "third [[say done-3]]", permission="full")
    found = stored(bench, session)
    trimmed = ARCHIVE.repair(found, str(uuid.uuid4()), RepairOptions(trim=True))
    assert trimmed.done == ("the output of 1 tool call was left out",)
    ran = bench.resume(trimmed.session, "what number?", permission="full")
    assert (ran.outcome.text, tools(ran)) == ("111", (1, 1))
    assert (carried(ran, "[The output of this tool call,"), carried(ran, "Process exited")) == (1, 0)
    third = next(entry.id for entry in entries(bench, session) if entry.text.startswith("third"))
    later = ARCHIVE.repair(found, str(uuid.uuid4()), RepairOptions(since=third))
    ran = bench.resume(later.session, "and now? [[say done-4]]", permission="full")
    assert ran.outcome.failure is None
    assert [said(ran, f"done-{number}") for number in (1, 2, 3)] == [0, 0, 1]
    assert (tools(ran), carried(ran, "remember number 111")) == ((0, 0), 0)
    assert carried(ran, "<environment_context>") >= 1


@live("codex")
def test_a_killed_turn_is_closed(bench: Bench) -> None:
    session = bench.attempt(ONE, permission="full").outcome.session_id

    def kill(event: ev.Event) -> None:
        if isinstance(event, ev.ToolCall):
            threading.Timer(0.5, bench.signal, (signal.SIGKILL,)).start()

    bench.resume(session, "sleepy [[shell sleep 20]] [[say never]]", permission="full", on_event=kill)
    keep(bench, "killed", session)
    mended = ARCHIVE.repair(stored(bench, session), str(uuid.uuid4()), RepairOptions())
    assert mended.done == ("1 call without a result was closed",)
    ran = bench.resume(mended.session, "[[say went on]]", permission="full")
    assert (tools(ran), carried(ran, INTERRUPTED), carried(ran, "aborted")) == ((1, 1), 1, 0)


@pytest.mark.soak
@live("codex", NEW)
def test_a_repaired_fork_stands_alone(bench: Bench) -> None:
    session = talk(bench)
    forked = bench.attempt("forked [[say done-3]]", start=Start("fork", session)).outcome.session_id
    mended = ARCHIVE.repair(stored(bench, forked), str(uuid.uuid4()), RepairOptions())
    for one in (forked, session):
        ARCHIVE.remove(stored(bench, one))
    ran = bench.resume(mended.session, "what number?")
    assert (ran.outcome.text, tools(ran)) == ("111", (1, 1))
    assert [said(ran, f"done-{number}") for number in (1, 2, 3)] == [1, 1, 1]


# --- removing --------------------------------------------------------------------------------------


def rows(home: Path, thread: str) -> int:
    """How many rows of all of Codex's databases speak of a thread."""
    count = 0
    for path in home.glob("*.sqlite"):
        database = sqlite3.connect(path)
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            count += sum(thread in map(str, row) for row in database.execute(f'SELECT * FROM "{table}"'))
        database.close()
    return count


@live("codex")
def test_a_removed_session_is_gone_and_the_others_resume(bench: Bench) -> None:
    gone, other = talk(bench), talk(bench)
    for session in (gone, other):
        serve(
            bench,
            ("thread/resume", {"threadId": session}),
            ("thread/name/set", {"threadId": session, "name": f"the talk {session}"}),
        )
    before = stored(bench, other).path.read_bytes(), rows(bench.home, other)
    assert (rows(bench.home, gone) > 0) == (bench.version == NEW)
    ARCHIVE.remove(stored(bench, gone))
    assert FORMAT.find(bench.home, gone) is None
    assert rows(bench.home, gone) == 0
    assert (stored(bench, other).path.read_bytes(), rows(bench.home, other)) == before
    assert gone not in (bench.home / "session_index.jsonl").read_text()
    assert other in (bench.home / "session_index.jsonl").read_text()
    refused = bench.resume(gone, "what number?").outcome
    assert refused.failure is not None
    assert refused.failure.kind == "session_rejected"
    assert bench.resume(other, "what number?").outcome.text == "111"


@live("codex", NEW)
def test_a_session_that_runs_is_not_removed(bench: Bench) -> None:
    session = talk(bench)
    raised: list[Exception] = []

    def try_it() -> None:
        try:
            ARCHIVE.remove(stored(bench, session))
        except InUse as error:
            raised.append(error)

    bench.when_asked("patience", try_it, after_s=0.2)
    ran = bench.resume(session, "patience [[slow 3]] [[say done-3]]")
    assert (ran.outcome.text, len(raised)) == ("done-3", 1)
    assert bench.resume(session, "what number?").outcome.text == "111"


# --- fixtures of the unit tier ---------------------------------------------------------------------


def keep(bench: Bench, name: str, *sessions: str | None) -> None:
    """The sessions as fixtures, with ``--record``: no paths of this machine, no long instructions."""
    if not bench.record:
        return
    target = FIXTURES / f"codex-{bench.version}" / name
    shutil.rmtree(target, ignore_errors=True)
    ends: dict[tuple[str, int], int] = {}
    for session in sessions:
        path = stored(bench, session).path
        place = target / path.relative_to(bench.home)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(scrubbed(bench, path, ends, str(session)))
    index = bench.home / "session_index.jsonl"
    if index.exists():
        (target / index.name).write_bytes(index.read_bytes())


def scrubbed(bench: Bench, path: Path, ends: dict[tuple[str, int], int], session: str) -> bytes:
    """``ends`` tells of each place in an original where it is now, for what goes on from there."""
    text, old = b"", 0
    for line in path.read_bytes().splitlines(keepends=True):
        old += len(line)
        record = json.loads(line)
        base = record["payload"].get("history_base")
        if base:
            base["end_byte_offset"] = ends[base["thread_id"], base["end_byte_offset"]]
        shortened = msgspec.json.encode(short(record)).decode()
        for real, shown in ((bench.cwd, "/home/me/project"), (bench.home, "/home/me/home")):
            shortened = shortened.replace(str(real), shown)
        text += shortened.encode() + b"\n"
        ends[session, old] = len(text)
    return text


def short(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: short(one) for key, one in value.items()}
    if isinstance(value, list):
        return [short(one) for one in value]
    return f"{value[:200]}…" if isinstance(value, str) and len(value) > 700 else value
