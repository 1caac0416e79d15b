"""What Codex makes of rollouts it did not write itself: copies, cuts, moves, and files written by hand;
and of the ways a message or its own instructions can reach a turn."""

import errno
import re
import subprocess
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.core.request import Runtime
from tests.clis import CLIS, install
from tests.live.harness import Bench, Ran, live
from tests.live.wire import accounted, carried

pytestmark = pytest.mark.fact

NEW, OLD = "0.166.0", "0.104.0"
STAMP = "2026-01-02T03:04:05.678Z"


def rollout(bench: Bench, session: str) -> Path:
    (found,) = bench.home.glob(f"sessions/*/*/*/rollout-*-{session}.jsonl")
    return found


def put(bench: Bench, session: str, text: str) -> Path:
    path = bench.home / f"sessions/2026/01/02/rollout-2026-01-02T03-04-05-{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def talk(bench: Bench) -> str:
    """A session of two turns: first 111, then 222."""
    first = bench.attempt("remember number 111")
    session = first.outcome.session_id
    assert session is not None
    bench.resume(session, "remember number 222")
    return session


def first_turn(text: str) -> str:
    end = text.index('"type":"task_complete"')
    return text[: text.index("\n", end) + 1]


def head(bench: Bench, session: str) -> dict[str, Any]:
    about = {
        "id": session,
        "timestamp": STAMP,
        "cwd": str(bench.cwd),
        "originator": "x",
        "cli_version": "0.1.0",
    }
    return {"timestamp": STAMP, "type": "session_meta", "payload": about}


def item(**payload: Any) -> dict[str, Any]:
    return {"timestamp": STAMP, "type": "response_item", "payload": payload}


