"""The rehearsal agent as a program: started, resumed, forked, branched, fought over, killed and damaged."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from segue.agents.base import Answer
from segue.agents.rehearsal.adapter import AGENT
from segue.core import events as ev
from segue.core.request import Request, RunPlace, Start

SECONDS = 30


class Ran:
    """What one run printed, and how it ended."""

    def __init__(self, code: int, stdout: bytes, stderr: bytes) -> None:
        self.code = code
        self.stderr = stderr.decode()
        self.lines = stdout.splitlines()
        self.records = [json.loads(line) for line in self.lines if line.startswith(b'{"type":"')]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [record for record in self.records if record["type"] == kind]

    @property
    def end(self) -> dict[str, Any]:
        ends = self.of("end")
        assert ends == self.records[-1:]
        return ends[0]

    @property
    def id(self) -> str:
        return str(self.of("session")[0]["id"])

    @property
    def error(self) -> dict[str, Any]:
        assert self.code == 1
        assert self.end["ok"] is False
        return dict(self.end["error"])


class Bench:
    """A home and a working directory of their own."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.cwd = root / "work"
        self.cwd.mkdir()

    @property
    def env(self) -> dict[str, str]:
        return {"PATH": "/usr/bin:/bin", "HOME": str(self.home), "REHEARSAL_HOME": str(self.home)}

    def start(self, *options: str) -> "subprocess.Popen[bytes]":
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [*AGENT.facts.builtin, *options], cwd=self.cwd, env=self.env, stdin=pipe, stdout=pipe, stderr=pipe
        )

    def run(self, prompt: str | bytes, *options: str) -> Ran:
        data = prompt.encode() if isinstance(prompt, str) else prompt
        process = self.start(*options)
        try:
            stdout, stderr = process.communicate(data, timeout=SECONDS)
        finally:
            process.kill()
        return Ran(process.returncode, stdout, stderr)

    def ask(self, prompt: str, *options: str) -> str:
        ran = self.run(prompt, *options)
        assert ran.code == 0, ran.end
        return str(ran.end["text"])

    def file(self, session: str) -> Path:
        return self.home / "sessions" / f"{session}.jsonl"

    @contextmanager
    def busy(self, session: str) -> Iterator["subprocess.Popen[bytes]"]:
        """A process that is in the middle of a turn of this session."""
        process = self.start(f"--resume={session}")
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(b"[[tool nothing]] [[hang]]")
            process.stdin.close()
            printed = [process.stdout.readline() for _ in range(4)]
            assert b'"tool_result"' in printed[-1]
            yield process
        finally:
            process.kill()
            process.wait(SECONDS)
            process.stdout.close()
            assert process.stderr is not None
            process.stderr.close()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_it_knows_only_what_its_session_holds(bench: Bench) -> None:
    first = bench.run("remember the number 456")
    assert (first.code, first.end["text"]) == (0, "Noted: 456.")
    assert bench.ask("what number?", f"--resume={first.id}") == "456"
    assert bench.ask("what number?") == "I do not know any number."


def test_it_knows_what_the_prompt_carries(bench: Bench) -> None:
    prompt = "<conversation>\nUser: remember number 7\n</conversation>\nwhat number?"
    assert bench.ask(prompt) == "7"


def test_a_resumed_session_goes_on_in_the_same_file(bench: Bench) -> None:
    first = bench.run("remember number 1", "--session-id=mine")
    assert first.id == "mine"
    before = bench.file("mine").read_bytes()
    again = bench.run("remember number 2", "--resume=mine")
    assert again.id == "mine"
    assert bench.file("mine").read_bytes().startswith(before)
    assert bench.ask("what number?", "--resume=mine") == "2"


def test_a_fork_leaves_the_old_session_alone(bench: Bench) -> None:
    bench.run("remember number 1", "--session-id=old")
    before = bench.file("old").read_bytes()
    fork = bench.run("remember number 2", "--resume=old", "--fork", "--session-id=new")
    assert (fork.id, fork.of("session")[0]["parent"]) == ("new", "old")
    assert bench.file("old").read_bytes() == before
    assert bench.ask("what numbers?", "--resume=new") == "1, 2"
    assert bench.ask("what numbers?", "--resume=old") == "1"


