"""What Claude itself wrote, read by us; and what we repaired and removed, resumed by Claude."""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.agents.base import RepairOptions, StoredSession
from segue.agents.claude.archive import ARCHIVE
from segue.agents.claude.format import FORMAT
from segue.agents.repair_words import INTERRUPTED
from segue.core.transcript import Entry
from tests.live.harness import Bench, Ran, live
from tests.live.wire import carried
from tests.peers import SDK, installed

NEW, OLD = "2.1.325", "2.1.50"
DAY_S = 86_400
LISTING = """
import dataclasses, json
from claude_agent_sdk import list_sessions
print(json.dumps([dataclasses.asdict(session) for session in list_sessions()]))
"""


def stored(bench: Bench, session: str | None) -> StoredSession:
    assert session is not None
    found = FORMAT.find(bench.home, session)
    assert found is not None
    return found


def told(of: StoredSession) -> list[Entry]:
    return [entry for record in ARCHIVE.read(of) for entry in record.entries]


def said(of: StoredSession) -> list[str]:
    """The dialogue: what was put in by nobody, in words."""
    return [each.text for each in told(of) if each.kind in ("user", "assistant") and not each.inserted]


def talk(bench: Bench) -> StoredSession:
    """Two turns, the first one with a tool call."""
    first = bench.attempt("remember number 456 [[shell echo tool-one]][[say noted]]", permission="full")
    bench.resume(first.outcome.session_id, "what number?")
    return stored(bench, first.outcome.session_id)


def repair(bench: Bench, of: StoredSession, **mending: Any) -> tuple[str, tuple[str, ...]]:
    mended = ARCHIVE.repair(of, str(uuid.uuid4()), RepairOptions(**mending))
    return mended.session, mended.done


def copied(bench: Bench, of: StoredSession, lines: list[bytes]) -> StoredSession:
    """Other lines under an id of their own."""
    mine = str(uuid.uuid4())
    path = of.path.with_name(f"{mine}.jsonl")
    path.write_bytes(b"".join(lines))
    return stored(bench, mine)


def counts(ran: Ran, *texts: str) -> list[int]:
    return [carried(ran, text) for text in texts]


# --- reading ---------------------------------------------------------------------------------------


@live("claude")
def test_what_the_cli_wrote_is_read_as_it_was_said(bench: Bench) -> None:
    of = talk(bench)
    brief = ARCHIVE.brief(of)
    opening = "remember number 456 [[shell echo tool-one]][[say noted]]"
    assert said(of) == [opening, "noted", "what number?", "456"]
    assert (brief.cwd, brief.first_prompt, brief.last_prompt) == (str(bench.cwd), opening, "what number?")
    assert (brief.version, brief.side, brief.empty) == (bench.version, False, False)
    entries = told(of)
    assert [each.text for each in entries if each.kind == "result"] == ["tool-one"]
    assert [each.kind for each in entries if each.kind in ("unknown", "damaged")] == []
    spent = [request for request in bench.model.requests if not request.side][-1].usage
    assert brief.context == spent.input + spent.cache_read + spent.cache_write
    assert brief.last_used_ms is not None
    assert abs(brief.last_used_ms - of.changed_ns // 1_000_000) < 60_000
    assert (brief.cost_usd is not None) == (bench.version == NEW)


@live("claude", NEW, OLD)
def test_the_sdk_and_ours_agree_on_ids_titles_and_directories(bench: Bench) -> None:
    """Also on sessions with titles, on forks' and hand-written lines, on one in another directory."""
    of = talk(bench)
    whole = of.path.read_bytes().splitlines(keepends=True)
    for key, kind, title in (("customTitle", "custom-title", 'My "own"'), ("aiTitle", "ai-title", "Its own")):
        note = {"type": kind, key: title, "sessionId": "x"}
        copied(bench, of, [*whole, msgspec.json.encode(note) + b"\n"])
    message = {"role": "user", "content": "<command-name>/review</command-name>"}
    copied(bench, of, [msgspec.json.encode({"type": "user", "uuid": "u", "message": message}) + b"\n"])
    copied(bench, of, [b'{"type":"user","isSidechain":true}\n'])
    copied(bench, of, [])
    listed = listing(bench.home)
    ours = {each.id: ARCHIVE.brief(each) for each in ARCHIVE.stored(bench.home)}
    assert len(listed) == 4
    for theirs in listed:
        brief = ours.pop(theirs["session_id"])
        assert (brief.title, brief.cwd) == (theirs["summary"], theirs["cwd"])
        assert (brief.first_prompt, brief.branch) == (theirs["first_prompt"], theirs["git_branch"])
    assert all(brief.side or brief.empty for brief in ours.values())


def listing(home: Path) -> list[dict[str, Any]]:
    """The SDK's own list, by a Python that has it; its bundled CLI is never started."""
    done = subprocess.run(
        [str(installed(SDK) / "python"), "-c", LISTING],
        env={"PATH": os.defpath, "HOME": str(home), "CLAUDE_CONFIG_DIR": str(home)},
        capture_output=True,
        check=True,
        timeout=60,
    )
    found: list[dict[str, Any]] = msgspec.json.decode(done.stdout)
    return found


# --- repairing -------------------------------------------------------------------------------------


@live("claude", NEW, OLD)
def test_a_call_that_was_never_answered_is_sent_with_a_result_once_repaired(bench: Bench) -> None:
    """As it was, the newest puts in a result of its own, and the older one forgets the call."""
    whole = talk(bench)
    lines = whole.path.read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if b'"type":"tool_use"' in line and b'"assistant"' in line)
    broken = copied(bench, whole, [*lines[: at + 1], b'{"type":"user","mess'])
    (call,) = [each.call for each in told(broken) if each.kind == "call"]
    session, done = repair(bench, broken)
    assert done == ("1 damaged record was left out", "1 call without a result was closed")
    ran = bench.resume(session, "what number?")
    assert (ran.outcome.text, ran.outcome.session_id) == ("456", session)
    assert counts(ran, "remember number 456", call, INTERRUPTED) == [1, 2, 1]
    as_it_was = bench.resume(broken.id, "what number?")
    assert counts(as_it_was, call, INTERRUPTED) == [2 if bench.version == NEW else 0, 0]