def said(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return item(type="message", role=role, content=[{"type": kind, "text": text}])


def cache_key(ran: Ran) -> str:
    """What the service keeps its cache of the prompt under."""
    body = ran.requests[-1].body
    assert body is not None
    return str(body["prompt_cache_key"])


def lines(*records: dict[str, Any]) -> str:
    return "".join(msgspec.json.encode(record).decode() + "\n" for record in records)


@live("codex", NEW, OLD)
def test_a_copy_cut_after_a_turn_under_a_new_id_is_a_branch(bench: Bench) -> None:
    session, mine = talk(bench), str(uuid.uuid4())
    text = rollout(bench, session).read_text()
    put(bench, mine, first_turn(text).replace(session, mine))
    branch = bench.resume(mine, "what number?")
    assert (branch.outcome.text, branch.outcome.session_id) == ("111", mine)
    assert carried(branch, "222") == 0
    assert branch.outcome.usage == accounted(branch)
    assert rollout(bench, session).read_text() == text
    assert (cache_key(branch), cache_key(bench.resume(session, "what number?"))) == (mine, session)


@live("codex", NEW, OLD)
def test_a_branch_needs_nothing_but_the_file(bench: Bench) -> None:
    session, mine = talk(bench), str(uuid.uuid4())
    put(bench, mine, first_turn(rollout(bench, session).read_text()).replace(session, mine))
    for path in bench.home.glob("*.sqlite*"):
        path.unlink()
    assert bench.resume(mine, "what number?").outcome.text == "111"


@live("codex", NEW, OLD)
def test_a_session_cut_in_place_goes_on_from_the_cut(bench: Bench) -> None:
    session = talk(bench)
    path = rollout(bench, session)
    path.write_text(first_turn(path.read_text()))
    ran = bench.resume(session, "what number?")
    assert (ran.outcome.text, carried(ran, "222")) == ("111", 0)
    assert ran.outcome.usage == accounted(ran)


@live("codex", NEW)
def test_a_copy_that_keeps_the_inner_id_takes_over_the_original(bench: Bench) -> None:
    session, mine = talk(bench), str(uuid.uuid4())
    put(bench, mine, first_turn(rollout(bench, session).read_text()))
    ran = bench.resume(mine, "what number?")
    assert ran.outcome.failure is not None
    assert (ran.outcome.failure.kind, ran.outcome.session_id) == ("session_rejected", None)
    assert b'"thread_id":"%s"' % session.encode() in ran.stdout


@live("codex", NEW, OLD)
def test_a_moved_rollout_is_found_by_the_old_version_only_until_the_index_is_gone(bench: Bench) -> None:
    session = talk(bench)
    path = rollout(bench, session)
    elsewhere = bench.home / "sessions/2026/01/02" / path.name
    elsewhere.parent.mkdir(parents=True)
    path.rename(elsewhere)
    ran = bench.resume(session, "what number?")
    if bench.version == NEW:
        assert ran.outcome.failure is not None
        assert (ran.outcome.failure.kind, ran.outcome.failure.reason) == ("session_rejected", "unknown")
        for index in bench.home.glob("*.sqlite*"):
            index.unlink()
        ran = bench.resume(session, "what number?")
    assert ran.outcome.text == "222"


@live("codex", NEW, OLD)
def test_a_session_written_by_hand_resumes_with_its_tool_calls(bench: Bench) -> None:
    mine = str(uuid.uuid4())
    call = item(type="function_call", name="some_tool", arguments='{"a":1}', call_id="call_1")
    result = item(type="function_call_output", call_id="call_1", output="the tool said 789")
    put(
        bench,
        mine,
        lines(
            head(bench, mine), said("user", "remember number 456"), call, result, said("assistant", "Noted.")
        ),
    )
    ran = bench.resume(mine, "what number?")
    assert (ran.outcome.text, ran.outcome.session_id) == ("456", mine)
    assert (carried(ran, "some_tool"), carried(ran, "the tool said 789")) == (1, 1)
    assert ran.outcome.usage == accounted(ran)


@live("codex", NEW, OLD)
@pytest.mark.parametrize("missing", ["id", "timestamp", "cwd", "originator", "cli_version"])
def test_the_head_of_such_a_session_must_be_complete(bench: Bench, missing: str) -> None:
    mine = str(uuid.uuid4())
    begin = head(bench, mine)
    del begin["payload"][missing]
    put(bench, mine, lines(begin, said("user", "remember number 456"), said("assistant", "Noted.")))
    ran = bench.resume(mine, "what number?")
    assert ran.outcome.failure is not None
    assert (ran.outcome.failure.kind, ran.outcome.failure.reason) == ("session_rejected", "corrupt")


@live("codex", NEW, OLD)
def test_lines_without_a_timestamp_are_dropped_without_a_word(bench: Bench) -> None:
    mine = str(uuid.uuid4())
    user = said("user", "remember number 456")
    del user["timestamp"]
    put(bench, mine, lines(head(bench, mine), user, said("assistant", "Noted.")))
    ran = bench.resume(mine, "what number?")
    assert ran.outcome.failure is None
    assert carried(ran, "remember number 456") == 0


@live("codex", NEW)
def test_a_line_appended_to_a_native_rollout_needs_its_ordinal(bench: Bench) -> None:
    session = talk(bench)
    path = rollout(bench, session)
    text = path.read_text()
    last = max(int(number) for number in re.findall(r'"ordinal":(\d+)', text))
    path.write_text(text + lines(said("user", "remember number 333")))
    refused = bench.resume(session, "what number?")
    assert refused.outcome.failure is not None
    assert (refused.outcome.failure.kind, refused.outcome.failure.reason) == ("session_rejected", "corrupt")
    path.write_text(text + lines({**said("user", "remember number 333"), "ordinal": last + 1}))
    assert bench.resume(session, "what number?").outcome.text == "333"


@live("codex", NEW, OLD)
def test_a_call_without_a_result_gets_one(bench: Bench) -> None:
    mine = str(uuid.uuid4())
    call = item(type="function_call", name="exec_command", arguments='{"cmd":"ls"}', call_id="call_1")
    put(bench, mine, lines(head(bench, mine), said("user", "remember number 456"), call))
    ran = bench.resume(mine, "what number?")
    assert ran.outcome.text == "456"
    assert (carried(ran, "function_call_output"), carried(ran, "aborted")) == (1, 1)


@live("codex", NEW)
def test_versions_resume_each_others_sessions(bench: Bench) -> None:
    reason = install(CLIS["codex"], OLD)
    assert not reason, reason
    command = (str(CLIS["codex"].program(OLD)),)
    old: Runtime = msgspec.structs.replace(bench.runtime, command=command, version=OLD)
    other = replace(bench, runtime=old, version=OLD, runs=bench.runs / "old")
    up = other.attempt("remember number 111 [[shell echo hi]][[say noted]]")
    assert bench.resume(up.outcome.session_id, "what number?").outcome.text == "111"
    down = bench.attempt("remember number 222 [[shell echo hi]][[say noted]]")
    assert other.resume(down.outcome.session_id, "what number?").outcome.text == "222"


# --- how a message and instructions reach a turn ---------------------------------------------------


def told(bench: Bench, argument: str, stdin: str = "") -> str:
    """The last request after a run of the bare CLI with a prompt as its argument."""
    argv = [*bench.runtime.command, "exec", "--json", "--skip-git-repo-check", argument]
    subprocess.run(
        argv, input=stdin.encode(), env=bench.env, cwd=bench.cwd, capture_output=True, check=True, timeout=60
    )
    return msgspec.json.encode(bench.model.requests[-1].body).decode()


@live("codex", NEW, OLD)
def test_only_the_new_version_reads_stdin_beside_an_argument(bench: Bench) -> None:
    body = told(bench, "FROM-ARGUMENT", stdin="FROM-STDIN")
    both = re.search(r"FROM-ARGUMENT[^{}]*<stdin>[^{}]*FROM-STDIN", body) is not None
    assert ("FROM-ARGUMENT" in body, "FROM-STDIN" in body, both) == (True, *[bench.version == NEW] * 2)


@live("codex", NEW)
def test_an_argument_has_at_most_131071_bytes(bench: Bench) -> None:
    """The kernel's limit, whatever the program."""
    assert "x" * 131_071 in told(bench, "x" * 131_071)
    with pytest.raises(OSError, match="Argument list too long") as refused:
        told(bench, "x" * 131_072)
    assert refused.value.errno == errno.E2BIG


@live("codex", NEW, OLD)
def test_a_file_of_instructions_is_taken_on_a_resumed_turn_for_that_turn(bench: Bench) -> None:
    file = bench.runs / "instructions.md"
    file.write_text("INSTRUCTIONS-MINE")
    session = bench.attempt("remember number 456").outcome.session_id
    mine = bench.resume(session, "what number?", native_args=("-c", f'model_instructions_file="{file}"'))
    assert (mine.outcome.text, carried(mine, "INSTRUCTIONS-MINE")) == ("456", 1)
    assert carried(bench.resume(session, "what number?"), "INSTRUCTIONS-MINE") == 0
