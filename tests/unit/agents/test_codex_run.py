"""Codex's adapter on recorded streams and made-up lines: how it is called, how it is read."""

import tomllib
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.streams import STREAMS, concluded, events_of

from segue.agents.base import Ended
from segue.agents.codex import rollouts
from segue.agents.codex import trace as rollout
from segue.agents.codex.adapter import AGENT
from segue.agents.codex.trace import Trace
from segue.agents.codex.verdict import limit_end
from segue.core import events as ev
from segue.core.errors import Misuse
from segue.core.outcome import Exit
from segue.core.request import Command, Posture, Request, RunPlace, Runtime, Start
from segue.core.stream import TurnState
from segue.core.tools import DeniedTools
from segue.core.usage import Totals, Usage
from segue.testing.conformance import check_adapter

VERSIONS = ("0.166.0", "0.104.0")
ONE = "01a1e0cb-9715-7cb1-a5f1-99ffe42ffa2c"
TWO = "01a1e0d0-7b2c-7750-9ce3-f5afa0e5cdcc"
OLD_HELP = (
    "Commands:\n  resume  Resume a session\n  review  Review\n\nOptions:\n      --ephemeral\n      --json\n"
)
NEW_HELP = OLD_HELP.replace("  review", "  fork    Fork a session\n  review")


def runtime(version: str = "0.166.0", help_text: str = NEW_HELP) -> Runtime:
    said = f"WARNING: proceeding, even though we could not update PATH\ncodex-cli {version}\n"
    return AGENT.runtime(("/usr/bin/codex",), [said, help_text])


def command(version: str = "0.166.0", **more: Any) -> Command:
    request = Request(**{"prompt": "hi", "cwd": Path("/home/me/project"), **more})
    help_text = OLD_HELP if version == "0.104.0" else NEW_HELP
    return AGENT.command(request, runtime(version, help_text), RunPlace(Path("/runs/1")))


def settings(argv: tuple[str, ...]) -> dict[str, str]:
    """What ``-c`` sets; of two, the last counts."""
    given = [value for flag, value in pairwise(argv) if flag == "-c"]
    return {name: value for name, _, value in (setting.partition("=") for setting in given)}


def stream(version: str, name: str) -> Path:
    return STREAMS / f"codex-{version}" / f"{name}.jsonl"


@pytest.mark.parametrize(
    ("version", "help_text"), [("0.166.0", NEW_HELP), ("0.104.0", OLD_HELP)], ids=VERSIONS
)
def test_the_adapter_conforms(version: str, help_text: str, seed: int) -> None:
    recorded = [path.read_bytes() for path in sorted((STREAMS / f"codex-{version}").iterdir())]
    outputs = [f"codex-cli {version}\n", help_text]
    assert check_adapter(AGENT, recorded, outputs=outputs, seed=seed) == []


# --- probe -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "help_text", "fork", "limit"),
    [
        ("0.166.0", NEW_HELP, True, 1_048_576),
        ("0.104.0", OLD_HELP, False, None),
        ("0.104.3", OLD_HELP, False, None),
        ("0.105.0", OLD_HELP, False, 1_048_576),
        ("0.99.0", OLD_HELP, False, None),
        ("1.2.0-alpha.1", NEW_HELP, True, 1_048_576),
    ],
)
def test_what_a_version_can_do(version: str, help_text: str, fork: bool, limit: int | None) -> None:
    found = runtime(version, help_text)
    assert (found.version, found.distribution) == (version, "codex-cli")
    can = found.capabilities
    assert (can.resume, can.fork, can.no_save, can.prompt_limit) == (True, fork, True, limit)
    assert (can.system_prompt, can.usage_scope, can.cwd_scope) == ("session", "session", "any")
    assert found.identity == runtime("0.167.0", help_text).identity


def test_a_program_that_says_nothing_can_do_nothing() -> None:
    found = AGENT.runtime(("/opt/codex-fork",), ["", ""])
    assert (found.version, found.distribution) == (None, "codex-fork")
    assert not found.capabilities.resume
    assert found.capabilities.prompt_limit == 1_048_576
    with pytest.raises(Misuse, match="cannot resume"):
        AGENT.command(
            Request(prompt="hi", cwd=Path("/"), start=Start("resume", ONE)), found, RunPlace(Path("/runs/1"))
        )


def test_its_home() -> None:
    assert AGENT.default_home({"HOME": "/home/me"}) == Path("/home/me/.codex")
    assert AGENT.default_home({"HOME": "/home/me", "CODEX_HOME": "/else"}) == Path("/else")
    assert AGENT.home_env(Path("/else")) == {"CODEX_HOME": "/else"}


