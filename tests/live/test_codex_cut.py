"""Codex sessions looked at, cut and mended: the model sees what was kept, once, and nothing of the rest."""

import signal
import threading
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from segue.agents.base import CutRequest, StoredSession
from segue.agents.codex.format import FORMAT
from segue.core import events as ev
from segue.core.request import Request, Start
from tests.clis import CLIS, install
from tests.live.harness import Bench, Ran, live
from tests.live.wire import accounted, carried, said


def facts(stored: StoredSession | None) -> tuple[Path, int, str | None]:
    assert stored is not None
    return stored.path, stored.size, FORMAT.end(stored)


NEW, OLD = "0.166.0", "0.104.0"
TOOL = "[[shell echo tool-two-ran]] [[say done-2]]"


def look(bench: Bench, session: str) -> StoredSession:
    found = FORMAT.find(bench.home, session, bench.cwd)
    assert found is not None
    return found


def end(bench: Bench, session: str) -> str:
    anchor = FORMAT.end(look(bench, session))
    assert anchor is not None
    return anchor


def cut(bench: Bench, session: str, anchor: str) -> str:
    """The id of a branch that ends at the anchor."""
    mine, request = str(uuid.uuid4()), Request(prompt="x", cwd=bench.cwd)
    start = FORMAT.cut(
        look(bench, session),
        CutRequest(anchor=anchor, new_id=mine, home=bench.home, request=request, runtime=bench.runtime),
    )
    assert start == Start("resume", mine)
    return mine


def resume(bench: Bench, session: str, prompt: str, **more: Any) -> Ran:
    """As a turn does it: mended before."""
    FORMAT.make_resumable(look(bench, session), bench.runtime)
    ran = bench.resume(session, prompt, permission="full", **more)
    assert ran.outcome.failure is None, ran.outcome.failure
    assert ran.outcome.session_id == session
    return ran


def talk(bench: Bench) -> tuple[str, list[str]]:
    """A session of four turns, the second with a tool; and the anchor of each."""
    first = bench.attempt("remember number 111 [[say done-1]]", permission="full")
    session = first.outcome.session_id
    assert session is not None
    anchors = [end(bench, session)]
    for prompt in (TOOL, "remember number 333 [[say done-3]]", "remember number 444 [[say done-4]]"):
        resume(bench, session, prompt)
        anchors.append(end(bench, session))
    return session, anchors


def seen(ran: Ran) -> tuple[int, ...]:
    """How often each of the four turns stands in what the model was sent: the answers, call and result."""
    return *(said(ran, f"done-{number}") for number in (1, 2, 3, 4)), *tools(ran)


def tools(ran: Ran) -> tuple[int, int]:
    body = ran.requests[-1].body
    assert body is not None
    kinds = [item.get("type") for item in body["input"]]
    return kinds.count("function_call"), kinds.count("function_call_output")


def other_version(bench: Bench, version: str) -> Bench:
    reason = install(CLIS["codex"], version)
    assert not reason, reason
    command = (str(CLIS["codex"].program(version)),)
    runtime = msgspec.structs.replace(bench.runtime, command=command, version=version)
    return replace(bench, runtime=runtime, version=version, runs=bench.runs / version)


# --- where a session ends --------------------------------------------------------------------------


@live("codex")
def test_the_end_moves_with_every_turn_and_only_then(bench: Bench) -> None:
    session, anchors = talk(bench)
    assert len(set(anchors)) == 4
    assert all(len(anchor) <= 200 for anchor in anchors)
    assert end(bench, session) == anchors[-1]
    bench.attempt("hello")
    assert end(bench, session) == anchors[-1]
    assert look(bench, session).size == look(bench, session).path.stat().st_size


@live("codex")
def test_a_refused_prompt_moves_the_end_and_a_cut_takes_it_away(bench: Bench) -> None:
    session = bench.attempt("remember number 111").outcome.session_id
    assert session is not None
    good = end(bench, session)
    assert bench.resume(session, "POISON [[error 400]]").outcome.failure is not None
    assert end(bench, session) != good
    ran = resume(bench, cut(bench, session, good), "what number?")
    assert (ran.outcome.text, carried(ran, "POISON")) == ("111", 0)


