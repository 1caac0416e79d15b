"""Gemini's sessions, cut and mended by us: what the model is sent of them afterwards."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from segue.agents import probe
from segue.agents.base import CutRequest, StoredSession
from segue.agents.gemini.format import FORMAT
from segue.core.request import Request, Start
from tests.clis import CLIS, install
from tests.live.harness import Bench, Ran, live
from tests.live.test_gemini import NEW, OLD, ask, bare, failure, set_up, tool_traffic
from tests.live.test_what_is_sent import message, new_bytes
from tests.live.wire import carried, said

FULL = "full"


def look(bench: Bench, session: str | None) -> StoredSession:
    assert session is not None
    found = FORMAT.find(bench.home, session, bench.cwd)
    assert found is not None
    return found


def end(bench: Bench, session: str | None) -> str:
    anchor = FORMAT.end(look(bench, session))
    assert anchor is not None
    return anchor


def begin(bench: Bench, prompt: str) -> tuple[str, str]:
    """A first turn: the session and the anchor of its answer."""
    session = ask(bench, prompt, permission=FULL).outcome.session_id
    assert session is not None
    return session, end(bench, session)


def resume(bench: Bench, session: str | None, prompt: str, **more: Any) -> Ran:
    """A turn on a session that was mended before, as every one is."""
    assert session is not None
    FORMAT.make_resumable(look(bench, session), bench.runtime)
    return ask(bench, prompt, start=Start("resume", session), permission=FULL, **more)


def cut(bench: Bench, session: str, anchor: str) -> str:
    new_id = str(uuid.uuid4())
    request = Request(prompt="x", cwd=bench.cwd)
    start = FORMAT.cut(
        look(bench, session),
        CutRequest(anchor=anchor, new_id=new_id, home=bench.home, request=request, runtime=bench.runtime),
    )
    assert start == Start("resume", new_id)
    return new_id


def branch(bench: Bench, session: str, anchor: str, prompt: str) -> Ran:
    """A turn on a copy that was cut at the anchor."""
    copy = cut(bench, session, anchor)
    ran = ask(bench, prompt, start=Start("resume", copy), permission=FULL)
    assert (ran.outcome.failure, ran.outcome.session_id) == (None, copy)
    assert FORMAT.continues(look(bench, copy), anchor)
    assert not FORMAT.continues(look(bench, copy), end(bench, copy))
    return ran


def age(bench: Bench, session: str) -> None:
    """Give the session's file the name of an earlier minute, as if time had passed."""
    path = look(bench, session).path
    path.rename(path.with_name(re.sub(r"session-[\dT-]{16}", "session-2026-01-01T00-00", path.name)))


def each(ran: Ran, *texts: str) -> list[int]:
    """How often the last request carries each text."""
    return [carried(ran, text) for text in texts]


def outputs(ran: Ran) -> list[str]:
    """What the tools returned, as the last request carries it."""
    contents = json.dumps(
        ([request for request in ran.requests if not request.side][-1].body or {})["contents"]
    )
    return re.findall(r"Output: (\S+?)\\\\?n", contents)


# --- the end ---------------------------------------------------------------------------------------


@pytest.mark.soak
@live("gemini")
def test_each_turn_moves_the_end_and_nothing_else_does(bench: Bench) -> None:
    session, first = begin(bench, "one [[say done-1]]")
    resume(bench, session, "[[shell echo hi]][[say done-2]]")
    second = end(bench, session)
    resume(bench, session, "three [[say done-3]]")
    third = end(bench, session)
    assert len({first, second, third}) == 3
    FORMAT.make_resumable(look(bench, session), bench.runtime)
    assert end(bench, session) == third
    failure(resume(bench, session, "refused [[error 400]]"))
    assert (end(bench, session) == third) == (bench.version == NEW)  # the older one keeps a failed prompt
    ran = branch(bench, session, third, "what was said?")
    assert each(ran, "refused", "three", "done-3") == [0, 1, 2]


# --- branches --------------------------------------------------------------------------------------