# --- command ---------------------------------------------------------------------------------------

SANDBOX = "--sandbox=read-only"
"""A version that names no such thing in its help is taken for an old one."""


@pytest.mark.parametrize(
    ("start", "begin", "end"),
    [
        (Start(), ("exec", SANDBOX, "--json"), ("-",)),
        (Start("resume", ONE), ("exec", SANDBOX, "resume", "--json"), (ONE, "-")),
        (Start("resume", ONE.upper()), ("exec", SANDBOX, "resume", "--json"), (ONE, "-")),
        (Start("fork", ONE), ("exec", SANDBOX, "fork", "--json"), (ONE, "-")),
    ],
)
def test_where_a_session_begins(start: Start, begin: tuple[str, ...], end: tuple[str, ...]) -> None:
    argv = command(start=start).argv
    assert argv[1 : 1 + len(begin)] == begin
    assert argv[-len(end) :] == end


@pytest.mark.parametrize(
    ("permission", "sandbox"),
    [
        ("default", '"read-only"'),
        ("read", '"read-only"'),
        ("edit", '"workspace-write"'),
        ("full", '"danger-full-access"'),
    ],
)
@pytest.mark.parametrize("start", [Start(), Start("resume", ONE), Start("fork", ONE)])
def test_the_sandbox_is_always_named_and_nobody_asked(permission: str, sandbox: str, start: Start) -> None:
    native = ("-c", 'sandbox_mode="danger-full-access"', "-c", 'approval_policy="on-request"')
    for given in ((), native):
        argv = command(permission=permission, start=start, native_args=given).argv
        assert settings(argv)["sandbox_mode"] == sandbox
        assert settings(argv)["approval_policy"] == '"never"'


def test_the_prompt_goes_by_stdin_alone() -> None:
    made = command(prompt="--secret\n“words”")
    assert not any("secret" in part for part in made.argv)
    assert (made.stdin.decode(), made.hold_stdin, made.files) == ("--secret\n“words”", False, {})


def test_options() -> None:
    argv = command(model="gpt-x", save=False, system_prompt='Say "ä"\n\x7f').argv
    assert {"--model=gpt-x", "--ephemeral", "--skip-git-repo-check"} <= set(argv)
    assert settings(argv)["developer_instructions"] == '"Say \\"ä\\"\\n\\u007f"'


def test_a_system_prompt_goes_with_the_first_turn_only() -> None:
    """The session keeps it; given again, old versions would add it again."""
    resumed = command(system_prompt="Be brief.", start=Start("resume", ONE)).argv
    assert "developer_instructions" not in settings(resumed)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"allow_tools": ("shell",)}, "Codex does not support --allow-tool"),
        ({"deny_tools": ("shell",)}, "Codex does not support --deny-tool"),
        ({"max_turns": 0}, "Codex does not support --max-turns"),
        ({"budget_usd": 0.5}, "Codex does not support --budget"),
        ({"save": False, "start": Start("resume", ONE)}, "Codex does not support --no-save when it resumes"),
        ({"prompt": " \n"}, "Codex needs a prompt"),
        ({"prompt": "x" * 1_048_577}, "1,048,577 characters; Codex accepts at most 1,048,576"),
        ({"system_prompt": "x" * 131_072}, "too long for Codex"),
        ({"start": Start(new_id=TWO)}, "chooses the ids"),
        ({"start": Start("branch", ONE, at="5")}, "middle of a session"),
        ({"start": Start("fork", ONE), "version": "0.104.0"}, "cannot fork"),
        ({"start": Start("resume", "--last")}, "should be a uuid"),
        ({"start": Start("resume", "my-thread")}, "should be a uuid"),
        ({"start": Start("resume")}, "should be a uuid"),
    ],
)
def test_what_it_cannot_do_is_said_in_one_line(more: dict[str, Any], words: str) -> None:
    with pytest.raises(Misuse, match=words) as error:
        command(**more)
    assert "\n" not in str(error.value)


def test_the_old_version_takes_any_size() -> None:
    assert len(command("0.104.0", prompt="x" * 2_000_000).stdin) == 2_000_000
    assert len(command(prompt="ä" * 1_048_576).stdin) == 2_097_152