def test_a_fork_gets_an_id_of_its_own(bench: Bench) -> None:
    bench.run("hi", "--session-id=old")
    assert bench.run("hi", "--resume=old", "--fork").id != "old"


def test_a_branch_knows_nothing_after_the_cut(bench: Bench) -> None:
    anchor = bench.run("remember number 1", "--session-id=old").end["message_id"]
    bench.run("remember number 2", "--resume=old")
    assert bench.ask("what numbers?", "--resume=old", "--fork", f"--at={anchor}", "--session-id=new") == "1"
    assert bench.ask("what numbers?", "--resume=old") == "1, 2"


def test_a_branch_at_what_is_no_answer_is_rejected(bench: Bench) -> None:
    bench.run("hi", "--session-id=old")
    for at in ("nowhere", json.loads(bench.file("old").read_bytes().splitlines()[1])["id"]):
        ran = bench.run("hi", "--resume=old", "--fork", f"--at={at}", "--session-id=new")
        assert (ran.error["kind"], ran.error["reason"]) == ("session_rejected", "not_found")
    assert not bench.file("new").exists()


def test_an_unknown_session_is_rejected_and_nothing_is_written(bench: Bench) -> None:
    ran = bench.run("hi", "--resume=nobody")
    assert ran.error == {
        "kind": "session_rejected",
        "reason": "not_found",
        "message": "there is no session nobody",
    }
    assert ran.of("session") == []
    assert not bench.home.exists()


def test_an_id_in_use_is_not_taken_twice(bench: Bench) -> None:
    bench.run("remember number 1", "--session-id=mine")
    assert bench.run("hi", "--session-id=mine").error["kind"] == "session_rejected"
    assert bench.ask("what number?", "--resume=mine") == "1"


def test_one_writer_at_a_time(bench: Bench) -> None:
    bench.run("remember number 1", "--session-id=mine")
    with bench.busy("mine"):
        assert bench.run("what number?", "--resume=mine").error["kind"] == "session_busy"
        assert bench.ask("what number?", "--resume=mine", "--fork") == "1"
    assert bench.ask("what number?", "--resume=mine") == "1"


def test_a_killed_turn_leaves_its_prompt_behind(bench: Bench) -> None:
    bench.run("hi", "--session-id=mine")
    with bench.busy("mine"):
        pass
    texts = [json.loads(line).get("text") for line in bench.file("mine").read_bytes().splitlines()]
    assert texts[:4] == [None, "hi", "Understood.", "[[tool nothing]] [[hang]]"]
    assert bench.ask("hi", "--resume=mine") == "Understood."


def test_a_failed_prompt_stays_in_the_session(bench: Bench) -> None:
    bench.run("remember number 9 [[error 401]]", "--session-id=mine")
    assert bench.ask("what number?", "--resume=mine") == "9"


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda whole: whole[: len(whole) // 2] + b"\n" + whole[len(whole) // 2 :], "damaged"),
        (lambda whole: b"", "damaged"),
        (lambda whole: b"\n".join(whole.split(b"\n")[1:]), "header"),
        (lambda whole: whole.replace(b'"id":"mine"', b'"id":"other"'), "header"),
        (lambda whole: whole + whole, "header"),
        (lambda whole: b"\xff" + whole, "damaged"),
    ],
)
def test_a_damaged_session_is_rejected_as_corrupt(bench: Bench, damage: Any, says: str) -> None:
    bench.run("remember number 1", "--session-id=mine")
    bench.file("mine").write_bytes(damaged := damage(bench.file("mine").read_bytes()))
    for options in (("--resume=mine",), ("--resume=mine", "--fork")):
        error = bench.run("hi", *options).error
        assert (error["kind"], error["reason"]) == ("session_rejected", "corrupt")
        assert says in error["message"]
    assert bench.file("mine").read_bytes() == damaged


def test_a_half_written_last_line_is_dropped(bench: Bench) -> None:
    bench.run("remember number 1", "--session-id=mine")
    with bench.file("mine").open("ab") as file:
        file.write(b'{"type":"message","id":"x","ki')
    assert bench.ask("what number?", "--resume=mine") == "1"
    assert bench.ask("what number?", "--resume=mine") == "1"
    assert b'"ki{' not in bench.file("mine").read_bytes()