@live("gemini")
def test_a_branch_has_what_was_before_the_cut_once_and_nothing_after_it(bench: Bench) -> None:
    session, first = begin(bench, "ALPHA! [[say answer-1]]")
    resume(bench, session, "BETA! [[shell echo tool-2]][[say answer-2]]")
    second = end(bench, session)
    resume(bench, session, "GAMMA! [[say answer-3]]")
    resume(bench, session, "DELTA! [[say answer-4]]")
    original = look(bench, session).path.read_bytes()

    early = branch(bench, session, first, "EPSILON! [[say answer-5]]")
    assert each(early, "ALPHA!", "BETA!", "GAMMA!", "DELTA!", "tool-2", "EPSILON!") == [1, 0, 0, 0, 0, 1]
    assert [said(early, f"answer-{number}") for number in (1, 2, 3, 4)] == [1, 0, 0, 0]

    late = branch(bench, session, second, "ZETA! [[say answer-6]]")
    assert each(late, "ALPHA!", "BETA!", "GAMMA!", "DELTA!", "ZETA!") == [1, 1, 0, 0, 1]
    assert (tool_traffic(late), outputs(late)) == ((1, 1), ["tool-2"])
    assert [said(late, f"answer-{number}") for number in (1, 2, 3, 4)] == [1, 1, 0, 0]
    assert look(bench, session).path.read_bytes() == original

    copy = late.outcome.session_id
    assert copy is not None
    further = resume(bench, copy, "ETA-! [[shell echo tool-7]][[say answer-7]]")
    assert each(further, "ALPHA!", "ZETA!", "ETA-!", "GAMMA!") == [1, 1, 1, 0]
    assert (tool_traffic(further), outputs(further)) == ((2, 2), ["tool-2", "tool-7"])

    within = branch(bench, copy, first, "THETA!")  # an anchor of the time before the branch
    assert each(within, "ALPHA!", "BETA!", "ZETA!", "THETA!") == [1, 0, 0, 1]


@pytest.mark.soak
@live("gemini", NEW)
def test_a_branch_and_a_mended_session_cost_no_more_than_the_bare_cli_resumes(bench: Bench) -> None:
    """The bare CLI's turns have no tools: with them, its own resume misses the cache."""
    session, _ = begin(bench, message(0))
    bare_costs, anchors = [], []
    for number in (1, 2, 3):
        ran = ask(bench, message(number), start=Start("resume", session), permission=FULL)
        bare_costs.append(new_bytes(ran))
        anchors.append(end(bench, session))
    assert new_bytes(branch(bench, session, anchors[1], message(4))) <= 1.05 * max(bare_costs)
    for number in (5, 6):
        resume(bench, session, f"[[shell echo tool-{number}]][[say done]]")
        assert new_bytes(resume(bench, session, message(number))) <= 1.05 * max(bare_costs)
    with_tools = end(bench, session)
    resume(bench, session, message(7))
    assert new_bytes(branch(bench, session, with_tools, message(8))) <= 1.05 * max(bare_costs)


@pytest.mark.soak
@live("gemini", NEW)
def test_a_cut_copy_survives_the_start_of_other_sessions(bench: Bench) -> None:
    session, first = begin(bench, "remember number 456")
    resume(bench, session, "remember number 789")
    copy = cut(bench, session, first)
    age(bench, copy)
    bare(bench, "another session")
    ran = resume(bench, copy, "hello")
    assert each(ran, "number 456", "number 789") == [1, 0]
    bare(bench, "another session")
    assert resume(bench, copy, "what number?").outcome.text == "456"
    assert resume(bench, session, "what number?").outcome.text == "789"


@pytest.mark.soak
@live("gemini", NEW)
def test_a_twin_that_nobody_cleared_away_is_removed_before_the_next_resume(bench: Bench) -> None:
    session, _ = begin(bench, "remember number 456")
    age(bench, session)
    bare(bench, "hello", f"--resume={session}")
    files = sorted(look(bench, session).path.parent.iterdir())
    assert len(files) == 2
    assert end(bench, session) in files[0].read_text()
    FORMAT.make_resumable(look(bench, session), bench.runtime)
    bare(bench, "another session")
    assert resume(bench, session, "what number?").outcome.text == "456"


@pytest.mark.soak
@live("gemini", NEW)
def test_a_session_deleted_in_mid_run_by_the_start_of_another_is_made_whole(bench: Bench) -> None:
    session, _ = begin(bench, "remember number 456")
    age(bench, session)
    before = len(bench.model.requests)

    def start_another() -> None:
        late = time.monotonic() + 60
        while len(bench.model.requests) == before and time.monotonic() < late:
            time.sleep(0.1)
        bare(bench, "another session")
        deleted.append(not look_for(bench, session))

    deleted: list[bool] = []
    thread = threading.Thread(target=start_another)
    thread.start()
    slow = resume(bench, session, f"[[slow 40 40]][[say {' '.join(map(str, range(60)))} answer-2]]")
    thread.join()
    assert (slow.outcome.failure, deleted) == (None, [True])
    ran = resume(bench, session, "what number?")
    assert (ran.outcome.text, said(ran, "answer-2")) == ("456", 1)


