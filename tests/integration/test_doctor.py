"""What a newcomer asks first: ``segue doctor``, ``segue agents``, and the shell's completion."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.integration.conftest import Program, Result
from tests.integration.terminals import on_terminal

FAKE = """#!/bin/sh
case "$*" in
  *--help*) echo "--resume --session-id --fork-session" ;;
  *--version*) echo "{version}" ;;
  *) {slow}exit {login} ;;
esac
"""


@pytest.fixture
def bare(segue: Program, tmp_path: Path) -> Program:
    """On a machine with no agent on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "sleep"):
        (folder / name).symlink_to(shutil.which(name) or name)
    return replace(segue, env={**segue.env, "PATH": str(folder)})


def install(program: Program, name: str, version: str, *, login: int = 0, slow: float = 0) -> Path:
    """A stand-in for a CLI, whose login check ends as told."""
    fake = Path(program.env["PATH"]) / name
    wait = f"sleep {slow}; " if slow else ""
    fake.write_text(FAKE.format(version=version, login=login, slow=wait))
    fake.chmod(0o755)
    return fake


def findings(ran: Result) -> list[dict[str, Any]]:
    decoded: list[dict[str, Any]] = msgspec.json.decode(ran.stdout)
    return decoded


def one(ran: Result, says: str) -> tuple[str, str, str]:
    """The one finding that says this: its check, its level, and how to mend it."""
    (found,) = [finding for finding in findings(ran) if says in finding["what"]]
    return found["check"], found["level"], found["fix"]


def test_git_is_named_with_its_version_and_need_not_be_there(bare: Program) -> None:
    missing = one(bare("doctor", "--json"), "git is not installed")
    assert missing == ("git", "note", "install git; only segue review needs it")
    folder = Path(bare.env["PATH"])
    (folder / "git").symlink_to(shutil.which("git") or "git")
    assert one(bare("doctor", "--json"), "(for segue review)")[:2] == ("git", "ok")
    (folder / "git").unlink()
    (folder / "git").write_text("#!/bin/sh\necho broken >&2; exit 1\n")
    (folder / "git").chmod(0o755)
    assert one(bare("doctor", "--json"), "git does not work: broken")[1] == "warn"


def test_a_bare_machine_has_nothing_that_must_be_fixed(bare: Program) -> None:
    ran = bare("doctor", "--json")
    assert ran.code == 0
    assert one(ran, "data in")[:2] == ("home", "ok")
    assert one(ran, "Claude is not installed") == (
        "claude",
        "note",
        "npm install -g @anthropic-ai/claude-code",
    )
    assert one(ran, "no coding agent is installed")[1] == "warn"
    assert "rehearsal" in [finding["check"] for finding in findings(ran)]


def test_signs_and_ways_are_printed_for_people(bare: Program) -> None:
    bare.config('[accounts.work]\nagent = "clod"\n')
    ran = bare("doctor")
    assert ran.code == 1
    lines = ran.stdout.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("✗ "))
    assert lines[at] == '✗ account work belongs to "clod", which is not a known agent'
    assert lines[at + 1].startswith("    → [accounts.work] agent = one of ")
    assert any(line.startswith("! no coding agent") for line in lines)
    assert any(line.startswith("· Codex is not installed") for line in lines)


