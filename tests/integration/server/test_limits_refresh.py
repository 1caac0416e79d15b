"""Limits that are asked for: a program in Codex's place speaks the protocol of its server."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.runner.inquiry import inquire
from tests.integration.conftest import Program
from tests.integration.server.conftest import Daemon

SERVER = """#!/usr/bin/env python3
import json, os, sys, time, subprocess
if "--version" in sys.argv or "--help" in sys.argv:
    print("codex-cli 0.166.0"); sys.exit()
assert sys.argv[1:] == ["app-server"], sys.argv
with open(os.environ["CODEX_HOME"] + "/asked", "a") as file:
    file.write(str(os.getpid()) + "\\n")
def say(message):
    print(json.dumps(message), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "initialize":
        say({"id": asked["id"], "result": {}})
        say({"method": "configWarning", "params": {}})
    if asked.get("method") == "account/rateLimits/read":
        HOW
"""
WINDOW = '"usedPercent": 42, "windowDurationMins": 300, "resetsAt": time.time() + 600'
ANSWER = f'say({{"id": asked["id"], "result": {{"rateLimits": {{"primary": {{{WINDOW}}}}}}}}})'
ERROR = 'say({"id": asked["id"], "error": {"code": -32600, "message": "log in again"}})'
CHILD = 'subprocess.Popen(["sleep", "300"]); ' + ANSWER
MANY = (
    f'say({{"id": asked["id"], "result": {{"rateLimitsByLimitId": {{"codex": {{"limitId": "codex", "primary":'
    f' {{{WINDOW}}}}}, "x": {{"limitId": "spark", "secondary": {{{WINDOW}}}}}}}}}}})'
)


@pytest.fixture
def codex(segue: Program, tmp_path: Path) -> Path:
    """An account with a subscription's login, and the program that stands for Codex."""
    home, program = tmp_path / "codex", tmp_path / "program"
    home.mkdir()
    auth = {"tokens": {"access_token": "made-up", "account_id": "ann"}, "auth_mode": "chatgpt"}
    (home / "auth.json").write_bytes(msgspec.json.encode(auth))
    segue.config(
        f'[agents.codex]\ncommand = "{program}"\n'
        f'[accounts.plan]\nagent = "codex"\nhome = "{home}"\n'
        f'[accounts.keyed]\nagent = "codex"\nhome = "{home}"\nenv = {{ CODEX_API_KEY = "k-0123456789" }}\n'
        f'[accounts.other]\nagent = "rehearsal"\nhome = "{tmp_path}/other"\n'
    )
    answers(tmp_path, ANSWER)
    return home


def answers(tmp_path: Path, how: str) -> None:
    program = tmp_path / "program"
    program.write_text(SERVER.replace("HOW", how))
    program.chmod(0o755)


def shown(segue: Program, *args: str) -> tuple[Any, str]:
    ran = segue("account", *args, "--json")
    assert ran.code == 0, ran.stderr
    return msgspec.json.decode(ran.stdout), ran.stderr


def test_the_limits_of_a_subscription_are_asked_for(segue: Program, codex: Path) -> None:
    assert shown(segue, "show", "plan")[0]["limits"] is None
    assert not (codex / "asked").exists(), "only if the user asks"
    details, said = shown(segue, "show", "plan", "--refresh")
    (limit,) = details["limits"]
    assert (limit["window"], limit["used"], limit["source"], said) == ("5h", 0.42, "app_server", "")
    assert 0 < limit["resets_at"] / 1000 - time.time() < 601
    (again,) = shown(segue, "show", "plan")[0]["limits"]
    assert (again["used"], again["resets_at"]) == (0.42, limit["resets_at"]), "it is stored"
    assert details["pays"] == "subscription"


def test_all_accounts_are_asked_and_what_cannot_be_is_told(segue: Program, codex: Path) -> None:
    found, said = shown(segue, "ls", "--refresh")
    assert {each["name"]: bool(each["limits"]) for each in found} == {
        "keyed": False,
        "other": False,
        "plan": True,
    }
    assert "segue: keyed: Codex tells limits only of a login with a subscription\n" in said
    assert "segue: other: Rehearsal cannot be asked for its limits\n" in said
    assert len((codex / "asked").read_text().splitlines()) == 1, "a key is not the login's"


def test_further_limits_have_their_own_names(segue: Program, codex: Path, tmp_path: Path) -> None:
    answers(tmp_path, MANY)
    limits = shown(segue, "show", "plan", "--refresh")[0]["limits"]
    assert [each["window"] for each in limits] == ["5h", "5h_spark"]


@pytest.mark.parametrize(
    ("how", "told"),
    [
        (ERROR, "Codex: log in again"),
        ("sys.exit(3)", "Codex did not tell"),
        ('print("{nonsense"); sys.exit()', "Codex did not tell"),
        ('say({"id": 2, "result": {"rateLimits": {"primary": "none"}}}); sys.exit()', "Codex did not tell"),
    ],
)
def test_without_an_answer_the_reason_is_told(
    segue: Program, codex: Path, tmp_path: Path, how: str, told: str
) -> None:
    shown(segue, "show", "plan", "--refresh")
    answers(tmp_path, how)
    details, said = shown(segue, "show", "plan", "--refresh")
    assert f"segue: plan: {told}" in said
    assert [each["used"] for each in details["limits"]] == [0.42], "what was seen before"


def test_nothing_is_left_running(segue: Program, codex: Path, tmp_path: Path) -> None:
    answers(tmp_path, CHILD)
    shown(segue, "show", "plan", "--refresh")
    (group,) = (codex / "asked").read_text().split()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, pgid = entry.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        assert pgid != group or state == "Z", entry


def test_a_server_that_says_nothing_is_ended(tmp_path: Path) -> None:
    def nothing(line: bytes) -> bytes | None:
        return None

    silent = ["sh", "-c", f"echo $$ > {tmp_path}/pid; echo hello; exec sleep 300"]
    env = {"PATH": os.environ["PATH"]}
    assert inquire(silent, b"hello?\n", nothing, env=env, cwd=tmp_path, time_s=1) is None
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_it_is_asked_for_over_http(codex: Path, daemon: Daemon) -> None:
    told = daemon.ask("POST", "/api/v1/accounts/plan/limits").json
    assert (told["account"], told["why_not"], told["limits"][0]["used"]) == ("plan", None, 0.42)
    refused = daemon.ask("POST", "/api/v1/accounts/other/limits").json
    assert (refused["limits"], refused["why_not"]) == (None, "Rehearsal cannot be asked for its limits")
    assert daemon.ask("POST", "/api/v1/accounts/nobody/limits").status == 404