def look_for(bench: Bench, session: str) -> list[Path]:
    """The session's file as Gemini would see it."""
    return list(bench.home.glob(f".gemini/tmp/*/chats/session-*-{session[:8]}.jsonl"))


# --- many resumes ----------------------------------------------------------------------------------


@pytest.mark.soak
@live("gemini")
def test_after_ten_turns_each_call_and_each_result_is_there_once(bench: Bench) -> None:
    """Within a minute and over several: Gemini goes two ways when it resumes."""
    session, _ = begin(bench, "[[shell echo tool-1]][[say answer-1]]")
    anchors = [end(bench, session)]
    for number in range(2, 11):
        if number % 3 == 0:
            age(bench, session)
        two = f"[[shell echo again-{number}]]" if number == 5 else ""
        ran = resume(bench, session, f"[[shell echo tool-{number}]]{two}[[say answer-{number}]]")
        assert ran.outcome.failure is None
        assert ran.outcome.model_turns is None or ran.outcome.model_turns == 2 + bool(two)
        anchors.append(end(bench, session))
    assert tool_traffic(ran) == (11, 11)
    wanted = [f"tool-{number}" for number in range(1, 11)]
    assert outputs(ran) == [*wanted[:5], "again-5", *wanted[5:]]
    assert [said(ran, f"answer-{number}") for number in range(1, 10)] == [1] * 9
    assert len(set(anchors)) == 10
    ran = branch(bench, session, anchors[3], "on")
    assert outputs(ran) == wanted[:4]


@pytest.mark.soak
@live("gemini")
def test_anchors_from_before_gemini_made_a_summary_still_hold(bench: Bench) -> None:
    """The newer version then gives all messages new ids; the older one keeps its summary to itself."""
    session, first = begin(bench, f"ALPHA! {'word ' * 2000}[[say answer-1]]")
    resume(bench, session, f"BETA! {'word ' * 2000}[[shell echo tool-2]][[say answer-2]]")
    second = end(bench, session)
    set_up(bench, model={"compressionThreshold": 0.001})
    ran = resume(bench, session, "GAMMA! [[say answer-3]]")
    assert each(ran, "A rehearsal took place", "ALPHA!") == [1, 0]
    set_up(bench, model={"compressionThreshold": 0.9})
    ran = resume(bench, session, "DELTA!")
    assert each(ran, "GAMMA!", "ALPHA!") == ([1, 0] if bench.version == NEW else [1, 1])
    for anchor, wanted in ((first, [1, 0, 0]), (second, [1, 1, 0])):
        ran = branch(bench, session, anchor, "on")
        assert each(ran, "ALPHA!", "BETA!", "GAMMA!") == wanted
    assert (outputs(ran), tool_traffic(ran)) == (["tool-2"], (1, 1))


@pytest.mark.soak
@live("gemini")
def test_words_that_look_like_commands_are_not_left_out(bench: Bench) -> None:
    """The bare CLI drops a message that begins so from the history when it resumes."""
    session, _ = begin(bench, "/etc/hosts 111 [[say answer-1]]")
    resume(bench, session, "?222 [[say answer-2]]")
    anchor = end(bench, session)
    ran = resume(bench, session, "plain 333 [[say answer-3]]")
    assert each(ran, "/etc/hosts 111", "?222", "plain 333") == [1, 1, 1]
    assert each(branch(bench, session, anchor, "on"), "/etc/hosts 111", "?222", "plain 333") == [1, 1, 0]
    ran = ask(bench, "/etc/hosts 444", permission=FULL)
    bare(bench, "last", f"--resume={ran.outcome.session_id}")
    assert "hosts 444" not in json.dumps(bench.model.requests[-1].body)


# --- killed ----------------------------------------------------------------------------------------


