"""Where a session of Vibe ends, and what the model sees of one that was cut.

A start of 3.x costs five seconds of processor time, so a test tells a whole little story.
"""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from segue.agents import probe
from segue.agents.base import CutRequest, StoredSession
from segue.agents.vibe.format import FORMAT
from segue.core.request import Request, Start
from segue.turns.private_homes import runner_home
from tests.clis import CLIS, install
from tests.live.harness import Bench, Ran, live
from tests.live.test_vibe import NEW, OLD, SECOND, TOUCH, made, moved, old_folder

TOOL = "TWO [[shell echo out-$((500+2))]] [[say done-2]]"
VARYING = re.compile(r"Today's date is [^\n]*|/tmp/vibe-scratchpad-[\w-]+")
"""What is new in 2.x's system prompt on every run, also without a cut; and the day."""


def look(bench: Bench, session: str | None) -> StoredSession:
    found = FORMAT.find(bench.home, session or "", bench.cwd)
    assert found is not None
    return found


def end(bench: Bench, session: str | None) -> str:
    anchor = FORMAT.end(look(bench, session))
    assert anchor is not None
    return anchor


def resume(bench: Bench, session: str | None, prompt: str, **more: Any) -> Ran:
    """As a turn does it: what is wrong with the session is put right before."""
    FORMAT.make_resumable(look(bench, session), bench.runtime)
    return bench.resume(session, prompt, **more)


def cut(bench: Bench, session: str | None, anchor: str, model: str | None = None) -> Start | None:
    request = Request(prompt="", cwd=bench.cwd, model=model)
    found = look(bench, session)
    return FORMAT.cut(
        found,
        CutRequest(
            anchor=anchor, new_id=str(uuid4()), home=bench.home, request=request, runtime=bench.runtime
        ),
    )


def branch(bench: Bench, session: str | None, anchor: str, prompt: str, **more: Any) -> Ran:
    """Cut the session, go on from there, and see that Vibe really did."""
    before, whole = files(look(bench, session).path), anchor == FORMAT.end(look(bench, session))
    start = cut(bench, session, anchor, more.get("model"))
    assert start is not None
    ran = bench.attempt(prompt, start=start, **more)
    assert files(look(bench, session).path) == before
    assert ran.outcome.session_id not in (None, session)
    left = FORMAT.find(bench.home, start.session or "", bench.cwd)
    assert left is None or start.session == ran.outcome.session_id  # else it has done its duty
    assert FORMAT.continues(look(bench, ran.outcome.session_id), anchor)
    assert whole or FORMAT.end(look(bench, ran.outcome.session_id)) != FORMAT.end(look(bench, session))
    return ran


