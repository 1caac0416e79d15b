"""What Vibe makes of sessions it did not write itself, what a resumed turn takes anew, and how it exits.

A start of 3.x costs five seconds of processor time, so a test tells a whole little story.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.clis import CLIS, install
from tests.live.harness import Bench, live
from tests.live.test_vibe import NEW, OLD, new_folder, old_folder
from tests.live.wire import carried

pytestmark = pytest.mark.fact


def bare(bench: Bench, *args: str, stdin: str = "") -> tuple[int, str]:
    """The CLI as it is, without our adapter: exit code and stderr."""
    argv = [*bench.runtime.command, *args]
    env, cwd, given = bench.env, bench.cwd, stdin.encode()
    done = subprocess.run(argv, input=given, cwd=cwd, env=env, capture_output=True, timeout=90, check=False)
    return done.returncode, done.stderr.decode()


def put(bench: Bench, messages: list[dict[str, Any]]) -> str:
    """Write a session in the form of 2.x, and nothing in it that can be left out."""
    session = str(uuid.uuid4())
    folder = bench.home / f"logs/session/session_20260101_120000_{session[:8]}"
    folder.mkdir(parents=True)
    meta = {"session_id": session, "environment": {"working_directory": str(bench.cwd)}}
    (folder / "meta.json").write_bytes(msgspec.json.encode(meta))
    (folder / "messages.jsonl").write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in messages))
    return session


def said(role: str, content: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


CALL = {
    "id": "call_1",
    "index": 0,
    "function": {"name": "read_file", "arguments": '{"path":"notes"}'},
    "type": "function",
}


# --- from the old version to the new one -----------------------------------------------------------


def of_the_old_version(bench: Bench, prompt: str) -> str:
    """The session that 2.x itself leaves in this home."""
    assert install(CLIS["vibe"], OLD) == ""
    argv = [str(CLIS["vibe"].program(OLD)), "-p", prompt, "--auto-approve"]
    nothing = subprocess.DEVNULL
    subprocess.run(argv, cwd=bench.cwd, env=bench.env, stdin=nothing, stdout=nothing, timeout=60, check=True)
    (meta,) = bench.home.glob("logs/session/session_*/meta.json")
    return str(msgspec.json.decode(meta.read_bytes())["session_id"])


@live("vibe", NEW)
def test_a_session_of_the_old_version_is_taken_in_once_and_none_can_be_copied(bench: Bench) -> None:
    (bench.cwd / "r.txt").write_text("the tool said 789")
    old = of_the_old_version(bench, "remember number 456 [[read r.txt]][[say noted]]")
    first = bench.resume(old, "what number?")
    assert (first.outcome.text, carried(first, "the tool said 789")) == ("456", 1)
    shutil.rmtree(old_folder(bench, old))
    again = bench.resume(old, "SECOND what number?")
    assert again.outcome.session_id == first.outcome.session_id != old
    assert (again.outcome.text, carried(again, "what number?")) == ("456", 2)
    copy = str(uuid.uuid4())
    shutil.copytree(new_folder(bench, first.outcome.session_id), new_folder(bench, copy))
    code, stderr = bare(bench, "-p", "what number?", f"--resume={copy}")
    assert (code, "CURRENT names another session" in stderr) == (2, True)


# --- branches and sessions written by hand ---------------------------------------------------------


@live("vibe", OLD)
def test_a_cut_copy_under_a_new_id_is_a_branch(bench: Bench) -> None:
    first = bench.attempt("remember number 111")
    second = bench.resume(first.outcome.session_id, "remember number 222")
    folder, mine = old_folder(bench, second.outcome.session_id), str(uuid.uuid4())
    copy = folder.with_name(folder.name[:-8] + mine[:8])
    shutil.copytree(folder, copy)
    meta = msgspec.json.decode((copy / "meta.json").read_bytes()) | {"session_id": mine}
    (copy / "meta.json").write_bytes(msgspec.json.encode(meta))
    lines = (folder / "messages.jsonl").read_bytes().splitlines(keepends=True)
    cut = next(at for at, line in enumerate(lines) if b"number 222" in line)
    (copy / "messages.jsonl").write_bytes(b"".join(lines[:cut]))
    branch = bench.resume(mine, "what number?")
    assert (branch.outcome.text, carried(branch, "222")) == ("111", 0)
    assert bench.resume(second.outcome.session_id, "what number?").outcome.text == "222"


@live("vibe", OLD)
def test_the_old_version_answers_a_call_without_a_result(bench: Bench) -> None:
    session = put(bench, [said("user", "remember number 456"), said("assistant", "", tool_calls=[CALL])])
    ran = bench.resume(session, "what number?")
    assert (ran.outcome.text, carried(ran, "<user_cancellation>")) == ("456", 1)


@pytest.mark.soak
@live("vibe", NEW)
def test_the_new_version_takes_tool_calls_in_and_sends_one_without_a_result_as_it_is(bench: Bench) -> None:
    result = said("tool", "the tool said 789", name="read_file", tool_call_id="call_1")
    orphan = said("assistant", "", tool_calls=[CALL | {"id": "call_2"}])
    told = [said("user", "remember number 456"), said("assistant", "", tool_calls=[CALL]), result]
    ran = bench.resume(put(bench, [*told, said("assistant", "Noted."), orphan]), "what number?")
    assert (ran.outcome.text, carried(ran, "the tool said 789")) == ("456", 1)
    assert (carried(ran, '"tool_call_id":"call_1"'), carried(ran, '"tool_call_id":"call_2"')) == (1, 0)
    assert carried(ran, '"id":"call_2"') == 1


# --- what a resumed turn takes anew ----------------------------------------------------------------


@live("vibe", NEW, OLD)
def test_a_resumed_turn_reads_instructions_again_and_only_the_old_version_takes_a_system_prompt(
    bench: Bench,
) -> None:
    prompts = bench.home / "prompts"
    prompts.mkdir()
    session = None
    for name, other in (("ONE", "TWO"), ("TWO", "ONE")):
        (bench.cwd / "AGENTS.md").write_text(f"RULE-{name}")
        (prompts / f"{name}.md").write_text(f"SYSTEM-{name}")
        more: dict[str, Any] = {"native_args": ("--trust",), "env": {"VIBE_SYSTEM_PROMPT_ID": name}}
        if session is None:
            ran = bench.attempt("remember number 456", **more)
        else:
            ran = bench.resume(session, "what number?", **more)
        session = ran.outcome.session_id
        assert (carried(ran, f"RULE-{name}"), carried(ran, f"RULE-{other}")) == (1, 0)
        assert (carried(ran, f"SYSTEM-{name}"), carried(ran, f"SYSTEM-{other}")) == (bench.version == OLD, 0)
    assert ran.outcome.text == "456"


# --- how it is called and how it exits -------------------------------------------------------------


@live("vibe", NEW)
def test_a_time_limit_of_its_own_ends_it_with_exit_3(bench: Bench) -> None:
    code, stderr = bare(bench, "-p", "[[hang]]", "--time-limit=4")
    assert (code, "Stopped: deadline" in stderr) == (3, True)


@live("vibe", OLD)
def test_the_old_version_takes_no_prompt_on_stdin(bench: Bench) -> None:
    code, stderr = bare(bench, "-p", stdin="remember number 456")
    assert (code, "No prompt provided" in stderr, bench.model.requests) == (1, True, [])


@live("vibe", NEW, OLD)
def test_a_prompt_without_its_flag_is_for_the_terminal(bench: Bench) -> None:
    """The new version says that there is none; the old one draws its screen all the same, and stays."""
    if bench.version == NEW:
        code, stderr = bare(bench, "hello")
        assert (code, "Interactive mode needs a terminal" in stderr) == (1, True)
        return
    screen = bench.runs / "screen"
    with screen.open("wb") as drawn:
        process = subprocess.Popen(
            [*bench.runtime.command, "hello"], cwd=bench.cwd, env=bench.env, stdin=subprocess.DEVNULL,
            stdout=drawn, stderr=drawn, start_new_session=True,
        )  # fmt: skip
        try:
            assert shows(screen, b"\x1b[?1049h")
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(3)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def shows(file: Path, text: bytes) -> bool:
    """Whether the text comes to stand in the file within a bounded time."""
    late = time.monotonic() + 60
    while text not in file.read_bytes() and time.monotonic() < late:
        time.sleep(0.1)
    return text in file.read_bytes()


CODES = {
    "[[error 400]]": 2,
    "[[context-full]]": 2,
    "[[error 401]]": 1,
    "[[error 403]]": 1,
    "[[error 429 retry-after 1]]": 2,
    "[[error 500]]": 2,
    "[[drop]]": 2,
    "[[malformed]]": 2,
    "[[empty]]": 0,
}


@pytest.mark.soak
@live("vibe", NEW, OLD)
def test_it_exits_by_the_kind_of_failure(bench: Bench) -> None:
    """The old version knows no difference."""
    found = {prompt: bare(bench, "-p", prompt, "--output=streaming")[0] for prompt in CODES}
    assert found == (
        CODES if bench.version == NEW else {prompt: min(code, 1) for prompt, code in CODES.items()}
    )
    if bench.version == NEW:
        code, stderr = bare(bench, "-p", "[[read r.txt]][[say done]]", "--max-turns=1")
        assert (code, "Stopped: turn_limit" in stderr) == (3, True)