# --- cutting ---------------------------------------------------------------------------------------


@live("codex")
def test_the_model_sees_what_was_said_up_to_the_cut_once_and_nothing_else(bench: Bench) -> None:
    session, anchors = talk(bench)
    original = look(bench, session).path.read_bytes()
    one, two = cut(bench, session, anchors[0]), cut(bench, session, anchors[1])
    for mine, expected in ((one, (1, 0, 0, 0, 0, 0)), (two, (1, 1, 0, 0, 1, 1))):
        ran = resume(bench, mine, "what number? [[say after]]")
        assert seen(ran) == expected
        assert (carried(ran, "remember number 333"), carried(ran, "remember number 444")) == (0, 0)
        assert (carried(ran, "remember number 111"), said(ran, "after")) == (1, 0)
        again = resume(bench, mine, "what number?")
        assert (again.outcome.text, said(again, "after"), seen(again)) == ("111", 1, expected)
    assert look(bench, session).path.read_bytes() == original
    assert end(bench, session) == anchors[-1]
    ran = resume(bench, session, "what number?")
    assert (ran.outcome.text, said(ran, "after"), seen(ran)) == ("444", 0, (1, 1, 1, 1, 1, 1))


@live("codex", NEW, OLD)
def test_a_branch_is_cut_again_at_its_own_anchors_and_at_those_from_before_it(bench: Bench) -> None:
    session, anchors = talk(bench)
    branch = cut(bench, session, anchors[2])
    assert end(bench, branch) == anchors[2]
    resume(bench, branch, "remember number 555 [[say done-5]]")
    fifth = end(bench, branch)
    resume(bench, branch, "remember number 666 [[say done-6]]")
    own = resume(bench, cut(bench, branch, fifth), "what number?")
    assert (own.outcome.text, said(own, "done-6"), seen(own)) == ("555", 0, (1, 1, 1, 0, 1, 1))
    before = resume(bench, cut(bench, branch, anchors[0]), "what number?")
    assert (before.outcome.text, carried(before, "remember number 555"), seen(before)) == (
        "111",
        0,
        (1, 0, 0, 0, 0, 0),
    )


@live("codex", NEW, OLD)
def test_a_branch_begins_with_the_bytes_of_the_original(bench: Bench) -> None:
    """But for one id that Codex makes of the thread's own, which is no content."""
    session, anchors = talk(bench)
    branch = resume(bench, cut(bench, session, anchors[1]), "[[say branched]]")
    onwards = resume(bench, session, "[[say went on]]")
    (one, other) = ((ran.requests[-1].body or {})["input"] for ran in (branch, onwards))
    assert len(one) < len(other)
    kept = len(one) - 4  # what belongs to the new turn itself: the message, and what an old version adds
    differing = [place for place in range(kept) if one[place] != other[place]]
    assert differing == ([0] if bench.version == NEW else [])
    assert all({**one[place], "id": ""} == {**other[place], "id": ""} for place in differing)


@pytest.mark.soak
@live("codex")
def test_an_id_that_was_spoken_of_stays_what_it_was(bench: Bench) -> None:
    """Four times in the message, then in the call, its result and the answer."""
    session = bench.attempt("remember number 111").outcome.session_id
    assert session is not None
    resume(bench, session, f'the id is {session}, "id":"{session}" [[shell echo {session}]][[say {session}]]')
    branch = cut(bench, session, end(bench, session))
    ran = resume(bench, branch, "how often?")
    text = msgspec.json.encode((ran.requests[-1].body or {})["input"]).decode()
    assert (text.count(session), text.count(branch)) == (7, 0)


@live("codex")
def test_usage_after_a_cut_is_this_turns(bench: Bench) -> None:
    session, anchors = talk(bench)
    branch = cut(bench, session, anchors[1])
    for prompt in ("what number?", TOOL, "what number?"):
        ran = resume(bench, branch, prompt)
        assert ran.outcome.usage == accounted(ran)