def test_nothing_is_saved_with_no_save(bench: Bench) -> None:
    ran = bench.run("hi", "--no-save")
    assert ran.of("session")[0]["saved"] is False
    assert not bench.home.exists()
    bench.run("remember number 1", "--session-id=mine")
    before = bench.file("mine").read_bytes()
    assert bench.ask("what number?", "--resume=mine", "--no-save") == "1"
    assert bench.file("mine").read_bytes() == before


def test_usage_is_this_runs_and_disjoint(bench: Bench) -> None:
    text = "x" * 4000
    first = bench.run(text, "--session-id=mine").end
    again = bench.run(text, "--resume=mine").end
    assert first["usage"] == {"input": 3, "cache_read": 0, "cache_write": 1000, "output": 3}
    assert again["usage"] == {"input": 3, "cache_read": 1003, "cache_write": 1000, "output": 3}
    assert first["context"] == {"used": 1003, "window": 200_000}
    assert again["context"]["used"] == 2006
    assert first["cost_usd"] == pytest.approx((3 + 1.25 * 1000 + 5 * 3) / 1e6)
    assert again["cost_usd"] == pytest.approx((3 + 0.1 * 1003 + 1.25 * 1000 + 5 * 3) / 1e6)
    assert bench.run(text, "--no-save").end["usage"] == {
        "input": 1003,
        "cache_read": 0,
        "cache_write": 0,
        "output": 3,
    }


def test_the_usage_of_a_turn_is_the_sum_over_its_requests(bench: Bench) -> None:
    ran = bench.run("[[shell echo 1]] [[shell echo 2]] [[say done]]", "--permission=full")
    reports = [record["usage"] for record in ran.of("usage")]
    assert len(reports) == ran.end["requests"] == 3
    assert {name: sum(r[name] for r in reports) for name in reports[0]} == ran.end["usage"]
    last = reports[-1]
    assert ran.end["context"]["used"] == last["input"] + last["cache_read"] + last["cache_write"]


def test_a_branch_reads_only_its_part_from_the_cache(bench: Bench) -> None:
    anchor = bench.run("x" * 400, "--session-id=old").end["message_id"]
    bench.run("y" * 40_000, "--resume=old")
    usage = bench.run("hi", "--resume=old", "--fork", f"--at={anchor}").end["usage"]
    assert usage["cache_read"] == 103


@pytest.mark.parametrize("permission", ["default", "read"])
def test_a_command_is_denied_unless_it_may_run(bench: Bench, permission: str) -> None:
    ran = bench.run("[[shell touch made]] [[say done]]", f"--permission={permission}")
    (result,) = ran.of("tool_result")
    assert result["denied"]
    assert ran.end["text"] == "done"
    assert not (bench.cwd / "made").exists()


@pytest.mark.parametrize("options", [("--permission=edit",), ("--permission=full",), ("--allow-tool=shell",)])
def test_a_command_really_runs(bench: Bench, options: tuple[str, ...]) -> None:
    ran = bench.run("[[shell echo hi | tee made; exit 3]] [[result]]", *options)
    (call,) = ran.of("tool_call")
    (result,) = ran.of("tool_result")
    assert call["input"] == {"command": "echo hi | tee made; exit 3"}
    assert (result["id"], result["ok"], result["exit_code"], result["output"]) == (call["id"], False, 3, "hi")
    assert ran.end["text"] == "hi"
    assert (bench.cwd / "made").read_text() == "hi\n"


def test_a_denied_tool_stays_denied(bench: Bench) -> None:
    ran = bench.run("[[shell touch made]]", "--permission=full", "--deny-tool=shell", "--allow-tool=shell")
    assert ran.of("tool_result")[0]["denied"]
    assert not (bench.cwd / "made").exists()