@pytest.mark.parametrize("place", ["file", "proc"])
def test_a_home_that_cannot_be_written_must_be_fixed(bare: Program, tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    home = tmp_path / "file" / "home" if place == "file" else Path("/proc/segue-home")
    ran = bare("doctor", "--json", SEGUE_HOME=str(home))
    assert ran.code == 1, ran.stderr
    assert one(ran, "cannot be written") == ("home", "bad", "set SEGUE_HOME to a directory of your own")
    assert one(ran, "Rehearsal")[1] == "ok", "the rest is looked at all the same"
    assert "internal error" not in bare("agents", SEGUE_HOME=str(home)).stderr


def test_a_home_that_others_can_read_is_a_warning(bare: Program) -> None:
    bare.home.mkdir()
    bare.home.chmod(0o755)
    ran = bare("doctor", "--json")
    assert ran.code == 0
    assert one(ran, "can be read by others") == ("home", "warn", f"chmod 700 {bare.home}")


def test_a_configuration_that_cannot_be_read_must_be_fixed(bare: Program) -> None:
    bare.config('[continuity]\ngrft = "off"\n')
    ran = bare("doctor", "--json")
    assert ran.code == 1
    assert one(ran, "config.toml:2")[:2] == ("config", "bad")
    assert one(ran, "Claude is not installed")[1] == "note", "the rest is looked at all the same"


def test_accounts_that_do_not_fit(bare: Program, tmp_path: Path) -> None:
    bare.config(
        '[accounts.odd]\nagent = "clod"\n'
        f'[accounts.work]\nagent = "claude"\nhome = "{tmp_path}/nowhere"\npass_env = ["ANTHROPIC_API_KEY"]\n'
    )
    ran = bare("doctor", "--json")
    assert ran.code == 1
    assert one(ran, 'account odd belongs to "clod"')[1] == "bad"
    assert one(ran, "does not exist yet")[1] == "note"
    missing = "account work passes on ANTHROPIC_API_KEY, which is not set"
    assert one(ran, missing) == ("accounts", "warn", "export ANTHROPIC_API_KEY=…")
    assert missing not in bare("doctor", "--json", ANTHROPIC_API_KEY="x" * 20).stdout


def test_a_project_that_is_not_trusted_is_a_warning(bare: Program) -> None:
    (bare.cwd / "segue.toml").write_text('[accounts.work]\nagent = "claude"\n')
    ran = bare("doctor", "--json")
    assert ran.code == 0
    (notice,) = [finding for finding in findings(ran) if finding["check"] == "project"]
    assert notice["level"] == "warn"
    assert notice["fix"].startswith("segue trust")


def test_an_enclosing_session_is_worth_knowing(bare: Program) -> None:
    ran = bare("doctor", "--json", CLAUDECODE="1")
    assert one(ran, "inside an agent's session (CLAUDECODE)")[:2] == ("nested", "note")
    assert "inside an agent's session" not in bare("doctor", "--json").stdout


@pytest.mark.parametrize(
    ("login", "level", "says"), [(0, "ok", "is logged in"), (1, "warn", "says it is not")]
)
def test_the_cli_itself_says_whether_it_is_logged_in(
    bare: Program, login: int, level: str, says: str
) -> None:
    program = install(bare, "claude", "2.1.325 (Claude Code)", login=login)
    ran = bare("doctor", "--json")
    assert ran.code == 0
    assert one(ran, f"Claude 2.1.325, {program}")[1] == "ok"
    check, found, how = one(ran, f"Claude {says}")
    assert (check, found) == ("claude", level)
    assert (f"log in by running {program} once" in how) == (login == 1)
    assert "no coding agent" not in ran.stdout


@pytest.mark.parametrize(
    ("agent", "label", "key"), [("gemini", "Gemini", "GEMINI_API_KEY"), ("vibe", "Vibe", "MISTRAL_API_KEY")]
)
def test_agents_that_cannot_be_asked_are_told_by_what_is_there(
    bare: Program, agent: str, label: str, key: str
) -> None:
    program = install(bare, agent, "vibe 3.0.2" if agent == "vibe" else "0.61.0")
    check, level, how = one(bare("doctor", "--json"), f"{label} is not logged in")
    assert (check, level) == (agent, "warn")
    assert how.startswith(f"log in by running {program} once, or give an account its key: pass_env = ")
    bare.config(f'[accounts.work]\nagent = "{agent}"\npass_env = ["{key}"]\n')
    ran = bare("doctor", "--json", more={key: "a-key-that-must-not-be-seen"})
    assert one(ran, f"{label} has a login or a key (account work)")[1] == "ok"
    assert "must-not-be-seen" not in ran.stdout + ran.stderr


def test_it_leaves_nothing_in_a_fresh_home(bare: Program, tmp_path: Path) -> None:
    """Neither by itself, nor by the programs that it asks: they get a home that is thrown away."""
    for name, variable, place in (
        ("claude", "CLAUDE_CONFIG_DIR", ".claude"),
        ("codex", "CODEX_HOME", ".codex"),
        ("vibe", "VIBE_HOME", ".vibe"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini"),
    ):
        program = install(bare, name, "1.2.3 (Claude Code)", login=1)
        leaves = (
            f'home="${{{variable}:-$HOME/{place}}}"; [ -d "$home" ] || echo > "$home"; echo > "$home/left"'
        )
        program.write_text(program.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\n{leaves}\n"))
    home = tmp_path / "fresh"
    home.mkdir()
    env = {name: value for name, value in bare.env.items() if name != "SEGUE_HOME"}
    bare = replace(bare, env={**env, "HOME": str(home)})
    ran = bare("doctor", "--json")
    assert ran.code == 0, ran.stdout
    assert one(ran, "Claude says it is not logged in")[1] == "warn"
    assert one(ran, "data in")[:2] == ("home", "ok")
    assert [str(path) for path in home.rglob("*")] == []


def test_a_home_that_is_used_is_asked_itself(bare: Program, tmp_path: Path) -> None:
    program = install(bare, "claude", "2.1.325 (Claude Code)")
    program.write_text(program.read_text().replace("exit 0", '[ -z "$CLAUDE_CONFIG_DIR" ]; exit'))
    assert one(bare("doctor", "--json"), "Claude says it is not logged in")[1] == "warn"
    (tmp_path / ".claude.json").write_text("{}")
    assert one(bare("doctor", "--json"), "Claude is logged in")[1] == "ok"


def test_a_provider_with_its_own_key_needs_no_login(bare: Program) -> None:
    install(bare, "codex", "codex-cli 0.166.0", login=1)
    _, level, how = one(bare("doctor", "--json"), "Codex says it is not logged in")
    assert level == "warn"
    assert how.endswith("not needed for a provider with its own key in Codex's configuration")


def test_a_withheld_key_is_named_and_never_shown(bare: Program) -> None:
    install(bare, "claude", "2.1.325 (Claude Code)", login=1)
    ran = bare("doctor", "--json", ANTHROPIC_API_KEY="a-key-that-must-not-be-seen")
    _, level, how = one(ran, "ANTHROPIC_API_KEY is not passed to Claude")
    assert (level, how) == ("note", 'pass_env = ["ANTHROPIC_API_KEY"] under [accounts.NAME] in config.toml')
    assert one(ran, "says it is not logged in")[2].startswith("pass_env = ")
    assert "must-not-be-seen" not in ran.stdout + ran.stderr


def test_all_logins_are_asked_for_together_and_told_in_order(bare: Program, tmp_path: Path) -> None:
    install(bare, "claude", "2.1.325 (Claude Code)", slow=3)
    install(bare, "codex", "codex-cli 0.166.0", slow=2)
    bare.config("".join(f'[accounts.a{n}]\nagent = "claude"\n' for n in range(3)))
    began = time.monotonic()
    ran = bare("doctor", "--json")
    took = time.monotonic() - began
    assert ran.code == 0
    assert took < 9, "one after another they take 11 s"
    logins = [finding["what"] for finding in findings(ran) if "logged in" in finding["what"]]
    claude = [f"Claude is logged in (account a{n})" for n in range(3)]
    assert logins == [*claude, "Codex is logged in"]
    checks = [finding["check"] for finding in findings(ran)]
    assert [name for name in dict.fromkeys(checks) if name in ("claude", "codex", "gemini", "vibe")] == [
        "claude",
        "codex",
        "gemini",
        "vibe",
    ]


def test_a_login_check_that_leaves_children_behind_holds_nothing_up(bare: Program) -> None:
    program = install(bare, "claude", "2.1.325 (Claude Code)")
    program.write_text(program.read_text().replace("*) exit", "*) sleep 40 & exit"))
    began = time.monotonic()
    assert one(bare("doctor", "--json"), "Claude is logged in")[1] == "ok"
    assert time.monotonic() - began < 15


def test_agents_are_listed_in_a_table(bare: Program) -> None:
    install(bare, "claude", "2.1.325 (Claude Code)")
    bare.config(
        '[accounts.work]\nagent = "claude"\n[accounts.private]\nagent = "claude"\n'
        '[agents.codex]\ncommand = ["/no/such/[bold]codex"]\n'
    )
    ran = bare("agents")
    assert (ran.code, ran.stderr) == (0, "")
    heading, *rows = ran.stdout.splitlines()
    assert heading.split() == ["agent", "version", "found"]
    told: dict[str, str] = {}
    name = ""
    for row in rows:
        name = name if row.startswith(" ") else row.split()[0]
        told[name] = f"{told.get(name, '')} {' '.join(row.split())}"
    assert "2.1.325" in told["claude"]
    assert " can resume, " in told["claude"]
    assert "accounts: work, private" in told["claude"]
    assert "built in" in told["rehearsal"]
    assert "is not installed" in told["gemini"]
    assert '"/no/such/[bold]codex", is not an executable program' in told["codex"], "no markup is read"
    assert "[agents.codex] command" in ran.stdout
    assert "npm install -g @google/gemini-cli" in told["gemini"]
    assert max(map(len, on_terminal(bare, "agents", columns=60)[1].splitlines())) <= 60


@pytest.mark.parametrize(
    ("shell", "mark"), [("bash", "complete -o"), ("zsh", "#compdef"), ("fish", "complete")]
)
def test_completion_scripts(segue: Program, shell: str, mark: str) -> None:
    ran = segue("completion", shell)
    assert (ran.code, ran.stderr) == (0, "")
    assert mark in ran.stdout
    assert "_SEGUE_COMPLETE" in ran.stdout
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=ran.stdout, text=True, check=True)


def test_another_shell_is_misuse(segue: Program) -> None:
    ran = segue("completion", "csh")
    assert (ran.code, ran.stderr.count("\n")) == (2, 1)


def complete(segue: Program, line: str) -> list[str]:
    """What bash would offer for the last word of the line."""
    program = Path(sys.executable).with_name("segue")
    words = line.split(" ")
    done = subprocess.run(
        [program],
        cwd=segue.cwd,
        env={
            **segue.env,
            "_SEGUE_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return [offer.partition(",")[2] for offer in done.stdout.splitlines()]


def test_bash_completes_commands_options_agents_and_accounts(segue: Program) -> None:
    segue.config('[accounts.work]\nagent = "claude"\n[agents.mine]\ncommand = ["x"]\nstdin = "prompt"\n')
    assert complete(segue, "segue do") == ["doctor"]
    assert "--agent" in complete(segue, "segue run t1 --ag")
    assert complete(segue, "segue run t1 hi --agent cl") == ["claude"]
    assert complete(segue, "segue run t1 hi --agent m") == ["mine"]
    assert complete(segue, "segue run t1 hi --account ") == ["work"]
    assert complete(segue, "segue completion z") == ["zsh"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_the_script_really_completes_in_bash(segue: Program) -> None:
    folder = str(Path(sys.executable).parent)
    script = """
eval "$(segue completion bash)"
COMP_WORDS=(segue run t1 hi --agent ge) COMP_CWORD=5
_segue_completion segue ge --agent
printf '%s\\n' "${COMPREPLY[@]}"
"""
    path = f"{folder}{os.pathsep}{segue.env['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=segue.cwd,
        env={**segue.env, "PATH": path},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout.split() == ["gemini"]