@live("codex")
def test_a_cut_before_a_compaction_gives_the_history_from_before_it(bench: Bench) -> None:
    session, anchors = talk(bench)
    resume(bench, session, "remember number 555 " + "x" * 60_000 + "[[say done-5]]")
    full = end(bench, session)
    ran = resume(
        bench, session, "[[say compacted]]", native_args=("-c", "model_auto_compact_token_limit=12000")
    )
    assert ran.outcome.compacted or bench.version == NEW
    compacted = end(bench, session)
    after = resume(bench, cut(bench, session, compacted), "what number?")
    assert (said(after, "done-4"), carried(after, "A rehearsal took place."), tools(after)) == (0, 1, (0, 0))
    before = resume(bench, cut(bench, session, full), "what number?")
    assert (before.outcome.text, seen(before)) == ("555", (1, 1, 1, 1, 1, 1))
    assert carried(before, "A rehearsal took place.") == 0
    assert seen(resume(bench, cut(bench, session, anchors[1]), "hi")) == (1, 1, 0, 0, 1, 1)


# --- did it go on from there? ----------------------------------------------------------------------


@live("codex", NEW, OLD)
def test_a_branch_continues_from_its_cut_and_the_original_does_not(bench: Bench) -> None:
    session, anchors = talk(bench)
    branch = cut(bench, session, anchors[1])
    assert not FORMAT.continues(look(bench, branch), anchors[1])
    resume(bench, branch, TOOL)
    assert FORMAT.continues(look(bench, branch), anchors[1])
    assert not FORMAT.continues(look(bench, branch), anchors[0])
    assert not FORMAT.continues(look(bench, branch), anchors[2])
    assert not FORMAT.continues(look(bench, session), anchors[1])


@pytest.mark.soak
@live("codex", NEW)
def test_a_turn_that_sets_itself_a_goal_is_one_turn(bench: Bench) -> None:
    """Codex begins the next one before it exits, and breaks it off."""
    session, anchors = talk(bench)
    branch = cut(bench, session, anchors[0])
    resume(bench, branch, '[[tool create_goal {"objective":"count to three"}]][[say working]]')
    assert FORMAT.continues(look(bench, branch), anchors[0])


# --- many turns, killed turns ----------------------------------------------------------------------


@live("codex", NEW, OLD)
def test_ten_turns_with_tools_send_each_call_and_result_once(bench: Bench) -> None:
    first = bench.attempt("[[shell echo ran-0]] [[say done-0]]", permission="full")
    session = first.outcome.session_id
    assert session is not None
    for number in range(1, 10):
        ran = resume(bench, session, f"[[shell echo ran-{number}]] [[say done-{number}]]")
    assert tools(ran) == (10, 10)
    assert [said(ran, f"done-{number}") for number in range(9)] == [1] * 9


@live("codex")
def test_a_killed_turn_is_resumed_after_its_tool_and_cut_before_it(bench: Bench) -> None:
    session, anchors = talk(bench)

    def kill_later(event: ev.Event) -> None:
        if isinstance(event, ev.ToolResult):
            threading.Timer(1.5, bench.signal, (signal.SIGKILL,)).start()

    prompt = "sleepy [[shell echo only-once]] [[slow 60]] [[say never]]"
    killed = bench.resume(session, prompt, permission="full", on_event=kill_later)
    assert killed.outcome.failure is not None
    assert (killed.outcome.failure.kind, killed.outcome.tools_run) == ("killed", 1)
    stopped = end(bench, session)
    assert stopped != anchors[-1]
    onwards = resume(bench, session, "[[say went on]]")
    assert (seen(onwards), carried(onwards, "sleepy")) == ((1, 1, 1, 1, 2, 2), 1)
    there = resume(bench, cut(bench, session, stopped), "[[say from there]]")
    assert (tools(there), said(there, "went on"), carried(there, "sleepy")) == ((2, 2), 0, 1)
    before = resume(bench, cut(bench, session, anchors[-1]), "what number?")
    assert (before.outcome.text, tools(before), carried(before, "sleepy")) == ("444", (1, 1), 0)


