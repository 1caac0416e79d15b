"""Claude's sessions as Segue looks at them and cuts them: what the model then sees, on the wire."""

from __future__ import annotations

import signal
import threading
import time
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.agents.base import CutRequest, StoredSession
from segue.agents.claude.format import FORMAT
from segue.core import events as ev
from segue.core.request import Request, Runtime, Start
from segue.core.usage import Totals
from tests.clis import CLIS, install
from tests.live.harness import Bench, Ran, live
from tests.live.wire import carried, said

NEW, OLD = "2.1.325", "2.1.50"
BIG = " " + "x" * 2048


@dataclass
class Talk:
    """A conversation in one native session, led as Segue leads it; ``anchors`` are the ends of its turns."""

    bench: Bench
    session: str = ""
    anchors: list[str] = field(default_factory=list)

    @property
    def found(self) -> StoredSession:
        found = FORMAT.find(self.bench.home, self.session, self.bench.cwd)
        assert found is not None
        return found

    @property
    def end(self) -> str:
        end = FORMAT.end(self.found)
        assert end is not None
        return end

    def say(self, prompt: str, **more: Any) -> Ran:
        """One turn that goes well, or is let go wrong by ``failing=True``."""
        start = Start(new_id=str(uuid.uuid4()))
        if self.session:
            FORMAT.make_resumable(self.found, self.bench.runtime)
            start = Start("resume", self.session)
        failing = more.pop("failing", False)
        ran = self.bench.attempt(prompt, start=start, **more)
        assert (ran.outcome.failure is not None) == failing, ran.outcome.failure
        self.session = ran.outcome.session_id or self.session
        self.anchors.append(self.end)
        return ran

    def cut(self, anchor: str, bench: Bench | None = None) -> Start:
        bench = bench or self.bench
        request = Request(prompt="", cwd=bench.cwd)
        new_id = str(uuid.uuid4())
        start = FORMAT.cut(
            self.found,
            CutRequest(anchor=anchor, new_id=new_id, home=bench.home, request=request, runtime=bench.runtime),
        )
        assert start is not None
        assert new_id in (start.new_id, start.session)
        return start

    def branch(self, turn: int, prompt: str, **more: Any) -> tuple[Talk, Ran]:
        """Cut behind a turn (0 is the first) and go on from there; the original must stay as it is."""
        whole = self.found.path.read_bytes()
        start = self.cut(self.anchors[turn])
        ran = self.bench.attempt(prompt, start=start, **more)
        assert ran.outcome.failure is None
        assert self.found.path.read_bytes() == whole
        other = Talk(self.bench, start.new_id or start.session or "", self.anchors[: turn + 1])
        assert ran.outcome.session_id == other.session
        assert FORMAT.continues(other.found, self.anchors[turn])
        other.anchors.append(other.end)
        return other, ran


def four(bench: Bench) -> Talk:
    talk = Talk(bench)
    talk.say("remember number 111")
    talk.say("[[shell echo tool-two]] [[say done-2]]", permission="full")
    talk.say("remember number 333")
    talk.say("remember number 444")
    return talk


def seen(ran: Ran) -> list[int]:
    """How often what ``four`` said stands in the last request: 111, the tool's result, 333, 444."""
    words = ("remember number 111", '"tool_result"', "remember number 333", "remember number 444")
    return [carried(ran, text) for text in words]


def older(bench: Bench) -> Bench:
    reason = install(CLIS["claude"], OLD)
    assert not reason, reason
    command = (str(CLIS["claude"].program(OLD)),)
    runtime: Runtime = msgspec.structs.replace(bench.runtime, command=command, version=OLD)
    return replace(bench, runtime=runtime, version=OLD, runs=bench.runs / "old")


def without_forks(bench: Bench) -> Bench:
    """The same program, but its help does not say that it can fork."""
    can = msgspec.structs.replace(bench.runtime.capabilities, fork=False)
    runtime = msgspec.structs.replace(bench.runtime, capabilities=can)
    return replace(bench, runtime=runtime, runs=bench.runs / "copying")


# --- the end ---------------------------------------------------------------------------------------


@live("claude")
def test_every_turn_moves_the_end_and_nothing_else_does(bench: Bench) -> None:
    talk = Talk(bench)
    for prompt in ("remember number 1", "[[shell echo hi]] [[say done-2]]", "[[think hm]] [[say done-3]]"):
        ran = talk.say(prompt, permission="full")
        assert talk.end == talk.end == talk.anchors[-1]
        assert talk.anchors[-1].encode() in ran.stdout
    assert len(set(talk.anchors)) == 3
    talk.say("[[error 400]]", failing=True)
    assert talk.end not in talk.anchors[:3]


