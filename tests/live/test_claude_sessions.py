"""What Claude makes of its session files, of copies and hand-written ones, and of options beside them."""

from __future__ import annotations

import re
import signal
import subprocess
import time
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.agents import registry
from segue.agents.base import Answer
from segue.core import events as ev
from segue.core.environment import child_environment
from segue.core.request import Runtime, Start
from segue.rehearsal.log import LoggedRequest as Asked
from tests.clis import CLIS, install
from tests.live.harness import Bench, Ran, live
from tests.live.wire import accounted, carried, said

pytestmark = pytest.mark.fact

NEW, OLD = "2.1.325", "2.1.50"


def folder(home: Path, cwd: Path) -> Path:
    """Where the sessions of a directory are kept."""
    return home / "projects" / re.sub(r"[^A-Za-z0-9]", "-", str(cwd))


def session_file(bench: Bench, session: str) -> Path:
    return folder(bench.home, bench.cwd) / f"{session}.jsonl"


def put(bench: Bench, text: str) -> str:
    """A session file of ours, under an id of its own."""
    mine = str(uuid.uuid4())
    path = session_file(bench, mine)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return mine


def written(bench: Bench, *messages: tuple[str, Any], apart: int = 1) -> str:
    """A session of nothing but its messages, each so many seconds after the one before."""
    lines, parent = "", None
    for number, (role, content) in enumerate(messages):
        own = str(uuid.uuid4())
        record = {
            "type": role,
            "uuid": own,
            "parentUuid": parent,
            "timestamp": f"2026-01-02T03:04:{number * apart:02}.000Z",
            "message": {"role": role, "content": content},
        }
        lines, parent = lines + msgspec.json.encode(record).decode() + "\n", own
    return put(bench, lines)


