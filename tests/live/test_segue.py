"""The ``segue`` program itself on the real CLIs, set up by ``segue rehearse`` as a user would."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests import clis
from tests.live.conftest import OBSTACLE
from tests.live.harness import clean_environment
from tests.live.talk import SLOWEST

SEGUE = [sys.executable, "-m", "segue"]
AGENTS = list(clis.CLIS)
QUICK_FIRST = [pytest.param(agent, marks=[pytest.mark.soak] if agent in SLOWEST else []) for agent in AGENTS]
"""All of them; those that start slowly only with ``--soak``."""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A clean environment in which the newest CLIs are on PATH."""
    if OBSTACLE:
        pytest.skip(f"no isolation: {OBSTACLE}")
    folders = []
    for cli in clis.CLIS.values():
        reason = clis.install(cli, cli.newest)
        if reason:
            pytest.skip(f"{cli.agent} {cli.newest}: {reason}")
        folders.append(str(cli.program(cli.newest).parent))
    home = tmp_path / "home"
    home.mkdir()
    clean = clean_environment(home)
    return {**clean, "PATH": ":".join([str(Path(sys.executable).parent), *folders, clean["PATH"]])}


def rehearse(
    env: dict[str, str],
    tmp_path: Path,
    *command: str,
    log: Path | None = None,
    options: tuple[str, ...] = (),
) -> tuple[int, str, str]:
    options = ("--log", str(log), *options) if log else options
    done = subprocess.run(
        [*SEGUE, "rehearse", *options, "--", *command],
        env=env,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def object_of(stdout: str) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(stdout.splitlines()[-1])
    return decoded


@pytest.mark.parametrize("agent", AGENTS)
def test_a_turn_of_each_agent_and_its_usage_as_the_model_accounts_it(
    agent: str, env: dict[str, str], tmp_path: Path
) -> None:
    log = tmp_path / "requests.jsonl"
    run = ("segue", "run", "t1", "remember number 456", "--agent", agent, "--json")
    code, stdout, stderr = rehearse(env, tmp_path, *run, log=log)
    assert code == 0, stderr
    turn = object_of(stdout)
    assert (turn["agent"], turn["mode"], turn["status"]) == (agent, "fresh", "ok")
    assert "456" in turn["text"]
    assert turn["session_id"]
    requests = [msgspec.json.decode(line) for line in log.read_bytes().splitlines()]
    for counter in ("input", "cache_read", "output"):
        assert turn["usage"][counter] == sum(request["usage"][counter] for request in requests), counter


@pytest.mark.parametrize("agent", QUICK_FIRST)
def test_a_refused_login_fails_as_auth_with_exit_1(agent: str, env: dict[str, str], tmp_path: Path) -> None:
    run = ("segue", "run", "t1", "[[error 401]]", "--agent", agent, "--json", "--quiet")
    code, stdout, stderr = rehearse({**env, "CLAUDE_CODE_MAX_RETRIES": "0"}, tmp_path, *run)
    assert (code, object_of(stdout)["failure"]["kind"]) == (1, "auth")
    assert stderr.count("\n") == 2
    assert "Log in, then retry with: segue retry t1 " in stderr.splitlines()[1]


def test_agents_lists_what_is_installed(env: dict[str, str], tmp_path: Path) -> None:
    code, stdout, _ = rehearse(env, tmp_path, "segue", "agents", "--json")
    listed = {one["agent"]: one for one in msgspec.json.decode(stdout)}
    assert code == 0
    for agent, cli in clis.CLIS.items():
        assert listed[agent]["version"] == cli.newest
        assert listed[agent]["accounts"] == [agent]
        assert listed[agent]["capabilities"]["resume"]


def test_doctor_finds_nothing_that_must_be_fixed(env: dict[str, str], tmp_path: Path) -> None:
    code, stdout, _ = rehearse(env, tmp_path, "segue", "doctor", "--json")
    findings = msgspec.json.decode(stdout)
    assert code == 0, [finding for finding in findings if finding["level"] == "bad"]
    assert any("Claude is logged in (account claude)" in finding["what"] for finding in findings)
    assert any(finding["check"] == "vibe" and finding["level"] == "note" for finding in findings)
    for label in ("Gemini", "Vibe"):
        assert any(f"{label} has a login or a key" in finding["what"] for finding in findings), label


def test_doctor_tells_who_is_logged_out_and_leaves_nothing_in_a_fresh_home(
    env: dict[str, str], tmp_path: Path
) -> None:
    done = subprocess.run(
        [*SEGUE, "doctor", "--json"],
        env=env,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    findings = {finding["what"]: finding["level"] for finding in msgspec.json.decode(done.stdout)}
    for says in ("Claude says it is", "Codex says it is", "Gemini is", "Vibe is"):
        assert findings[f"{says} not logged in"] == "warn"
    home = Path(env["HOME"])
    assert [str(path.relative_to(home)) for path in home.rglob("*")] == []


@pytest.mark.parametrize("agent", ["gemini", "vibe"])
def test_what_doctor_says_of_a_missing_login_is_so(agent: str, env: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [*SEGUE, "run", "t", "hi", "--agent", agent, "--json", "--timeout", "60"],
        env={**env, "SEGUE_HOME": str(tmp_path / "segue")},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, object_of(done.stdout)["failure"]["kind"]) == (1, "auth"), done.stdout


def test_a_withheld_key_is_named_when_the_login_fails(env: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [*SEGUE, "run", "t1", "hi", "--agent", "claude", "--json", "--quiet"],
        env={
            **env,
            "ANTHROPIC_API_KEY": "a-key-that-must-not-be-seen",
            "SEGUE_HOME": str(tmp_path / "segue"),
        },
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    failure = object_of(done.stdout)["failure"]
    assert (done.returncode, failure["kind"]) == (1, "auth")
    assert 'pass_env = ["ANTHROPIC_API_KEY"]' in failure["message"]
    assert "must-not-be-seen" not in done.stdout + done.stderr


def test_the_clis_themselves_are_set_up_too(env: dict[str, str], tmp_path: Path) -> None:
    code, stdout, _ = rehearse(env, tmp_path, "claude", "-p", "remember number 456")
    assert (code, stdout.strip()) == (0, "Noted: 456.")


@pytest.mark.parametrize("agent", ["claude", "gemini"])
def test_a_script_that_wants_no_account_can_be_rehearsed(
    env: dict[str, str], tmp_path: Path, agent: str
) -> None:
    """Its own login is the rehearsal's, and stays so in a home that is used again, under another key."""
    once = [*SEGUE, "run", "t", "remember number 456", "--agent", agent, "--account", "none", "--json"]
    home = ("--home", str(tmp_path / "stage"))
    for number in range(2):
        code, stdout, stderr = rehearse(env, tmp_path, *once, options=home)
        assert code == 0, stderr
        turn = object_of(stdout)
        assert (turn["account"], turn["mode"]) == (None, "resume" if number else "fresh")