def killed_after_a_tool(bench: Bench, session: str, prompt: str) -> Ran:
    """A turn whose process is killed while the model is asked for the second time."""
    before = len(bench.model.requests)

    def kill() -> None:
        late = time.monotonic() + 80
        while len([one for one in bench.model.requests[before:] if not one.side]) < 2:
            if time.monotonic() > late:
                return
            time.sleep(0.1)
        time.sleep(0.5)
        bench.signal(signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    ran = resume(bench, session, prompt)
    thread.join()
    return ran


@pytest.mark.soak
@live("gemini")
def test_a_turn_killed_after_a_tool_ran_can_be_gone_on_from_and_cut_away(bench: Bench) -> None:
    session, first = begin(bench, "ALPHA! [[say answer-1]]")
    killed = killed_after_a_tool(bench, session, "BETA! [[shell echo tool-2]][[hang]]")
    assert (failure(killed).kind, killed.outcome.tools_run) == ("killed", 1)
    broken = end(bench, session)
    assert broken != first
    after = resume(bench, session, "GAMMA! [[say answer-3]]")
    assert (each(after, "ALPHA!", "BETA!", "GAMMA!"), outputs(after)) == ([1, 1, 1], ["tool-2"])
    assert tool_traffic(after) == (1, 1)
    again = resume(bench, session, "DELTA!")
    assert (outputs(again), said(again, "answer-3")) == (["tool-2"], 1)
    if bench.version == NEW:  # it says so while the turn runs, and would not again
        assert each(again, "was interrupted before") == each(after, "was interrupted before") == [1]
    there = branch(bench, session, broken, "EPSILON!")
    assert (each(there, "BETA!", "GAMMA!", "DELTA!"), outputs(there)) == ([1, 0, 0], ["tool-2"])
    assert tool_traffic(there) == (1, 1)
    without = branch(bench, session, first, "ZETA!")
    assert (each(without, "ALPHA!", "BETA!", "ZETA!"), outputs(without)) == ([1, 0, 1], [])


# --- versions --------------------------------------------------------------------------------------


def other(bench: Bench, version: str) -> Bench:
    """The same home and model, run by another version."""
    assert install(CLIS["gemini"], version) == ""
    program = str(CLIS["gemini"].program(version))
    known = probe.probe(
        bench.agent, env=bench.env, configured=[program], cache=bench.runs / f"probes-{version}.json"
    )
    return Bench(
        bench.agent,
        version,
        version,
        known,
        bench.model,
        bench.home,
        bench.cwd,
        bench.runs / version,
        bench.env,
    )


@pytest.mark.soak
@live("gemini", OLD)
def test_an_update_goes_on_and_cuts_and_so_does_going_back(bench: Bench) -> None:
    newer = other(bench, NEW)
    session, first = begin(bench, "ALPHA! [[shell echo tool-1]][[say answer-1]]")
    resume(bench, session, "BETA! [[say answer-2]]")
    second = end(bench, session)

    ran = resume(newer, session, "GAMMA! [[shell echo tool-3]][[say answer-3]]")
    assert (each(ran, "ALPHA!", "BETA!", "GAMMA!"), outputs(ran)) == ([1, 1, 1], ["tool-1", "tool-3"])
    third = end(newer, session)
    ran = branch(newer, session, first, "DELTA!")
    assert (each(ran, "ALPHA!", "BETA!"), outputs(ran), tool_traffic(ran)) == ([1, 0], ["tool-1"], (1, 1))

    ran = resume(bench, session, "EPSILON! [[say answer-5]]")  # which the bare CLI refuses, or forgets gamma
    assert (each(ran, "ALPHA!", "BETA!", "GAMMA!"), outputs(ran)) == ([1, 1, 1], ["tool-1", "tool-3"])
    assert tool_traffic(ran) == (2, 2)
    for anchor, wanted in ((second, [1, 1, 0, 0]), (third, [1, 1, 1, 0])):
        ran = branch(bench, session, anchor, "ZETA!")
        assert each(ran, "ALPHA!", "BETA!", "GAMMA!", "EPSILON!") == wanted


# --- damage ----------------------------------------------------------------------------------------


@pytest.mark.soak
@live("gemini", NEW)
def test_a_session_torn_in_mid_line_goes_on_without_losing_a_line_more(bench: Bench) -> None:
    session, first = begin(bench, "ALPHA! [[say answer-1]]")
    resume(bench, session, "BETA! [[say answer-2]]")
    path = look(bench, session).path
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rindex(b'"answer-2"') + 5])
    assert end(bench, session) != first  # the prompt is there, its answer is not
    ran = branch(bench, session, first, "GAMMA! [[say answer-3]]")
    assert each(ran, "ALPHA!", "BETA!") == [1, 0]
    resume(bench, session, "DELTA! [[say answer-4]]")
    ran = resume(bench, session, "EPSILON!")
    assert each(ran, "ALPHA!", "BETA!", "DELTA!") == [1, 1, 1]
    assert said(ran, "answer-4") == 1


@live("gemini", NEW)
def test_a_resume_killed_as_it_opens_the_file_loses_nothing(bench: Bench) -> None:
    """Within the session's own minute it first writes that there is nothing but its context."""
    session, first = begin(bench, "remember number 456")
    path = look(bench, session).path
    opening = path.read_bytes().splitlines(keepends=True)[:2]
    path.write_bytes(path.read_bytes() + b"".join(opening))
    assert end(bench, session) == first
    assert resume(bench, session, "what number?").outcome.text == "456"