def text(words: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": words}]


def call(tool: str, key: str = "toolu_1") -> dict[str, Any]:
    return {"type": "tool_use", "id": key, "name": tool, "input": {"command": "ls"}}


def returned(output: str, key: str = "toolu_1") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": key, "content": output}


TWO = ("user", text("remember number 1")), ("assistant", text("FIRST-ANSWER"))


def talk(bench: Bench) -> tuple[str, str]:
    """A session of two turns, first 111, then 222; and the id of the answer between them."""
    first = bench.attempt("remember number 111")
    session = first.outcome.session_id
    assert session is not None
    bench.resume(session, "remember number 222")
    return session, last_uuid(first, "assistant")


def last_uuid(ran: Ran, kind: str) -> str:
    lines = [msgspec.json.decode(line) for line in ran.stdout.splitlines()]
    return str([line["uuid"] for line in lines if line["type"] == kind][-1])


def up_to(bench: Bench, session: str, anchor: str) -> str:
    """The lines of the session up to the record of that id."""
    lines = session_file(bench, session).read_text().splitlines(keepends=True)
    end = next(n for n, line in enumerate(lines) if f'"uuid":"{anchor}"' in line)
    return "".join(lines[: end + 1])


def body(ran: Ran) -> dict[str, Any]:
    found = [request for request in ran.requests if not request.side][-1].body
    assert found is not None
    return found


def result(ran: Ran) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(ran.stdout.splitlines()[-1])
    assert found["type"] == "result"
    return found


@dataclass(frozen=True)
class Bare:
    """A run of the CLI without us in between."""

    code: int
    stdout: str
    stderr: str
    requests: list[Asked]


def bare(bench: Bench, *args: str, stdin: str = "", env: dict[str, str] | None = None) -> Bare:
    before = len(bench.model.requests)
    done = subprocess.run(
        [*bench.runtime.command, "-p", *args],
        env=bench.env if env is None else env,
        cwd=bench.cwd,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Bare(done.returncode, done.stdout, done.stderr, bench.model.requests[before:])


# --- another home ----------------------------------------------------------------------------------


@live("claude")
def test_another_home_refuses_a_session_until_its_file_is_copied_there(bench: Bench, tmp_path: Path) -> None:
    first = bench.attempt("remember number 456")
    assert first.outcome.session_id is not None
    home = tmp_path / "other"
    other = replace(bench, home=home, env={**bench.env, "CLAUDE_CONFIG_DIR": str(home)})
    refused = other.resume(first.outcome.session_id, "what number?")
    assert refused.outcome.failure is not None
    assert (refused.outcome.failure.kind, refused.outcome.failure.reason) == ("session_rejected", "not_found")
    source, target = (session_file(one, first.outcome.session_id) for one in (bench, other))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(source.read_bytes())
    ran = other.resume(first.outcome.session_id, "what number?")
    assert (ran.outcome.text, ran.outcome.session_id) == ("456", first.outcome.session_id)
    assert carried(ran, "remember number 456") == 1


@live("claude", NEW)
def test_a_file_resumed_by_its_path_is_continued_only_under_the_sessions_own_name(bench: Bench) -> None:
    session, _ = talk(bench)
    whole = session_file(bench, session).read_bytes()
    for name, kept in ((f"{session}.jsonl", True), ("copy.jsonl", False)):
        path = bench.cwd / name
        path.write_bytes(whole)
        ran = bare(bench, "--resume", str(path), stdin="what number?")
        assert (ran.code, ran.stdout.strip()) == (0, "222")
        assert (path.read_bytes() != whole) is kept
    assert session_file(bench, session).read_bytes() == whole
    assert len(list(bench.home.glob("projects/*/*.jsonl"))) == 1


@live("claude", OLD)
def test_a_file_resumed_by_its_path_is_forked(bench: Bench) -> None:
    path = session_file(bench, written(bench, *TWO))
    whole = path.read_bytes()
    ran = bare(bench, "--resume", str(path), stdin="remember number 2")
    assert (ran.code, ran.stdout.strip(), path.read_bytes()) == (0, "Noted: 2.", whole)
    (fork,) = set(path.parent.glob("*.jsonl")) - {path}
    assert bench.resume(fork.stem, "what numbers?").outcome.text == "1, 2"


# --- files written by hand -------------------------------------------------------------------------


@live("claude")
def test_a_session_written_by_hand_resumes_with_its_tool_calls(bench: Bench) -> None:
    mine = written(
        bench,
        ("user", text("remember number 456")),
        ("assistant", [*text("Let me look."), call("Bash")]),
        ("user", [returned("the tool said 789")]),
        ("assistant", text("Noted.")),
    )
    ran = bench.resume(mine, "what number?")
    assert (ran.outcome.text, ran.outcome.session_id) == ("456", mine)
    assert (carried(ran, "toolu_1"), carried(ran, "the tool said 789")) == (2, 1)
    assert ran.outcome.usage == accounted(ran)


@live("claude", NEW, OLD)
def test_equal_timestamps_lose_all_but_the_first_message_on_the_older_version(bench: Bench) -> None:
    more = ("user", text("remember number 2")), ("assistant", text("SECOND-ANSWER"))
    ran = bench.resume(written(bench, *TWO, *more, apart=0), "what numbers?")
    kept = [carried(ran, words) for words in ("number 1", "FIRST-ANSWER", "number 2", "SECOND-ANSWER")]
    assert kept == ([1, 1, 1, 1] if bench.version == NEW else [1, 0, 0, 0])


@live("claude", NEW, OLD)
def test_records_without_a_time_are_no_conversation_to_the_newest(bench: Bench) -> None:
    whole = session_file(bench, written(bench, *TWO)).read_text()
    ran = bench.resume(put(bench, re.sub(r'"timestamp":"[^"]*",', "", whole)), "what number?")
    if bench.version == NEW:
        assert ran.outcome.failure is not None
        assert (ran.outcome.failure.kind, ran.requests) == ("session_rejected", [])
    else:  # as with equal times
        assert (ran.outcome.text, carried(ran, "FIRST-ANSWER")) == ("1", 0)


@live("claude")
def test_records_without_a_parent_lose_all_but_the_last(bench: Bench) -> None:
    whole = session_file(bench, written(bench, *TWO)).read_text()
    ran = bench.resume(put(bench, re.sub(r'"parentUuid":"[^"]*",', "", whole)), "what number?")
    assert (carried(ran, "number 1"), carried(ran, "FIRST-ANSWER")) == (0, 1)


# --- damaged files ---------------------------------------------------------------------------------


@live("claude")
def test_a_torn_last_line_loses_that_message_and_a_broken_one_in_the_middle_nothing(bench: Bench) -> None:
    mine = written(bench, *TWO, ("user", text("LAST-MESSAGE")))
    first, second, last = session_file(bench, mine).read_text().splitlines(keepends=True)
    torn = put(bench, first + '{"type":"user","mess\x00age": broken\n' + second + last[:-30])
    ran = bench.resume(torn, "what number?")
    assert ran.outcome.text == "1"
    assert (carried(ran, "FIRST-ANSWER"), carried(ran, "LAST-MESSAGE")) == (1, 0)


@live("claude", NEW, OLD)
def test_a_call_without_a_result_is_completed_by_the_newest_and_dropped_by_the_older(bench: Bench) -> None:
    mine = written(bench, TWO[0], ("assistant", [*text("Let me look."), call("Bash")]))
    ran = bench.resume(mine, "what number?")
    assert ran.outcome.text == "1"
    completed = bench.version == NEW
    assert carried(ran, "toolu_1") == (2 if completed else 0)
    assert carried(ran, "[Tool call interrupted") == (1 if completed else 0)


@live("claude", NEW, OLD)
def test_a_result_without_a_call_is_replaced_by_the_newest_and_dropped_by_the_older(bench: Bench) -> None:
    more = ("user", [returned("ORPHAN-RESULT")]), ("assistant", text("SECOND-ANSWER"))
    ran = bench.resume(written(bench, *TWO, *more), "what number?")
    assert (ran.outcome.text, carried(ran, "SECOND-ANSWER")) == ("1", 1)
    assert (carried(ran, "ORPHAN-RESULT"), carried(ran, "toolu_1")) == (0, 0)
    assert carried(ran, "(no content)") == (1 if bench.version == NEW else 0)


@live("claude")
def test_an_empty_answer_in_a_session_is_replaced(bench: Bench) -> None:
    ran = bench.resume(written(bench, TWO[0], ("assistant", [])), "what number?")
    assert (ran.outcome.text, said(ran, "(no content)")) == ("1", 1)


@live("claude", NEW)
def test_versions_resume_each_others_sessions(bench: Bench) -> None:
    reason = install(CLIS["claude"], OLD)
    assert not reason, reason
    command = (str(CLIS["claude"].program(OLD)),)
    old: Runtime = msgspec.structs.replace(bench.runtime, command=command, version=OLD)
    other = replace(bench, runtime=old, version=OLD, runs=bench.runs / "old")
    prompt = "remember number {} [[shell echo hi]][[say noted]]"
    up = other.attempt(prompt.format(111), permission="full")
    above = bench.resume(up.outcome.session_id, "what number?")
    assert (above.outcome.text, carried(above, "tool_result")) == ("111", 1)
    down = bench.attempt(prompt.format(222), permission="full")
    below = other.resume(down.outcome.session_id, "what number?")
    assert (below.outcome.text, carried(below, "tool_result")) == ("222", 1)


# --- branches --------------------------------------------------------------------------------------


@live("claude")
def test_a_branch_without_a_fork_cuts_the_session_itself(bench: Bench) -> None:
    session, anchor = talk(bench)
    cut = bare(bench, "--resume", session, "--resume-session-at", anchor, stdin="remember number 333")
    assert cut.code == 0
    after = bench.resume(session, "what numbers?")
    assert (carried(after, "number 111"), carried(after, "number 222"), carried(after, "number 333")) == (
        1,
        0,
        1,
    )


@live("claude")
def test_a_branch_may_start_at_a_tool_call_or_at_a_users_message(bench: Bench) -> None:
    first = bench.attempt("remember number 111 [[shell echo hi]][[say done]]", permission="full")
    session = first.outcome.session_id
    assert session is not None
    lines = [msgspec.json.decode(line) for line in session_file(bench, session).read_bytes().splitlines()]
    user, tool_use = (next(x["uuid"] for x in lines if x["type"] == kind) for kind in ("user", "assistant"))
    at_call = bench.attempt("what number?", start=Start("branch", session, at=tool_use))
    assert at_call.outcome.text == "111"
    assert carried(at_call, "[Tool result missing due to internal error]") == 1
    at_user = bench.attempt("what number?", start=Start("branch", session, at=user))
    assert at_user.outcome.text == "111"
    assert [message for message in body(at_user)["messages"] if message["role"] == "assistant"] == []


@live("claude")
def test_a_copy_of_the_first_lines_is_a_branch_and_sends_the_same_beginning(bench: Bench) -> None:
    first = bench.attempt("remember number 111")
    session = first.outcome.session_id
    assert session is not None
    second = bench.resume(session, "remember number 222")
    head = up_to(bench, session, last_uuid(first, "assistant"))
    for lines in (head, head.replace(session, str(uuid.uuid4()))):
        mine = put(bench, lines)
        branch = bench.resume(mine, "what number?")
        assert (branch.outcome.text, branch.outcome.session_id) == ("111", mine)
        assert carried(branch, "222") == 0
        assert branch.requests[-1].new_bytes <= second.requests[-1].new_bytes


# --- too long --------------------------------------------------------------------------------------


PLAIN = {"DISABLE_AUTO_COMPACT": "1"}
LONG = "word " * 2_000_000 + "LAST-WORDS [[say heard]]"


def overflow(bench: Bench, env: dict[str, str] | None = None) -> tuple[str, str, Ran]:
    """Two turns, then one that is too long; the session, its last good answer, and the failed run."""
    first = bench.attempt("FIRST-TURN remember number 111", env=env)
    session = first.outcome.session_id
    assert session is not None
    good = bench.resume(session, "SECOND-TURN remember number 222", env=env)
    return session, last_uuid(good, "assistant"), bench.resume(session, "POISON [[context-full]]", env=env)


@live("claude", NEW)
def test_after_a_prompt_too_long_only_a_copy_has_the_whole_history(bench: Bench) -> None:
    session, anchor, failed = overflow(bench)
    assert failed.outcome.failure is not None
    assert failed.outcome.failure.kind == "context_exceeded"
    assert len(failed.of(ev.Compacted)) == 1
    flagged = bench.attempt("what number?", start=Start("branch", session, at=anchor))
    assert (carried(flagged, "FIRST-TURN"), carried(flagged, "A rehearsal took place")) == (0, 1)
    copied = bench.resume(put(bench, up_to(bench, session, anchor)), "what numbers?")
    assert [carried(copied, words) for words in ("FIRST-TURN", "SECOND-TURN", "POISON")] == [1, 1, 0]


@live("claude", NEW)
def test_without_auto_compaction_a_branch_has_the_whole_history_too(bench: Bench) -> None:
    session, anchor, failed = overflow(bench, PLAIN)
    assert failed.outcome.failure is not None
    assert failed.outcome.failure.kind == "context_exceeded"
    assert (len(failed.requests), failed.of(ev.Compacted)) == (1, [])
    flagged = bench.attempt("what numbers?", start=Start("branch", session, at=anchor), env=PLAIN)
    assert [carried(flagged, words) for words in ("FIRST-TURN", "SECOND-TURN", "POISON")] == [1, 1, 0]


@pytest.mark.soak
@live("claude", OLD)
def test_after_a_prompt_too_long_a_branch_and_a_copy_have_the_whole_history(bench: Bench) -> None:
    session, anchor, failed = overflow(bench)
    assert failed.outcome.failure is not None
    assert failed.of(ev.Compacted) == []
    flagged = bench.attempt("what numbers?", start=Start("branch", session, at=anchor))
    copied = bench.resume(put(bench, up_to(bench, session, anchor)), "what numbers?")
    for ran in (flagged, copied):
        assert [carried(ran, words) for words in ("FIRST-TURN", "SECOND-TURN", "POISON")] == [1, 1, 0]


@live("claude", NEW)
def test_ten_megabytes_on_a_resumed_turn_compact_the_history_away(bench: Bench) -> None:
    first = bench.attempt("FIRST-TURN remember number 111")
    ran = bench.resume(first.outcome.session_id, LONG)
    assert (ran.outcome.failure, ran.outcome.text, len(ran.of(ev.Compacted))) == (None, "heard", 1)
    assert (carried(ran, "FIRST-TURN"), carried(ran, "LAST-WORDS")) == (0, 1)


@live("claude", OLD)
def test_ten_megabytes_are_themselves_replaced_by_a_summary(bench: Bench) -> None:
    ran = bench.resume(written(bench, *TWO), LONG)
    assert (ran.outcome.failure, len(ran.of(ev.Compacted))) == (None, 1)
    assert (carried(ran, "FIRST-ANSWER"), carried(ran, "LAST-WORDS")) == (0, 0)


@live("claude")
def test_without_auto_compaction_ten_megabytes_are_refused(bench: Bench) -> None:
    ran = bench.resume(written(bench, *TWO), LONG, env=PLAIN)
    assert ran.outcome.failure is not None
    assert (ran.outcome.failure.kind, ran.requests) == ("context_exceeded", [])


# --- options ---------------------------------------------------------------------------------------


@live("claude", NEW, OLD)
def test_a_model_chosen_on_a_resumed_turn_stays_on_the_newest_only(bench: Bench) -> None:
    first = bench.attempt("remember number 1")
    usual = first.requests[-1].model
    chosen = bench.resume(first.outcome.session_id, "what number?", model="claude-sonnet-4-5")
    assert chosen.requests[-1].model.startswith("claude-sonnet-4-5")
    after = bench.resume(first.outcome.session_id, "what number?")
    if bench.version == NEW:
        assert after.requests[-1].model == chosen.requests[-1].model
    else:
        assert after.requests[-1].model == usual


@live("claude", NEW, OLD)
def test_the_options_for_tools_swallow_a_prompt_that_follows(bench: Bench) -> None:
    """A resume on 2.1.50 even exits well, with nothing done and nothing said."""
    swallowed = ("--allowedTools", "Read", "remember number 1")
    fresh = bare(bench, *swallowed)
    assert (fresh.code, fresh.requests) == (1, [])
    assert "Input must be provided" in fresh.stderr
    session = written(bench, *TWO)
    resumed = bare(bench, "--resume", session, *swallowed)
    assert (resumed.code, resumed.stdout, resumed.requests) == (1 if bench.version == NEW else 0, "", [])


@live("claude")
def test_an_argument_comes_before_what_stands_on_stdin(bench: Bench) -> None:
    ran = bare(bench, "ARGUMENT-TEXT", stdin="STDIN-TEXT")
    assert ran.code == 0
    assert re.search(r"ARGUMENT-TEXT\s+STDIN-TEXT", ran.requests[-1].last_user_text)


SCHEMA = '{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}'


@live("claude", NEW, OLD)
def test_an_answer_by_a_schema_is_an_object_also_on_a_resumed_turn(bench: Bench) -> None:
    """The newest gives it as the answer's text too; 2.1.50 asks for words, too. The value is said once."""
    option = (f"--json-schema={SCHEMA}",)
    first = bench.attempt('[[tool StructuredOutput {"n": 7}]]', native_args=option)
    assert result(first)["structured_output"] == {"n": 7}
    assert first.outcome.text == ('{"n":7}' if bench.version == NEW else 'Done.\n\n```json\n{"n":7}\n```')
    session = first.outcome.session_id
    second = bench.resume(session, '[[tool StructuredOutput {"n": 8}]]', native_args=option)
    assert result(second)["structured_output"] == {"n": 8}


@live("claude")
def test_an_answer_beside_the_schema_is_asked_for_again(bench: Bench) -> None:
    ran = bench.attempt("[[say seven]]", native_args=(f"--json-schema={SCHEMA}",))
    assert "You MUST call the StructuredOutput tool" in ran.requests[1].last_user_text
    assert isinstance(result(ran)["structured_output"]["n"], int)


@live("claude")
def test_several_texts_in_one_message_stay_several(bench: Bench) -> None:
    message = {"role": "user", "content": [*text("TEXT-ONE"), *text("TEXT-TWO")]}
    line = msgspec.json.encode({"type": "user", "message": message}).decode() + "\n"
    formats = ("--input-format=stream-json", "--output-format=stream-json", "--verbose")
    ran = bare(bench, *formats, stdin=line)
    assert ran.code == 0
    session = msgspec.json.decode(ran.stdout.splitlines()[-1])["session_id"]
    later = bench.resume(session, "what number?")
    texts = [
        block["text"]
        for message in body(later)["messages"]
        if message["role"] == "user" and not isinstance(message["content"], str)
        for block in message["content"]
        if block["type"] == "text"
    ]
    assert texts.index("TEXT-TWO") == texts.index("TEXT-ONE") + 1


@live("claude")
def test_a_question_is_answered_on_a_resumed_turn_too(bench: Bench) -> None:
    async def answer(event: ev.Question | ev.Permission) -> Answer:
        assert isinstance(event, ev.Question)
        return Answer(True, answers={event.questions[0]["question"]: "blue"})

    first = bench.attempt("remember number 1")
    ran = bench.resume(
        first.outcome.session_id, "[[ask Which colour? | red | blue]][[result]]", answer=answer
    )
    assert len(ran.of(ev.Question)) == 1
    assert "blue" in ran.outcome.text


# --- the account of it -----------------------------------------------------------------------------


@live("claude", OLD)
def test_each_shell_call_costs_a_request_of_the_small_model_beside_the_usage(bench: Bench) -> None:
    ran = bench.attempt("[[shell echo one]][[shell echo two]][[say done]]", permission="full")
    side = [request for request in ran.requests if request.side]
    assert len(side) == 2
    assert all("haiku" in request.model for request in side)
    used = result(ran)["modelUsage"][side[0].model]
    assert used["outputTokens"] == sum(request.usage.output for request in side)
    assert used["cacheCreationInputTokens"] == sum(request.usage.cache_write for request in side)
    assert ran.outcome.usage == accounted(ran)


@live("claude", NEW)
def test_a_fork_carries_the_cost_so_far_and_a_copy_starts_at_nothing(bench: Bench) -> None:
    first = bench.attempt("remember number 111")
    session = first.outcome.session_id
    assert session is not None
    spent = result(first)["total_cost_usd"]
    fork = bench.attempt("what number?", start=Start("fork", session), base=first.outcome.totals)
    assert result(fork)["total_cost_usd"] > spent
    assert fork.outcome.cost_usd == pytest.approx(result(fork)["total_cost_usd"] - spent)
    copy = bench.resume(put(bench, up_to(bench, session, last_uuid(first, "assistant"))), "what number?")
    assert result(copy)["total_cost_usd"] < spent
    (used,) = result(copy)["modelUsage"].values()
    assert used["cacheReadInputTokens"] == accounted(copy).cache_read


# --- ends and failures -----------------------------------------------------------------------------


@live("claude")
def test_terminated_it_exits_143(bench: Bench) -> None:
    nothing = subprocess.DEVNULL
    argv = [*bench.runtime.command, "-p", "hello [[hang]]"]
    with subprocess.Popen(
        argv, env=bench.env, cwd=bench.cwd, stdin=nothing, stdout=nothing, stderr=nothing
    ) as process:
        try:
            for _ in range(600):
                if bench.model.requests:
                    break
                time.sleep(0.05)
            assert bench.model.requests
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 143
        finally:
            process.kill()
    assert bench.alive() == []


@live("claude")
@pytest.mark.parametrize("retries", [2])
@pytest.mark.parametrize(
    ("prompt", "sent"), [("error 401", 3), ("error 403", 1), ("error 429 retry-after 1", 3), ("error 529", 3)]
)
def test_how_often_a_failing_request_is_sent(bench: Bench, prompt: str, sent: int) -> None:
    ran = bench.attempt(f"[[{prompt}]]")
    assert ran.outcome.failure is not None
    assert len(ran.requests) == sent


@live("claude", NEW, OLD)
@pytest.mark.parametrize("retries", [2])
def test_the_newest_alters_a_bad_request_and_tries_again(bench: Bench) -> None:
    ran = bench.attempt("[[error 400]]")
    assert len(ran.requests) == (6 if bench.version == NEW else 1)


@live("claude", NEW, OLD)
@pytest.mark.parametrize("retries", [2])
def test_a_dropped_stream_is_asked_for_whole_in_the_end(bench: Bench) -> None:
    ran = bench.attempt("[[drop]]")
    streamed = [bool((request.body or {}).get("stream")) for request in ran.requests]
    assert streamed == ([True, True, True, False] if bench.version == NEW else [True, False])


@live("claude", OLD)
def test_inside_another_session_it_refuses_to_start_unless_the_marks_are_taken_away(bench: Bench) -> None:
    inside = {**bench.env, "CLAUDECODE": "1", "CLAUDE_CODE_ENTRYPOINT": "cli"}
    refused = bare(bench, stdin="remember number 456", env=inside)
    assert (refused.code, refused.requests) == (1, [])
    assert "cannot be launched inside another Claude Code session" in refused.stderr
    ours = child_environment(inside, registry.variables(), pass_env=["ANTHROPIC_API_KEY"]).env
    ran = bare(bench, stdin="remember number 456", env=ours)
    assert (ran.code, ran.stdout.strip()) == (0, "Noted: 456.")


@live("claude", NEW)
def test_inside_another_session_the_newest_starts(bench: Bench) -> None:
    ran = bare(bench, stdin="remember number 456", env={**bench.env, "CLAUDECODE": "1"})
    assert (ran.code, ran.stdout.strip()) == (0, "Noted: 456.")