def test_it_reads_and_writes_files(bench: Bench) -> None:
    bench.run("[[write note.txt hello there]]", "--permission=edit")
    assert bench.ask("[[read note.txt]] [[result]]") == "hello there"
    assert not bench.run("[[read missing.txt]]").of("tool_result")[0]["ok"]
    assert not bench.run('[[tool fly {"to": "moon"}]]', "--permission=full").of("tool_result")[0]["ok"]


def test_what_it_thinks_and_says(bench: Bench) -> None:
    ran = bench.run("[[think hm]] [[say " + "word " * 30 + "]]")
    assert [record["text"] for record in ran.of("thinking")] == ["hm"]
    (text,) = ran.of("text")
    assert "".join(record["text"] for record in ran.of("delta")) == text["text"] == ran.end["text"]
    assert len(ran.of("delta")) > 1


def test_a_huge_answer(bench: Bench) -> None:
    assert len(bench.ask("[[huge 3000000]]")) == 3_000_000


def test_a_slow_answer_comes_in_pieces(bench: Bench) -> None:
    begun = time.monotonic()
    ran = bench.run("[[slow 0.6 3]] [[say abcdef]]")
    assert [record["text"] for record in ran.of("delta")] == ["ab", "cd", "ef"]
    assert time.monotonic() - begun >= 0.6


@pytest.mark.parametrize(
    ("directive", "kind", "status"),
    [
        ("[[error 401]]", "auth", 401),
        ("[[error 403]]", "auth", 403),
        ("[[error 429]]", "rate_limited", 429),
        ("[[error 500]]", "model_error", 500),
        ("[[error 529]]", "model_error", 529),
        ("[[context-full]]", "context_exceeded", 400),
        ("[[decline prompt]]", "refused", 400),
        ("[[decline]]", "refused", None),
        ("[[drop]]", "network", None),
        ("[[malformed]]", "model_error", None),
    ],
)
def test_every_way_to_fail(bench: Bench, directive: str, kind: str, status: int | None) -> None:
    error = bench.run(directive).error
    assert (error["kind"], error.get("status")) == (kind, status)
    assert error["message"]


def test_a_limit_says_when_it_ends(bench: Bench) -> None:
    before = time.time() * 1000
    until = bench.run("[[error 429 retry-after 90]]").error["until"]
    assert before + 89_000 < until < time.time() * 1000 + 91_000


def test_passing_errors_are_tried_again(bench: Bench) -> None:
    ran = bench.run("[[error 500 times 2]] [[say at last]]")
    assert [record["attempt"] for record in ran.of("retry")] == [1, 2]
    assert ran.end["text"] == "at last"
    assert bench.run("[[error 401 times 1]] [[say never]]").of("retry") == []


def test_a_broken_answer_is_neither_whole_nor_kept(bench: Bench) -> None:
    ran = bench.run("[[malformed]]", "--session-id=mine")
    assert ran.of("text") == []
    assert b'{"type": "text", "te' in ran.lines
    assert bench.run("hi", "--resume=mine").of("session")[0]["held"] == 1


def test_a_full_session_stays_full(bench: Bench) -> None:
    bench.run("x" * 799_900, "--session-id=mine")
    for _ in range(2):
        assert bench.run("y" * 400, "--resume=mine").error["kind"] == "context_exceeded"


def test_the_limit_of_turns(bench: Bench) -> None:
    ran = bench.run("[[shell echo 1]] [[shell echo 2]] [[say done]]", "--max-turns=2")
    assert ran.error == {"kind": "timeout", "message": "stopped at the limit of 2 turns"}
    assert len(ran.of("tool_call")) == 2


def test_a_system_prompt_stays_with_the_session(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "system").write_text("s" * 4000)
    bench.run("hi", "--session-id=mine", f"--system-prompt-file={tmp_path / 'system'}")
    assert bench.run("hi", "--resume=mine").end["usage"]["cache_read"] > 1000
    assert bench.run("hi", "--resume=mine", "--fork").end["usage"]["cache_read"] > 1000


def test_the_model_is_the_sessions_unless_another_is_asked_for(bench: Bench) -> None:
    bench.run("hi", "--session-id=mine", "--model=big")
    assert bench.run("hi", "--resume=mine").of("session")[0]["model"] == "big"
    assert bench.run("hi", "--resume=mine", "--model=small").of("session")[0]["model"] == "small"


