"""What of our variables an agent gets, whatever starts it: the mark of its process, and nothing else."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator

import pytest

from segue import Segue
from tests.integration.conftest import Program
from tests.integration.server.conftest import Daemon, finish, start
from tests.integration.server.streams import streams
from tests.integration.server.test_runs import finished, submit
from tests.integration.talk import AGENT

__all__ = ["streams"]

STRANGE = {"SEGUE_MARK": "strange", "SEGUE_RETENTION_DAYS": "9", "SEGUE_DEFAULTS_TIMEOUT": "600"}
"""Variables of ours in the caller's environment."""


class Spied:
    """The rehearsal agent, which writes down its environment whenever it is started."""

    def __init__(self, segue: Program) -> None:
        self.segue, self.place = segue, segue.home.parent / "seen"
        self.place.mkdir()
        script = segue.home.parent / "agent.sh"
        agent = " ".join(f'"{part}"' for part in AGENT)
        script.write_text(f'env -0 > {self.place}/$$\nexec {agent} "$@"\n')
        segue.config(
            '[defaults]\nagent = "rehearsal"\naccount = "work"\npermission = "full"\n'
            f'[agents.rehearsal]\ncommand = ["sh", "{script}"]\n'
            f'[accounts.work]\nagent = "rehearsal"\nhome = "{segue.home.parent}/work"\n'
            'env = { MINE = "1" }\npass_env = ["THEIRS"]\n'
        )
        segue.env |= STRANGE

    def given(self) -> list[dict[str, str]]:
        """What it has got, each time."""
        read = [file.read_bytes().split(b"\0")[:-1] for file in sorted(self.place.iterdir())]
        return [dict(line.decode().split("=", 1) for line in lines) for lines in read]

    @property
    def runs(self) -> list[str]:
        return [each.name for each in (self.segue.home / "runs").iterdir()]


@pytest.fixture
def spied(segue: Program) -> Spied:
    return Spied(segue)


@pytest.fixture
def daemon(spied: Spied) -> Iterator[Daemon]:
    started = start(spied.segue)
    yield started
    finish(started.process)


def check(spied: Spied, runs: int) -> None:
    """``runs``: how many runs have reached the agent. The other starts have asked for its version."""
    given = spied.given()
    ours = [{name: value for name, value in each.items() if name.startswith("SEGUE_")} for each in given]
    marks = [each.pop("SEGUE_MARK") for each in ours if "SEGUE_MARK" in each]
    assert [each for each in ours if each] == []
    assert len(marks) == runs
    assert set(marks) <= set(spied.runs)
    assert all(each["MINE"] == "1" for each in given if "SEGUE_MARK" in each)


def test_in_the_foreground_and_in_a_retry(spied: Spied) -> None:
    assert spied.segue("run", "t", "hi").code == 0
    assert spied.segue("run", "t", "hi again").code == 0
    assert spied.segue("retry", "t").code == 0
    check(spied, 3)


def test_in_the_daemon_and_in_its_queue(spied: Spied, daemon: Daemon) -> None:
    ran = spied.segue("run", "t", "hi", "--json")
    assert (ran.code, ran.turn["transport"]) == (0, "daemon")
    assert finished(daemon, submit(daemon, "t", "hi")["run"])["state"] == "done"
    check(spied, 2)


def test_in_a_queue_without_a_daemon(spied: Spied) -> None:
    run = spied.segue("run", "t", "hi", "--at", "+1s", "-q").stdout.strip()
    assert run
    assert spied.segue("queue", "run", "t").code == 0
    check(spied, 1)


def test_what_a_tool_gets_is_what_the_agent_got(spied: Spied) -> None:
    assert spied.segue("run", "t", "[[shell env > tools]]").code == 0
    lines = (spied.segue.cwd / "tools").read_text().splitlines()
    assert [line for line in lines if line.startswith("SEGUE_")] == [f"SEGUE_MARK={spied.runs[0]}"]


def test_in_a_flow_and_its_checks(spied: Spied) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], cwd=spied.segue.cwd, env=spied.segue.env, check=True)
    task = spied.segue.cwd / "TASK.md"
    task.write_text("[[write made x]] [[say made it]]\n")
    checked = spied.segue.home.parent / "checked"
    options = ("--coder", "rehearsal", "--reviewer", "rehearsal", "--rounds", "1")
    spied.segue("review", "TASK.md", *options, "--check", f"env > {checked}")
    assert "SEGUE_" not in checked.read_text()
    given = [each for each in spied.given() if "SEGUE_MARK" in each]
    assert given
    check(spied, len(given))


def test_in_the_library_with_an_environment_of_its_own(spied: Spied) -> None:
    async def work() -> None:
        env = {**spied.segue.env, "SEGUE_TEAM": "x", "THEIRS": "2"}
        async with Segue(env=env, cwd=spied.segue.cwd) as segue:
            turn = await segue.run("t", "hi")
            assert turn.state == "done"

    asyncio.run(work())
    check(spied, 1)
    assert [each["THEIRS"] for each in spied.given() if "SEGUE_MARK" in each] == ["2"]


@pytest.mark.parametrize("key", ['env = { SEGUE_HOME = "/x" }', 'pass_env = ["SEGUE_HOME"]'])
def test_an_account_that_sets_one_of_our_variables_is_refused(segue: Program, key: str) -> None:
    segue.config(f'[accounts.work]\nagent = "rehearsal"\n{key}\n')
    ran = segue("run", "t", "hi", "--account", "work")
    assert ran.code == 2
    assert ran.stderr.splitlines() == [
        'segue: config.toml:1: [accounts.work] has "SEGUE_HOME": agents get no variable of'
        " Segue's own; remove it"
    ]


def test_an_account_with_one_of_our_variables_is_not_added(segue: Program) -> None:
    ran = segue("account", "add", "work", "--agent", "rehearsal", "--env", "SEGUE_MARK=x")
    assert ran.code == 2
    assert "agents get no variable of Segue's own" in ran.stderr
    assert not (segue.home / "config.toml").exists()
