"""What Claude gets of its settings files with the posture ``read``, and what it cannot be kept from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.agents.base import Enforces
from segue.agents.claude import settings
from segue.agents.claude.adapter import AGENT, OWN
from segue.core.request import Request, RunPlace, Runtime

HELP = "--resume --input-format --setting-sources --settings --tools --add-dir"
USER: dict[str, Any] = {
    "apiKeyHelper": "/usr/local/bin/key",
    "cleanupPeriodDays": 400,
    "env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1", "MY_TOKEN": "a-secret-value", "SHORT_TOKEN": "1"},
    "model": "opus",
    "hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "true"}]}]},
    "enabledPlugins": {"a@b": True},
    "permissions": {"allow": ["Bash"], "deny": ["Read(./.env)", "Read(/notes)"], "defaultMode": "plan"},
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "above" / "project"
    (folder / ".claude").mkdir(parents=True)
    return folder


@pytest.fixture(autouse=True)
def managed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In place of the administrator's folder."""
    monkeypatch.setattr(settings, "MANAGED", tmp_path / "managed")
    return tmp_path / "managed"


def write(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(value))
    return path


def runtime(help_text: str = HELP) -> Runtime:
    return AGENT.runtime(("/usr/bin/claude",), ["2.1.325 (Claude Code)\n", help_text])


def reading(project: Path, *allow: str, **more: Any) -> Request:
    return Request(prompt="hi", cwd=project, permission="read", allow_tools=allow, **more)


def refused(request: Request, home: Path, help_text: str = HELP) -> str | None:
    assert isinstance(AGENT, Enforces)
    return AGENT.not_in_force(request, runtime(help_text), home, {})


def test_login_routing_retention_and_denials_are_kept_and_nothing_else(home: Path, project: Path) -> None:
    write(home / "settings.json", USER)
    write(project / ".claude/settings.json", {"env": {"X": "1"}, "permissions": {"deny": ["Bash(aws *)"]}})
    command = AGENT.command(reading(project), runtime(), RunPlace(project / "run", home))
    own = msgspec.json.decode(command.files[project / "run" / OWN])
    assert own == {
        "apiKeyHelper": "/usr/local/bin/key",
        "cleanupPeriodDays": 400,
        "env": USER["env"],
        "model": "opus",
        "permissions": {"deny": ["Read(./.env)", f"Read(/{home}/notes)", "Bash(aws *)"]},
    }
    assert command.secrets == ("a-secret-value",)
    assert command.env == {"CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD": "1"}


def test_other_postures_leave_the_settings_alone(home: Path, project: Path) -> None:
    write(home / "settings.json", USER)
    request = msgspec.structs.replace(reading(project), permission="default")
    command = AGENT.command(request, runtime(), RunPlace(project / "run", home))
    assert (command.files, command.secrets, command.env) == ({}, (), {})
    assert refused(request, home) is None


@pytest.mark.parametrize("text", ["{", "[]", "\xff"])
def test_broken_settings_of_a_project_deny_nothing_as_in_claude(home: Path, project: Path, text: str) -> None:
    (project / ".claude/settings.json").write_bytes(text.encode("latin-1"))
    (project / ".claude/settings.local.json").write_text('{"permissions": {"deny": 7}}')
    assert settings.own_settings(home, project) == {}
    assert refused(reading(project), home) is None


def test_broken_settings_of_the_user_are_named(home: Path, project: Path) -> None:
    (home / "settings.json").write_text("{")
    assert (refused(reading(project), home) or "").startswith(f"{home}/settings.json cannot be read")


def test_options_that_are_missing_are_named(home: Path, project: Path) -> None:
    said = refused(reading(project), home, HELP.replace("--tools", ""))
    assert said is not None
    assert said.startswith("Claude 2.1.325 cannot keep to --permission read: it has no --tools; update it")
    other = msgspec.structs.replace(reading(project), permission="edit")
    assert refused(other, home, "") is None


@pytest.mark.parametrize("file", ["managed-settings.json", "managed-settings.d/a.json"])
@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"permissions": {"allow": ["Read", "Bash(touch *)"]}}, "allows Bash(touch *)"),
        ({"hooks": {"PreToolUse": [{"hooks": []}]}}, "has hooks that can allow more"),
    ],
)
def test_managed_settings_that_would_win_are_named(
    home: Path, project: Path, managed: Path, file: str, value: object, says: str
) -> None:
    path = write(managed / file, value)
    assert (refused(reading(project, "Bash(ls *)"), home) or "").startswith(f"{path} {says}")
    assert refused(msgspec.structs.replace(reading(project), permission="default"), home) is None


