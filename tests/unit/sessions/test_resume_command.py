"""The line that opens a session in a terminal."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from segue.agents import registry
from segue.config.schema import Config
from segue.core.request import Request, RunPlace, Start
from segue.sessions.resume_command import ResumeCommands

ID = "0d4c2f0a-1111-4222-8333-444455556666"
ENV = {"HOME": "/home/ann", "PATH": "/nowhere"}
LINES = {
    "claude": ("CLAUDE_CONFIG_DIR", "/home/ann/.claude", f"claude --resume {ID}"),
    "codex": ("CODEX_HOME", "/home/ann/.codex", f"codex resume {ID}"),
    "gemini": ("GEMINI_CLI_HOME", "/home/ann", f"gemini --resume {ID}"),
    "vibe": ("VIBE_HOME", "/home/ann/.vibe", f"vibe --resume {ID}"),
}


@pytest.mark.parametrize("agent", LINES)
def test_the_home_is_named_unless_it_is_the_default(agent: str) -> None:
    variable, home, start = LINES[agent]
    lines = ResumeCommands(ENV, Config())
    assert lines.line(agent, home, ID, "/app") == f"cd /app && {start}"
    assert lines.line(agent, home, ID, None) == start
    assert lines.line(agent, "/other/home", ID, "/app") == f"cd /app && {variable}=/other/home {start}"
    elsewhere = ResumeCommands({**ENV, variable: "/other"}, Config())
    named = f"cd /app && {variable}={home} {start}"
    assert elsewhere.line(agent, home, ID, "/app") == named, "a terminal may have the variable, too"


@pytest.mark.parametrize("agent", LINES)
def test_a_session_is_named_as_when_a_turn_resumes_it(agent: str) -> None:
    """The word that stands before the id is one that the adapter's own command has."""
    facts = registry.get(agent, Config()).facts
    word, name = facts.resume_args
    assert name == "{session}"
    assert word in facts.owned_args
    outputs = [f"{agent} 9.9.9", f"--resume --session-id\n  resume  Resume\n  exec  Run\n{word}"]
    runtime = registry.get(agent, Config()).runtime((agent,), outputs)
    request = Request(prompt="hi", cwd=Path("/app"), start=Start("resume", ID))
    place = RunPlace(Path("/runs/1"), Path("/home/ann"))
    argv = registry.get(agent, Config()).command(request, runtime, place).argv
    assert f"{word}={ID}" in argv or (word in argv and ID in argv)


def test_everything_is_quoted() -> None:
    line = ResumeCommands(ENV, Config()).line("claude", "/my home", "an id; rm -rf /", "/it's here")
    assert line is not None
    assert shlex.split(line) == [
        *("cd", "/it's here", "&&", "CLAUDE_CONFIG_DIR=/my home", "claude", "--resume", "an id; rm -rf /")
    ]
    assert line.startswith("cd '/it'\"'\"'s here' && CLAUDE_CONFIG_DIR='/my home' claude")


def test_an_agent_that_cannot_has_no_line() -> None:
    lines = ResumeCommands(ENV, Config())
    assert lines.line("rehearsal", "/h", ID, "/app") is None
    assert lines.line("nobody", "/h", ID, "/app") is None


def test_the_program_is_the_one_that_is_there(tmp_path: Path) -> None:
    second = tmp_path / "openclaude"
    second.write_text("#!/bin/sh\n")
    second.chmod(0o755)
    found = ResumeCommands({**ENV, "PATH": str(tmp_path)}, Config())
    assert found.line("claude", "/home/ann/.claude", ID, None) == f"openclaude --resume {ID}"
    configured = ResumeCommands(ENV, Config(commands={"claude": ("/opt/my claude", "--verbose")}))
    line = configured.line("claude", "/home/ann/.claude", ID, None)
    assert line == f"'/opt/my claude' --verbose --resume {ID}"
