"""The Gemini adapter on recorded streams and on tables of what it must say and refuse."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.agents.base import Ended
from segue.agents.gemini import permissions
from segue.agents.gemini.adapter import AGENT, PROMPT_BYTES
from segue.agents.gemini.verdict import evidence
from segue.core import events as ev
from segue.core.errors import Misuse
from segue.core.outcome import Exit, Outcome, nothing_known
from segue.core.request import Command, Request, RunPlace, Runtime, Start
from segue.core.stream import TurnState
from segue.core.usage import Usage
from segue.testing.conformance import check_adapter

STREAMS = Path(__file__).parents[2] / "fixtures" / "streams"
NEW, OLD = "0.61.0", "0.29.0"
ID = "11111111-2222-4333-8444-555555555555"
PLACE = RunPlace(Path("/run/1"), started_ms=1_700_000_000_000)


def runtime(version: str = NEW) -> Runtime:
    return AGENT.runtime(("/bin/gemini",), (f"{version}\n", help_text(version)))


def help_text(version: str) -> str:
    return (STREAMS / f"gemini-{version}" / "help.txt").read_text()


def stream(name: str, version: str = NEW) -> bytes:
    return (STREAMS / f"gemini-{version}" / f"{name}.jsonl").read_bytes()


def read(lines: bytes) -> TurnState:
    reading = TurnState()
    for line in lines.splitlines():
        for event in AGENT.parse(line):
            reading.add(event)
    return reading


def concluded(lines: bytes, code: int = 0, stderr: str = "", **more: Any) -> Outcome:
    request = Request(prompt="x", cwd=Path("/work"), start=more.pop("start", Start()))
    return AGENT.conclude(
        Ended(request=request, runtime=runtime(), reading=read(lines), exit=Exit(code, stderr=stderr), **more)
    )


def command(prompt: str = "hi", version: str = NEW, **more: Any) -> Command:
    return AGENT.command(Request(prompt=prompt, cwd=Path("/work"), **more), runtime(version), PLACE)


class TestRuntime:
    @pytest.mark.parametrize(("version", "chooses", "denies"), [(NEW, True, True), (OLD, False, False)])
    def test_capabilities_come_from_the_help(self, version: str, chooses: bool, denies: bool) -> None:
        found = runtime(version)
        can = found.capabilities
        assert (found.version, can.resume, can.choose_id, can.deny_tools) == (version, True, chooses, denies)
        assert (can.cwd_scope, can.no_save, can.max_turns, can.fork) == ("same", False, False, False)

    def test_noise_around_the_version_does_no_harm(self) -> None:
        assert AGENT.runtime(("g",), ("Warning: basic terminal\n0.61.0\n", "")).version == "0.61.0"
        assert AGENT.runtime(("g",), ("", "")).version is None

    def test_the_home_moves_without_moving_the_users(self) -> None:
        assert AGENT.home_env(Path("/a")) == {"GEMINI_CLI_HOME": "/a"}
        assert AGENT.default_home({"HOME": "/h"}) == Path("/h")
        assert AGENT.default_home({"HOME": "/h", "GEMINI_CLI_HOME": "/g"}) == Path("/g")

    @pytest.mark.parametrize("version", [NEW, OLD])
    def test_it_conforms(self, version: str) -> None:
        recorded = [stream("tool", version), stream("fail-error-500", version)]
        outputs = [version, help_text(version)]
        assert check_adapter(AGENT, recorded, outputs=outputs, rounds=60) == []


class TestCommand:
    def test_a_fresh_turn(self) -> None:
        made = command("hi", start=Start(new_id=ID), model="m")
        assert made.argv[:5] == (
            "/bin/gemini",
            "--output-format=stream-json",
            f"--session-id={ID}",
            "--approval-mode=default",
            "--model=m",
        )
        assert (made.stdin, made.hold_stdin, made.cwd) == (b"hi", False, Path("/work"))

    def test_a_resumed_turn(self) -> None:
        assert f"--resume={ID}" in command(start=Start("resume", ID.upper())).argv

    @pytest.mark.parametrize(
        ("prompt", "stdin"),
        [
            ("/clear it", b"\n/clear it"),
            ("-p", b"-p"),
            ("@file", b"@file"),
            (" /x", b" /x"),
            ("// x", b"\n// x"),
        ],
    )
    def test_no_prompt_is_a_command(self, prompt: str, stdin: bytes) -> None:
        assert command(prompt).stdin == stdin

    @pytest.mark.parametrize(
        ("permission", "mode"),
        [("default", "default"), ("read", "default"), ("edit", "auto_edit"), ("full", "yolo")],
    )
    @pytest.mark.parametrize("start", [Start(), Start("resume", ID)])
    @pytest.mark.parametrize("version", [NEW, OLD])
    def test_postures(self, permission: Any, mode: str, start: Start, version: str) -> None:
        argv = command(permission=permission, start=start, version=version).argv
        given = [argument for argument in argv if argument.startswith("--approval-mode")]
        assert given == [f"--approval-mode={mode}"]

    @pytest.mark.parametrize("permission", ["default", "read", "edit"])
    def test_plan_mode_is_closed_unless_all_is_allowed(self, permission: Any) -> None:
        made = command(permission=permission)
        assert made.argv[-1] == "--admin-policy=/run/1/policy.toml"
        assert "exit_plan_mode" in denied(made)
        assert ("*" in denied(made)) is (permission == "read")
        assert command(permission="full").files == {}

    def test_tools_are_named_in_the_policy(self) -> None:
        made = command(
            permission="full", allow_tools=("run_shell_command(git status)",), deny_tools=('a"b', "c")
        )
        assert denied(made) >= {'a"b', "c"}
        (allowed,) = [rule for rule in rules(made) if rule["decision"] == "allow"]
        assert (allowed["toolName"], allowed["commandPrefix"]) == ("run_shell_command", "git status")
        assert all(
            rule["priority"] > allowed["priority"] for rule in rules(made) if rule["decision"] == "deny"
        )

    def test_the_older_version_has_flags_instead(self) -> None:
        made = command(version=OLD, allow_tools=("a", "b"))
        assert (made.argv[-1], made.files) == ("--allowed-tools=a,b", {})
        assert command(version=OLD, permission="read").argv[-1] == "--allowed-tools=read_file"
        tools = ("run_shell_command(ls)", "web_fetch")
        made = command(version=OLD, permission="read", allow_tools=tools)
        assert made.argv[-2:] == (
            "--allowed-mcp-server-names=none-in-this-run",
            "--allowed-tools=run_shell_command(ls),web_fetch",
        )

    REFUSED = (
        ({"max_turns": 3}, "--max-turns"),
        ({"budget_usd": 1.0}, "--budget"),
        ({"system_prompt": "x"}, "--system-prompt-file"),
        ({"save": False}, "--no-save"),
        ({"deny_tools": ("x",), "version": OLD}, "--deny-tool"),
        ({"start": Start(new_id=ID), "version": OLD}, "chosen session id: 0.29.0 is too old"),
        ({"start": Start("fork", ID)}, "fork"),
        ({"start": Start("branch", ID, at="x")}, "branch"),
        ({"start": Start("resume", "--help")}, "session id"),
        ({"start": Start(new_id="latest")}, "session id"),
        ({"prompt": " \n"}, "prompt"),
        ({"prompt": "x" * (PROMPT_BYTES + 1)}, f"at most {PROMPT_BYTES:,}"),
    )

    @pytest.mark.parametrize(("given", "named"), REFUSED)
    def test_what_it_cannot_do_is_refused_by_name(self, given: dict[str, Any], named: str) -> None:
        with pytest.raises(Misuse, match=named):
            command(**given)


class TestInForce:
    @staticmethod
    def why(home: Path, cwd: Path, version: str = NEW, **more: Any) -> str:
        request = Request(**{"prompt": "hi", "cwd": cwd, "permission": "read", **more})
        return AGENT.not_in_force(request, runtime(version), home, {}) or ""

    @pytest.mark.parametrize("version", [NEW, OLD])
    @pytest.mark.parametrize(
        ("settings", "refused"),
        [
            ('{"hooks": {"SessionStart": [{}]}}', True),
            ('{"tools": {"discoveryCommand": "x"}}', True),
            ('{"toolDiscoveryCommand": "x"}', True),
            ('{"h\\u006foks": {"SessionStart": [{}]}}', True),
            ('{"hooks": {}, "tools": {"allowed": ["x"]}} ', False),
            ('{"model": {}} // no hooks', True),
            ('{"model": {}} // nothing', False),
        ],
    )
    def test_a_directory_whose_settings_run_commands(
        self, settings: str, refused: bool, version: str, tmp_path: Path
    ) -> None:
        file = tmp_path / "project" / ".gemini" / "settings.json"
        file.parent.mkdir(parents=True)
        file.write_text(settings)
        assert (str(file) in self.why(tmp_path, tmp_path / "project", version)) is refused
        assert self.why(tmp_path, tmp_path / "project", version, permission="default") == ""
        assert self.why(tmp_path / "project", tmp_path / "project", version) == "", "these are the user's own"

    def test_policies_of_the_system_would_come_first(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert self.why(tmp_path, tmp_path) == ""
        monkeypatch.setattr(permissions, "SYSTEM", tmp_path)
        (tmp_path / "theirs.toml").touch()
        assert str(tmp_path) in self.why(tmp_path, tmp_path)
        assert command(permission="edit").argv[-2].startswith("--policy=")

    def test_a_native_option_that_starts_servers_is_refused(self, tmp_path: Path) -> None:
        said = self.why(tmp_path, tmp_path, native_args=("--allowed-mcp-server-names=mine",))
        assert "--allowed-mcp-server-names" in said

    def test_what_the_users_policies_deny_is_repeated(self, tmp_path: Path) -> None:
        own = tmp_path / ".gemini" / "policies" / "own.toml"
        own.parent.mkdir(parents=True)
        own.write_text(
            '[[rule]]\ntoolName = ["a", "b"]\ndecision = "deny"\npriority = 3\n'
            '[[rule]]\ntoolName = "c"\ndecision = "allow"\npriority = 3\n'
        )
        request = Request(prompt="hi", cwd=tmp_path, permission="read")
        made = AGENT.command(request, runtime(NEW), RunPlace(Path("/run/1"), tmp_path))
        assert made.argv[-1] == "--admin-policy=/run/1/policy.toml,/run/1/own-refusals.toml"
        refusals = tomllib.loads(made.files[Path("/run/1/own-refusals.toml")])["rule"]
        assert refusals == [{"toolName": ["a", "b"], "decision": "deny", "priority": 999}]
        own.write_text("what is this")
        made = AGENT.command(request, runtime(NEW), RunPlace(Path("/run/1"), tmp_path))
        assert made.argv[-1] == "--admin-policy=/run/1/policy.toml"


def rules(made: Command) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads(made.files[Path("/run/1/policy.toml")])["rule"]
    return found


def denied(made: Command) -> set[str]:
    names = [rule["toolName"] for rule in rules(made) if rule["decision"] == "deny"]
    return {name for group in names for name in (group if isinstance(group, list) else [group])}


class TestParse:
    @pytest.mark.parametrize("version", [NEW, OLD])
    def test_a_tool_turn(self, version: str) -> None:
        lines = stream("tool", version).splitlines()
        events = [event for line in lines for event in AGENT.parse(line)]
        kinds = [type(event) for event in events]
        assert kinds[:3] == [ev.Session, ev.ToolCall, ev.ToolResult]
        assert set(kinds[3:-1]) == {ev.TextDelta}
        assert kinds[-1] is ev.End
        assert read(stream("tool", version)).answer == "done one two three four five"

    TABLE = (
        (b'{"type":"message","role":"user","content":"hi"}', ()),
        (b'{"type":"message","role":"assistant","content":""}', ()),
        (b'{"type":"message","role":"assistant","content":"all"}', (ev.Text("all"),)),
        (b'{"type":"error","severity":"warning","message":"Loop"}', (ev.Notice("Loop"),)),
        (
            b'{"type":"tool_result","tool_id":"1","status":"error","error":{"type":"x","message":"no"}}',
            (ev.ToolResult("1", False, "no"),),
        ),
        (
            b'{"type":"tool_result","tool_id":"1","status":"error","output":"o","error":{"type":"policy_violation"}}',
            (ev.ToolResult("1", False, "o", denied=True),),
        ),
        (b"  ", ()),
    )

    @pytest.mark.parametrize(("line", "events"), TABLE)
    def test_lines(self, line: bytes, events: tuple[ev.Event, ...]) -> None:
        assert tuple(AGENT.parse(line)) == events

    @pytest.mark.parametrize(
        "line", [b"{", b'{"type":"new"}', b"\xff", b"[]", b'{"type":"init","session_id":3}']
    )
    def test_what_is_unreadable_is_unknown(self, line: bytes) -> None:
        assert [type(event) for event in AGENT.parse(line)] == [ev.Unknown]


FAILURES = [
    ("fail-error-401", 145, "auth", 401),
    ("fail-error-429-retry-after-1", 173, "rate_limited", 429),
    ("fail-error-500", 244, "model_error", 500),
    ("fail-context-full", 144, "context_exceeded", 400),
    ("fail-drop", 1, "network", None),
    ("fail-malformed", 1, "model_error", None),
    ("fail-empty", 0, "model_error", None),
    ("turn-limit", 53, "timeout", None),
]


class TestConclude:
    @pytest.mark.parametrize("version", [NEW, OLD])
    @pytest.mark.parametrize(("name", "code", "kind", "status"), FAILURES)
    def test_recorded_failures(
        self, version: str, name: str, code: int, kind: str, status: int | None
    ) -> None:
        found = concluded(stream(name, version), code, now_ms=5_000).failure
        assert found is not None
        assert (found.kind, found.status) == (kind, status)
        assert found.until == (6_000 if kind == "rate_limited" else None)
        assert found.message

    @pytest.mark.parametrize(
        ("name", "version", "code", "status"),
        [
            ("fail-decline", NEW, 1, None),
            ("fail-decline-prompt", NEW, 144, 400),
            ("fail-decline-prompt", OLD, 144, 400),
        ],
    )
    def test_what_the_model_service_declines(
        self, name: str, version: str, code: int, status: int | None
    ) -> None:
        found = concluded(stream(name, version), code).failure
        assert found is not None
        assert (found.kind, found.status, found.retryable) == ("refused", status, False)

    def test_the_older_version_tells_a_limit_only_on_stderr(self) -> None:
        said = b'{"type":"result","status":"error","error":{"message":"[API Error: Too much]"}}'
        found = concluded(said, 1, "  cause: {\n    code: 429,\n    message: 'Too much'\n  }\n").failure
        assert found is not None
        assert (found.kind, found.status) == ("rate_limited", 429)

    def test_success_needs_the_result_and_an_answer(self) -> None:
        assert concluded(stream("recall")).failure is None
        for cut, kind in (
            (stream("recall").splitlines()[:-1], "protocol"),
            (stream("fail-empty", OLD).splitlines(), "model_error"),
        ):
            found = concluded(b"\n".join(cut)).failure
            assert found is not None
            assert found.kind == kind

    def test_a_success_that_sent_nothing_is_a_prompt_too_long(self) -> None:
        line = b'{"type":"result","status":"success","stats":{"total_tokens":0,"input_tokens":0}}'
        found = concluded(line).failure
        assert found is not None
        assert found.kind == "context_exceeded"

    def test_what_the_assistant_says_is_never_a_failure(self) -> None:
        text = "[API Error: RESOURCE_EXHAUSTED quota, input token count, Error resuming session: Invalid]"
        line = msgspec.json.encode({"type": "message", "role": "assistant", "content": text, "delta": True})
        lines = stream("recall").splitlines()
        assert concluded(b"\n".join([*lines[:-1], line, lines[-1]])).failure is None

    def test_an_answer_in_another_session_is_a_rejected_resume(self) -> None:
        outcome = concluded(stream("resume"), start=Start("resume", ID))
        assert outcome.failure is not None
        assert (outcome.failure.kind, outcome.failure.reason) == ("session_rejected", "not_found")
        assert (outcome.session_id, outcome.text) == (None, "")

    @pytest.mark.parametrize(
        ("session", "reason"), [("nowhere", "not_found"), ("elsewhere", "wrong_cwd"), ("here", "corrupt")]
    )
    def test_why_a_session_is_refused(self, session: str, reason: str) -> None:
        stderr = (
            f'Warning: x\nError resuming session: Invalid session identifier "{ID}".\n  Use --list-sessions\n'
        )
        outcome = concluded(b"", 42, stderr, start=Start("resume", ID), evidence={"session": session})
        assert outcome.failure is not None
        assert (outcome.failure.kind, outcome.failure.reason) == ("session_rejected", reason)
        assert outcome.failure.message == f'Error resuming session: Invalid session identifier "{ID}".'

    ENDS = (
        (Exit(-9), "killed"),
        (Exit(137), "killed"),
        (Exit(1, stderr="boom"), "crashed"),
        (Exit(0, ended_by="timeout"), "timeout"),
        (Exit(0, ended_by="cancelled"), "cancelled"),
        (Exit(41, stderr="you must specify the GEMINI_API_KEY\nUpdate your environment"), "auth"),
        (Exit(42, stderr="No input provided via stdin."), "crashed"),
        (Exit(55, stderr="\x1b[31mnot running in a trusted directory\x1b[0m"), "untrusted"),
    )

    @pytest.mark.parametrize(("ended", "kind"), ENDS)
    def test_ends_without_a_result(self, ended: Exit, kind: str) -> None:
        request = Request(prompt="x", cwd=Path("/work"))
        outcome = AGENT.conclude(Ended(request=request, runtime=runtime(), reading=TurnState(), exit=ended))
        assert outcome.failure is not None
        assert outcome.failure.kind == kind

    def test_usage_is_disjoint_and_thoughts_are_output(self) -> None:
        stats = {"total_tokens": 130, "input_tokens": 100, "output_tokens": 10, "cached": 60}
        line = msgspec.json.encode({"type": "result", "status": "success", "stats": stats})
        assert concluded(line).usage == Usage(40, 60, 0, 30)

    def test_a_broken_answers_usage_is_unknown_and_a_refused_requests_is_nothing(self) -> None:
        assert nothing_known(concluded(stream("fail-drop"), 1))
        refused = concluded(stream("fail-error-401"), 145)
        assert (refused.usage, nothing_known(refused)) == (Usage(0, 0, 0, 0), False)

    def test_without_a_result_usage_comes_from_the_disk(self) -> None:
        spent = (Usage(5, 1, 0, 2), Usage(7, 0, 0, 1))
        outcome = concluded(b"", -9, evidence={"requests": spent})
        assert (outcome.usage, outcome.context.used) == (Usage(12, 1, 0, 3), 7)
        assert concluded(b"", -9).usage == Usage()


class TestEvidence:
    def folder(self, home: Path, cwd: Path) -> Path:
        folder = home / ".gemini/tmp/project/chats"
        folder.mkdir(parents=True)
        (folder.parent / ".project_root").write_text(str(cwd))
        return folder

    def evidence(self, home: Path, cwd: Path, started_ms: int = 0, mode: Any = "resume") -> dict[str, Any]:
        request = Request(prompt="x", cwd=cwd, start=Start(mode, ID))
        return evidence(request, RunPlace(home, started_ms=started_ms), home, TurnState())

    def message(self, at: str, prompt: int, key: str = "m") -> bytes:
        tokens = {"input": prompt, "cached": 1, "output": 2, "thoughts": 3, "total": prompt + 5}
        return (
            msgspec.json.encode({"id": key + at, "timestamp": at, "type": "gemini", "tokens": tokens}) + b"\n"
        )

    def test_the_requests_of_this_run_are_counted_once(self, tmp_path: Path) -> None:
        early, late = "2023-11-14T22:13:19.999Z", "2023-11-14T22:13:20.000Z"
        body = (
            self.message(early, 1) + self.message(late, 10) * 2 + self.message(late, 20, "n") + b'{"id":"to'
        )
        (self.folder(tmp_path, tmp_path) / f"session-x-{ID[:8]}.jsonl").write_bytes(body)
        found = self.evidence(tmp_path, tmp_path, 1_700_000_000_000)
        assert found == {"session": "here", "requests": (Usage(9, 1, 0, 5), Usage(19, 1, 0, 5))}

    def test_the_older_form_is_read_too(self, tmp_path: Path) -> None:
        body = b'{"messages":[' + self.message("2024-01-01T00:00:00.000Z", 10).strip() + b"]}"
        (self.folder(tmp_path, tmp_path) / f"session-x-{ID[:8]}.json").write_bytes(body)
        assert self.evidence(tmp_path, tmp_path)["requests"] == (Usage(9, 1, 0, 5),)

    def test_where_a_session_is(self, tmp_path: Path) -> None:
        folder = self.folder(tmp_path, tmp_path / "other")
        assert self.evidence(tmp_path, tmp_path)["session"] == "nowhere"
        (folder / f"session-x-{ID[:8]}.jsonl").write_bytes(b"")
        assert self.evidence(tmp_path, tmp_path)["session"] == "elsewhere"

    HEADER = b'{"sessionId":"%s"}\n' % ID.encode()
    CONTEXT = b'{"$set":{"messages":[{"content":[{"text":"<session_context>x"}]}]}}\n'
    TWINS = (
        ("a stub", HEADER + CONTEXT, 0, "resume", True),
        ("older than this run", HEADER + CONTEXT, 2**45, "resume", False),
        ("of a fresh turn", HEADER + CONTEXT, 0, "fresh", False),
        ("of another session", HEADER.replace(b"1111", b"2222") + CONTEXT, 0, "resume", False),
        (
            "with a message",
            HEADER + CONTEXT + b'{"id":"1","type":"user","content":"hi"}\n',
            0,
            "resume",
            False,
        ),
        ("with a said word", HEADER + CONTEXT.replace(b"<session_context>", b"hi"), 0, "resume", False),
        ("unreadable", b"{", 0, "resume", False),
    )

    @pytest.mark.parametrize(("name", "twin", "started_ms", "mode", "goes"), TWINS, ids=lambda v: str(v)[:20])
    def test_only_an_empty_twin_of_this_run_is_removed(
        self, tmp_path: Path, name: str, twin: bytes, started_ms: int, mode: str, goes: bool
    ) -> None:
        folder = self.folder(tmp_path, tmp_path)
        real, other = folder / f"session-1-{ID[:8]}.jsonl", folder / f"session-2-{ID[:8]}.jsonl"
        real.write_bytes(self.HEADER + self.message("2024-01-01T00:00:00.000Z", 10))
        other.write_bytes(twin)
        self.evidence(tmp_path, tmp_path, started_ms, mode)
        assert (real.exists(), other.exists()) == (True, not goes)

    def test_a_session_that_is_alone_is_never_removed(self, tmp_path: Path) -> None:
        alone = self.folder(tmp_path, tmp_path) / f"session-1-{ID[:8]}.jsonl"
        alone.write_bytes(self.HEADER + self.CONTEXT)
        self.evidence(tmp_path, tmp_path)
        assert alone.exists()
