"""Vibe's adapter on recorded streams and made-up lines: both protocols, how they are called and read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit import streams

from segue.agents.base import Ended
from segue.agents.vibe import run_files, store
from segue.agents.vibe.adapter import AGENT
from segue.agents.vibe.meta import Error, Export, Meta, Stats, Tokens
from segue.core import events as ev
from segue.core.errors import Misuse
from segue.core.outcome import Exit, Kind, Outcome, Reason
from segue.core.request import Command, Posture, Request, RunPlace, Runtime, Start
from segue.core.stream import TurnState
from segue.core.tools import DeniedTools
from segue.core.usage import Usage
from segue.testing.conformance import check_adapter

NEW, OLD = "vibe-3.0.2", "vibe-2.18.4"
ONE = "11111111-1111-4111-8111-111111111111"
TWO = "22222222-2222-4222-8222-222222222222"
HELPS = {
    NEW: "--resume --max-turns --max-price --output-dir --prompt-file --disabled-tools --trust",
    OLD: "--resume --max-turns --max-price --enabled-tools --trust",
}


def runtime(version: str) -> Runtime:
    return AGENT.runtime(("/usr/bin/vibe",), [version.replace("-", " ") + "\n", HELPS[version]])


def events_of(version: str, name: str) -> list[ev.Event]:
    return streams.events_of(AGENT, streams.STREAMS / version / f"{name}.jsonl")


def ask(**more: Any) -> Request:
    return Request(**{"prompt": "hi", "cwd": Path("/home/me/project"), **more})


def call(version: str, request: Request, home: Path | None = Path("/home/me/home")) -> Command:
    return AGENT.command(request, runtime(version), RunPlace(Path("/runs/1"), home))


def reading_of(events: list[ev.Event]) -> TurnState:
    reading = TurnState()
    for event in events:
        reading.add(event)
    return reading


def conclude(
    version: str,
    *,
    events: list[ev.Event] | None = None,
    code: int = 0,
    stderr: str = "",
    start: Start | None = None,
    evidence: dict[str, Any] | None = None,
    **request: Any,
) -> Outcome:
    return AGENT.conclude(
        Ended(
            request=ask(start=start or Start(), **request),
            runtime=runtime(version),
            reading=reading_of(events or []),
            exit=Exit(code, stderr=stderr),
            evidence=evidence or {},
            now_ms=1_000_000,
        )
    )


def export(
    outcome: str = "finished", message: str = "", code: str | None = None, **more: Any
) -> dict[str, Any]:
    error = Error(message, code) if message else None
    return {"export": Export(outcome, error, **{"session_id": ONE, **more})}


# --- conformance -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [NEW, OLD])
def test_it_conforms(version: str, seed: int) -> None:
    recorded = [path.read_bytes() for path in sorted((streams.STREAMS / version).glob("*.jsonl"))]
    outputs = [version.replace("-", " "), HELPS[version]]
    assert check_adapter(AGENT, recorded, outputs=outputs, seed=seed) == []


# --- probe -----------------------------------------------------------------------------------------


def test_the_protocol_is_told_by_the_flags_in_the_help() -> None:
    new, old = runtime(NEW), runtime(OLD)
    assert (new.version, old.version) == ("3.0.2", "2.18.4")
    assert new.distribution == old.distribution == "mistral-vibe"
    assert (new.capabilities.stdin, new.capabilities.id_on_disk_only, new.capabilities.fork) == (
        True,
        False,
        False,
    )
    assert (old.capabilities.stdin, old.capabilities.id_on_disk_only, old.capabilities.fork) == (
        False,
        True,
        True,
    )
    assert (new.capabilities.prompt_limit, old.capabilities.prompt_limit) == (1_048_576, 131_071)


# --- command ---------------------------------------------------------------------------------------


def test_the_new_version_gets_its_prompt_by_stdin_and_writes_an_export() -> None:
    command = call(NEW, ask(prompt="--help"))
    assert command.stdin == b"--help"
    assert command.argv[1] == "-p"
    assert command.argv[2].startswith("--")
    assert "--output-dir=/runs/1/export" in command.argv


def test_the_old_version_gets_its_prompt_as_an_argument_that_is_no_option() -> None:
    assert call(OLD, ask()).argv[1:3] == ("-p", "hi")
    assert call(OLD, ask(prompt="--help")).argv[1] == "--prompt=--help"
    assert call(OLD, ask()).stdin == b""


@pytest.mark.parametrize("version", [NEW, OLD])
def test_a_resume_names_the_session_and_the_same_posture(version: str) -> None:
    fresh, resumed = call(version, ask()), call(version, ask(start=Start("resume", ONE)))
    assert set(resumed.argv) - set(fresh.argv) == {f"--resume={ONE}"}
    assert resumed.env == fresh.env


@pytest.mark.parametrize("version", [NEW, OLD])
def test_a_directory_is_never_trusted_unasked(version: str) -> None:
    assert "--trust" not in call(version, ask(permission="full")).argv
    assert call(version, ask(native_args=("--trust",))).argv[-1] == "--trust"


@pytest.mark.parametrize(
    ("posture", "profile"),
    [("default", "ask"), ("read", "ask"), ("edit", "accept-edits"), ("full", "auto-approve")],
)
def test_the_new_version_runs_under_one_profile_and_no_other(posture: Posture, profile: str) -> None:
    command = call(NEW, ask(permission=posture))
    assert f"--agent={profile}" in command.argv
    others = msgspec.json.decode(command.env["VIBE_DISABLED_AGENTS"])
    assert {*others, profile} == {"ask", "accept-edits", "smart-approve", "auto-approve"}
    assert profile not in others
    enabled = {arg.partition("=")[2] for arg in command.argv if arg.startswith("--enabled-tools")}
    assert ({"read_file", "grep"} <= enabled, "bash" in enabled) == (posture == "read", False)


@pytest.mark.parametrize("posture", ["default", "edit"])
def test_the_old_version_runs_no_command_as_harmless(posture: Posture) -> None:
    command = call(OLD, ask(permission=posture))
    tools = msgspec.json.decode(command.env["VIBE_TOOLS"])
    assert "--agent=default" in command.argv
    assert tools["bash"] == {"allowlist": []}
    assert ("write_file" in tools) == (posture == "edit")


def test_the_old_version_is_left_with_tools_that_look() -> None:
    enabled = [arg for arg in call(OLD, ask(permission="read")).argv if arg.startswith("--enabled-tools")]
    assert enabled == [f"--enabled-tools={tool}" for tool in ("grep", "read", "skill", "todo")]


def test_with_read_a_rule_opens_the_shell_for_its_commands_only() -> None:
    rules = ("bash(git log)", "bash(ls)", "web_fetch")
    command = call(NEW, ask(permission="read", allow_tools=rules))
    assert "--enabled-tools=bash" in command.argv
    assert msgspec.json.decode(command.env["VIBE_TOOLS"]) == {
        "bash": {"permission": "ask", "allowlist": ["git log", "ls"]},
        "web_fetch": {"permission": "always"},
    }
    denied = call(NEW, ask(permission="read", allow_tools=rules, deny_tools=("bash",)))
    assert "--enabled-tools=bash" not in denied.argv
    assert "bash" not in msgspec.json.decode(denied.env["VIBE_TOOLS"])
    assert "VIBE_TOOLS" not in call(NEW, ask(permission="full", allow_tools=rules)).env


def test_what_the_users_own_settings_refuse_stays_refused(tmp_path: Path) -> None:
    request = ask(permission="read", allow_tools=("bash(ls)",))
    assert AGENT.not_in_force(request, runtime(NEW), tmp_path, {}) is None
    (tmp_path / "config.toml").write_text('[tools.bash]\npermission = "never"\n')
    assert str(tmp_path) in str(AGENT.not_in_force(request, runtime(NEW), tmp_path, {}))
    assert AGENT.not_in_force(ask(permission="read"), runtime(NEW), tmp_path, {}) is None


def test_tools_are_allowed_and_denied_over_the_posture() -> None:
    wish: dict[str, Any] = {"permission": "edit", "allow_tools": ("bash",), "deny_tools": ("write_file",)}
    new, old = call(NEW, ask(**wish)), call(OLD, ask(**wish))
    assert "--disabled-tools=write_file" in new.argv
    assert msgspec.json.decode(new.env["VIBE_TOOLS"]) == {"bash": {"permission": "always"}}
    tools = msgspec.json.decode(old.env["VIBE_TOOLS"])
    assert (tools["bash"]["permission"], tools["write_file"]["permission"]) == ("always", "never")


def test_the_old_versions_sessions_stay_in_the_home_it_is_given() -> None:
    given = call(OLD, ask(), Path("/runners/0")).env["VIBE_SESSION_LOGGING"]
    assert msgspec.json.decode(given)["save_dir"] == "/runners/0/logs/session"
    assert "VIBE_SESSION_LOGGING" not in call(NEW, ask()).env
    assert "VIBE_SESSION_LOGGING" not in call(OLD, ask(), None).env


@pytest.mark.parametrize("version", [NEW, OLD])
def test_options(version: str) -> None:
    command = call(version, ask(model="m", max_turns=3, budget_usd=0.5, save=False))
    assert {"--max-turns=3", "--max-price=0.5"} <= set(command.argv)
    assert command.env["VIBE_ACTIVE_MODEL"] == "m"
    assert msgspec.json.decode(command.env["VIBE_SESSION_LOGGING"]) == {"enabled": False}


@pytest.mark.parametrize(
    ("version", "request_", "words"),
    [
        (NEW, ask(prompt=" \n"), "needs a prompt"),
        (NEW, ask(prompt="é" * 524_289), "1,048,576"),
        (OLD, ask(prompt="x" * 131_072), "131,071"),
        (OLD, ask(prompt="-" + "x" * 131_070), "131,071"),
        (OLD, ask(prompt="a\0b"), "NUL"),
        (NEW, ask(system_prompt="x"), "--system-prompt-file"),
        (NEW, ask(start=Start("resume", ONE), save=False), "--no-save"),
        (NEW, ask(start=Start("fork", ONE)), "fork"),
        (OLD, ask(start=Start("branch", ONE, TWO)), "branch"),
        (NEW, ask(start=Start(new_id=ONE)), "ids"),
        (NEW, ask(start=Start("resume", "--help")), "uuid"),
        (OLD, ask(start=Start("resume", None)), "uuid"),
        (NEW, ask(deny_tools=("--auto-approve",)), "not the name of a Vibe tool"),
        (OLD, ask(permission="full", deny_tools=("bash",)), "--deny-tool"),
        (OLD, ask(permission="read", allow_tools=("bash",)), "cannot allow bash with --permission read"),
        (OLD, ask(permission="read", allow_tools=("server_tool",)), "cannot allow server_tool"),
        (NEW, ask(deny_tools=("bash(rm)",)), "only as a whole"),
    ],
)
def test_what_it_cannot_do_is_refused_in_one_line(version: str, request_: Request, words: str) -> None:
    with pytest.raises(Misuse, match=words) as refused:
        call(version, request_)
    assert "\n" not in str(refused.value)


# --- parse -----------------------------------------------------------------------------------------


def kinds(events: list[ev.Event]) -> list[str]:
    return [str(event.__struct_config__.tag) for event in events if not isinstance(event, ev.Session)]


@pytest.mark.parametrize("version", [NEW, OLD])
def test_tools_as_recorded(version: str) -> None:
    events = events_of(version, "tools")
    pair = ["tool-call", "tool-result"]
    assert kinds(events) == ["heard", "thinking", *pair, *pair, "text"]
    reading = reading_of(events)
    name = "file_system.write_file" if version == NEW else "write_file"
    assert (reading.answer, reading.tools_run, reading.tools_denied) == ("done", 1, DeniedTools(1, (name,)))
    assert reading.unknown == 0


def test_the_new_version_announces_its_session_in_every_entry() -> None:
    events = events_of(NEW, "recall")
    (session,) = {event.id for event in events if isinstance(event, ev.Session)}
    assert reading_of(events).session_id == session
    assert kinds(events) == ["heard", "text"]


@pytest.mark.parametrize(("name", "answer", "tools"), [("recall", "Noted: 456.", 0), ("resume-2", "done", 2)])
@pytest.mark.parametrize("version", [NEW, OLD])
def test_only_this_turn_counts(version: str, name: str, answer: str, tools: int) -> None:
    reading = reading_of(events_of(version, name))
    assert (reading.answer, reading.tools_run) == (answer, tools)


def test_a_replayed_history_with_tools_is_not_taken_for_this_turn() -> None:
    events = events_of(OLD, "resume-0")
    assert kinds(events).count("tool-call") == 2
    reading = reading_of(events)
    assert (reading.answer, reading.tools_run) == ("", 0)


def test_what_was_discarded_is_no_answer() -> None:
    assert kinds(events_of(NEW, "drop")) == ["heard"]


def test_a_refusal_on_stdout_is_a_final_word() -> None:
    (end, rest) = events_of(OLD, "rejected")
    assert isinstance(end, ev.End)
    assert not end.ok
    assert "not found" in end.message
    assert isinstance(rest, ev.Unknown)


EFFECT = '{"type":"effect","id":"e1","detail":{"toolName":"t","input":{"a":1}},"state":%s}'


@pytest.mark.parametrize(
    ("state", "ok", "output", "exit_code", "denied"),
    [
        ('{"status":"completed","outputText":"hi","decision":"execute"}', True, "hi", None, False),
        ('{"status":"completed","output":{"content":"file"}}', True, "file", None, False),
        ('{"status":"failed","error":{"message":"Return code: 2"}}', False, "Return code: 2", 2, False),
        ('{"status":"failed","decision":"skip","error":{"message":"no"}}', False, "no", None, True),
        ('{"status":"cancelled","decision":null}', False, "", None, False),
    ],
)
def test_an_effect_is_a_call_and_its_result(
    state: str, ok: bool, output: str, exit_code: int | None, denied: bool
) -> None:
    call_, result = AGENT.parse((EFFECT % state).encode())
    assert call_ == ev.ToolCall("e1", "t", {"a": 1})
    assert result == ev.ToolResult("e1", ok, output, "t", exit_code, denied)


@pytest.mark.parametrize(
    ("content", "ok", "exit_code", "denied"),
    [
        ("command: ls\\nstdout: \\nstderr: \\nreturncode: 3", True, 3, False),
        ("<tool_error>bash failed: no</tool_error>", False, None, False),
        ("Tool execution not permitted.", False, None, True),
        ("Tool 'bash' is permanently disabled", False, None, True),
        ("stdout: Tool execution not permitted.", True, None, False),
    ],
)
def test_a_tool_message_of_the_old_version(
    content: str, ok: bool, exit_code: int | None, denied: bool
) -> None:
    line = f'{{"role":"tool","name":"bash","tool_call_id":"c","content":"{content}"}}'
    (result,) = AGENT.parse(line.encode())
    assert isinstance(result, ev.ToolResult)
    assert (result.ok, result.exit_code, result.denied) == (ok, exit_code, denied)


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b"null",
        b'{"type":"new"}',
        b'{"role":"new"}',
        b'{"type":"effect"}',
        b'{"role":5}',
        b"\xff",
    ],
)
def test_what_it_does_not_know_is_unknown(line: bytes) -> None:
    (event,) = AGENT.parse(line)
    assert isinstance(event, ev.Unknown)


def test_an_injected_message_is_not_the_users() -> None:
    assert list(AGENT.parse(b'{"role":"user","content":"x","injected":true}')) == []
    assert list(AGENT.parse(b'{"type":"message","role":"user","content":[],"source":"hook"}')) == []


# --- conclude: the new version ---------------------------------------------------------------------

ANSWER: list[ev.Event] = [ev.Session(ONE), ev.Heard("hi"), ev.Text("hello")]
HTTP = "error '{0}' for url 'http://x'\nFor more information check: https://x/Status/{0}: {1}"


def test_a_finished_run() -> None:
    about = export(usage=Tokens(100, 7, 60), cost_usd=0.5, steps=2) | {"context": 90}
    outcome = conclude(NEW, events=ANSWER, evidence=about)
    assert (outcome.failure, outcome.text, outcome.session_id) == (None, "hello", ONE)
    assert outcome.usage == Usage(40, 60, 0, 7)
    assert (outcome.cost_usd, outcome.model_turns, outcome.context.used) == (0.5, 2, 90)


def test_exit_0_is_no_success_without_an_export() -> None:
    failure = conclude(NEW, events=ANSWER).failure
    assert failure is not None
    assert failure.kind == "protocol"


@pytest.mark.parametrize(
    ("outcome", "message", "code", "kind"),
    [
        ("turn_limit", "", None, "timeout"),
        ("price_limit", "", None, "timeout"),
        ("terminated", "", None, "killed"),
        ("refusal", "", None, "refused"),
        (
            "infrastructure_failure",
            "Client " + HTTP.format(400, "your prompt was flagged as potentially violating our policy"),
            "model_stream_failed",
            "refused",
        ),
        ("config_error", "Invalid API key. Please check", "invalid_api_key", "auth"),
        ("config_error", "Missing X_KEY environment variable for x provider", None, "auth"),
        ("infrastructure_failure", "Client " + HTTP.format(429, "slow"), "rate_limit", "rate_limited"),
        ("infrastructure_failure", "Server " + HTTP.format(500, "sorry"), "backend_error", "model_error"),
        ("infrastructure_failure", "Client " + HTTP.format(400, "no"), "backend_error", "model_error"),
        (
            "infrastructure_failure",
            "Client " + HTTP.format(400, "This model's maximum context length is 1"),
            "backend_error",
            "context_exceeded",
        ),
        ("infrastructure_failure", "peer closed connection without sending", "backend_error", "network"),
        ("infrastructure_failure", "All connection attempts failed", "backend_error", "network"),
        ("infrastructure_failure", "Stream chunk contains malformed JSON.", "backend_error", "model_error"),
    ],
)
def test_how_the_new_version_failed(outcome: str, message: str, code: str | None, kind: Kind) -> None:
    got = conclude(NEW, events=ANSWER, code=2, evidence=export(outcome, message, code))
    assert got.failure is not None
    assert (got.failure.kind, got.text, got.session_id) == (kind, "", ONE)


@pytest.mark.parametrize(
    ("outcome", "message", "kind", "reason"),
    [
        ("usage_error", f"Session not found: {ONE}", "session_rejected", "not_found"),
        ("infrastructure_failure", "Invalid Unified session store: CURRENT", "session_rejected", "corrupt"),
        ("infrastructure_failure", "something nobody knows yet", "session_rejected", "corrupt"),
        ("infrastructure_failure", f"Session is already open: {ONE}", "session_busy", None),
    ],
)
def test_how_the_new_version_refuses_a_session(
    outcome: str, message: str, kind: Kind, reason: Reason | None
) -> None:
    about = export(outcome, message, session_id=None)
    got = conclude(NEW, code=2, start=Start("resume", ONE), evidence=about)
    assert got.failure is not None
    assert (got.failure.kind, got.failure.reason, got.session_id) == (kind, reason, None)


def test_another_session_than_the_one_asked_for_is_a_rejection_unless_it_was_taken_over() -> None:
    asked = Start("resume", TWO)
    strayed = conclude(NEW, events=ANSWER, start=asked, evidence=export())
    assert strayed.failure is not None
    assert (strayed.failure.kind, strayed.failure.reason) == ("session_rejected", "not_found")
    assert strayed.session_id is None
    taken_over = conclude(NEW, events=ANSWER, start=asked, evidence=export() | {"imported": True})
    assert (taken_over.failure, taken_over.session_id) == (None, ONE)


def test_a_limit_says_when_it_ends() -> None:
    message = "Client " + HTTP.format(429, "Please try again in 1.5s.")
    failure = conclude(NEW, code=2, evidence=export("infrastructure_failure", message, "rate_limit")).failure
    assert failure is not None
    assert (failure.until, failure.status) == (1_001_500, 429)


def test_what_the_assistant_says_is_no_failure() -> None:
    said = "Error: Session not found: RateLimitError, Invalid API key, maximum context length"
    for version, evidence in ((NEW, export()), (OLD, {"written": [Meta(ONE)]})):
        outcome = conclude(version, events=[ev.Heard("hi"), ev.Text(said)], evidence=evidence)
        assert (outcome.failure, outcome.text) == (None, said)


def test_a_killed_run_is_known_from_its_journal(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"type": "command_reserved", "payload": {"method": "turn/start"}},
        {"type": "action_intent", "payload": {"kind": "completion"}},
        {
            "type": "action_result",
            "payload": {"result": {"result": {"usage": {"input_tokens": 9, "cached_input_tokens": 4}}}},
        },
        {"type": "action_intent", "payload": {"kind": "tool"}},
    ]
    folder = store.store_path(tmp_path, ONE) / "journal"
    folder.mkdir(parents=True)
    (folder / "0001.jsonl").write_text("not of this turn\n")
    encoded = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    (folder / "0007.jsonl").write_bytes(encoded + b'{"half')
    trace = run_files.trace(tmp_path, ONE)
    assert (trace.tools, trace.requests, trace.usage.prompt) == (1, 1, 9)
    outcome = conclude(NEW, events=ANSWER[:2], code=-9, evidence={"trace": trace})
    assert outcome.failure is not None
    assert (outcome.failure.kind, outcome.tools_run, outcome.context.used) == ("killed", 1, 9)


# --- conclude: the old version ---------------------------------------------------------------------

BACKEND = "Error: API error from x (model: y): LLM backend error [x]\n  status: {}\n  provider_message: {}\n"
CRASH = 'Traceback (most recent call last):\n  File "x", line 1\nvibe.core.types.{}\n'


def test_a_run_of_the_old_version_takes_its_figures_from_the_disk() -> None:
    stats = Stats(
        steps=3,
        session_prompt_tokens=100,
        session_completion_tokens=7,
        last_turn_prompt_tokens=60,
        session_cost=0.5,
        tool_calls_agreed=1,
        tool_calls_rejected=1,
        tool_calls_hook_denied=1,
    )
    outcome = conclude(OLD, events=ANSWER[1:], evidence={"written": [Meta(TWO, stats=stats)]})
    assert (outcome.failure, outcome.text, outcome.session_id) == (None, "hello", TWO)
    assert outcome.usage == Usage(input=100, output=7)
    assert (outcome.cost_usd, outcome.model_turns, outcome.context.used) == (0.5, 2, 60)
    assert (outcome.tools_run, outcome.tools_denied) == (1, DeniedTools(2))


def test_two_sessions_that_fit_are_no_id() -> None:
    outcome = conclude(OLD, events=ANSWER[1:], evidence={"written": [Meta(ONE), Meta(TWO)]})
    assert (outcome.failure, outcome.session_id, outcome.usage) == (None, None, Usage())


@pytest.mark.parametrize(
    ("stderr", "kind"),
    [
        ("Error: API error from x (model: y): Invalid API key. Please check", "auth"),
        (BACKEND.format("403 Forbidden", "not here"), "auth"),
        (BACKEND.format("500 Internal Server Error", "sorry"), "model_error"),
        (BACKEND.format("N/A", "Network error"), "network"),
        (BACKEND.format("400 Bad Request", "flagged as potentially violating our policy"), "refused"),
        (BACKEND.format("400 Bad Request", "code: content_filter"), "refused"),
        ("Error: API error from x (model: y): Unterminated string starting at", "model_error"),
        (CRASH.format("RateLimitError: Rate limits exceeded. Please wait"), "rate_limited"),
        (CRASH.format("ContextTooLongError: The conversation context exceeds"), "context_exceeded"),
        ("<vibe_stop_event>Turn limit of 1 reached</vibe_stop_event>\n", "timeout"),
        ("<vibe_stop_event>Price limit exceeded: $1 > $0</vibe_stop_event>\n", "timeout"),
        ("Error: Active model 'nope' not found in configuration.", "crashed"),
        (CRASH.format("SomethingElse: odd"), "crashed"),
    ],
)
def test_how_the_old_version_failed(stderr: str, kind: Kind) -> None:
    outcome = conclude(OLD, events=[ev.Heard("hi")], code=1, stderr=stderr)
    assert outcome.failure is not None
    assert outcome.failure.kind == kind
    assert "\n" not in outcome.failure.message


@pytest.mark.parametrize(("exists", "reason"), [(False, "not_found"), (True, "corrupt")])
def test_a_session_the_old_version_does_not_find_is_corrupt_where_it_exists(
    exists: bool, reason: str
) -> None:
    events = list(events_of(OLD, "rejected"))
    outcome = conclude(
        OLD, events=events, code=1, start=Start("resume", ONE), evidence={"asked_exists": exists}
    )
    assert outcome.failure is not None
    assert (outcome.failure.kind, outcome.failure.reason) == ("session_rejected", reason)


@pytest.mark.parametrize("version", [NEW, OLD])
def test_an_empty_answer_is_a_failure(version: str) -> None:
    evidence = export() if version == NEW else {"written": [Meta(ONE)]}
    failure = conclude(version, events=[ev.Heard("hi"), ev.Text(" ")], evidence=evidence).failure
    assert failure is not None
    assert failure.kind == "model_error"


# --- evidence: the old version's session directories -----------------------------------------------


def write_session(home: Path, session: str, cwd: Path, began: str, parent: str | None = None) -> None:
    folder = home / "logs" / "session" / f"session_x_{session[:8]}"
    folder.mkdir(parents=True)
    meta = {"session_id": session, "start_time": began, "parent_session_id": parent}
    meta_text = msgspec.json.encode(meta | {"environment": {"working_directory": str(cwd)}})
    (folder / "meta.json").write_bytes(meta_text)


@pytest.mark.parametrize(
    ("began", "parent", "elsewhere", "found"),
    [
        ("2026-01-01T12:00:01+00:00", None, False, [TWO]),
        ("2026-01-01T11:59:59+00:00", None, False, []),
        ("2026-01-01T12:00:01+00:00", None, True, []),
        ("never", None, False, []),
    ],
)
def test_only_a_session_begun_by_this_run_fits(
    tmp_path: Path, began: str, parent: str | None, elsewhere: bool, found: list[str]
) -> None:
    write_session(tmp_path, TWO, Path("/other") if elsewhere else tmp_path, began, parent)
    place = RunPlace(tmp_path / "run", tmp_path, 1_767_268_800_000)
    written = run_files.written(tmp_path, ask(cwd=tmp_path), place)
    assert [meta.session_id for meta in written] == found


def test_a_session_that_was_compacted_into_another_gives_way_to_it(tmp_path: Path) -> None:
    write_session(tmp_path, ONE, tmp_path, "2026-01-01T12:00:01+00:00")
    write_session(tmp_path, TWO, tmp_path, "2026-01-01T12:00:02+00:00", ONE)
    place = RunPlace(tmp_path / "run", tmp_path, 1_767_268_800_000)
    assert [meta.session_id for meta in run_files.written(tmp_path, ask(cwd=tmp_path), place)] == [TWO]
    evidence = AGENT.evidence(ask(cwd=tmp_path, start=Start("resume", ONE)), place, tmp_path, TurnState())
    assert evidence["asked_exists"]