@live("claude")
def test_a_failed_prompt_is_left_behind_by_a_cut_at_the_last_good_end(bench: Bench) -> None:
    talk = Talk(bench)
    talk.say("remember number 111")
    talk.say("FAILED-PROMPT [[error 400]]", failing=True)
    _, ran = talk.branch(0, "what number?")
    assert (ran.outcome.text, carried(ran, "FAILED-PROMPT"), carried(ran, "API Error")) == ("111", 0, 0)


# --- cuts ------------------------------------------------------------------------------------------


@live("claude", NEW, OLD)
def test_a_branch_sees_what_was_kept_once_and_nothing_that_was_cut(bench: Bench) -> None:
    talk = four(bench)
    assert talk.cut(talk.anchors[1]).mode == "branch"
    _, ran = talk.branch(0, "what numbers?")
    assert (ran.outcome.text, seen(ran)) == ("111", [1, 0, 0, 0])
    other, ran = talk.branch(1, "remember number 555")
    assert (seen(ran), said(ran, "done-2"), carried(ran, '"content":"tool-two"')) == ([1, 1, 0, 0], 1, 1)
    ran = other.say("what numbers?")
    assert (ran.outcome.text, seen(ran), carried(ran, "number 555")) == ("111, 555", [1, 1, 0, 0], 1)
    again, ran = other.branch(0, "remember number 666")
    assert (seen(ran), carried(ran, "number 555")) == ([1, 0, 0, 0], 0)
    assert again.say("what numbers?").outcome.text == "111, 666"
    _, ran = other.branch(2, "what numbers?")
    assert (ran.outcome.text, seen(ran), carried(ran, "number 555")) == ("111, 555", [1, 1, 0, 0], 1)


@pytest.mark.soak
@live("claude")
def test_a_copy_is_as_good_a_branch(bench: Bench) -> None:
    talk = four(without_forks(bench))
    assert talk.cut(talk.anchors[1]).mode == "resume"
    other, ran = talk.branch(1, "remember number 555")
    assert (seen(ran), said(ran, "done-2"), carried(ran, '"content":"tool-two"')) == ([1, 1, 0, 0], 1, 1)
    assert other.say("what numbers?").outcome.text == "111, 555"
    other.bench = bench
    _, ran = other.branch(0, "what numbers?")
    assert (ran.outcome.text, seen(ran)) == ("111", [1, 0, 0, 0])


@live("claude", NEW)
@pytest.mark.parametrize("copied", [False, True])
def test_a_branch_sends_no_more_than_a_resume_does(bench: Bench, copied: bool) -> None:
    """Also behind the first answer, when tools or permissions have changed since."""
    talk = Talk(without_forks(bench) if copied else bench)
    talk.say("remember number 1" + BIG)
    for number in (2, 3):
        resumed = talk.say(f"remember number {number}" + BIG, permission="full").requests[-1].new_bytes
        assert resumed < 3_000
    for turn in (0, 1, 2):
        _, ran = talk.branch(turn, f"turn {turn}: what numbers?" + BIG, permission="full")
        assert ran.requests[-1].new_bytes < 3_000, turn


@live("claude", NEW)
@pytest.mark.parametrize("copied", [False, True])
def test_a_branch_costs_its_own_turn_only(bench: Bench, copied: bool) -> None:
    """A branch of the CLI's own counts on from the session it came from, a copy begins at nothing."""
    talk = Talk(without_forks(bench) if copied else bench)
    first = talk.say("remember number 1" + BIG).outcome
    second = talk.say("remember number 2" + BIG, base=first.totals).outcome
    base = Totals(cost_usd=0.0) if copied else second.totals
    other, ran = talk.branch(1, "what numbers?", base=base)
    third = other.say("what numbers?", base=ran.outcome.totals).outcome
    shares = [outcome.cost_usd or 0.0 for outcome in (first, second, ran.outcome, third)]
    assert all(0 < share < shares[0] / 3 for share in shares[1:])
    assert third.totals.cost_usd == pytest.approx(sum(shares[2:]) if copied else sum(shares))