def files(path: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


def settle(bench: Bench, session: str | None) -> None:
    """A part of 3.x outlives the kill of its first process by some tenths of a second, and writes."""
    path = look(bench, session).path
    before: dict[Path, bytes] = {}
    for _ in range(30):
        time.sleep(1)
        with suppress(FileNotFoundError):
            if before == (before := files(path)):
                return


def sent(ran: Ran) -> list[dict[str, Any]]:
    """The messages of the last request, without what varies anyway."""
    body = [request for request in ran.requests if not request.side][-1].body
    assert body is not None
    system, *others = body["messages"]
    return [{**system, "content": VARYING.sub("", system["content"])}, *others]


def said(ran: Ran, *texts: str) -> list[int]:
    """How often each text stands in the conversation that the last request carries."""
    told = msgspec.json.encode(sent(ran)[1:]).decode()
    return [told.count(text) for text in texts]


def tools(ran: Ran) -> Any:
    body = [request for request in ran.requests if not request.side][-1].body
    return body["tools"] if body is not None else None


def of_version(bench: Bench, version: str) -> Bench:
    """The same home and directory, another version of the program."""
    assert install(CLIS["vibe"], version) == ""
    program = str(CLIS["vibe"].program(version))
    cache = Path(os.environ["PYTEST_PROBES"]) / "probes.json"
    runtime = probe.probe(bench.agent, env=bench.env, configured=[program], cache=cache)
    return replace(bench, version=version, runtime=runtime, runs=bench.runs / version)


# --- where a session ends, and where it can be cut -------------------------------------------------


@pytest.mark.soak
@live("vibe")
def test_a_cut_shows_the_model_what_was_before_it_once_and_nothing_of_what_came_after(bench: Bench) -> None:
    """A file that a prompt mentions is shown by 3.x as a part of the prompt."""
    (bench.cwd / "notes.txt").write_text("the notes say ```` so")
    anchors: list[str] = []
    ran, session, third = bench.attempt("remember number 111 @notes.txt"), None, None
    for prompt in (TOOL, "THREE [[say three]]", "FOUR [[say four]]", None):
        session = ran.outcome.session_id
        assert end(bench, session) == end(bench, session) not in anchors
        anchors.append(end(bench, session))
        if prompt is not None:
            ran = resume(bench, session, prompt, permission="full")
        third = third or (ran if prompt is not None and "THREE" in prompt else None)
    assert third is not None

    at_one = branch(bench, session, anchors[0], "what number? ONE")
    assert at_one.outcome.text == "111"
    assert said(at_one, "remember", "TWO", "out-502", "THREE", "FOUR") == [1, 0, 0, 0, 0]
    assert said(at_one, "the notes say") == [1 if bench.version == NEW else 0]

    at_two = branch(bench, session, anchors[1], "what number? OTHER", permission="full")
    assert at_two.outcome.text == "111"
    assert said(at_two, "remember", "TWO", "out-502", "THREE", "FOUR") == [1, 1, 1, 0, 0]
    assert sent(at_two)[:-1] == sent(third)[:-1]  # what a prompt cache holds can be used again
    assert tools(at_two) == tools(third)
    newer = end(bench, at_two.outcome.session_id)

    further = resume(bench, at_two.outcome.session_id, "FURTHER what number?", permission="full")
    assert sent(further)[: len(sent(at_two))] == sent(at_two)
    again = branch(bench, further.outcome.session_id, anchors[0], "what number? AGAIN")
    assert sent(again)[:-1] == sent(at_one)[:-1]
    within = branch(bench, further.outcome.session_id, newer, "what number? WITHIN", permission="full")
    assert sent(within)[:-1] == sent(further)[:-1]


@pytest.mark.soak
@live("vibe")
def test_ten_turns_with_tools_send_each_call_and_each_result_once(bench: Bench) -> None:
    ran = bench.attempt("[[shell echo out-$((500+0))]] [[say said-0]]", permission="full")
    for n in range(1, 10):
        prompt = f"[[shell echo out-$((500+{n}))]] [[say said-{n}]]"
        ran = resume(bench, ran.outcome.session_id, prompt, permission="full")
    calls = [call["id"] for message in sent(ran) for call in message.get("tool_calls") or ()]
    results = [message["tool_call_id"] for message in sent(ran) if message["role"] == "tool"]
    assert calls == results
    assert len(set(calls)) == 10
    assert said(ran, *(f"out-{500 + n}" for n in range(10))) == [1] * 10


@pytest.mark.soak
@live("vibe")
def test_a_refused_prompt_and_a_turn_that_was_killed_are_seen_and_can_be_left_behind(bench: Bench) -> None:
    first = bench.attempt("remember number 111")
    session, good = first.outcome.session_id, end(bench, first.outcome.session_id)
    refused = bench.resume(session, "REFUSED [[error 400]]")
    assert refused.outcome.failure is not None
    assert (end(bench, session) == good) is (bench.version == OLD)  # which keeps it in a fork of its own
    assert end(bench, refused.outcome.session_id) != good
    clean = branch(bench, refused.outcome.session_id, good, "what number? CLEAN")
    assert (clean.outcome.text, said(clean, "REFUSED")) == ("111", [0])

    session, good = clean.outcome.session_id, end(bench, clean.outcome.session_id)
    bench.when_asked("KILLED", lambda: bench.signal(signal.SIGKILL), after_s=3)
    killed = bench.resume(session, "KILLED [[shell echo out-$((500+7))]] [[hang]]", permission="full")
    assert (killed.outcome.failure is not None, killed.outcome.tools_run) == (True, 1)
    session = killed.outcome.session_id
    anchor = end(bench, session)
    settle(bench, session)
    assert anchor == end(bench, session) != good
    before = branch(bench, session, good, "what number? BEFORE")
    assert (before.outcome.text, said(before, "KILLED", "out-507", "CLEAN")) == ("111", [0, 0, 1])
    after = resume(bench, session, "what number? LATER-ON")
    assert (after.outcome.text, said(after, "KILLED", "out-507", "CLEAN")) == ("111", [1, 1, 1])
    at_it = branch(bench, after.outcome.session_id, anchor, "what number? THERE")
    assert (at_it.outcome.text, said(at_it, "KILLED", "out-507", "LATER-ON")) == ("111", [1, 1, 0])


@pytest.mark.soak
@live("vibe", NEW)
def test_a_resume_may_go_on_with_a_turn_that_was_killed_while_its_tool_ran(bench: Bench) -> None:
    """So where such a turn will end is not known before; its anchor is good all the same."""
    first = bench.attempt("remember number 111")
    bench.when_asked("KILLED", lambda: bench.signal(signal.SIGKILL), after_s=3)
    prompt = "KILLED [[shell sleep 60]] [[say late]]"
    session = bench.resume(first.outcome.session_id, prompt, permission="full").outcome.session_id
    settle(bench, session)
    anchor = end(bench, session)
    assert cut(bench, session, anchor) is None
    after = resume(bench, session, "what number? LATER-ON")
    assert (after.outcome.text, end(bench, session) != anchor) == ("111", True)
    at_it = branch(bench, session, anchor, "what number? THERE")
    assert sent(at_it)[:-1] == sent(after)[:-1]


@pytest.mark.soak
@live("vibe", NEW)
def test_anchors_from_before_a_compaction_are_gone_and_those_after_it_hold(bench: Bench) -> None:
    first = bench.attempt("remember number 111 " + "x " * 10_000)
    session, old = first.outcome.session_id, end(bench, first.outcome.session_id)
    small = {"VIBE_AUTO_COMPACT_THRESHOLD": "9000"}
    shrunk = resume(bench, session, "SHRUNK [[say small]]", env=small)
    assert [request.side for request in shrunk.requests] == [True, False]
    assert cut(bench, session, old) is None
    assert FORMAT.continues(look(bench, session), old)  # nobody can tell, and nothing speaks against it
    new = end(bench, session)
    resume(bench, session, "LATER-ON [[say later]]")
    ran = branch(bench, session, new, "what number?")
    assert said(ran, "SHRUNK", "<compaction_summary>", "LATER-ON") == [1, 1, 0]


# --- from one version to the other, and from one home to another -----------------------------------


@pytest.mark.soak
@live("vibe", NEW)
def test_anchors_hold_from_the_old_version_to_the_new_one_and_back(bench: Bench) -> None:
    old = of_version(bench, OLD)
    first = old.attempt("remember number 111")
    one = end(old, first.outcome.session_id)
    second = resume(old, first.outcome.session_id, TOOL, permission="full")
    two = end(old, second.outcome.session_id)
    straight = branch(bench, second.outcome.session_id, one, "what number? STRAIGHT")
    assert (straight.outcome.text, said(straight, "remember", "TWO")) == ("111", [1, 0])
    third = resume(bench, second.outcome.session_id, "THREE [[say three]]")
    taken_in = third.outcome.session_id
    assert FORMAT.continues(look(bench, taken_in), two)
    newer = branch(bench, taken_in, two, "what number? NEWER")
    assert sent(newer)[:-1] == sent(third)[:-1]
    back = branch(old, taken_in, end(bench, taken_in), "what number? BACK")
    assert (back.outcome.text, said(back, "out-502", "THREE", "NEWER")) == ("111", [1, 1, 0])
    further = branch(old, back.outcome.session_id, two, "what number? OLDER")
    assert (further.outcome.text, said(further, "out-502", "THREE")) == ("111", [1, 0])


@live("vibe", OLD)
def test_a_session_is_cut_from_the_home_it_lies_in_into_the_one_that_is_used(
    bench: Bench, tmp_path: Path
) -> None:
    root = tmp_path / "runners"
    with runner_home(root, bench.home) as one, runner_home(root, bench.home) as two:
        there, here = moved(bench, one), moved(bench, two)
        first = there.attempt("remember number 111")
        anchor = end(there, first.outcome.session_id)
        second = there.resume(first.outcome.session_id, "remember number 222")
        found, request = look(there, second.outcome.session_id), Request(prompt="", cwd=bench.cwd)
        start = FORMAT.cut(
            found,
            CutRequest(
                anchor=anchor, new_id=str(uuid4()), home=here.home, request=request, runtime=here.runtime
            ),
        )
        assert start is not None
        ran = here.attempt("what number?", start=start)
        assert (ran.outcome.text, said(ran, "222")) == ("111", [0])
        assert FORMAT.continues(look(here, ran.outcome.session_id), anchor)


@live("vibe", OLD)
def test_a_session_with_a_damaged_end_can_still_be_cut_before_it(bench: Bench) -> None:
    first = bench.attempt("remember number 111")
    anchor = end(bench, first.outcome.session_id)
    second = bench.resume(first.outcome.session_id, "SECOND")
    session = second.outcome.session_id
    messages = old_folder(bench, session) / "messages.jsonl"
    messages.write_bytes(messages.read_bytes()[:-10])
    assert FORMAT.end(look(bench, session)) is None
    start = cut(bench, session, anchor)
    assert start is not None
    ran = bench.attempt("what number?", start=start)
    assert (ran.outcome.text, said(ran, "SECOND")) == ("111", [0])


# --- what a cut session takes along ----------------------------------------------------------------


@pytest.mark.soak
@live("vibe")
def test_a_branch_has_the_posture_of_its_own_turn_and_the_model_of_the_session(bench: Bench) -> None:
    config = bench.home / "config.toml"
    config.write_text(config.read_text() + SECOND)
    first = bench.attempt(TOUCH.format("a"), permission="full", model="second")
    session, anchor = first.outcome.session_id, end(bench, first.outcome.session_id)
    later = bench.resume(session, "LATER-ON", permission="full").outcome.session_id
    careful = branch(bench, later, anchor, TOUCH.format("b"), permission="read")
    assert (made(bench, "a"), made(bench, "b")) == ({".w", ".t"}, set())
    kept = "second-model" if bench.version == NEW else "rehearsal"
    assert {request.model for request in careful.requests} == {kept}
    resume(bench, careful.outcome.session_id, TOUCH.format("c"), permission="edit")
    assert made(bench, "c") == {".w"}
    other = branch(bench, later, anchor, TOUCH.format("d"), permission="full", model="rehearsal")
    assert {request.model for request in other.requests} == {"rehearsal"}
    assert made(bench, "d") == {".w", ".t"}


@pytest.mark.soak
@live("vibe", NEW)
def test_a_session_taken_in_from_a_cut_of_ours_has_the_posture_of_its_own_turn(bench: Bench) -> None:
    """As every cut would be taken in whose store is of a format that nobody knows yet."""
    first = bench.attempt(TOUCH.format("a"), permission="full")
    current = look(bench, first.outcome.session_id).path / "CURRENT"
    anchor = end(bench, first.outcome.session_id)
    current.write_text(current.read_text().replace('"store_format_minor":9', '"store_format_minor":10'))
    ran = branch(bench, first.outcome.session_id, anchor, TOUCH.format("b"), permission="read")
    assert (ran.outcome.failure, made(bench, "b")) == (None, set())
    assert list(bench.home.glob("logs/session/session_*")) == []