def test_managed_settings_that_widen_nothing_are_no_obstacle(
    home: Path, project: Path, managed: Path
) -> None:
    rules = {"allow": ["Read", "Bash(ls *)"], "deny": ["Bash"], "defaultMode": "bypassPermissions"}
    write(managed / "managed-settings.json", {"permissions": rules, "hooks": {"Stop": [{"hooks": []}]}})
    assert refused(reading(project, "Bash(ls *)"), home) is None


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("Write(notes.txt)", "cannot allow Write(notes.txt) with --permission read"),
        ("Monitor(ls)", "cannot allow Monitor(ls) with --permission read"),
        ("mcp__tracker__get", "starts no MCP servers of settings files with --permission read"),
    ],
)
def test_a_rule_that_would_not_be_in_force_is_refused(
    home: Path, project: Path, rule: str, says: str
) -> None:
    assert says in (refused(reading(project, rule), home) or "")


def test_rules_that_are_in_force_are_not(home: Path, project: Path) -> None:
    rules = ("Bash(ls *)", "Edit(docs/**)", "WebFetch(domain:example.org)", "Read(//etc/**)")
    assert refused(reading(project, *rules), home) is None
    servers = reading(project, "mcp__tracker__get", native_args=("--mcp-config=servers.json",))
    assert refused(servers, home) is None


@pytest.mark.parametrize(
    "option", ["--settings=x", "--setting-sources=user", "--tools=Bash", "-w", "--plugin-d"]
)
def test_native_options_that_would_give_more_are_refused(home: Path, project: Path, option: str) -> None:
    said = refused(reading(project, native_args=(option,)), home)
    assert said is not None
    assert "cannot be passed to Claude with --permission read" in said


def test_instructions_that_are_not_read_are_named_when_a_session_begins(home: Path, project: Path) -> None:
    for path in (home / "CLAUDE.md", project / "CLAUDE.local.md", project.parent / "CLAUDE.md"):
        path.write_text("Be brief.")
    (project / "CLAUDE.md").write_text("Be kind.")
    command = AGENT.command(reading(project), runtime(), RunPlace(project / "run", home))
    (notice,) = command.notices
    named = f"{home}/CLAUDE.md, {project}/CLAUDE.local.md, {project.parent}/CLAUDE.md"
    assert notice.text == f"with --permission read, Claude does not read {named}"


@pytest.mark.parametrize("file", ["home/settings.json", "above/project/.claude/settings.local.json"])
def test_hooks_that_overrule_a_denial_are_named_for_the_versions_where_they_do(
    home: Path, project: Path, file: str
) -> None:
    path = write(home.parent / file, {"hooks": {"PreToolUse": [{"hooks": []}]}})
    request = Request(prompt="hi", cwd=project, permission="edit", deny_tools=("Bash(rm *)",))
    old = AGENT.runtime(("/usr/bin/claude",), ["2.1.50 (Claude Code)\n", HELP])
    said = AGENT.not_in_force(request, old, home, {})
    assert (said or "").startswith(f"Claude 2.1.50 cannot deny Bash(rm *): {path} has hooks")
    assert refused(request, home) is None
    whole = msgspec.structs.replace(request, deny_tools=("Bash",))
    assert AGENT.not_in_force(whole, old, home, {}) is None


def test_a_rule_with_arguments_also_holds_without_them_in_every_version(project: Path) -> None:
    rules = ("Bash(df *)", "Bash(ls:*)")
    old = AGENT.runtime(("/usr/bin/claude",), ["2.1.50 (Claude Code)\n", HELP])
    for option, more in (
        ("allowedTools", {"allow_tools": rules}),
        ("disallowedTools", {"deny_tools": rules}),
    ):
        request = Request(prompt="hi", cwd=project, **more)  # type: ignore[arg-type]
        place = RunPlace(project / "run")
        assert f"--{option}=Bash(df *),Bash(ls:*),Bash(df)" in AGENT.command(request, old, place).argv
        assert f"--{option}=Bash(df *),Bash(ls:*)" in AGENT.command(request, runtime(), place).argv