@live("claude")
def test_a_flag_that_was_ignored_is_seen(bench: Bench) -> None:
    talk = Talk(bench)
    talk.say("remember number 111")
    talk.say("[[shell echo hi]] [[say done-2]]", permission="full")
    ran = bench.attempt("what numbers?", start=Start("fork", talk.session, new_id=str(uuid.uuid4())))
    fork = Talk(bench, ran.outcome.session_id or "")
    assert [FORMAT.continues(fork.found, anchor) for anchor in talk.anchors] == [False, True]
    assert not FORMAT.continues(fork.found, str(uuid.uuid4()))


@live("claude", NEW, OLD)
def test_ten_turns_with_tools_send_each_call_and_each_result_once(bench: Bench) -> None:
    talk = Talk(bench)
    for turn in range(10):
        ran = talk.say(f"[[shell echo tool-{turn}-ran]] [[say done-{turn}-said]]", permission="full")
    words = msgspec.json.encode(ran.requests[-1].body).decode()
    for turn in range(10):
        assert words.count(f'"content":"tool-{turn}-ran"') == 1
        assert words.count(f'"command":"echo tool-{turn}-ran"') == 1
        assert said(ran, f"done-{turn}-said") == (1 if turn < 9 else 0)
    _, ran = talk.branch(4, "what number?")
    words = msgspec.json.encode(ran.requests[-1].body).decode()
    results = [words.count(f'"content":"tool-{turn}-ran"') for turn in range(10)]
    assert results == [1] * 5 + [0] * 5


# --- interrupted turns -----------------------------------------------------------------------------


def killed(bench: Bench, work: str, written: bytes) -> Talk:
    """A turn that is killed as soon as its session has that in it."""
    talk = Talk(bench)
    talk.say("remember number 111")

    def watch() -> None:
        for _ in range(600):
            if written in talk.found.path.read_bytes():
                bench.signal(signal.SIGKILL)
                return
            time.sleep(0.1)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    ran = talk.say(f"KILL-ME {work}", permission="full", failing=True)
    watcher.join()
    assert ran.outcome.tools_run == 1
    assert talk.anchors[0] != talk.anchors[1]
    return talk


@live("claude")
def test_killed_after_a_tool_the_end_keeps_its_result_and_can_be_cut_off(bench: Bench) -> None:
    talk = killed(bench, "[[shell echo tool-ran]] [[hang]]", b'"tool_result"')
    branched, ran = talk.branch(1, "what number?")
    assert (ran.outcome.text, carried(ran, '"content":"tool-ran"')) == ("111", 1)
    assert carried(branched.say("hi"), '"content":"tool-ran"') == 1
    _, ran = talk.branch(0, "what number?")
    assert (ran.outcome.text, carried(ran, "KILL-ME"), carried(ran, "tool-ran")) == ("111", 0, 0)
    ran = talk.say("what number?")
    assert (ran.outcome.text, carried(ran, "KILL-ME"), carried(ran, '"content":"tool-ran"')) == ("111", 1, 1)
    _, ran = talk.branch(1, "what number?")
    assert (carried(ran, '"content":"tool-ran"'), carried(ran, "what number?")) == (1, 1)


@live("claude")
def test_killed_within_a_tool_the_end_is_a_place_to_go_on_from(bench: Bench) -> None:
    talk = killed(bench, "[[shell echo started; sleep 60]] [[say late]]", b'"tool_use"')
    branched, ran = talk.branch(1, "what number?")
    assert (ran.outcome.text, carried(ran, "KILL-ME")) == ("111", 1)
    assert branched.say("what number?").outcome.text == "111"
    _, ran = talk.branch(0, "what number?")
    assert (ran.outcome.text, carried(ran, "KILL-ME")) == ("111", 0)
    assert talk.say("what number?").outcome.text == "111"


@pytest.mark.soak
@live("claude")
def test_killed_before_anything_happened_the_prompt_stays_only_on_the_newest(bench: Bench) -> None:
    talk = Talk(bench)
    talk.say("remember number 111")
    bench.when_asked("KILL-ME", lambda: bench.signal(signal.SIGKILL))
    talk.say("KILL-ME [[hang]]", failing=True)
    assert (talk.anchors[0] == talk.anchors[1]) == (bench.version == OLD)
    _, ran = talk.branch(0, "what number?")
    assert (ran.outcome.text, carried(ran, "KILL-ME")) == ("111", 0)


# --- compaction ------------------------------------------------------------------------------------