# --- reading ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("name", "kinds", "text"),
    [
        ("recall", ["session", "text", "end"], "Noted: 456."),
        ("resume", ["session", "text", "end"], "456"),
        ("thinking", ["session", "thinking", "text", "end"], "the answer"),
        ("tool", ["session", "text", "tool-call", "tool-result", "text", "end"], "done"),
        ("denied", ["session", "text", "end"], "done"),
        ("recovered", ["session", "retry", "text", "end"], "fine"),
        ("retries", ["session", "retry", "retry", "notice", "end"], ""),
        ("no-key", ["session", "notice", "end"], ""),
    ],
)
def test_recorded_streams(version: str, name: str, kinds: list[str], text: str) -> None:
    events = events_of(AGENT, stream(version, name))
    told = [event for event in events if not _about_metadata(event)]
    assert [str(event.__struct_config__.tag) for event in told] == kinds
    assert concluded(AGENT, events).text == text


def _about_metadata(event: ev.Event) -> bool:
    return isinstance(event, ev.Notice) and event.text.startswith("Model metadata for")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_tool_and_a_patch(version: str) -> None:
    events = events_of(AGENT, stream(version, "tool"))
    (call,) = [event for event in events if isinstance(event, ev.ToolCall)]
    (result,) = [event for event in events if isinstance(event, ev.ToolResult)]
    assert call.input == {"command": "/bin/bash -lc 'echo hello; exit 3'"}
    assert result == ev.ToolResult(call.id, False, "hello\n", "shell", 3)
    events = events_of(AGENT, stream(version, "patch"))
    (result,) = [event for event in events if isinstance(event, ev.ToolResult)]
    assert (result.name, result.ok, result.output) == ("apply_patch", True, "add /home/me/project/new.txt")
    assert concluded(AGENT, events).tools_run == 1


@pytest.mark.parametrize(
    ("item", "event"),
    [
        (
            {"type": "mcp_tool_call", "server": "s", "tool": "t", "status": "completed",
             "result": {"content": [{"type": "text", "text": "yes"}], "structured_content": None}},
            ev.ToolResult("i", True, "yes", "s.t"),
        ),
        (
            {"type": "mcp_tool_call", "server": "s", "tool": "t", "status": "failed", "result": None,
             "error": {"message": "no"}},
            ev.ToolResult("i", False, "no", "s.t"),
        ),
        ({"type": "web_search", "query": "q"}, ev.ToolResult("i", True, "", "web_search")),
        ({"type": "command_execution", "command": "x", "status": "declined"},
         ev.ToolResult("i", False, "", "shell", None, True)),
        ({"type": "file_change", "changes": [], "status": "failed"},
         ev.ToolResult("i", False, "", "apply_patch")),
        ({"type": "error", "message": "Model metadata"}, ev.Notice("Model metadata")),
        ({"type": "error", "message": "Heads up: Long threads and multiple compactions can"}, ev.Compacted()),
    ],
)  # fmt: skip
def test_items(item: dict[str, Any], event: ev.Event) -> None:
    line = msgspec.json.encode({"type": "item.completed", "item": {"id": "i", **item}})
    assert list(AGENT.parse(line)) == [event]


@pytest.mark.parametrize(
    ("message", "event"),
    [
        ("Reconnecting... 2/5 (x)", ev.Retry(2, 5, message="Reconnecting... 2/5 (x)")),
        (
            "Reconnecting... waiting for network (x)",
            ev.Retry(message="Reconnecting... waiting for network (x)"),
        ),
        ("something else", ev.Notice("something else")),
    ],
)
def test_an_error_line_is_not_the_end(message: str, event: ev.Event) -> None:
    assert list(AGENT.parse(msgspec.json.encode({"type": "error", "message": message}))) == [event]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"  ",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"type":5}',
        b'{"type":"brand.new"}',
        b'{"type":"item.completed"}',
        b'{"type":"item.completed","item":{"id":"i","type":"hologram"}}',
        b'{"type":"item.completed","item":{"id":"i","type":"agent_message","text":7}}',
        b'{"type":"turn.completed"}',
        b'{"type":"turn.completed","usage":null}',
        b'{"type":"turn.completed","usage":[]}',
        b'{"type":"turn.failed"}',
        b'{"type":"error"}',
        b'{"type":"thread.started"}',
    ],
)
def test_no_line_breaks_the_reading(line: bytes) -> None:
    events = list(AGENT.parse(line))
    assert all(isinstance(event, ev.Event) for event in events)
    concluded(AGENT, events)


# --- what its own files would add ------------------------------------------------------------------

IGNORES = NEW_HELP + "      --ignore-rules\n"


