"""Gemini's own sessions where they lie: read, repaired, removed, and what the real CLI makes of them then."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from segue.agents.base import RepairOptions, StoredSession
from segue.agents.gemini.archive import ARCHIVE
from segue.agents.gemini.format import FORMAT
from segue.core.transcript import Entry
from tests.live.harness import Bench, Ran, live
from tests.live.test_gemini import NEW, OLD, ask, bare, go_on, tool_traffic
from tests.live.test_gemini_sessions import CALL, RESULT, message, put, resume
from tests.live.wire import carried, last_prompt, said


def stored(bench: Bench, session: str | None) -> StoredSession:
    found = FORMAT.find(bench.home, session or "")
    assert found is not None
    return found


def entries(of: StoredSession) -> list[Entry]:
    return [entry for record in ARCHIVE.read(of) for entry in record.entries if not entry.again]


def days_ago(days: float) -> str:
    when = datetime.now(UTC) - timedelta(days=days)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def write(bench: Bench, messages: list[dict[str, Any]], days: float = 0) -> StoredSession:
    session, stamp = str(uuid.uuid4()), days_ago(days)
    put(bench, session, messages, startTime=stamp, lastUpdated=stamp)
    return stored(bench, session)


def each(ran: Ran, *texts: str) -> list[int]:
    return [carried(ran, text) for text in texts]


@live("gemini")
def test_what_is_read_is_what_was_said(bench: Bench) -> None:
    first = ask(bench, "ALPHA! [[think hm]][[say answer-1]]", permission="full")
    ran = go_on(bench, first, "BETA! [[shell echo tool-2]][[say answer-2]]", permission="full")
    (found,) = ARCHIVE.stored(bench.home)
    assert (found.id, found) == (ran.outcome.session_id, stored(bench, found.id))
    told = ARCHIVE.brief(found)
    assert (told.cwd, told.messages, told.empty, told.trouble) == (str(bench.cwd), 4, False, None)
    assert (told.title, told.title_by) == (told.first_prompt, "prompt")
    assert (told.first_prompt or "")[:6] + (told.last_prompt or "")[:5] == "ALPHA!BETA!"
    assert (told.context, told.model) == (last_prompt(ran), "gemini-2.5-pro")
    assert abs((told.last_used_ms or 0) - found.changed_ns // 1_000_000) < 5000
    seen = [entry for entry in entries(found) if entry.kind != "state" and not entry.inserted]
    assert [entry.kind for entry in seen] == (
        ["user", "thinking", "assistant", "user", "call", "result", "assistant"]
    )
    assert ("tool-2" in seen[5].text, seen[4].call == seen[5].call) == (True, True)
    shown = [entry for record in ARCHIVE.back(found) for entry in reversed(record.entries)]
    assert [entry.text for entry in reversed(shown) if entry.restored] == [entry.text for entry in seen]


def broken(bench: Bench) -> list[dict[str, Any]]:
    """A call without a result, an answer without a word and, where results are messages, one too many."""
    if bench.version == OLD:
        call = message(
            "gemini", "I look.", toolCalls=[CALL | {"status": "executing", "timestamp": days_ago(0)}]
        )
        stray = []
    else:
        call = message("gemini", [{"text": "I look."}, {"functionCall": CALL}])
        stray = [message("user", [{"functionResponse": RESULT | {"id": "call_9"}}])]
    return [
        message("user", "ALPHA! remember number 456"),
        message("gemini", ""),
        call,
        message("user", "BETA!"),
        message("gemini", "answer-2"),
        *stray,
    ]


@live("gemini", NEW, OLD)
def test_a_broken_session_is_sent_broken_and_its_repaired_copy_is_not(bench: Bench) -> None:
    old = write(bench, broken(bench))
    original = old.path.read_bytes()
    mended = ARCHIVE.repair(old, str(uuid.uuid4()), RepairOptions())
    assert old.path.read_bytes() == original
    strays = ("1 result without a call was left out",) if bench.version == NEW else ()
    assert mended.done == (
        "1 call without a result was closed",
        *strays,
        "1 empty answer was left out",
    )
    for prompt in ("what number?", "GAMMA! [[say answer-3]]"):
        ran = resume(bench, mended.session, prompt)
        assert (ran.outcome.failure, ran.outcome.session_id) == (None, mended.session)
        assert each(ran, "ALPHA!", "BETA!", "I look.", "it returned a result") == [1, 1, 1, 1]
        assert (tool_traffic(ran), said(ran, "answer-2")) == ((1, 1), 1)
    as_it_was = resume(bench, old.id, "what number?")
    assert tool_traffic(as_it_was) == ((1, 0) if bench.version == OLD else (1, 1))
    assert each(as_it_was, "it returned a result", "call_9") == [0, 0 if bench.version == OLD else 1]


@pytest.mark.soak
@live("gemini")
def test_a_torn_session_is_repaired_trimmed_and_shortened(bench: Bench) -> None:
    answer = RESULT | {"response": {"output": "the tool said " + "x" * 3000}}
    done = CALL | {"status": "success", "timestamp": days_ago(0), "result": [{"functionResponse": answer}]}
    talk = [
        message("user", "ALPHA! [[say no]]"),
        message("gemini", "answer-1"),
        message("user", "BETA! remember number 456"),
        message("gemini", "I look.", toolCalls=[done]),
        message("gemini", "answer-2"),
        message("user", "a torn one"),
    ]
    old = write(bench, talk)
    whole = old.path.read_bytes()
    old.path.write_bytes(whole[: whole.rindex(b"a torn") + 3])
    (second,) = (entry.id for entry in entries(old) if entry.text.startswith("BETA!"))
    mended = ARCHIVE.repair(old, str(uuid.uuid4()), RepairOptions(trim=True, since=second))
    assert mended.done[1:] == (
        "the output of 1 tool call was left out",
        "2 earlier messages were left out",
    )
    ran = resume(bench, mended.session, "what number?")
    assert (ran.outcome.text, tool_traffic(ran)) == ("456", (1, 1))
    assert each(ran, "ALPHA!", "BETA!", "I look.", "xxxx", "was left out.]") == [0, 1, 1, 0, 1]
    code, _, stderr = bare(bench, "what number?", f"--resume={old.id}")
    assert (code, "Invalid session identifier" in stderr) == (
        (0, False) if bench.version == NEW else (42, True)
    )


@pytest.mark.soak
@live("gemini")
def test_a_removed_session_is_gone_and_the_others_stay(bench: Bench) -> None:
    first = ask(bench, "remember number 111")
    second = ask(bench, "remember number 222")
    gone = stored(bench, first.outcome.session_id)
    before = tree(bench.home)
    ARCHIVE.remove(gone)
    assert before.keys() - tree(bench.home).keys() == {gone.path}
    assert all(before[path] == data for path, data in tree(bench.home).items())
    code, _, stderr = bare(bench, "what number?", f"--resume={gone.id}")
    assert (code, "Invalid session identifier" in stderr) == (42, True)
    assert go_on(bench, second, "what number?").outcome.text == "222"
    ARCHIVE.remove(gone)


def tree(home: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}


@pytest.mark.soak
@live("gemini")
def test_what_expires_is_deleted_by_the_next_start(bench: Bench) -> None:
    """By default the newer version cleans up after 30 days, the older one never does."""
    ask(bench, "hello")
    talk = [message("user", "remember number 456"), message("gemini", "Noted: 456.")]
    late, fresh = write(bench, talk, days=31), write(bench, talk, days=29)
    now = datetime.now(UTC).timestamp() * 1000
    told = [ARCHIVE.expires_ms(one, ARCHIVE.brief(one)) for one in (late, fresh)]
    bare(bench, "another session")
    assert [one.path.exists() for one in (late, fresh)] == [bench.version == OLD, True]
    assert [when is not None and when < now for when in told] == [bench.version == NEW, False]
