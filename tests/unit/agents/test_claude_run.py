"""Claude's adapter on recorded streams and made-up lines: how it is called, how it is read."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.unit.streams import STREAMS, concluded, events_of

from segue.agents.base import Answer
from segue.agents.claude.adapter import AGENT
from segue.core import events as ev
from segue.core.errors import Misuse
from segue.core.outcome import Kind, Reason
from segue.core.request import Capabilities, Request, RunPlace, Runtime, Start
from segue.core.tools import DeniedTools
from segue.core.usage import Limit, Totals, Usage

NEW, OLD = "claude-2.1.325", "claude-2.1.50"
ONE = "11111111-1111-4111-8111-111111111111"
TWO = "22222222-2222-4222-8222-222222222222"
HELP = "--resume --fork-session --session-id --no-session-persistence --input-format --max-budget-usd"


def runtime(version: str = "2.1.325", help_text: str = HELP + " --system-prompt-snapshot") -> Runtime:
    return AGENT.runtime(("/usr/bin/claude",), [f"{version} (Claude Code)\n", help_text])


def argv(request: Request) -> tuple[str, ...]:
    return AGENT.command(request, runtime(), RunPlace(Path("/runs/1"))).argv


def ask(**more: object) -> Request:
    return Request(**{"prompt": "hi", "cwd": Path("/home/me/project"), **more})  # type: ignore[arg-type]


# --- probe -----------------------------------------------------------------------------------------


def test_the_version_and_what_it_can_do_come_from_its_own_words() -> None:
    found = runtime()
    assert (found.version, found.distribution) == ("2.1.325", "claude-code")
    can = found.capabilities
    assert can.resume
    assert can.branch
    assert (can.system_prompt, can.cost_scope, can.cwd_scope) == ("session", "session", "any")


def test_an_older_version_differs_where_the_table_says() -> None:
    can = runtime("2.1.50", HELP).capabilities
    assert (can.system_prompt, can.cost_scope, can.cwd_scope) == ("run", "run", "same")


def test_a_fork_without_resume_is_another_runtime() -> None:
    fork = AGENT.runtime(("/usr/bin/openclaude",), ["0.9.1 (OpenClaude)", "--print"])
    assert (fork.distribution, fork.capabilities.resume) == ("openclaude", False)
    assert fork.identity != runtime().identity


def test_an_update_does_not_change_the_identity() -> None:
    assert runtime("2.1.326").identity == runtime("2.1.325").identity


# --- command ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "flags"),
    [
        (Start(new_id=ONE), [f"--session-id={ONE}"]),
        (Start("resume", ONE), [f"--resume={ONE}"]),
        (Start("fork", ONE, new_id=TWO), [f"--resume={ONE}", "--fork-session", f"--session-id={TWO}"]),
        (Start("branch", ONE, at=TWO), [f"--resume={ONE}", f"--resume-session-at={TWO}", "--fork-session"]),
    ],
)
def test_where_a_session_begins(start: Start, flags: list[str]) -> None:
    assert set(flags) <= set(argv(ask(start=start)))


@pytest.mark.parametrize("session", ["--help", "../../etc/passwd", "", "latest", "-r"])
def test_an_id_that_is_none_is_refused(session: str) -> None:
    with pytest.raises(Misuse):
        argv(ask(start=Start("resume", session)))


def test_the_prompt_goes_by_stdin_which_stays_open() -> None:
    command = AGENT.command(ask(prompt="--secret\n“words”"), runtime(), RunPlace(Path("/runs/1")))
    assert not any("secret" in part for part in command.argv)
    assert msgspec.json.decode(command.stdin)["message"]["content"][0]["text"] == "--secret\n“words”"
    assert command.hold_stdin


@pytest.mark.parametrize(
    ("permission", "flag"),
    [
        ("default", "--permission-mode=default"),
        ("read", "--permission-mode=default"),  # it may ask, see below
        ("read", "--setting-sources="),
        ("edit", "--permission-mode=acceptEdits"),
        ("full", "--permission-mode=bypassPermissions"),
    ],
)
@pytest.mark.parametrize("start", [Start(), Start("resume", ONE)])
def test_the_posture_is_the_same_on_a_fresh_and_a_resumed_turn(
    permission: str, flag: str, start: Start
) -> None:
    assert flag in argv(ask(permission=permission, start=start))
    assert not any("bypass" in part for part in argv(ask(start=start)))


def test_reading_names_the_tools_that_are_there() -> None:
    given = argv(ask(permission="read", questions=False, allow_tools=("Bash(ls *)", "WebFetch")))
    assert {
        "--permission-mode=dontAsk",
        "--setting-sources=",
        "--settings=/runs/1/claude-settings.json",
        "--add-dir=/home/me/project",
        "--allowedTools=Bash(ls *),WebFetch",
        "--disallowedTools=Edit,MultiEdit,NotebookEdit,Write,Bash(git *),AskUserQuestion",
    } <= set(given)
    (there,) = [part.partition("=")[2].split(",") for part in given if part.startswith("--tools=")]
    assert {"Read", "Grep", "Bash"} <= set(there)
    assert not {"Write", "Edit", "EnterWorktree", "CronCreate", "Monitor", "AskUserQuestion"} & set(there)


def test_without_a_rule_for_it_reading_offers_no_shell_and_no_git() -> None:
    plain = argv(ask(permission="read"))
    assert "--disallowedTools=Bash,Edit,MultiEdit,NotebookEdit,Write" in plain
    assert not any("Bash" in part for part in plain if part.startswith("--tools="))
    for rule in ("Bash(git log *)", "Bash(git:*)"):
        assert not any("Bash(git *)" in part for part in argv(ask(permission="read", allow_tools=(rule,))))


def test_the_tools_of_reading_change_the_prompt_and_this_is_told() -> None:
    def offers(**more: object) -> tuple[str, ...]:
        return AGENT.command(ask(**more), runtime(), RunPlace(Path("/runs/1"))).offers

    assert offers(permission="default") == offers(permission="edit") == ()
    assert offers(permission="read") == ("with the tools that look",)
    rule = offers(permission="read", allow_tools=("Bash(ls *)",))
    assert rule == ("with the tools that look", "with Bash")
    assert offers(permission="read", allow_tools=("Bash(df *)",)) == rule, "a pattern changes nothing in it"
    assert "without WebFetch" in offers(permission="read", deny_tools=("WebFetch",))


def test_denied_tools_add_to_the_posture_and_do_not_replace_it() -> None:
    given = argv(ask(permission="read", deny_tools=("WebFetch",)))
    (denied,) = [part for part in given if part.startswith("--disallowedTools=")]
    assert {"Write", "WebFetch"} <= set(denied.partition("=")[2].split(","))


def test_a_system_prompt_goes_by_file() -> None:
    command = AGENT.command(ask(system_prompt="Be brief."), runtime(), RunPlace(Path("/runs/1")))
    ((path, text),) = command.files.items()
    assert text == "Be brief."
    assert f"--append-system-prompt-file={path}" in command.argv


# --- reading ---------------------------------------------------------------------------------------


def test_a_turn_with_a_tool() -> None:
    events = events_of(AGENT, STREAMS / NEW / "tool.jsonl")
    outcome = concluded(AGENT, events, can=runtime().capabilities)
    assert (outcome.text, outcome.tools_run, outcome.failure) == ("done", 1, None)
    assert outcome.context.window == 1_000_000
    assert not [event for event in events if isinstance(event, ev.Unknown)]


def test_a_question_and_its_answer() -> None:
    events = events_of(AGENT, STREAMS / NEW / "question.jsonl")
    (question,) = [event for event in events if isinstance(event, ev.Question)]
    line = AGENT.reply(question, Answer(True, answers={"Which colour?": "blue"}))
    response = msgspec.json.decode(line)["response"]
    assert response["request_id"] == question.id
    assert response["response"]["updatedInput"]["answers"] == {"Which colour?": "blue"}


def test_a_refused_tool_is_told_as_denied() -> None:
    permission = ev.Permission("r1", "Bash", {"command": "ls"}, "t1")
    response = msgspec.json.decode(AGENT.reply(permission, Answer(False, "no")))["response"]["response"]
    handed_back = {
        "type": "user",
        "message": {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": response["message"]}
            ],
        },
    }
    (result,) = AGENT.parse(msgspec.json.encode(handed_back))
    assert isinstance(result, ev.ToolResult)
    assert result.denied


@pytest.mark.parametrize(
    ("output", "meta", "denied"),
    [
        ("Permission to use Bash with command touch y has been denied.", {}, True),
        ("<tool_use_error>Error: No such tool available: Write</tool_use_error>", {}, True),
        ("a hook says no", {"non_execution_kind": "permission-rule"}, True),
        ("no", {"non_execution_kind": "user-rejected"}, True),
        ("stopped", {"non_execution_kind": "interrupted"}, False),
        ("exit 1", {}, False),
    ],
)
def test_a_call_that_was_refused_or_is_not_offered_is_denied(
    output: str, meta: dict[str, str], denied: bool
) -> None:
    block = {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": output}
    line = {"type": "user", "message": {"role": "user", "content": [block]}}
    (result,) = AGENT.parse(msgspec.json.encode(line | {"tool_result_meta": [{"id": "t1", **meta}]}))
    assert isinstance(result, ev.ToolResult)
    assert result.denied is denied


def test_the_word_that_a_permission_was_denied_is_known() -> None:
    line = {"type": "system", "subtype": "permission_denied", "tool_name": "Bash", "message": "denied"}
    assert list(AGENT.parse(msgspec.json.encode(line))) == []


def test_the_refused_are_named_by_the_stream_and_by_the_result() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "Write", "input": {}}
    refusal = {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "Permission to use W"}
    listed = [{"tool_name": "Write", "tool_use_id": "t1"}, {"tool_name": "Bash", "tool_use_id": "inner"}]
    lines = [
        {"type": "assistant", "message": {"id": "m", "content": [call]}},
        {"type": "user", "message": {"content": [refusal]}},
        {"type": "result", "subtype": "success", "result": "I wrote it", "permission_denials": listed},
    ]
    outcome = concluded(AGENT, [event for line in lines for event in AGENT.parse(msgspec.json.encode(line))])
    assert (outcome.tools_run, outcome.tools_denied) == (0, DeniedTools(2, ("Write", "Bash")))


def test_a_sub_agents_words_are_not_the_answer() -> None:
    line = {
        "type": "assistant",
        "parent_tool_use_id": "t1",
        "message": {
            "id": "m",
            "model": "x",
            "content": [{"type": "text", "text": "inner"}],
            "usage": {"input_tokens": 5},
        },
    }
    events = AGENT.parse(msgspec.json.encode(line))
    assert [type(event) for event in events] == [ev.UsageReport]
    assert isinstance(events[0], ev.UsageReport)
    assert events[0].side


def test_a_sub_agents_calls_name_the_call_that_began_it() -> None:
    call = {"type": "tool_use", "id": "t2", "name": "Bash", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t2", "content": "hi"}
    lines = [
        {"type": "assistant", "parent_tool_use_id": "t1", "message": {"id": "m", "content": [call]}},
        {"type": "user", "parent_tool_use_id": "t1", "message": {"content": [result]}},
        {"type": "assistant", "parent_tool_use_id": None, "message": {"id": "m", "content": [call]}},
    ]
    events = [event for line in lines for event in AGENT.parse(msgspec.json.encode(line))]
    assert events == [
        ev.ToolCall("t2", "Bash", {}, parent="t1"),
        ev.ToolResult("t2", True, "hi", parent="t1"),
        ev.ToolCall("t2", "Bash", {}),
    ]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"   ",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"\xff\xfe",
        b'{"type":5}',
        b'{"type":"assistant","message":7}',
        b'{"type":"brand-new","x":1}',
        b'{"type":"system","subtype":"compact_boundary"}',
        b'{"type":"result"}',
        b'{"type":"control_request"}',
        b'{"type":"system","subtype":"api_retry"}',
        b'{"type":"result","result":5,"modelUsage":[],"usage":[],"permission_denials":3}',
    ],
)
def test_no_line_breaks_the_reading(line: bytes) -> None:
    events = list(AGENT.parse(line))
    assert all(isinstance(event, ev.Event) for event in events)
    concluded(AGENT, events)


# --- failures --------------------------------------------------------------------------------------

FAILURES = [
    (version, name, kind)
    for version in (NEW, OLD)
    for name, kind in (
        ("fail-error-400", "model_error"),
        ("fail-error-401", "auth"),
        ("fail-error-403", "auth"),
        ("fail-error-429-retry-after-1", "rate_limited"),
        ("fail-error-500", "model_error"),
        ("fail-error-529", "model_error"),
        ("fail-context-full", "context_exceeded"),
        ("fail-malformed", "model_error"),
        ("fail-decline", "refused"),
        ("fail-decline-prompt", "refused"),
        ("fail-decline-prompt-stream", "refused"),
    )
]


@pytest.mark.parametrize(
    ("version", "name", "kind"), [*FAILURES, (NEW, "no-login", "auth"), (OLD, "fail-empty", "model_error")]
)
def test_a_recorded_failure_has_its_kind(version: str, name: str, kind: Kind) -> None:
    outcome = concluded(AGENT, events_of(AGENT, STREAMS / version / f"{name}.jsonl"), code=1)
    assert outcome.failure is not None
    assert outcome.failure.kind == kind
    assert outcome.failure.message


LIMIT = {"status": "rejected", "resetsAt": 1794871308, "rateLimitType": "five_hour"}


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"type": "rate_limit_event", "rate_limit_info": LIMIT}, "You've hit your session limit"),
        ({"type": "rate_limit_event", "rate_limit_info": LIMIT}, "You've hit your weekly limit · resets 3pm"),
        ({"type": "rate_limit_event", "rate_limit_info": LIMIT}, "You're out of extra usage · resets 3pm"),
        (
            {
                "type": "assistant",
                "message": {"id": "m", "model": "<synthetic>", "content": []},
                "api_error_params": {"rate_limit_info": LIMIT},
            },
            "You've hit your 5-hour limit · resets 11:21pm (UTC)",
        ),
        ({"type": "system", "subtype": "status"}, "Claude AI usage limit reached|1794871308"),
    ],
)
def test_a_usage_limit_knows_when_it_ends(said: dict[str, object], message: str) -> None:
    end = {"type": "result", "subtype": "success", "is_error": True, "result": message, "num_turns": 1}
    lines = [msgspec.json.encode(said), msgspec.json.encode(end)]
    outcome = concluded(AGENT, [event for line in lines for event in AGENT.parse(line)], code=1)
    assert outcome.failure is not None
    assert (outcome.failure.kind, outcome.failure.until) == ("rate_limited", 1794871308000)


RESETS = 1794945414
WARNING = {"status": "allowed_warning", "resetsAt": RESETS, "rateLimitType": "five_hour", "utilization": 0.82}
WINDOWS = {
    "five_hour": {"utilization": 0.12, "resetsAt": RESETS},
    "seven_day": {"utilization": 0.31, "resetsAt": 1795138214},
}
FIVE_HOURS = Limit("5h", 0.82, RESETS * 1000, "stream", 7)


@pytest.mark.parametrize(
    ("told", "limits"),
    [
        (WARNING, (FIVE_HOURS,)),
        (
            {
                "status": "allowed",
                "resetsAt": 1795138214,
                "rateLimitType": "seven_day",
                "unifiedWindows": WINDOWS,
            },
            (
                Limit("5h", 0.12, RESETS * 1000, "stream", 7),
                Limit("7d", 0.31, 1795138214000, "stream", 7),
            ),
        ),
        (
            {"status": "allowed", "resetsAt": RESETS, "rateLimitType": "seven_day_opus"},
            (Limit("7d_opus", None, RESETS * 1000, "stream", 7),),
        ),
        (
            {"status": "rejected", "resetsAt": RESETS, "rateLimitType": "five_hour"},
            (Limit("5h", 1.0, RESETS * 1000, "stream", 7),),
        ),
        ({"status": "allowed"}, ()),
        (
            {"status": "allowed", "rateLimitType": "five_hour", "utilization": 0},
            (Limit("5h", 0, None, "stream", 7),),
        ),
    ],
)
def test_what_is_used_of_a_limit(told: dict[str, object], limits: tuple[Limit, ...]) -> None:
    line = msgspec.json.encode({"type": "rate_limit_event", "rate_limit_info": told})
    outcome = concluded(AGENT, [*AGENT.parse(line)], now_ms=7)
    assert outcome.limits == limits
    assert outcome.pays == ("subscription" if limits else None)


def test_a_damaged_limit_is_unknown() -> None:
    line = b'{"type":"rate_limit_event","rate_limit_info":{"status":"allowed","utilization":"much"}}'
    assert isinstance(AGENT.parse(line)[0], ev.Unknown)


@pytest.mark.parametrize(
    ("source", "pays"),
    [
        ("ANTHROPIC_API_KEY", "api_key"),
        ("apiKeyHelper", "api_key"),
        ("/login managed key", "api_key"),
        ("oauth", "subscription"),
        ("none", None),
        (None, None),
    ],
)
def test_what_pays_is_told_at_the_start(source: str | None, pays: str | None) -> None:
    start = {"type": "system", "subtype": "init", "session_id": ONE, "apiKeySource": source}
    assert concluded(AGENT, [*AGENT.parse(msgspec.json.encode(start))]).pays == pays


@pytest.mark.parametrize("version", [NEW, OLD])
def test_a_recorded_run_with_a_key_is_paid_by_it(version: str) -> None:
    assert (
        concluded(AGENT, events_of(AGENT, STREAMS / version / "fail-error-429-retry-after-1.jsonl")).pays
        == "api_key"
    )


@pytest.mark.parametrize(("provider", "pays"), [("bedrock", "cloud"), ("firstParty", None), (["?"], None)])
def test_the_provider_of_a_model_tells_a_cloud(provider: object, pays: str | None) -> None:
    models = {"m": {"provider": provider}}
    end = {"type": "result", "subtype": "success", "result": "hi", "modelUsage": models}
    assert concluded(AGENT, [*AGENT.parse(msgspec.json.encode(end))]).pays == pays


@pytest.mark.parametrize("version", [NEW, OLD])
@pytest.mark.parametrize(
    ("where", "reason"),
    [("nowhere", "not_found"), ("here", "corrupt"), ("elsewhere", "wrong_cwd")],
)
def test_a_rejected_resume_says_why_and_gives_no_id(version: str, where: str, reason: Reason) -> None:
    outcome = concluded(
        AGENT,
        events_of(AGENT, STREAMS / version / "rejected.jsonl"),
        code=1,
        start=Start("resume", ONE),
        evidence={"session": where},
    )
    assert outcome.failure is not None
    assert (outcome.failure.kind, outcome.failure.reason) == ("session_rejected", reason)
    assert outcome.session_id is None


def test_what_the_assistant_says_is_never_taken_for_a_failure() -> None:
    said = "API Error: 401. Prompt is too long. No conversation found with session ID."
    end = {"type": "result", "subtype": "success", "is_error": False, "result": said, "num_turns": 1}
    outcome = concluded(AGENT, list(AGENT.parse(msgspec.json.encode(end))), start=Start("resume", ONE))
    assert (outcome.failure, outcome.text) == (None, said)


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ('{"n": 7}', '{"n": 7}'),
        ("Done.\n", 'Done.\n\n```json\n{"n":7}\n```'),
        ('{"n": 8}', '{"n": 8}\n\n```json\n{"n":7}\n```'),
        ("", '```json\n{"n":7}\n```'),
    ],
)
def test_a_value_by_a_schema_is_said_once(said: str, text: str) -> None:
    end = {
        "type": "result",
        "subtype": "success",
        "result": said,
        "structured_output": {"n": 7},
        "num_turns": 1,
    }
    assert concluded(AGENT, [*AGENT.parse(msgspec.json.encode(end))]).text == text


@pytest.mark.parametrize(
    ("code", "ended_by", "stderr", "kind"),
    [
        (None, "cancelled", "", "cancelled"),
        (143, "timeout", "", "timeout"),
        (-9, None, "", "killed"),
        (137, None, "", "killed"),
        (1, None, "TypeError: boom\n", "crashed"),
        (0, None, "", "protocol"),
        (1, None, "Invalid API key · Please run /login\n", "auth"),
    ],
)
def test_an_end_without_a_result(code: int | None, ended_by: str | None, stderr: str, kind: Kind) -> None:
    outcome = concluded(AGENT, [], code=code, ended_by=ended_by, stderr=stderr)  # type: ignore[arg-type]
    assert outcome.failure is not None
    assert outcome.failure.kind == kind


# --- money -----------------------------------------------------------------------------------------


def result(cost: float) -> list[ev.Event]:
    usage = {
        "input_tokens": 1,
        "cache_read_input_tokens": 2,
        "cache_creation_input_tokens": 3,
        "output_tokens": 4,
    }
    end = {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": "ok",
        "usage": usage,
        "total_cost_usd": cost,
    }
    return list(AGENT.parse(msgspec.json.encode(end)))


@pytest.mark.parametrize(
    ("scope", "start", "base", "cost"),
    [
        ("session", Start(), None, 0.05),
        ("session", Start("resume", ONE), 0.02, 0.03),
        ("session", Start("resume", ONE), None, None),
        ("session", Start("resume", ONE), 0.09, 0.05),
        ("run", Start("resume", ONE), 0.02, 0.05),
    ],
)
def test_the_cost_is_this_turns(scope: str, start: Start, base: float | None, cost: float | None) -> None:
    can = Capabilities(resume=True, cost_scope=scope)  # type: ignore[arg-type]
    outcome = concluded(AGENT, result(0.05), start=start, base=Totals(cost_usd=base), can=can)
    assert outcome.cost_usd == (None if cost is None else pytest.approx(cost))
    assert outcome.usage == Usage(1, 2, 3, 4)


BILL = {"inputTokens": 1, "cacheReadInputTokens": 2, "cacheCreationInputTokens": 3, "outputTokens": 4}
OLDER = {"inputTokens": 9, "cacheReadInputTokens": 9, "cacheCreationInputTokens": 9, "outputTokens": 9}
REPORT = {"input_tokens": 7, "cache_read_input_tokens": 8, "cache_creation_input_tokens": 9}


@pytest.mark.parametrize(
    ("scope", "start", "bills", "usage"),
    [
        ("session", Start(), {"modelUsage": {"a": BILL}}, Usage(1, 2, 3, 4)),
        ("run", Start("resume", ONE), {"modelUsage": {"a": BILL, "b": BILL}}, Usage(2, 4, 6, 8)),
        (
            "session",
            Start("resume", ONE),
            {"modelUsage": {"a": OLDER}, "model_usage_since_last_result": {"a": BILL}},
            Usage(1, 2, 3, 4),
        ),
        ("session", Start("resume", ONE), {"modelUsage": {"a": OLDER}}, Usage(7, 8, 9, None)),
        ("run", Start(), {}, Usage(7, 8, 9, None)),
    ],
)
def test_at_a_limit_of_money_the_usage_is_what_was_billed(
    scope: str, start: Start, bills: dict[str, object], usage: Usage
) -> None:
    """The CLI's own sum leaves out the request that reached the limit."""
    asked = {"type": "assistant", "message": {"id": "m", "model": "a", "content": [], "usage": REPORT}}
    counted = {"input_tokens": 0, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    end = {"type": "result", "subtype": "error_max_budget_usd", "usage": counted | {"output_tokens": 0}}
    lines = [msgspec.json.encode(asked), msgspec.json.encode(end | bills)]
    can = Capabilities(resume=True, cost_scope=scope)  # type: ignore[arg-type]
    outcome = concluded(
        AGENT, [event for line in lines for event in AGENT.parse(line)], code=1, start=start, can=can
    )
    assert outcome.usage == usage