def closed(home: Path, permission: Posture = "read", cwd: Path = Path("/home/me/project")) -> dict[str, str]:
    request = Request(prompt="hi", cwd=cwd, permission=permission)
    return settings(AGENT.command(request, runtime(), RunPlace(Path("/runs/1"), home)).argv)


@pytest.mark.parametrize(
    ("permission", "native", "given"),
    [("default", (), 1), ("read", (), 1), ("edit", (), 0), ("full", (), 0), ("read", ("--ignore-rules",), 1)],
)
def test_rules_are_ignored_where_nothing_may_be_written(
    permission: Posture, native: tuple[str, ...], given: int
) -> None:
    request = Request(prompt="hi", cwd=Path("/"), permission=permission, native_args=native)
    argv = AGENT.command(request, runtime(help_text=IGNORES), RunPlace(Path("/runs/1"))).argv
    assert argv.count("--ignore-rules") == given


def test_trust_is_taken_back_only_where_it_was_given(tmp_path: Path) -> None:
    assert "projects" not in closed(tmp_path)
    config = tmp_path / "config.toml"
    for text, taken in (
        ('[projects."/home/me"]\ntrust_level = "trusted"', True),
        ('[projects."/home/me/project"]\ntrust_level = "untrusted"', False),
        ('[projects."/home/you"]\ntrust_level = "trusted"', False),
        ("what is this", True),
    ):
        config.write_text(text)
        assert ("projects" in closed(tmp_path)) is taken, text
        assert "projects" not in closed(tmp_path, "edit")
    named = tomllib.loads(f"projects={closed(tmp_path)['projects']}")["projects"]
    assert named == {
        path: {"trust_level": "untrusted"} for path in ("/home/me/project", "/home/me", "/home", "/")
    }


