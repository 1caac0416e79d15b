"""The rehearsal agent's adapter: how it is called, how it is read, what a run amounts to."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from segue.agents.base import Agent, Answer, Ended
from segue.agents.rehearsal.adapter import AGENT
from segue.core import events as ev
from segue.core.errors import Misuse
from segue.core.outcome import Exit, Failure, Outcome
from segue.core.request import Command, Request, RunPlace, Start
from segue.core.stream import TurnState
from segue.core.tools import DeniedTools
from segue.core.usage import Context, Usage
from segue.rehearsal.agent import store

RUNTIME = AGENT.runtime(AGENT.facts.builtin, ())
PLACE = RunPlace(Path("/run/1"))
ERROR = {"kind": "rate_limited", "message": "the model answered 429", "status": 429, "until": 17}


def command(prompt: str = "hi", start: Start | None = None, **more: Any) -> Command:
    request = Request(prompt=prompt, cwd=Path("/work"), start=start or Start(), **more)
    return AGENT.command(request, RUNTIME, PLACE)


def options(made: Command) -> list[str]:
    return list(made.argv[len(AGENT.facts.builtin) :])


def conclude(
    *records: dict[str, Any], code: int | None = 0, start: Start | None = None, **more: Any
) -> Outcome:
    reading = TurnState()
    for record in records:
        for event in AGENT.parse(json.dumps(record).encode()):
            reading.add(event)
    save = more.pop("save", True)
    request = Request(prompt="hi", cwd=Path("/work"), start=start or Start(), save=save)
    ended_by, stderr = more.pop("ended_by", None), more.pop("stderr", "")
    return AGENT.conclude(
        Ended(request=request, runtime=RUNTIME, reading=reading, exit=Exit(code, ended_by, stderr), **more)
    )


SESSION = {"type": "session", "id": "s1", "model": "rehearsal-1", "cwd": "/work"}
USED = {"input": 3, "cache_read": 9, "cache_write": 4, "output": 1}
REPORT = {"type": "usage", "model": "rehearsal-1", "usage": USED}
END = {
    "type": "end",
    "ok": True,
    "text": "456",
    "usage": USED,
    "cost_usd": 0.5,
    "requests": 1,
    "context": {"used": 16, "window": 200000},
}


def test_it_is_an_agent_that_needs_no_program_on_the_path() -> None:
    assert isinstance(AGENT, Agent)
    assert AGENT.facts.builtin == (sys.executable, "-P", "-m", "segue.rehearsal.agent")
    assert RUNTIME.command == AGENT.facts.builtin
    assert RUNTIME.version


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (Start(), []),
        (Start(new_id="new"), ["--session-id=new"]),
        (Start("resume", "old"), ["--resume=old"]),
        (Start("fork", "old", new_id="new"), ["--resume=old", "--fork", "--session-id=new"]),
        (Start("branch", "old", "m1", "new"), ["--resume=old", "--fork", "--at=m1", "--session-id=new"]),
    ],
)
def test_ways_to_start(start: Start, expected: list[str]) -> None:
    assert options(command(start=start)) == ["--input=jsonl", *expected, "--permission=default"]


def test_everything_that_can_be_asked() -> None:
    made = command(
        model="m",
        permission="edit",
        allow_tools=("shell",),
        deny_tools=("write", "read"),
        max_turns=3,
        system_prompt="be brief",
        save=False,
        native_args=("--x",),
    )
    assert options(made) == [
        "--input=jsonl",
        "--no-save",
        "--permission=edit",
        "--model=m",
        "--allow-tool=shell",
        "--deny-tool=write",
        "--deny-tool=read",
        "--max-turns=3",
        "--system-prompt-file=/run/1/system-prompt.md",
        "--x",
    ]
    assert made.files == {Path("/run/1/system-prompt.md"): "be brief"}


def test_the_prompt_goes_by_stdin_which_stays_open_for_answers() -> None:
    made = command("-x\n--help")
    assert json.loads(made.stdin) == {"type": "prompt", "text": "-x\n--help"}
    assert made.stdin.count(b"\n") == 1
    assert made.hold_stdin


@pytest.mark.parametrize(
    "wrong",
    [
        {"prompt": " \n"},
        {"budget_usd": 1.0},
        {"start": Start("resume", "../x")},
        {"start": Start("resume")},
        {"start": Start("branch", "s1", "-m")},
        {"start": Start(new_id="--help")},
    ],
)
def test_what_it_cannot_do_is_misuse(wrong: dict[str, Any]) -> None:
    with pytest.raises(Misuse):
        command(**{"prompt": "hi", **wrong})


def test_home_and_default_home_follow_the_agents_own_rule() -> None:
    for env in (
        {"REHEARSAL_HOME": "/r", "XDG_DATA_HOME": "/d", "HOME": "/h"},
        {"XDG_DATA_HOME": "/d", "HOME": "/h"},
        {"HOME": "/h"},
        {},
    ):
        assert AGENT.default_home(env) == store.default_home(env)
    assert AGENT.default_home({"HOME": "/h"}) == Path("/h/.local/share/segue-rehearsal")
    assert AGENT.default_home(AGENT.home_env(Path("/mine"))) == Path("/mine")


@pytest.mark.parametrize(
    ("record", "event"),
    [
        (SESSION, ev.Session("s1", "rehearsal-1", "/work")),
        ({"type": "delta", "text": "a"}, ev.TextDelta("a")),
        ({"type": "text", "text": "ab"}, ev.Text("ab")),
        ({"type": "thinking", "text": "hm"}, ev.Thinking("hm")),
        (
            {"type": "tool_call", "id": "c", "name": "shell", "input": {"a": 1}},
            ev.ToolCall("c", "shell", {"a": 1}),
        ),
        (
            {"type": "tool_result", "id": "c", "name": "shell", "ok": False, "output": "no", "denied": True},
            ev.ToolResult("c", False, "no", "shell", None, True),
        ),
        ({"type": "question", "id": "q", "questions": [1]}, ev.Question("q", [1])),
        (REPORT, ev.UsageReport(Usage(3, 9, 4, 1), "rehearsal-1")),
        (
            {"type": "retry", "attempt": 1, "limit": 2, "delay_ms": 50, "message": "500"},
            ev.Retry(1, 2, 50, "500"),
        ),
        (END, ev.End(True, "456", raw=END)),
        (
            {"type": "end", "ok": False, "error": ERROR},
            ev.End(False, None, "the model answered 429", {"type": "end", "ok": False, "error": ERROR}),
        ),
    ],
)
def test_every_record_becomes_its_event(record: dict[str, Any], event: ev.Event) -> None:
    assert AGENT.parse(json.dumps(record).encode()) == (event,)


@pytest.mark.parametrize(
    "line",
    [b'{"type": "text", "te', b"words", b"[]", b'{"type":"new"}', b'{"type":"text","text":3}', b'\xff"'],
)
def test_other_lines_are_unknown(line: bytes) -> None:
    (event,) = AGENT.parse(line)
    assert isinstance(event, ev.Unknown)
    assert event.why


def test_a_good_run() -> None:
    outcome = conclude(SESSION, REPORT, END)
    assert outcome == Outcome(
        text="456",
        session_id="s1",
        model="rehearsal-1",
        usage=Usage(3, 9, 4, 1),
        cost_usd=0.5,
        context=Context(16, 200000),
        model_turns=1,
    )


def test_the_tools_that_ran_are_counted() -> None:
    calls = [{"type": "tool_call", "id": f"c{n}", "name": "shell", "input": {}} for n in range(3)]
    results = [{"type": "tool_result", "id": f"c{n}", "ok": False, "denied": n == 0} for n in range(2)]
    outcome = conclude(SESSION, *calls, *results, END)
    assert (outcome.tools_run, outcome.tools_denied) == (2, DeniedTools(1, ("shell",)))


def test_a_failure_comes_as_the_agent_names_it() -> None:
    outcome = conclude(SESSION, {"type": "end", "ok": False, "error": ERROR, "usage": USED}, code=1)
    assert outcome.failure == Failure("rate_limited", "the model answered 429", until=17, status=429)
    assert outcome.usage == Usage(3, 9, 4, 1)
    assert outcome.session_id == "s1"


@pytest.mark.parametrize("kind", ["session_rejected", "session_busy"])
def test_a_refused_session_is_never_taken_for_ours(kind: str) -> None:
    error = {"kind": kind, "message": "no"}
    assert conclude(SESSION, {"type": "end", "ok": False, "error": error}, code=1).session_id is None


def test_an_answer_in_another_session_is_a_rejected_one() -> None:
    outcome = conclude(SESSION, END, start=Start("resume", "other"))
    assert outcome.failure is not None
    assert outcome.failure.kind == "session_rejected"
    assert outcome.session_id is None


def test_what_is_not_on_disk_is_no_session() -> None:
    assert conclude(SESSION, END, evidence={"session_exists": False}).session_id is None
    assert conclude(SESSION, END, evidence={"session_exists": True}).session_id == "s1"
    assert conclude(SESSION, END, save=False).session_id is None


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"code": -15, "ended_by": "cancelled"}, "cancelled"),
        ({"code": -15, "ended_by": "timeout"}, "timeout"),
        ({"code": -9}, "killed"),
        ({"code": 2, "stderr": "rehearsal: wrong\n"}, "crashed"),
        ({"code": 0}, "protocol"),
    ],
)
def test_a_run_without_a_final_word(given: dict[str, Any], kind: str) -> None:
    failure = conclude(SESSION, **given).failure
    assert failure is not None
    assert failure.kind == kind


def test_an_empty_answer_is_said() -> None:
    failure = conclude(SESSION, {**END, "text": ""}).failure
    assert failure == Failure("model_error", "the model gave an empty answer")


def test_a_reply_is_one_line_that_names_the_question() -> None:
    line = AGENT.reply(ev.Question("q1", []), Answer(True, answers={"Which?": "A\nB"}))
    assert json.loads(line) == {
        "type": "answer",
        "id": "q1",
        "allow": True,
        "message": "",
        "answers": {"Which?": "A\nB"},
    }
    assert line.count(b"\n") == 1


def test_evidence_looks_for_the_announced_session(tmp_path: Path) -> None:
    reading = TurnState()
    request = Request(prompt="hi", cwd=tmp_path)
    reading.add(ev.Session("s1"))
    assert AGENT.evidence(request, PLACE, tmp_path, reading)["session_exists"] is False
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / "s1.jsonl").touch()
    assert AGENT.evidence(request, PLACE, tmp_path, reading)["session_exists"] is True