# --- from one version to the other -----------------------------------------------------------------


@live("codex", NEW)
@pytest.mark.parametrize("up", [True, False], ids=["updated", "gone back"])
def test_anchors_hold_from_one_version_to_the_other(bench: Bench, up: bool) -> None:
    older = other_version(bench, OLD)
    before, after = (older, bench) if up else (bench, older)
    session, anchors = talk(before)
    ran = resume(after, session, "remember number 555 [[say done-5]]")
    assert (seen(ran), ran.outcome.usage) == ((1, 1, 1, 1, 1, 1), accounted(ran))
    anchors.append(end(after, session))
    resume(after, session, "remember number 666 [[say done-6]]")
    for place, number in ((4, "555"), (3, "444"), (1, "111")):
        branch = cut(after, session, anchors[place])
        ran = resume(after, branch, "what number?")
        assert (ran.outcome.text, carried(ran, "remember number 666")) == (number, 0)
        assert ran.outcome.usage == accounted(ran)
        assert FORMAT.continues(look(after, branch), anchors[place])


@pytest.mark.soak
@live("codex", NEW)
def test_a_session_comes_back_from_the_old_version(bench: Bench) -> None:
    """The new one refuses it unmended: the old one numbers no lines."""
    session, anchors = talk(bench)
    resume(other_version(bench, OLD), session, "remember number 555 [[say done-5]]")
    anchors.append(end(bench, session))
    refused = bench.resume(session, "what number?")
    assert refused.outcome.failure is not None
    assert refused.outcome.failure.kind == "session_rejected"
    assert resume(bench, cut(bench, session, anchors[4]), "what number?").outcome.text == "555"
    ran = resume(bench, session, "what number?")
    assert (ran.outcome.text, seen(ran), ran.outcome.usage) == ("555", (1, 1, 1, 1, 1, 1), accounted(ran))
    for place, number in ((4, "555"), (2, "333"), (0, "111")):
        assert resume(bench, cut(bench, session, anchors[place]), "what number?").outcome.text == number


# --- what else may lie on the disk -----------------------------------------------------------------


@live("codex")
def test_a_packed_session_is_read_cut_and_mended(bench: Bench) -> None:
    session, anchors = talk(bench)
    plain = look(bench, session)
    end = FORMAT.end(plain)
    packed = plain.path.with_name(plain.path.name + ".zst")
    packed.write_bytes(zstandard.compress(plain.path.read_bytes()))
    plain.path.unlink()
    assert facts(look(bench, session)) == (packed, plain.size, end)
    ran = resume(bench, cut(bench, session, anchors[1]), "what number?")
    assert (ran.outcome.text, seen(ran)) == ("111", (1, 1, 0, 0, 1, 1))
    assert packed.exists()
    assert resume(bench, session, "what number?").outcome.text == "444"
    assert look(bench, session).path == plain.path
    assert not packed.exists()


@pytest.mark.soak
@live("codex", NEW)
def test_anchors_of_a_session_are_found_in_what_codex_forked_from_it(bench: Bench) -> None:
    session, anchors = talk(bench)
    forked = bench.attempt(
        "remember number 555 [[say done-5]]", start=Start("fork", session)
    ).outcome.session_id
    assert forked is not None
    resume(bench, session, "remember number 777 [[say done-7]]")
    later = end(bench, session)
    fifth = end(bench, forked)
    resume(bench, forked, "remember number 666 [[say done-6]]")
    for anchor, number, expected in (
        (fifth, "555", (1, 1, 1, 1, 1, 1)),
        (anchors[2], "333", (1, 1, 1, 0, 1, 1)),
    ):
        ran = resume(bench, cut(bench, forked, anchor), "what number?")
        assert (ran.outcome.text, seen(ran)) == (number, expected)
    request, mine = Request(prompt="x", cwd=bench.cwd), str(uuid.uuid4())
    found = look(bench, forked)
    assert (
        FORMAT.cut(
            found,
            CutRequest(anchor=later, new_id=mine, home=bench.home, request=request, runtime=bench.runtime),
        )
        is None
    )


