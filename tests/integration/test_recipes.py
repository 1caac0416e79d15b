"""The recipes of the documentation, each run as it stands, with the rehearsal agent instead of Claude."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.integration.conftest import Program, Result
from tests.integration.talk import AGENT

PAGE = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text()
GIT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def block(heading: str, language: str) -> str:
    """The one block of that language below a heading, for the rehearsal agent."""
    section = PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    (code,) = re.findall(rf"^```{language}\n(.*?)^```", section, re.M | re.S)
    return (
        str(code)
        .replace("--agent claude", "--agent rehearsal")
        .replace('agent="claude"', 'agent="rehearsal"')
    )


@pytest.fixture
def shell(segue: Program, tmp_path: Path) -> Program:
    """``segue`` and git as a shell finds them."""
    programs = tmp_path / "bin"
    programs.mkdir()
    file = programs / "segue"
    file.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m segue "$@"\n')
    file.chmod(0o700)
    segue.env |= {"PATH": f"{programs}:{segue.env['PATH']}", **GIT}
    return segue


def sh(shell: Program, *argv: str, **env: str) -> Result:
    done = subprocess.run(
        list(argv),
        cwd=shell.cwd,
        env={**shell.env, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def commit(shell: Program, text: str, *more: str) -> Result:
    name = f"file-{len(list(shell.cwd.iterdir()))}"
    (shell.cwd / name).write_text(text)
    assert sh(shell, "git", "add", name).code == 0
    return sh(shell, "git", "commit", "-qm", "change", *more)


def modes(shell: Program, key: str) -> list[str]:
    rows = msgspec.json.decode(shell("log", key, "--json").stdout)
    return [row["mode"] for row in rows if row["from"] == "assistant"]


def test_a_ci_job_continues_the_session_on_another_runner(shell: Program, tmp_path: Path) -> None:
    script = block("A CI job", "sh")
    home = tmp_path / "runner"
    for push in range(3):
        shutil.rmtree(home, ignore_errors=True)  # a new machine: only SEGUE_HOME was cached
        shutil.rmtree(shell.cwd)
        home.mkdir()
        shell.cwd.mkdir()
        assert sh(shell, "git", "init", "-q").code == 0
        commit(shell, "one\n")
        commit(shell, f"push {push}\n")
        (shell.cwd / "review.sh").write_text(script)
        done = sh(shell, "sh", "review.sh", "42", HOME=str(home))
        assert done.code == 0, done.stderr
        assert ("restored from Segue's copy" in done.stderr) is bool(push)
        assert (shell.cwd / "review.md").read_text()
    shell.env["HOME"] = str(home)
    assert modes(shell, "pr/42") == ["fresh", "resume", "resume"]


def test_a_ci_job_passes_its_key_by_the_account(shell: Program) -> None:
    said = dict(re.findall(r"^ +(SEGUE_ACCOUNTS_\w+): (\w+)$", PAGE, re.M))
    seen = shell.cwd / "seen"
    agent = shell.cwd / "agent"
    agent.write_text(
        f'#!/bin/sh\necho "${{{said["SEGUE_ACCOUNTS_CLAUDE_PASS_ENV"]}:-none}}" > {seen}; echo hi\n'
    )
    agent.chmod(0o700)
    shell.config(f'[agents.other]\ncommand = ["{agent}"]\nstdin = "prompt"\noutput = "text"\n')
    ours = {k.replace("CLAUDE", "OTHER"): v.replace("claude", "other") for k, v in said.items()}
    for env, key in (({}, "none"), (ours, "sk-x")):
        done = shell("run", key, "hi", "--agent", "other", "--quiet", ANTHROPIC_API_KEY="sk-x", **env)
        assert (done.code, done.stderr, seen.read_text().strip()) == (0, "", key)


def test_a_cron_job_goes_on_each_night(shell: Program) -> None:
    script = block("A cron job", "sh")
    assert [sh(shell, "sh", "-c", script).code for _ in range(2)] == [0, 0]
    assert modes(shell, "nightly") == ["fresh", "resume"]


@pytest.mark.parametrize(("says", "code", "shown"), [("429", 0, "not today"), ("400", 1, "nightly")])
def test_a_cron_job_that_fails_says_what_that_means(shell: Program, says: str, code: int, shown: str) -> None:
    script = block("A cron job", "sh").replace("Update CHANGELOG.md", f"[[error {says}]]")
    done = sh(shell, "sh", "-c", script.replace("--retries 5", "--retries 0"))
    assert done.code == code, done.stderr
    assert shown in done.stdout or code


def test_a_bot_keeps_its_users_apart(shell: Program) -> None:
    code = block("A chat bot", "python")
    done = sh(shell, sys.executable, "-W", "error", "-c", code)
    assert done.code == 0, done.stderr
    assert done.stdout.split() == re.findall(r"print\(.*\)  # (\d+)$", code, re.M) == ["456", "789"]


def test_a_hook_lets_a_good_commit_pass_and_stops_a_bad_one(shell: Program) -> None:
    assert sh(shell, "git", "init", "-q").code == 0
    hook = shell.cwd / ".git" / "hooks" / "pre-commit"
    hook.write_text(block("A review before each commit", "sh"))
    hook.chmod(0o700)
    assert commit(shell, "[[say OK]]\n").code == 0
    refused = commit(shell, "[[say the key must not be committed]]\n")
    assert refused.code == 1
    assert "the key must not be committed" in refused.stderr
    away = commit(shell, "[[error 500]]\n")
    assert away.code == 0
    assert "committing without one" in away.stderr
    assert len(sh(shell, "git", "log", "--oneline").stdout.splitlines()) == 2


def test_a_session_that_was_begun_by_hand_is_continued(shell: Program) -> None:
    begun = sh(shell, "sh", "-c", f"echo remember the number 456 | {' '.join(AGENT)}")
    (shell.cwd / "id").write_text(msgspec.json.decode(begun.stdout.splitlines()[0])["id"])
    script = block("Moving from `claude -p --resume`", "sh").replace("and the tests", "what number?")
    done = sh(shell, "sh", "-c", script)
    assert (done.code, done.stdout.strip()) == (0, "456"), done.stderr
    assert shell("run", "app", "what number?").stdout.strip() == "456"


def test_every_option_that_the_move_needs_is_there(shell: Program) -> None:
    section = PAGE.split("\n## Moving from", 1)[1]
    rows = [line.split("|")[2] for line in section.splitlines() if line.startswith("| `")]
    used = {option for row in rows for option in re.findall(r"--[a-z-]+", row.split(" -- ")[0])}
    assert len(used) > 5
    offered = shell("run", "--help").stdout
    assert not [option for option in used if option not in offered]