@pytest.mark.soak
@live("claude")
def test_after_a_prompt_too_long_every_anchor_still_gives_its_whole_history(bench: Bench) -> None:
    talk = Talk(bench)
    talk.say("remember number 111")
    talk.say("[[shell echo tool-two]] [[say done-2]]", permission="full")
    failed = talk.say("POISON [[context-full]]", failing=True)
    assert bool(failed.of(ev.Compacted)) == (bench.version == NEW)
    _, ran = talk.branch(0, "what numbers?")
    assert (ran.outcome.text, seen(ran)) == ("111", [1, 0, 0, 0])
    other, ran = talk.branch(1, "remember number 333")
    assert (seen(ran), said(ran, "done-2"), carried(ran, "POISON")) == ([1, 1, 1, 0], 1, 0)
    assert other.say("what numbers?").outcome.text == "111, 333"


@live("claude")
def test_a_compacted_session_is_cut_behind_and_before_its_summary(bench: Bench) -> None:
    """The branch compacts at once, which is no reason to doubt that it went on from its anchor."""
    talk = Talk(bench)
    talk.say("remember number 111 [[say FIRST-ANSWER]]")
    talk.say("remember number 222 [[say SECOND-ANSWER]]")
    branch, ran = talk.branch(0, "word " * 2_000_000 + "[[say heard]]")
    assert len(ran.of(ev.Compacted)) == 1
    branch.say("remember number 444")
    branch.say("remember number 555")
    second, ran = branch.branch(2, "remember number 666")
    kept = ("FIRST-ANSWER", "SECOND-ANSWER", "Noted: 444", "Noted: 555")
    assert [said(ran, words) for words in kept] == [0, 0, 1, 0]
    assert carried(ran, "This session is being continued") == 1
    for one in (branch, second):
        _, ran = one.branch(0, "what numbers?")
        assert (ran.outcome.text, carried(ran, "This session is being continued")) == ("111", 0)


# --- versions, places, damage ----------------------------------------------------------------------


@live("claude", NEW)
@pytest.mark.parametrize("upwards", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_one_version_cuts_what_the_other_wrote(bench: Bench, upwards: bool) -> None:
    first, then = (older(bench), bench) if upwards else (bench, older(bench))
    talk = Talk(first)
    talk.say("remember number 111")
    talk.say("[[shell echo tool-two]] [[say done-2]]", permission="full")
    talk.bench = then
    talk.say("remember number 333")
    for turn, expected in enumerate([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]]):
        other, ran = talk.branch(turn, "hello")
        assert seen(ran) == expected
    assert seen(other.say("hello again")) == expected
    other.bench = first
    _, ran = other.branch(1, "what numbers?")
    assert (ran.outcome.text, seen(ran)) == ("111", [1, 1, 0, 0])


@pytest.mark.soak
@live("claude")
def test_a_copy_is_found_in_any_directory(bench: Bench, tmp_path: Path) -> None:
    """The name is one of those that are cut, and not all of it is ASCII."""
    real, link = tmp_path / "wörk 🎵 x.y_z" / "/".join(["long" * 15] * 5), tmp_path / "link"
    real.mkdir(parents=True)
    link.symlink_to(real)
    talk = Talk(replace(without_forks(bench), cwd=link))
    talk.say("remember number 111")
    talk.say("remember number 222")
    assert talk.branch(0, "what number?")[1].outcome.text == "111"


@live("claude")
def test_a_session_in_another_directorys_folder_is_copied_into_the_own_one(bench: Bench) -> None:
    talk = Talk(bench)
    talk.say("remember number 111")
    talk.say("remember number 222")
    own = talk.found.path
    away = own.parent.with_name("-somewhere-else")
    away.mkdir()
    own.rename(away / own.name)
    assert talk.branch(0, "what number?")[1].outcome.text == "111"
    own.write_bytes((away / own.name).read_bytes())
    assert talk.found.path == own


@live("claude")
def test_a_torn_end_is_passed_over_and_cut_off(bench: Bench) -> None:
    talk = Talk(bench)
    talk.say("remember number 111")
    talk.say("remember number 222")
    path = talk.found.path
    garbage = b'{"type":"user","mess\x00age": broken\n\xff\xfe\n'
    path.write_bytes(garbage + path.read_bytes() + garbage + b'{"type":"assistant","uuid":"torn')
    assert talk.end == talk.anchors[1]
    assert talk.branch(0, "what numbers?")[1].outcome.text == "111"
    assert talk.branch(1, "what numbers?")[1].outcome.text == "111, 222"
