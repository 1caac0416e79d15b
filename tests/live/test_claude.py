"""What Claude Code really does, shown by running it. Each fact is marked with the versions it holds for."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
import uuid
from pathlib import Path

import msgspec
import pytest

from segue.agents.base import Answer
from segue.core import events as ev
from segue.core.request import Start
from segue.rehearsal.types import Ask, Fault, Refusal
from segue.rehearsal.wire import anthropic
from segue.runner.attempt import Cancel
from segue.runner.supervisor import Limits
from tests.live.harness import Bench, live
from tests.live.wire import accounted, carried, last_prompt, said

NEW, OLD = "2.1.325", "2.1.50"


def session_file(bench: Bench, session: str) -> Path:
    (found,) = bench.home.glob(f"projects/*/{session}.jsonl")
    return found


# --- one turn and the next -------------------------------------------------------------------------


@live("claude")
def test_a_turn_is_answered_and_its_session_resumed(bench: Bench) -> None:
    first = bench.attempt("remember number 456", record="recall")
    assert first.outcome.failure is None
    assert "456" in first.outcome.text
    assert first.outcome.model_turns == 1
    second = bench.resume(first.outcome.session_id, "what number?", record="resume")
    assert second.outcome.text == "456"
    assert second.outcome.session_id == first.outcome.session_id
    assert carried(second, "remember number 456") == 1


@live("claude", NEW, OLD)
def test_a_subagents_calls_name_the_call_that_began_it(bench: Bench) -> None:
    tool = "Agent" if bench.version == NEW else "Task"
    inner = (
        '{"description": "look", "subagent_type": "general-purpose", "prompt": "[[shell echo in]][[say ok]]"}'
    )
    events: list[ev.Event] = []
    ran = bench.attempt(
        f"[[tool {tool} {inner}]][[shell echo out]][[say done]]", permission="full", on_event=events.append
    )
    assert ran.outcome.text == "done"
    calls = {each.name: each for each in events if isinstance(each, ev.ToolCall) and each.parent is None}
    within = [each for each in events if isinstance(each, ev.ToolCall) and each.parent is not None]
    assert set(calls) == {tool, "Bash"}
    assert [(each.name, each.parent) for each in within] == [("Bash", calls[tool].id)]
    results = {each.id: each.parent for each in events if isinstance(each, ev.ToolResult)}
    assert results == {each.id: each.parent for each in (*calls.values(), *within)}


@live("claude", NEW, OLD)
def test_at_a_limit_of_money_the_usage_is_what_was_spent(bench: Bench) -> None:
    first = bench.attempt("remember number 1")
    ran = bench.resume(
        first.outcome.session_id,
        "[[read a.txt]][[say done]]",
        base=first.outcome.totals,
        budget_usd=0.000001,
    )
    assert ran.outcome.failure is not None
    assert ran.outcome.failure.kind == "timeout"
    assert ran.outcome.usage == accounted(ran, side=True)
    assert ran.outcome.usage.output


@live("claude", NEW, OLD)
def test_a_subscribers_limit_tells_when_it_ends(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = int(time.time()) + 7200
    told = {"status": "rejected", "reset": str(ends), "representative-claim": "five_hour"}
    refuse = anthropic.refuse

    def refused(ask: Ask, fault: Fault) -> Refusal:
        made = refuse(ask, fault)
        limits = {f"anthropic-ratelimit-unified-{name}": value for name, value in told.items()}
        return Refusal(made.status, made.body, {**made.headers, **limits})

    monkeypatch.setattr(anthropic, "refuse", refused)
    del bench.env["ANTHROPIC_API_KEY"]
    ran = bench.attempt("[[error 429]]", env={"CLAUDE_CODE_OAUTH_TOKEN": bench.model.key})
    assert ran.outcome.failure is not None
    assert (ran.outcome.failure.kind, ran.outcome.failure.until) == ("rate_limited", ends * 1000)


@live("claude", NEW, OLD)
def test_usage_is_this_turns_and_equals_the_models_account(bench: Bench) -> None:
    ran = bench.attempt("remember number 1")
    base = ran.outcome.totals
    total = ran.outcome.cost_usd or 0.0
    assert ran.outcome.usage == accounted(ran)
    for prompt in ("[[shell echo one]][[shell echo two]][[say done]]", "remember number 2", "what number?"):
        ran = bench.resume(ran.outcome.session_id, prompt, base=base, permission="full")
        assert ran.outcome.failure is None
        assert ran.outcome.usage == accounted(ran)
        assert ran.outcome.context.used == last_prompt(ran)
        assert (ran.outcome.context.window or 0) >= 200_000
        assert ran.outcome.cost_usd is not None
        assert 0 < ran.outcome.cost_usd < total * 5
        base = ran.outcome.totals


@live("claude", NEW)
def test_cost_is_cumulative_over_the_session_and_we_report_the_turns_share(bench: Bench) -> None:
    first = bench.attempt("remember number 1")
    second = bench.resume(first.outcome.session_id, "what number?", base=first.outcome.totals)
    assert first.outcome.totals.cost_usd is not None
    assert second.outcome.totals.cost_usd is not None
    assert second.outcome.totals.cost_usd > first.outcome.totals.cost_usd
    share = second.outcome.totals.cost_usd - first.outcome.totals.cost_usd
    assert second.outcome.cost_usd == pytest.approx(share)


@pytest.mark.fact
@live("claude", OLD)
def test_cost_is_the_runs_own(bench: Bench) -> None:
    first = bench.attempt("remember number 1")
    second = bench.resume(first.outcome.session_id, "what number?", base=first.outcome.totals)
    assert second.outcome.cost_usd == second.outcome.totals.cost_usd


@pytest.mark.fact
@live("claude")
def test_the_id_can_be_chosen_but_not_twice(bench: Bench) -> None:
    mine = str(uuid.uuid4())
    first = bench.attempt("remember number 1", start=Start(new_id=mine))
    assert first.outcome.session_id == mine
    again = bench.attempt("remember number 2", start=Start(new_id=mine))
    assert again.outcome.failure is not None
    assert "already in use" in again.outcome.failure.message


@live("claude")
def test_no_save_leaves_no_session(bench: Bench) -> None:
    ran = bench.attempt("remember number 1", save=False)
    assert ran.outcome.failure is None
    assert list(bench.home.glob("projects/*/*.jsonl")) == []


@live("claude")
def test_text_streams_in_fragments_before_it_is_whole(bench: Bench) -> None:
    ran = bench.attempt("[[slow 0.5 5]][[say one two three four five six seven eight nine ten]]")
    deltas = ran.of(ev.TextDelta)
    assert len(deltas) > 1
    assert "".join(delta.text for delta in deltas) == ran.outcome.text


@pytest.mark.fact
@live("claude")
def test_thinking_is_told_apart_from_the_answer(bench: Bench) -> None:
    ran = bench.attempt("[[think let me see]][[say the answer]]", record="thinking")
    assert [event.text for event in ran.of(ev.Thinking)] == ["let me see"]
    assert ran.outcome.text == "the answer"


# --- tools, questions, permissions -----------------------------------------------------------------


@live("claude")
def test_a_tool_call_and_its_result_are_seen(bench: Bench) -> None:
    ran = bench.attempt("[[shell echo hello-from-tool]][[say done]]", permission="full", record="tool")
    (call,), (result,) = ran.of(ev.ToolCall), ran.of(ev.ToolResult)
    assert (call.name, call.id) == ("Bash", result.id)
    assert result.ok
    assert "hello-from-tool" in result.output
    assert (ran.outcome.text, ran.outcome.tools_run) == ("done", 1)


@live("claude")
@pytest.mark.parametrize(
    ("permission", "touched"), [("default", False), ("read", False), ("edit", False), ("full", True)]
)
def test_a_command_runs_only_with_full_permission_also_on_a_resumed_turn(
    bench: Bench, permission: str, touched: bool
) -> None:
    first = bench.attempt("[[shell sh -c 'echo hi > one.txt']][[say done]]", permission=permission)
    assert (bench.cwd / "one.txt").exists() is touched
    assert first.outcome.failure is None
    assert first.outcome.tools_run == int(touched)
    bench.resume(
        first.outcome.session_id, "[[shell sh -c 'echo hi > two.txt']][[say done]]", permission=permission
    )
    assert (bench.cwd / "two.txt").exists() is touched


@live("claude")
def test_files_are_written_with_edit_permission_and_not_by_default(bench: Bench) -> None:
    path = bench.cwd / "made.txt"
    bench.attempt(f"[[write {path} hello]][[say done]]")
    assert not path.exists()
    bench.attempt(f"[[write {path} hello]][[say done]]", permission="edit")
    assert path.read_text().strip() == "hello"


@live("claude")
def test_an_allowed_tool_runs_and_a_denied_one_does_not(bench: Bench) -> None:
    """By a script: what 2.1.50 takes for a command that writes a path, such as ``touch``, needs more."""
    asks = "[[shell sh -c 'echo hi > {}.txt']][[say done]]"
    bench.attempt(asks.format("unasked"))
    assert not (bench.cwd / "unasked.txt").exists()
    bench.attempt(asks.format("yes"), allow_tools=("Bash(sh *)",))
    assert (bench.cwd / "yes.txt").exists()
    bench.attempt(asks.format("no"), permission="full", deny_tools=("Bash",))
    assert not (bench.cwd / "no.txt").exists()


@live("claude")
def test_a_question_is_asked_and_the_answer_reaches_the_model(bench: Bench) -> None:
    async def answer(event: ev.Question | ev.Permission) -> Answer:
        assert isinstance(event, ev.Question)
        return Answer(True, answers={event.questions[0]["question"]: "blue"})

    ran = bench.attempt("[[ask Which colour? | red | blue]][[result]]", answer=answer, record="question")
    (question,) = ran.of(ev.Question)
    assert question.questions[0]["question"] == "Which colour?"
    assert "blue" in ran.outcome.text


@live("claude")
def test_a_question_nobody_can_answer_does_not_hang(bench: Bench) -> None:
    ran = bench.attempt("[[ask Which colour? | red | blue]][[say I chose red]]")
    assert ran.outcome.text == "I chose red"
    assert len(ran.of(ev.Question)) == 1


# --- options ---------------------------------------------------------------------------------------


@live("claude")
def test_the_model_is_chosen_and_read_back(bench: Bench) -> None:
    ran = bench.attempt("remember number 1", model="claude-sonnet-4-5")
    assert ran.outcome.model is not None
    assert ran.outcome.model.startswith("claude-sonnet-4-5")
    assert ran.requests[-1].model.startswith("claude-sonnet-4-5")


@live("claude", NEW, OLD)
def test_a_limit_of_turns_ends_the_turn_as_a_limit(bench: Bench) -> None:
    """The newest exits 1 with is_error; 2.1.50 exits 0 without: only the subtype tells."""
    ran = bench.attempt("[[shell echo a]][[shell echo b]][[say done]]", permission="full", max_turns=1)
    assert ran.outcome.failure is not None
    assert ran.outcome.failure.kind == "timeout"


@pytest.mark.fact
@live("claude", NEW)
def test_the_first_turns_system_prompt_stays_and_a_later_one_is_ignored(bench: Bench) -> None:
    first = bench.attempt("remember number 1", system_prompt="SYSTEM-ONE")
    assert carried(first, "SYSTEM-ONE") == 1
    second = bench.resume(first.outcome.session_id, "what number?", system_prompt="SYSTEM-TWO")
    assert (carried(second, "SYSTEM-ONE"), carried(second, "SYSTEM-TWO")) == (1, 0)


@pytest.mark.fact
@live("claude", OLD)
def test_a_system_prompt_holds_for_its_own_run_only(bench: Bench) -> None:
    first = bench.attempt("remember number 1", system_prompt="SYSTEM-ONE")
    assert carried(first, "SYSTEM-ONE") == 1
    second = bench.resume(first.outcome.session_id, "what number?", system_prompt="SYSTEM-TWO")
    assert (carried(second, "SYSTEM-ONE"), carried(second, "SYSTEM-TWO")) == (0, 1)


# --- fork, branch ----------------------------------------------------------------------------------


@live("claude")
def test_a_fork_has_the_history_under_a_new_id_and_leaves_the_old_file_alone(bench: Bench) -> None:
    first = bench.attempt("remember number 456")
    assert first.outcome.session_id is not None
    before = session_file(bench, first.outcome.session_id).read_bytes()
    mine = str(uuid.uuid4())
    fork = bench.attempt("what number?", start=Start("fork", first.outcome.session_id, new_id=mine))
    assert (fork.outcome.session_id, fork.outcome.text) == (mine, "456")
    assert session_file(bench, first.outcome.session_id).read_bytes() == before


@live("claude")
def test_a_branch_at_a_message_does_not_carry_what_was_cut(bench: Bench) -> None:
    first = bench.attempt("remember number 111")
    session = first.outcome.session_id
    assert session is not None
    anchor = [
        msgspec.json.decode(line)["uuid"]
        for line in first.stdout.splitlines()
        if b'"type":"assistant"' in line
    ][-1]
    bench.resume(session, "remember number 222")
    branch = bench.attempt("what number?", start=Start("branch", session, at=anchor))
    assert branch.outcome.text == "111"
    assert carried(branch, "222") == 0
    assert branch.outcome.session_id not in (None, session)


@pytest.mark.fact
@live("claude")
def test_a_branch_at_an_unknown_message_is_rejected(bench: Bench) -> None:
    first = bench.attempt("remember number 111")
    ran = bench.attempt("what number?", start=Start("branch", first.outcome.session_id, at=str(uuid.uuid4())))
    assert ran.outcome.failure is not None
    assert ran.outcome.failure.kind == "session_rejected"
    assert (ran.requests, ran.outcome.session_id) == ([], None)


# --- sessions that are refused ---------------------------------------------------------------------


@pytest.mark.fact
@live("claude", NEW, OLD)
def test_an_unknown_session_is_rejected_and_no_id_is_adopted(bench: Bench) -> None:
    ran = bench.resume(str(uuid.uuid4()), "what number?", record="rejected")
    failure = ran.outcome.failure
    assert failure is not None
    assert (failure.kind, failure.reason) == ("session_rejected", "not_found")
    assert ran.outcome.session_id is None
    assert ran.requests == []


@live("claude", NEW)
def test_another_directory_resumes(bench: Bench, tmp_path: Path) -> None:
    first = bench.attempt("remember number 456")
    ran = bench.resume(first.outcome.session_id, "what number?", cwd=tmp_path)
    assert ran.outcome.text == "456"


@pytest.mark.fact
@live("claude", OLD)
def test_another_directory_is_refused_and_named_as_the_reason(bench: Bench, tmp_path: Path) -> None:
    first = bench.attempt("remember number 456")
    ran = bench.resume(first.outcome.session_id, "what number?", cwd=tmp_path)
    assert ran.outcome.failure is not None
    assert (ran.outcome.failure.kind, ran.outcome.failure.reason) == ("session_rejected", "wrong_cwd")


@pytest.mark.fact
@live("claude")
def test_an_emptied_session_is_rejected_as_corrupt(bench: Bench) -> None:
    first = bench.attempt("remember number 456")
    assert first.outcome.session_id is not None
    session_file(bench, first.outcome.session_id).write_bytes(b"")
    ran = bench.resume(first.outcome.session_id, "what number?")
    assert ran.outcome.failure is not None
    assert (ran.outcome.failure.kind, ran.outcome.failure.reason) == ("session_rejected", "corrupt")


# --- the model service fails -----------------------------------------------------------------------

FAILURES = [
    ("[[error 401]]", "auth"),
    ("[[error 403]]", "auth"),
    ("[[error 429 retry-after 1]]", "rate_limited"),
    ("[[error 500]]", "model_error"),
    ("[[error 529]]", "model_error"),
    ("[[error 400]]", "model_error"),
    ("[[context-full]]", "context_exceeded"),
    ("[[malformed]]", "model_error"),
]


@pytest.mark.fact
@live("claude", NEW, OLD)
@pytest.mark.parametrize(("prompt", "kind"), FAILURES)
def test_each_failure_of_the_model_has_its_kind(bench: Bench, prompt: str, kind: str) -> None:
    name = prompt.strip("[]").replace(" ", "-")
    ran = bench.attempt(prompt, record=f"fail-{name}")
    assert ran.outcome.failure is not None, ran.stdout.decode()[-2000:]
    assert ran.outcome.failure.kind == kind, ran.outcome.failure
    assert ran.outcome.text == ""


@pytest.mark.fact
@live("claude", OLD)
def test_an_empty_answer_is_a_failure_although_the_cli_exits_well(bench: Bench) -> None:
    ran = bench.attempt("[[empty]]", record="fail-empty")
    assert ran.outcome.failure is not None
    assert ran.outcome.failure.kind == "model_error"


@live("claude", NEW)
def test_an_empty_answer_is_asked_for_once_more_and_then_a_failure(bench: Bench) -> None:
    ran = bench.attempt("[[empty]]", record="fail-empty")
    assert len([request for request in ran.requests if not request.side]) == 2
    assert ran.outcome.failure is not None
    assert ran.outcome.failure.kind == "model_error"


@live("claude", NEW, OLD)
def test_no_answer_after_a_refused_tool_is_told_as_such(bench: Bench) -> None:
    ran = bench.attempt("[[shell sh -c 'echo hi > one.txt']][[empty]]")
    assert ran.outcome.failure is not None
    assert ran.outcome.failure.kind == "tool_denied"


@pytest.mark.fact
@live("claude")
def test_a_dropped_stream_is_tried_again_and_then_a_failure(bench: Bench) -> None:
    ran = bench.attempt("[[drop]]")
    assert ran.outcome.failure is not None
    assert ran.outcome.failure.kind in ("network", "model_error")
    assert len(ran.requests) > 1


@live("claude", NEW)
def test_retries_inside_the_cli_are_seen(bench: Bench) -> None:
    ran = bench.attempt("[[error 529 times 1]][[say fine]]", record="retry")
    assert ran.outcome.text == "fine"
    assert [(event.attempt, event.limit) for event in ran.of(ev.Retry)] == [(1, 1)]


@pytest.mark.fact
@live("claude")
def test_nobody_listening_is_a_network_failure(bench: Bench) -> None:
    ran = bench.attempt("hello", env={"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"})
    assert ran.outcome.failure is not None
    assert ran.outcome.failure.kind == "network"
    assert ran.outcome.failure.retryable


@pytest.mark.fact
@live("claude", NEW, OLD)
def test_a_failed_prompt_stays_in_the_session(bench: Bench) -> None:
    first = bench.attempt("remember number 1")
    bench.resume(first.outcome.session_id, "POISON [[error 400]]")
    after = bench.resume(first.outcome.session_id, "what number?")
    assert carried(after, "POISON") == 1


@pytest.mark.fact
@live("claude")
def test_without_a_key_the_login_fails_as_auth(bench: Bench) -> None:
    ran = bench.attempt("hello", env={"ANTHROPIC_API_KEY": ""}, record="no-login")
    assert ran.outcome.failure is not None
    assert ran.outcome.failure.kind == "auth"


# --- the process is ended --------------------------------------------------------------------------


@live("claude")
def test_a_cancelled_turn_ends_at_once_and_leaves_nothing_running(bench: Bench) -> None:
    cancel = Cancel()

    def on_event(event: ev.Event) -> None:
        if isinstance(event, ev.Session):
            asyncio.get_running_loop().call_later(0.3, cancel)

    began = time.monotonic()
    ran = bench.attempt("[[hang]]", cancel=cancel, on_event=on_event)
    assert ran.outcome.status == "cancelled"
    assert time.monotonic() - began < 30
    assert bench.alive() == []


@live("claude")
def test_a_time_limit_ends_the_turn_as_a_timeout(bench: Bench) -> None:
    ran = bench.attempt("[[hang]]", limits=Limits(time_s=3))
    assert ran.outcome.failure is not None
    assert ran.outcome.failure.kind == "timeout"
    assert bench.alive() == []


@pytest.mark.fact
@live("claude", NEW, OLD)
def test_killed_in_mid_turn_it_is_killed_and_the_message_stays_in_the_session(bench: Bench) -> None:
    first = bench.attempt("remember number 456")

    def on_event(event: ev.Event) -> None:
        if isinstance(event, ev.TextDelta):
            bench.signal(signal.SIGKILL)

    prompt = "UNANSWERED [[slow 20 20]][[say one two three four five six seven eight nine ten]]"
    ran = bench.resume(first.outcome.session_id, prompt, on_event=on_event)
    assert ran.outcome.failure is not None
    assert ran.outcome.failure.kind == "killed"
    after = bench.resume(first.outcome.session_id, "what number?")
    assert after.outcome.text == "456"
    if bench.version != OLD:  # 2.1.50 writes the message only with its answer
        assert carried(after, "UNANSWERED") == 1


@pytest.mark.fact
@live("claude", NEW)
def test_two_writers_lose_a_turn_silently(bench: Bench) -> None:
    """Both succeed, and the session holds only one of the two turns: why there is one writer at a time."""
    first = bench.attempt("remember number 1")
    slow: list[object] = []

    def other() -> None:
        slow.append(bench.resume(first.outcome.session_id, "SLOW-TURN [[slow 4 8]][[say slow answer]]"))

    thread = threading.Thread(target=other)
    thread.start()
    time.sleep(2)
    quick = bench.resume(first.outcome.session_id, "QUICK-TURN [[say quick answer]]")
    thread.join()
    assert quick.outcome.failure is None
    after = bench.resume(first.outcome.session_id, "what number?")
    assert said(after, "quick answer") + said(after, "slow answer") < 2


# --- size ------------------------------------------------------------------------------------------


@live("claude", NEW)
def test_a_prompt_of_a_megabyte_arrives_whole(bench: Bench) -> None:
    ran = bench.attempt("x" * 1_000_000 + " remember number 7")
    assert ran.outcome.failure is None
    assert carried(ran, "x" * 1_000_000) == 1


@pytest.mark.fact
@live("claude", NEW)
def test_a_prompt_of_ten_megabytes_is_refused_as_too_long_by_the_cli(bench: Bench) -> None:
    ran = bench.attempt("word " * 2_000_000)
    assert ran.outcome.failure is not None
    assert ran.outcome.failure.kind == "context_exceeded"
