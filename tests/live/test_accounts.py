"""Accounts with the real CLIs: the login commands that they have, and who counts as the same user."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from segue.agents import registry
from segue.config.schema import Config
from tests import clis
from tests.live.harness import clean_environment
from tests.live.talk import EVERY, Talk, talking
from tests.live.test_switching import ready

WITH_COMMAND = [
    each for each in EVERY if registry.get(str(each.id).partition("-")[0], Config()).facts.login_args
]


@pytest.mark.parametrize("cli", WITH_COMMAND)
def test_the_login_command_exists(cli: tuple[str, str], tmp_path: Path) -> None:
    agent, version = cli
    ready(agent, version)
    args = registry.get(agent, Config()).facts.login_args
    argv = [str(clis.CLIS[agent].program(version)), *args, "--help"]
    done = subprocess.run(
        argv, env=clean_environment(tmp_path), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "usage" in done.stdout.lower()
    assert all(word in done.stdout for word in args)


def fake_login(home: Path, who: str) -> None:
    """As Codex itself writes it, with a made-up token. What else is there stays."""
    tokens = {
        "id_token": "made.up.token",
        "access_token": "made-up",
        "refresh_token": "made-up",
        "account_id": who,
    }
    auth = {"OPENAI_API_KEY": None, "tokens": tokens, "last_refresh": "2026-01-02T03:04:05Z"}
    home.mkdir(exist_ok=True)
    (home / "auth.json").write_bytes(msgspec.json.encode(auth))


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    newest = clis.CLIS["codex"].newest
    ready("codex", newest)
    with talking(tmp_path, {"codex": newest}) as made:
        yield made


def test_one_login_in_two_homes_of_codex(talk: Talk) -> None:
    home, other = talk.home("codex"), talk.place / "codex-copy"
    fake_login(home, "ann")
    talk.run("remember number 1234", "--agent", "codex")
    fake_login(other, "ann")
    refused = talk("account", "add", "copy", "--agent", "codex", "--home", str(other))
    assert (refused.code, "same login in two homes" in refused.stderr) == (2, True)
    fake_login(other, "bob")
    assert talk("account", "add", "copy", "--agent", "codex", "--home", str(other)).code == 0
    fake_login(other, "ann")
    refused = talk("run", "t", "what number?")
    assert (refused.code, refused.requests) == (2, [])
    assert "refresh tokens are single-use" in refused.stderr
    fake_login(other, "bob")
    again = talk.run("what number?")
    assert (again.mode, again.text) == ("resume", "1234")


def test_a_login_of_codex_that_is_being_written_is_no_change(talk: Talk) -> None:
    home = talk.home("codex")
    fake_login(home, "ann")
    talk.run("remember number 1234", "--agent", "codex")
    whole = (home / "auth.json").read_bytes()
    for half in (b"", whole[: len(whole) // 2]):
        (home / "auth.json").write_bytes(half)
        assert talk.why()["mode"] == "resume"
    fake_login(home, "bob")
    assert talk.why()["mode"] == "fresh"
    fake_login(home, "ann")
    again = talk.run("what number?")
    assert (again.mode, again.text) == ("resume", "1234")


def test_another_address_is_another_identity(tmp_path: Path) -> None:
    newest = clis.CLIS["claude"].newest
    ready("claude", newest)
    with talking(tmp_path, {"claude": newest}) as talk:
        talk.run("remember number 1234", "--agent", "claude")
        config = talk.place / "segue" / "config.toml"
        before = config.read_text()
        config.write_text(before.replace("//127.0.0.1:", "//localhost:"))
        said = talk.run("what number?")
        assert (said.mode, "number 1234" in said.sent) == ("fresh", False)
        config.write_text(before)
        back = talk.run("what number?")
        assert (back.mode, back.text) == ("resume", "1234")