def test_in_a_linked_worktree_every_trusted_directory_counts(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[projects."/home/you"]\ntrust_level = "trusted"')
    (tmp_path / "tree").mkdir()
    assert "projects" not in closed(tmp_path, cwd=tmp_path / "tree")
    (tmp_path / "tree" / ".git").write_text("gitdir: elsewhere")
    assert "projects" in closed(tmp_path, cwd=tmp_path / "tree")


def test_servers_are_switched_off_by_name_under_read(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[mcp_servers."a b"]\ncommand = "x"\n')
    off = f"mcp_servers={closed(tmp_path)['mcp_servers']}"
    assert tomllib.loads(off) == {"mcp_servers": {"a b": {"enabled": False}}}
    assert "mcp_servers" not in closed(tmp_path, "default")


# --- classify --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("name", "kind", "status"),
    [
        ("fail-error-400", "model_error", 400),
        ("fail-error-401", "auth", 401),
        ("fail-error-403", "auth", 403),
        ("fail-error-429-retry-after-1", "rate_limited", 429),
        ("fail-error-500", "model_error", 500),
        ("fail-error-503", "model_error", 503),
        ("fail-error-529", "model_error", 529),
        ("fail-context-full", "context_exceeded", 400),
        ("fail-context-full-stream", "context_exceeded", None),
        ("fail-drop", "network", None),
        ("fail-malformed", "model_error", None),
        ("fail-empty", "model_error", None),
        ("fail-decline", "refused", None),
        ("fail-decline-begun", "refused", None),
        ("fail-decline-prompt-stream", "refused", None),
        ("no-key", "auth", None),
    ],
)
def test_recorded_failures(version: str, name: str, kind: str, status: int | None) -> None:
    """From the stream alone, without what the rollout knows."""
    failure = concluded(AGENT, events_of(AGENT, stream(version, name)), code=1).failure
    assert failure is not None
    assert (failure.kind, failure.status) == (kind, status)
    assert not failure.message.startswith("{")


@pytest.mark.parametrize(
    ("info", "message", "kind"),
    [
        ("usage_limit_exceeded", "words nobody has seen yet", "rate_limited"),
        ("context_window_exceeded", "words", "context_exceeded"),
        ("cyber_policy", "words", "refused"),
        ("bio_policy", "words", "refused"),
        ("misalignment_policy_violation", "words", "refused"),
        ("bad_request", "Invalid prompt: we've limited access for safety reasons.", "refused"),
        (None, "This content was flagged for possible biological risk.", "refused"),
        (None, "This request has been flagged for possible cybersecurity risk.", "refused"),
        (None, "This request was blocked due to a misalignment policy violation", "refused"),
        (None, "Your account was flagged by an administrator", "model_error"),
        ("unauthorized", "words", "auth"),
        ({"response_too_many_failed_attempts": {"http_status_code": 429}}, "words", "rate_limited"),
        ({"http_connection_failed": {"http_status_code": None}}, "Connection failed: x", "network"),
        ("other", "You've hit your usage limit. Try again later.", "rate_limited"),
        (None, "Quota exceeded. Check your plan and billing details.", "rate_limited"),
        (None, "Your workspace is out of credits. Add credits to continue.", "rate_limited"),
        (None, "stream disconnected before completion: Rate limit reached for x. Please try again in 2s.",
         "rate_limited"),
        (None, "Your access token could not be refreshed. Please log out and sign in again.", "auth"),
        (None, "stream disconnected before completion: idle timeout waiting for SSE", "network"),
        (None, "stream disconnected before completion: error sending request for url (http://x/)", "network"),
        (None, "a sentence that nobody knows", "model_error"),
        (7, "a sentence that nobody knows", "model_error"),
        (None, "{broken", "model_error"),
    ],
)  # fmt: skip
def test_a_failed_turn(info: Any, message: str, kind: str) -> None:
    end = ev.End(False, message=message)
    failure = concluded(AGENT, [ev.Session(ONE), end], code=1, evidence={"trace": Trace(error=info)}).failure
    assert failure is not None
    assert (failure.kind, failure.message) == (kind, message)


def test_a_history_the_service_refuses_is_a_rejected_session() -> None:
    body = {"error": {"message": "could not be verified", "code": "invalid_encrypted_content"}}
    events = [ev.Session(ONE), ev.End(False, message=msgspec.json.encode(body).decode())]
    resumed = concluded(AGENT, events, code=1, start=Start("resume", ONE))
    assert resumed.failure is not None
    assert (resumed.failure.kind, resumed.failure.message) == ("session_rejected", "could not be verified")
    assert resumed.session_id is None
    fresh = concluded(AGENT, events, code=1)
    assert fresh.failure is not None
    assert fresh.failure.kind == "model_error"


NOT_FOUND = f"Error: thread/resume: thread/resume failed: no rollout found for thread id {ONE} (code -32600)"
BUSY = f"Error: thread/resume: thread/resume failed: thread {ONE} already has an active writer (code -32600)"
EMPTY = "Error: thread/resume: thread/resume failed: rollout at /x is empty (code -32603)"
TOO_LARGE = (
    'Error: turn/start: turn/start failed: (code -32602), data: {"input_error_code":"input_too_large"}'
)


@pytest.mark.parametrize(
    ("stderr", "code", "there", "kind", "reason"),
    [
        (NOT_FOUND, 1, False, "session_rejected", "not_found"),
        (NOT_FOUND, 1, True, "session_rejected", "unknown"),
        (EMPTY, 1, True, "session_rejected", "corrupt"),
        ("Error: empty session file", 1, True, "session_rejected", "corrupt"),
        ("Error: failed to parse thread ID from rollout file", 1, True, "session_rejected", "corrupt"),
        (BUSY, 1, True, "session_busy", None),
        (TOO_LARGE, 1, True, "context_exceeded", None),
        ("error: unexpected argument '--nope' found", 2, True, "crashed", None),
        ("Error loading config.toml:", 1, True, "crashed", None),
        ("", -9, True, "killed", None),
        ("", 143, True, "killed", None),
        ("", 0, True, "protocol", None),
    ],
)
def test_a_resume_that_never_came_to_a_turn(
    stderr: str, code: int, there: bool, kind: str, reason: str | None
) -> None:
    outcome = concluded(
        AGENT,
        [],
        code=code,
        stderr=f"WARNING: x\n{stderr}\n",
        start=Start("resume", ONE),
        evidence={"asked_exists": there},
    )
    assert outcome.failure is not None
    assert (outcome.failure.kind, outcome.failure.reason) == (kind, reason)
    assert outcome.session_id is None


def test_an_answer_from_another_session_is_a_rejected_resume() -> None:
    events = events_of(AGENT, stream("0.104.0", "unknown"))
    base = Totals(Usage(1, 1, 0, 1))
    outcome = concluded(AGENT, events, start=Start("resume", TWO), base=base)
    assert outcome.failure is not None
    assert (outcome.failure.kind, outcome.failure.reason) == ("session_rejected", "not_found")
    assert (outcome.text, outcome.session_id) == ("", None)
    own = concluded(AGENT, events)
    assert own.failure is None
    assert outcome.usage == own.usage


def test_what_the_assistant_says_is_no_failure() -> None:
    said = ev.Text("unexpected status 401: You've hit your usage limit. no rollout found")
    outcome = concluded(AGENT, [ev.Session(ONE), said, ev.End(True)], start=Start("resume", ONE))
    assert (outcome.failure, outcome.text) == (None, said.text)


def test_a_session_that_never_reached_the_disk_is_not_told() -> None:
    events = [ev.Session(ONE), ev.Text("hi"), ev.End(True)]
    assert concluded(AGENT, events, evidence={"exists": True}).session_id == ONE
    assert concluded(AGENT, events, evidence={"exists": False}).session_id is None


def test_a_time_limit_says_what_it_was_waiting_for() -> None:
    retry = ev.Retry(message="Reconnecting... waiting for network")
    outcome = concluded(AGENT, [ev.Session(ONE), retry], code=-15, ended_by="timeout")
    assert outcome.failure is not None
    assert outcome.failure.kind == "timeout"
    assert "waiting for network" in outcome.failure.message
    assert concluded(AGENT, [retry], code=-15, ended_by="cancelled").status == "cancelled"


NOON = int(datetime(2026, 3, 2, 12).timestamp() * 1000)


@pytest.mark.parametrize(
    ("message", "moment"),
    [
        ("Please try again in 11.5s.", NOON + 11_500),
        ("try again in 250ms", NOON + 250),
        ("or try again at 3:20 PM.", int(datetime(2026, 3, 2, 15, 20).timestamp() * 1000)),
        ("Try again at Mar 3rd, 2026 12:05 AM.", int(datetime(2026, 3, 3, 0, 5).timestamp() * 1000)),
        ("Try again at Mar 99th, 2026 12:05 AM.", None),
        ("Try again later.", None),
    ],
)
def test_until_when_a_limit_holds(message: str, moment: int | None) -> None:
    assert limit_end(message, NOON) == moment
    failed: list[ev.Event] = [ev.End(False, message=f"You've hit your usage limit. {message}")]
    failure = concluded(AGENT, failed, code=1, now_ms=NOON).failure
    assert failure is not None
    assert (failure.kind, failure.until) == ("rate_limited", moment)


# --- usage -----------------------------------------------------------------------------------------


def counted(prompt: int, cached: int, output: int, written: int = 0) -> dict[str, int]:
    return {
        "input_tokens": prompt,
        "cached_input_tokens": cached,
        "cache_write_input_tokens": written,
        "output_tokens": output,
        "total_tokens": prompt + output,
    }


def ended(usage: dict[str, int]) -> list[ev.Event]:
    line = msgspec.json.encode({"type": "turn.completed", "usage": usage})
    return [ev.Session(ONE), ev.Text("hi"), *AGENT.parse(line)]


TOTAL = ended(counted(1_000, 600, 50, written=100))
BEFORE = Usage(100, 200, 0, 20)


@pytest.mark.parametrize(
    ("start", "base", "trace", "usage"),
    [
        (Start(), None, None, Usage(300, 600, 100, 50)),
        (Start("resume", ONE), BEFORE, None, Usage(200, 400, 100, 30)),
        (Start("resume", ONE), None, None, Usage()),
        (Start("resume", ONE), None, Trace(before=BEFORE), Usage(200, 400, 100, 30)),
        (Start("resume", ONE), Usage(1, 1, 1, 1), Trace(before=BEFORE), Usage(200, 400, 100, 30)),
        (Start("fork", TWO), None, Trace(before=BEFORE), Usage(200, 400, 100, 30)),
        (Start("resume", ONE), Usage(9_000, 9_000, 0, 900), None, Usage(300, 600, 100, 50)),
    ],
    ids=["fresh", "base", "no base", "rollout", "rollout over base", "fork", "counters were reset"],
)
def test_usage_is_this_turns(start: Start, base: Usage | None, trace: Trace | None, usage: Usage) -> None:
    known = Totals(base) if base else None
    outcome = concluded(AGENT, TOTAL, start=start, base=known, evidence={"trace": trace})
    assert outcome.usage == usage
    assert outcome.totals == Totals(Usage(300, 600, 100, 50))


def test_a_failed_turn_keeps_the_base_where_nothing_is_known() -> None:
    failed = [ev.Session(ONE), ev.End(False, message="x")]
    outcome = concluded(AGENT, failed, code=1, start=Start("resume", ONE), base=Totals(BEFORE))
    assert (outcome.usage, outcome.totals) == (Usage(), Totals(BEFORE))


# --- the rollout -----------------------------------------------------------------------------------


def record(second: int, kind: str, **payload: Any) -> bytes:
    stamp = f"2026-01-02T03:04:{second:02d}.500Z"
    return msgspec.json.encode({"timestamp": stamp, "type": kind, "payload": payload}) + b"\n"


def tokens(second: int, total: dict[str, int], last: dict[str, int]) -> bytes:
    info = {"total_token_usage": total, "last_token_usage": last, "model_context_window": 258_400}
    return record(second, "event_msg", type="token_count", info=info)


def call(second: int, key: str, output: str, name: str = "exec_command") -> bytes:
    asked = record(second, "response_item", type="function_call", name=name, call_id=key, arguments="{}")
    return asked + record(second, "response_item", type="function_call_output", call_id=key, output=output)


def shown(second: int, key: str) -> bytes:
    return record(second, "event_msg", type="item_completed", item={"type": "CommandExecution", "id": key})


STARTED = int(datetime.fromisoformat("2026-01-02T03:04:10.000+00:00").timestamp() * 1000)


def traced(home: Path, text: bytes) -> Trace:
    folder = home / "sessions/2026/01/02"
    folder.mkdir(parents=True)
    (folder / f"rollout-2026-01-02T03-04-05-{ONE}.jsonl").write_bytes(text)
    reading = TurnState()
    reading.add(ev.Session(ONE))
    request = Request(prompt="x", cwd=home, start=Start("resume", ONE))
    evidence = AGENT.evidence(request, RunPlace(home / "run", home, STARTED), home, reading)
    assert evidence["exists"]
    assert evidence["asked_exists"]
    trace: Trace = evidence["trace"]
    return trace


def test_a_rollout_tells_this_turn_from_those_before(tmp_path: Path) -> None:
    first, second, third = counted(100, 0, 10), counted(250, 90, 25), counted(420, 200, 30)
    found = traced(
        tmp_path,
        record(5, "turn_context", model="gpt-old")
        + tokens(6, first, first)
        + call(6, "c0", "patch rejected: long ago")
        + record(12, "turn_context", model="gpt-new")
        + tokens(13, first, first)
        + tokens(14, second, counted(150, 90, 15))
        + b"half a line\n"
        + tokens(15, third, counted(170, 110, 5))
        + record(16, "event_msg", type="task_complete", error={"codex_error_info": "other", "message": "x"}),
    )
    assert (found.before, found.total) == (Usage(100, 0, 0, 10), Usage(220, 200, 0, 30))
    assert (found.used, found.window, found.model, found.requests) == (170, 258_400, "gpt-new", 2)
    assert (found.error, found.rejected) == ("other", DeniedTools())


def test_a_turn_that_counted_nothing_has_the_totals_from_before(tmp_path: Path) -> None:
    found = traced(tmp_path, tokens(5, counted(100, 0, 10), counted(100, 0, 10)) + record(12, "turn_context"))
    assert found.total == found.before == Usage(100, 0, 0, 10)
    assert (found.requests, found.used) == (0, None)


def test_a_fork_knows_its_share_although_its_parents_turns_are_elsewhere(tmp_path: Path) -> None:
    turn, thread = counted(150, 90, 15), counted(250, 90, 25)
    found = traced(
        tmp_path,
        record(14, "token_usage_record", turn_token_usage=turn, thread_token_usage=thread)
        + tokens(15, thread, turn),
    )
    assert (found.before, found.total) == (Usage(100, 0, 0, 10), Usage(160, 90, 0, 25))


def test_after_a_compaction_the_context_is_what_is_left(tmp_path: Path) -> None:
    left = {**counted(0, 0, 0), "total_tokens": 70}
    assert traced(tmp_path, tokens(12, counted(500, 0, 5), left)).used == 70


@pytest.mark.parametrize(
    ("records", "blocked", "rejected"),
    [
        (shown(12, "u") + call(12, "c1", "Chunk ID: 1\nProcess exited with code 1\n"), 1, 0),
        (shown(12, "c1") + call(12, "c1", "Chunk ID: 1\nProcess exited with code 1\n"), 0, 0),
        (
            shown(12, "u") + call(12, "c1", "Chunk ID: 1\nWall time: 1\nProcess running with session ID 5\n"),
            0,
            0,
        ),
        (shown(12, "u") + call(12, "c1", "patch rejected: writing is blocked by read-only sandbox"), 0, 1),
        (shown(12, "u") + call(12, "c1", "failed to parse function arguments: x"), 0, 0),
        (shown(12, "u") + call(12, "c1", "Chunk ID: 1", name="view_image"), 0, 0),
        (call(12, "c1", "Chunk ID: 1\nProcess exited with code 1\n"), 0, 0),
        (call(12, "c1", 'exec_command failed: CreateProcess { message: "Codex(Sandbox(Denied { x'), 1, 0),
        (call(12, "c1", 'exec_command failed: CreateProcess { message: "No such file'), 0, 0),
        (call(12, "c1", "approval policy is Never; reject command"), 0, 1),
    ],
)
def test_calls_the_stream_does_not_show(tmp_path: Path, records: bytes, blocked: int, rejected: int) -> None:
    found = traced(tmp_path, records)
    assert (found.blocked.count, found.rejected.count) == (blocked, rejected)
    assert {*found.blocked.names, *found.rejected.names} <= {"shell"}


READ_ONLY = (
    "Chunk ID: 1\nProcess exited with code 1\nOutput:\ntouch: cannot touch 'f': Read-only file system\n"
)


@pytest.mark.parametrize(
    ("output", "stopped"),
    [
        (READ_ONLY, DeniedTools(1, ("shell",))),
        (READ_ONLY.replace("code 1", "code 0"), DeniedTools()),
        (READ_ONLY.replace("Read-only file system", "No such file"), DeniedTools()),
    ],
)
def test_a_command_that_found_everything_read_only_was_stopped(
    tmp_path: Path, output: str, stopped: DeniedTools
) -> None:
    found = traced(tmp_path, shown(12, "c1") + call(12, "c1", output))
    assert (found.stopped, found.blocked, found.rejected) == (stopped, DeniedTools(), DeniedTools())


@pytest.mark.parametrize(("permission", "denied"), [("default", 1), ("read", 1), ("edit", 1), ("full", 0)])
def test_without_a_sandbox_nothing_is_stopped_by_it(permission: Any, denied: int) -> None:
    request = Request(prompt="x", cwd=Path("/"), permission=permission)
    reading = TurnState()
    reading.add(ev.ToolCall("c1", "shell"))
    reading.add(ev.ToolResult("c1", False, exit_code=1))
    reading.add(ev.End(True))
    evidence = {"trace": Trace(stopped=DeniedTools(1, ("shell",)))}
    outcome = AGENT.conclude(
        Ended(request=request, runtime=runtime(), reading=reading, exit=Exit(1), evidence=evidence)
    )
    assert (outcome.tools_run, outcome.tools_denied) == (1, DeniedTools(denied, ("shell",) * denied))


@pytest.mark.parametrize(("permission", "ran"), [("default", 0), ("read", 0), ("edit", 1), ("full", 1)])
def test_a_blocked_command_counts_as_run_where_it_could_write(permission: Any, ran: int) -> None:
    request = Request(prompt="x", cwd=Path("/"), permission=permission)
    evidence = {"trace": Trace(blocked=DeniedTools(1, ("shell",)), rejected=DeniedTools(1, ("apply_patch",)))}
    reading = TurnState()
    reading.add(ev.End(True))
    outcome = AGENT.conclude(
        Ended(request=request, runtime=runtime(), reading=reading, exit=Exit(0), evidence=evidence)
    )
    assert (outcome.tools_run, outcome.tools_denied) == (ran, DeniedTools(2, ("shell", "apply_patch")))


def test_a_long_turn_is_read_back_to_its_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = counted(100, 0, 10), counted(250, 90, 25)
    long = record(12, "response_item", type="message", content="x" * 5_000)
    text = tokens(5, first, first) + long * 3 + tokens(13, second, second)
    monkeypatch.setattr(rollout, "TAILS", (1_000, 8_000, 40_000))
    assert traced(tmp_path / "a", text).before == Usage(100, 0, 0, 10)
    monkeypatch.setattr(rollout, "TAILS", (1_000, 8_000))
    found = traced(tmp_path / "b", text)
    assert (found.before, found.total) == (None, Usage(160, 90, 0, 25))


def test_what_is_not_there_or_not_readable_is_unknown(tmp_path: Path) -> None:
    assert rollouts.find(tmp_path, ONE) is None
    assert rollouts.find(tmp_path, "*") is None
    packed = tmp_path / "sessions/2026/01/02" / f"rollout-2026-01-02T03-04-05-{ONE}.jsonl.zst"
    packed.parent.mkdir(parents=True)
    packed.write_bytes(b"x")
    assert rollouts.find(tmp_path, ONE) == packed
    assert rollout.trace(packed, 0) is None