def question(bench: Bench, answer: Answer | None) -> Ran:
    """A turn that asks, driven by the adapter."""
    request = Request(prompt="[[ask Which colour? | Red | Blue]] [[result]]", cwd=bench.cwd)
    made = AGENT.command(request, AGENT.runtime(AGENT.facts.builtin, ()), RunPlace(bench.home))
    process = bench.start(*made.argv[len(AGENT.facts.builtin) :])
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(made.stdin)
        process.stdin.flush()
        lines = [process.stdout.readline() for _ in range(3)]
        (asked,) = AGENT.parse(lines[-1])
        assert isinstance(asked, ev.Question)
        assert asked.questions[0]["question"] == "Which colour?"
        data = b"not for you\n" + AGENT.reply(asked, answer) if answer else b""
        stdout, stderr = process.communicate(data, timeout=SECONDS)
    finally:
        process.kill()
    return Ran(process.returncode, b"".join(lines) + stdout, stderr)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Answer(True, answers={"Which colour?": "Blue"}), "Blue"),
        (Answer(False, "ask me later"), "Refused: ask me later"),
        (None, "Nobody answered."),
    ],
)
def test_a_question_is_answered_refused_or_left_open(bench: Bench, answer: Answer | None, text: str) -> None:
    ran = question(bench, answer)
    assert ran.end["text"] == text
    assert ran.of("tool_call") == []


def test_without_a_way_to_answer_it_asks_in_words(bench: Bench) -> None:
    assert bench.ask("[[ask Which? | Red | Blue]]") == "Which? (1) Red (2) Blue"


@pytest.mark.parametrize(
    ("prompt", "options"),
    [
        ("hi", ("--resume=../x",)),
        ("hi", ("--resume", "-x")),
        ("hi", ("--session-id=a/b",)),
        ("hi", ("--fork",)),
        ("hi", ("--resume=x", "--at=y")),
        ("hi", ("--resume=x", "--session-id=y")),
        ("hi", ("--max-turns=0",)),
        ("hi", ("--permission=all",)),
        ("hi", ("--mod=x",)),
        ("hi", ("--system-prompt-file=/nonexistent",)),
        (" \n", ()),
        (b"\xff\xfe", ()),
        ("not json", ("--input=jsonl",)),
    ],
)
def test_wrong_calls_are_told_and_do_nothing(
    bench: Bench, prompt: str | bytes, options: tuple[str, ...]
) -> None:
    ran = bench.run(prompt, *options)
    assert (ran.code, ran.records) == (2, [])
    assert ran.stderr.strip()
    assert "Traceback" not in ran.stderr
    assert not bench.home.exists()


def test_files_in_the_working_directory_are_not_taken_for_modules(bench: Bench) -> None:
    for name in ("segue.py", "msgspec.py", "argparse.py"):
        (bench.cwd / name).write_text("raise SystemExit('taken over')")
    assert bench.ask("[[say fine]]") == "fine"


def test_it_imports_neither_server_nor_colours() -> None:
    heavy = "{'starlette', 'uvicorn', 'rich', 'anyio', 'zstandard', 'subprocess'}"
    code = f"import sys, segue.rehearsal.agent.__main__; print(sorted({heavy} & set(sys.modules)))"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=SECONDS
    )
    assert ran.stdout.strip() == "[]"


def test_the_adapters_own_start_modes_work(bench: Bench) -> None:
    def turn(prompt: str, start: Start) -> Ran:
        made = AGENT.command(
            Request(prompt=prompt, cwd=bench.cwd, start=start),
            AGENT.runtime(AGENT.facts.builtin, ()),
            RunPlace(bench.home),
        )
        return bench.run(made.stdin, *made.argv[len(AGENT.facts.builtin) :])

    first = turn("remember number 1", Start(new_id="old"))
    turn("remember number 2", Start("resume", "old"))
    assert turn("what numbers?", Start("fork", "old", new_id="copy")).end["text"] == "1, 2"
    branch = turn("what numbers?", Start("branch", "old", first.end["message_id"], "cut"))
    assert (branch.end["text"], branch.id) == ("1", "cut")
