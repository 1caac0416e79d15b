"""What Gemini makes of sessions it did not write itself, and what a resumed turn takes anew."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
import uuid
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from segue.core.request import Start
from tests.live.harness import Bench, Ran, live
from tests.live.test_gemini import (
    MODEL,
    NEW,
    OLD,
    ask,
    bare,
    failure,
    go_on,
    session_files,
    tool_traffic,
)
from tests.live.wire import carried

pytestmark = pytest.mark.fact

STAMP = "2026-01-02T03:04:05.678Z"


def chats(bench: Bench) -> Path:
    """Where sessions of the working directory are looked for; before it was ever used, by its hash."""
    cwd = os.path.realpath(bench.cwd)
    unused = bench.home / ".gemini/tmp" / sha256(cwd.encode()).hexdigest()
    roots = bench.home.glob(".gemini/tmp/*/.project_root")
    return next((root.parent for root in roots if root.read_text() == cwd), unused) / "chats"


def put(bench: Bench, session: str, messages: list[dict[str, Any]], **header: Any) -> Path:
    """Write a session in the form of the version: one object, or a line for the header and each message."""
    begin = {"sessionId": session, "startTime": STAMP, "lastUpdated": STAMP, "projectHash": "any"} | header
    folder = chats(bench)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"session-2026-01-02T03-04-{session[:8]}.json"
    if bench.version == OLD:
        path.write_text(json.dumps(begin | {"messages": messages}))
        return path
    path = path.with_suffix(".jsonl")
    path.write_text("".join(json.dumps(record) + "\n" for record in (begin, *messages)))
    return path


def message(kind: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"id": str(uuid.uuid4()), "timestamp": STAMP, "type": kind, "content": content, **more}


def resume(bench: Bench, session: str, prompt: str) -> Ran:
    return ask(bench, prompt, start=Start("resume", session))


CALL = {"id": "call_1", "name": "read_file", "args": {"file_path": "notes"}}
RESULT = {"id": "call_1", "name": "read_file", "response": {"output": "the tool said 789"}}


def told(*between: dict[str, Any]) -> list[dict[str, Any]]:
    """A dialogue about the number 456, with something in the middle of it."""
    return [message("user", "remember number 456"), *between, message("gemini", "Noted: 456.")]


# --- branches --------------------------------------------------------------------------------------


def messages_of(path: Path) -> list[dict[str, Any]]:
    """The messages a session file amounts to, in the order they were said."""
    if path.suffix == ".json":
        return list(json.loads(path.read_text())["messages"])
    found: dict[str, dict[str, Any]] = {}
    for line in path.read_text().splitlines()[1:]:
        record = json.loads(line)
        if "messages" in record.get("$set", {}):
            found = {one["id"]: one for one in record["$set"]["messages"]}
        elif "id" in record:
            found[record["id"]] = record
    return list(found.values())


@live("gemini")
def test_a_cut_copy_under_a_new_id_is_a_branch(bench: Bench) -> None:
    first = ask(bench, "remember number 111")
    go_on(bench, first, "remember number 222")
    (file,) = session_files(bench, first)
    whole, mine = file.read_bytes(), str(uuid.uuid4())
    kept = messages_of(file)
    cut = next(at for at, one in enumerate(kept) if "222" in json.dumps(one["content"]))
    put(bench, mine, kept[:cut])
    branch = resume(bench, mine, "what number?")
    assert (branch.outcome.text, branch.outcome.session_id) == ("111", mine)
    assert carried(branch, "222") == 0
    assert file.read_bytes() == whole


@pytest.mark.soak
@live("gemini", NEW)
def test_the_first_lines_of_a_session_are_a_branch_too(bench: Bench) -> None:
    first = ask(bench, "remember number 111")
    (file,) = session_files(bench, first)
    whole, mine = file.read_text(), str(uuid.uuid4())
    go_on(bench, first, "remember number 222")
    assert first.outcome.session_id is not None
    copy = file.with_name(f"session-2026-01-02T03-04-{mine[:8]}.jsonl")
    copy.write_text(whole.replace(first.outcome.session_id, mine))
    branch = resume(bench, mine, "what number?")
    assert (branch.outcome.text, carried(branch, "222")) == ("111", 0)


@live("gemini", NEW)
def test_a_session_file_is_loaded_from_anywhere_under_an_id_of_its_own(bench: Bench, tmp_path: Path) -> None:
    session = str(uuid.uuid4())
    file = put(bench, session, told()).rename(tmp_path / "elsewhere.jsonl")
    whole = file.read_bytes()
    code, records, _ = bare(bench, "what number?", f"--session-file={file}")
    assert [record["content"] for record in records if record.get("role") == "assistant"] == ["456"]
    assert (code, records[0]["session_id"] == session, file.read_bytes() == whole) == (0, False, True)
    code, records, stderr = bare(
        bench, "what number?", f"--session-file={file}", f"--session-id={uuid.uuid4()}"
    )
    assert (code, records, "--session-file" in stderr) == (1, [], True)


# --- sessions written by hand ----------------------------------------------------------------------


@live("gemini", NEW)
def test_a_session_written_by_hand_resumes_with_its_tool_calls_as_parts(bench: Bench) -> None:
    """In this form, unlike its own, no resume repeats the results. The header must name a project."""
    good, bad = str(uuid.uuid4()), str(uuid.uuid4())
    call = message("gemini", [{"text": "I look."}, {"functionCall": CALL}])
    messages = told(call, message("user", [{"functionResponse": RESULT}]))
    put(bench, good, messages)
    path = put(bench, bad, messages)
    path.write_text(path.read_text().replace('"projectHash"', '"otherwise"'))
    for _ in range(2):
        ran = resume(bench, good, "what number?")
        assert (ran.outcome.text, ran.outcome.session_id) == ("456", good)
        assert tool_traffic(ran) == (1, 1)
        assert carried(ran, "the tool said 789") == 1
    code, records, stderr = bare(bench, "what number?", f"--resume={bad}")
    assert (code, records, "Invalid session identifier" in stderr) == (42, [], True)


@live("gemini", OLD)
def test_the_older_version_takes_tool_calls_in_its_own_form_only(bench: Bench) -> None:
    """Of parts, a call becomes text and its result stays behind without it."""
    own, parts = str(uuid.uuid4()), str(uuid.uuid4())
    done = CALL | {"status": "success", "timestamp": STAMP, "result": [{"functionResponse": RESULT}]}
    put(bench, own, told(message("gemini", "I look.", toolCalls=[done])))
    call = message("gemini", [{"text": "I look."}, {"functionCall": CALL}])
    put(bench, parts, told(call, message("user", [{"functionResponse": RESULT}])))
    ran = resume(bench, own, "what number?")
    assert (ran.outcome.text, tool_traffic(ran)) == ("456", (1, 1))
    ran = resume(bench, parts, "what number?")
    assert (ran.outcome.text, tool_traffic(ran), carried(ran, "[Function Call: ")) == ("456", (0, 1), 1)


@live("gemini")
def test_a_tool_call_without_a_result_is_sent_as_it_is(bench: Bench) -> None:
    session = str(uuid.uuid4())
    if bench.version == OLD:
        call = message("gemini", "", toolCalls=[CALL | {"status": "executing", "timestamp": STAMP}])
    else:
        call = message("gemini", [{"functionCall": CALL}])
    put(bench, session, [message("user", "remember number 456"), call])
    ran = resume(bench, session, "what number?")
    assert (ran.outcome.text, tool_traffic(ran)) == ("456", (1, 0))


# --- what a resumed turn takes anew ----------------------------------------------------------------


@live("gemini")
def test_a_resumed_turn_has_the_model_and_the_instructions_of_the_moment(
    bench: Bench, tmp_path: Path
) -> None:
    (bench.cwd / "GEMINI.md").write_text("RULE-ONE")
    first = ask(bench, "remember number 456")
    assert carried(first, "RULE-ONE") == 1
    (bench.cwd / "GEMINI.md").write_text("RULE-TWO")
    (tmp_path / "system.md").write_text("SYSTEM-MINE")
    system = {"GEMINI_SYSTEM_MD": str(tmp_path / "system.md")}
    second = go_on(bench, first, "what number?", model="gemini-2.5-flash", env=system)
    assert (second.outcome.text, second.requests[-1].model) == ("456", "gemini-2.5-flash")
    assert [carried(second, text) for text in ("RULE-ONE", "RULE-TWO", "SYSTEM-MINE")] == [0, 1, 1]


@live("gemini", NEW)
def test_each_resume_writes_the_whole_session_again(bench: Bench) -> None:
    session, long = str(uuid.uuid4()), "y" * 20_000
    sizes = [put(bench, session, [*told(), message("user", long), message("gemini", "ok")]).stat().st_size]
    for _ in range(2):
        resume(bench, session, long)
        (file,) = chats(bench).glob(f"session-*-{session[:8]}.jsonl")
        sizes.append(file.stat().st_size)
    assert (sizes[1] - sizes[0] > 40_000, sizes[2] - sizes[1] > 60_000) == (True, True), sizes


# --- the bare CLI: exit codes, signals, input ------------------------------------------------------

CODES = {"[[error 400]]": 144, "[[error 401]]": 145, "[[error 429 retry-after 1]]": 173, "[[error 500]]": 244}


@live("gemini")
def test_it_exits_with_the_status_of_the_model_service_modulo_256(bench: Bench, soak: bool) -> None:
    """But the older version gives up on a limit with 1."""
    prompts = list(CODES) if soak else list(CODES)[:2]
    expected = CODES | ({} if bench.version == NEW else {"[[error 429 retry-after 1]]": 1})
    assert {prompt: bare(bench, prompt)[0] for prompt in prompts} == {p: expected[p] for p in prompts}


def signalled(bench: Bench, number: signal.Signals) -> tuple[int, bytes]:
    """Start it in a group of its own, signal the group once it has asked the model, and see how it ends."""
    argv = [*bench.runtime.command, "--output-format=stream-json", f"--model={MODEL}", "-p", "[[hang]]"]
    env = bench.env | {"TMPDIR": str(bench.runs)}
    with (bench.runs / number.name).open("wb") as output:
        process = subprocess.Popen(
            argv, cwd=bench.cwd, env=env, stdin=subprocess.DEVNULL, stdout=output, start_new_session=True
        )
        try:
            asked(bench, len(bench.model.requests))
            os.killpg(process.pid, number)
            return process.wait(20), (bench.runs / number.name).read_bytes()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def asked(bench: Bench, before: int) -> None:
    """Wait until the model has been asked once more."""
    late = time.monotonic() + 60
    while len(bench.model.requests) == before:
        assert time.monotonic() < late, "the model was not asked"
        time.sleep(0.1)


@live("gemini")
def test_a_signal_to_its_group_ends_the_newer_version_with_exit_0_and_no_result(bench: Bench) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        code, output = signalled(bench, number)
        assert b'"type":"init"' in output
        assert b'"type":"result"' not in output
        assert code == (0 if bench.version == NEW else -number)


@live("gemini", NEW, OLD)
def test_ended_by_somebody_else_it_is_no_success(bench: Bench) -> None:
    def end() -> None:
        asked(bench, 0)
        bench.signal(signal.SIGTERM)

    thread = threading.Thread(target=end)
    thread.start()
    ran = ask(bench, "[[hang]]")
    thread.join()
    assert failure(ran).kind == ("protocol" if bench.version == NEW else "killed")


@live("gemini")
def test_what_stands_on_stdin_comes_before_the_argument(bench: Bench) -> None:
    bare(bench, "FROM-STDIN", "--prompt=FROM-ARGUMENT")
    body = json.dumps(bench.model.requests[-1].body)
    assert 0 < body.index("FROM-STDIN") < body.index("FROM-ARGUMENT")


@live("gemini")
def test_more_than_eight_mebibytes_on_stdin_are_cut_off_with_a_warning(bench: Bench) -> None:
    _, _, stderr = bare(bench, "x" * (8 * 1024 * 1024 + 1))
    assert "truncated" in stderr
    assert bench.model.requests == []