@live("codex")
@pytest.mark.parametrize("damage", ["half a line", "no line break", "garbage", "zeros"])
def test_a_damaged_end_is_no_obstacle(bench: Bench, damage: str) -> None:
    session, anchors = talk(bench)
    path = look(bench, session).path
    text = path.read_bytes()
    broken = {
        "half a line": text + b'{"timestamp":"2026-01-02T03:04:05.678Z","type":"respo',
        "no line break": text[:-1],
        "garbage": text + b"garbage\n",
        "zeros": text + b"\0" * 4096,
    }
    path.write_bytes(broken[damage])
    assert end(bench, session) == anchors[-1]
    resume(bench, session, "remember number 555 [[say done-5]]")
    whole = {
        line
        for line in path.read_bytes().splitlines()
        if line.startswith(b'{"timestamp"') and line.endswith(b"}")
    }
    assert all(msgspec.json.decode(line) for line in whole)
    fifth = end(bench, session)
    ran = resume(bench, session, "what number?")
    assert (ran.outcome.text, seen(ran)) == ("555", (1, 1, 1, 1, 1, 1))
    for anchor, number in ((fifth, "555"), (anchors[3], "444")):
        assert resume(bench, cut(bench, session, anchor), "what number?").outcome.text == number


@live("codex")
def test_a_huge_session_is_looked_at_quickly(bench: Bench) -> None:
    session, anchors = talk(bench)
    path = look(bench, session).path
    text = path.read_bytes()
    line = text.splitlines(keepends=True)[-1]
    path.write_bytes(text + line * (60_000_000 // len(line)))
    began = time.monotonic()
    found = look(bench, session)
    assert time.monotonic() - began < 1
    assert found.size > 59_000_000
    assert FORMAT.end(found) not in (None, anchors[-1])
    assert resume(bench, cut(bench, session, anchors[1]), "what number?").outcome.text == "111"


@live("codex")
def test_an_empty_or_missing_session_has_no_end(bench: Bench) -> None:
    session, anchors = talk(bench)
    path, request = look(bench, session).path, Request(prompt="x", cwd=bench.cwd)
    found = look(bench, session)
    path.write_bytes(b"")
    assert facts(look(bench, session)) == (path, 0, None)
    path.unlink()
    assert FORMAT.find(bench.home, session, bench.cwd) is None
    mine = str(uuid.uuid4())
    assert (
        FORMAT.cut(
            found,
            CutRequest(
                anchor=anchors[0], new_id=mine, home=bench.home, request=request, runtime=bench.runtime
            ),
        )
        is None
    )
    FORMAT.make_resumable(found, bench.runtime)
    assert not FORMAT.continues(found, anchors[0])
    assert not Path(path).exists()


# --- what a branch costs ---------------------------------------------------------------------------


def new_bytes(ran: Ran) -> int:
    return sum(request.new_bytes for request in ran.requests if not request.side)


def cache_key(ran: Ran) -> str:
    body = ran.requests[-1].body
    assert body is not None
    return str(body["prompt_cache_key"])


@pytest.mark.soak
@live("codex", NEW, OLD)
def test_a_branch_of_a_new_version_keeps_the_key_of_the_cache(bench: Bench) -> None:
    """An old one has no other key than the thread's id."""
    session, anchors = talk(bench)
    branch = cut(bench, session, anchors[2])
    first, second = resume(bench, branch, "[[say one]]"), resume(bench, branch, "[[say two]]")
    assert cache_key(first) == cache_key(second) == (session if bench.version == NEW else branch)
    again = cut(bench, branch, anchors[0])
    assert cache_key(resume(bench, again, "hi")) == (session if bench.version == NEW else again)
    if bench.version == NEW:
        assert new_bytes(first) < 0.3 * first.requests[-1].bytes