@live("claude")
def test_a_chain_that_was_torn_is_whole_again_once_repaired(bench: Bench) -> None:
    """As it was, the older version loses all that came before the damage, and does not say so."""
    whole = talk(bench)
    lines = whole.path.read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if b'"text":"noted"' in line and b'"assistant"' in line)
    broken = copied(bench, whole, [*lines[:at], lines[at][:-40] + b"\n", *lines[at + 1 :]])
    session, done = repair(bench, broken, trim=True)
    assert done[:2] == ("1 damaged record was left out", "1 broken link between records was repaired")
    ran = bench.resume(session, "what number?")
    assert (ran.outcome.text, counts(ran, "remember number 456", "[[say noted]]")) == ("456", [1, 1])
    as_it_was = bench.resume(broken.id, "remember number 7")
    assert counts(as_it_was, "remember number 456") == [1 if bench.version == NEW else 0]


@live("claude")
def test_repaired_from_a_later_place_it_knows_only_what_follows(bench: Bench) -> None:
    whole = talk(bench)
    place = next(each.id for each in told(whole) if each.text == "what number?" and each.kind == "user")
    session, _ = repair(bench, whole, since=place)
    ran = bench.resume(session, "remember number 7")
    assert (ran.outcome.failure, counts(ran, "number 456", "what number?")) == (None, [0, 1])


# --- removing --------------------------------------------------------------------------------------


@live("claude")
def test_a_removed_session_is_gone_and_the_others_resume(bench: Bench) -> None:
    gone, kept = (bench.attempt(f"remember number {n}").outcome.session_id for n in (1, 2))
    ARCHIVE.remove(stored(bench, gone))
    assert not any(str(gone) in str(path) for path in bench.home.rglob("*"))
    refused = bench.resume(gone, "what number?").outcome.failure
    assert refused is not None
    assert (refused.kind, refused.reason) == ("session_rejected", "not_found")
    assert bench.resume(kept, "what number?").outcome.text == "2"


# --- expiring --------------------------------------------------------------------------------------


@pytest.mark.soak
@live("claude", NEW)
def test_the_clis_own_clean_up_takes_a_session_when_we_say_so(bench: Bench) -> None:
    """Some seconds after the start of any other session. (The older version deleted nothing meanwhile.)"""
    (bench.home / "settings.json").write_text('{"cleanupPeriodDays": 7}')
    of = stored(bench, bench.attempt("remember number 1").outcome.session_id)
    aged = {days: copied(bench, of, of.path.read_bytes().splitlines(keepends=True)) for days in (6, 8)}
    now = time.time()
    for days, each in aged.items():
        os.utime(each.path, (now - days * DAY_S,) * 2)
    due = {
        days: ARCHIVE.expires_ms(stored(bench, each.id), ARCHIVE.brief(each)) for days, each in aged.items()
    }
    assert {days: ms is not None and ms < now * 1000 for days, ms in due.items()} == {6: False, 8: True}
    bench.attempt("hello [[shell true]][[slow 8]][[say done]]", permission="full")
    assert {days: each.path.exists() for days, each in aged.items()} == {6: True, 8: False}
