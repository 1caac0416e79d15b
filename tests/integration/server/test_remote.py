"""``segue run`` through the daemon: the same output, JSON and exit code as without it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.client import config_file, home_root
from segue.config.home import home_of
from segue.system.processes import MARK
from tests.integration.conftest import Program, Result
from tests.integration.server.conftest import WAIT_S, Daemon
from tests.integration.server.streams import streams
from tests.integration.server.test_runs import finished, submit

CHANGES = {
    *("run", "message", "session_id", "resumed_from", "duration_ms", "conversation", "next", "earlier"),
    *("retry_of", "transport"),
}
"""What differs from run to run."""

__all__ = ["streams"]


def same(turn: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in turn.items() if name not in CHANGES}
    kept["attempts"] = [{**each, "session_id": None} for each in turn["attempts"]]
    return kept


@pytest.mark.parametrize(
    "args",
    [
        ("remember number 456",),
        ("remember number 456", "--quiet"),
        ("[[error 429]]",),
        ("[[error 400]]", "--quiet"),
        ("hi", "--model", "rehearsal-1", "--role", "reviewer", "--permission", "read"),
        ("[[shell echo hi]] done", "--permission", "full"),
        ("hi", "--blank"),
        ("hi", "--timeout", "4", "--quiet"),
    ],
)
def test_the_same_turn_gives_the_same_json(daemon: Daemon, args: tuple[str, ...]) -> None:
    if "--timeout" in args:
        args = ("[[hang]]", *args[1:])
    here = daemon.segue("run", "a", *args, "--agent", "rehearsal", "--json", "--no-daemon")
    there = daemon.segue("run", "b", *args, "--agent", "rehearsal", "--json")
    assert there.code == here.code
    assert same(there.turn) == same(here.turn)
    assert (here.turn["transport"], there.turn["transport"]) == ("process", "daemon")
    assert len(there.stderr.splitlines()) == len(here.stderr.splitlines())
    assert "local/turns" in requests(daemon)


def test_the_same_retry_gives_the_same_json(daemon: Daemon) -> None:
    ran = []
    for key, more in (("a", ("--no-daemon",)), ("b", ())):
        daemon.segue("run", key, "remember number 456", "--agent", "rehearsal", "-q", *more)
        ran.append(daemon.segue("retry", key, "--json", *more))
    _are_alike(*ran)
    assert requests(daemon).count("local/turns") == 2


def test_the_same_continued_session_gives_the_same_json(daemon: Daemon) -> None:
    ran = []
    for key, more in (("a", ("--no-daemon",)), ("b", ())):
        begun = daemon.segue("run", f"{key}-first", "remember number 456", "--agent", "rehearsal", "--json")
        daemon.segue("rm", f"{key}-first", "--yes")
        command = ("sessions", "continue", begun.turn["session_id"], "what number?", "--key", key, "--json")
        ran.append(daemon.segue(*command, *more))
        assert ran[-1].turn["text"] == "456"
    _are_alike(*ran)


def _are_alike(here: Result, there: Result) -> None:
    assert (there.code, here.code) == (0, 0), (here.stderr, there.stderr)
    assert same(there.turn) == same(here.turn)
    assert (here.turn["transport"], there.turn["transport"]) == ("process", "daemon")
    assert len(there.stderr.splitlines()) == len(here.stderr.splitlines())


def requests(daemon: Daemon) -> str:
    """What the daemon logged; it is ended for that."""
    daemon.end()
    return daemon.log()


@pytest.mark.parametrize(
    "args",
    [
        ("a", "hi", "--agent", "nobody"),
        ("a", "", "--agent", "rehearsal"),
        ("a", "hi", "--agent", "rehearsal", "--cwd", "/no/such/place"),
        ("a", "hi", "--agent", "rehearsal", "--fail-on-denied", "--", "--resume", "x"),
    ],
)
def test_misuse_is_the_same_line_and_code(daemon: Daemon, args: tuple[str, ...]) -> None:
    def both(*more: str) -> Result:
        return daemon.segue("run", *args, "--json", *more)

    here, there = both("--no-daemon"), both()
    assert (there.code, there.stdout, there.stderr) == (here.code, here.stdout, here.stderr)
    assert here.code != 0


def test_events_and_text_are_printed_alike(daemon: Daemon) -> None:
    def types(result: Result) -> list[str]:
        lines = [line for line in result.stdout.splitlines() if '"type":' in line[:10]]
        return [line.split('"')[3] for line in lines]

    here = daemon.segue("run", "a", "remember number 3", "--agent", "rehearsal", "--events", "--no-daemon")
    there = daemon.segue("run", "b", "remember number 3", "--agent", "rehearsal", "--events")
    assert types(there) == types(here)
    text = daemon.segue("run", "b", "what number?")
    assert (text.code, text.stdout) == (0, "3\n")
    assert "resume" in text.stderr


def test_the_callers_environment_and_directory_count(daemon: Daemon) -> None:
    elsewhere = daemon.segue.cwd.parent / "elsewhere"
    elsewhere.mkdir()
    there = Program(daemon.home, elsewhere, {**daemon.segue.env, "MY_OWN": "value of mine"})
    ran = there(
        "run", "k", "[[shell pwd; echo $MY_OWN]][[result]]", "--agent", "rehearsal", "--permission=full"
    )
    assert str(elsewhere) in ran.stdout
    assert "value of mine" in ran.stdout
    stored = b"".join(path.read_bytes() for path in daemon.home.glob("segue.db*"))
    assert b"value of mine" in stored  # the agent said it
    assert b'"MY_OWN":"value of mine"' not in stored


def test_ctrl_c_cancels_and_a_vanished_client_does_not(daemon: Daemon) -> None:
    hanging = daemon.segue.start("run", "k", "[[hang]]", "--agent", "rehearsal")
    wait_for_run(daemon, "k")
    hanging.send_signal(signal.SIGINT)
    assert hanging.wait(WAIT_S) == 130
    close(hanging)
    slow = daemon.segue.start("run", "k", "remember number 8 [[slow 2]]", "--agent", "rehearsal")
    run = wait_for_run(daemon, "k")
    os.kill(slow.pid, signal.SIGKILL)
    close(slow)
    assert finished(daemon, run)["state"] == "done"


def has_agent(run: str) -> bool:
    """Whether the agent of the run lives: its environment has the run's id."""
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has ended
            if f"{MARK}={run}".encode() in environ.read_bytes():
                return True
    return False


def wait_for_run(daemon: Daemon, key: str) -> str:
    """The run of the conversation that has reached its agent."""
    for _ in range(600):
        answer = daemon.ask("GET", f"/api/v1/conversations/{key}/log")
        runs = (
            [each["run"] for each in answer.json if each["state"] == "running"]
            if answer.status == 200
            else []
        )
        if runs and has_agent(runs[0]):
            return str(runs[0])
        subprocess.run(["sleep", "0.05"], check=True)
    raise AssertionError("it never began")


def close(process: subprocess.Popen[bytes]) -> None:
    process.communicate(timeout=WAIT_S)


def test_a_daemon_of_another_protocol_is_not_used(daemon: Daemon) -> None:
    told = (daemon.home / "daemon.json").read_text()
    (daemon.home / "daemon.json").write_text(told.replace('"protocol":1', '"protocol":99'))
    ran = daemon.segue("run", "k", "hi", "--agent", "rehearsal")
    assert (ran.code, ran.stdout) == (0, "Understood.\n")
    assert "another protocol" in ran.stderr
    (daemon.home / "daemon.json").write_text(told)
    off = daemon.segue("run", "k", "hi", SEGUE_DAEMON="off")
    assert off.code == 0
    assert "local/turns" not in requests(daemon)


@pytest.mark.parametrize("name", ["uid", "pid_ns", "mnt_ns", "boot_id", "machine_id", "home"])
def test_a_daemon_of_another_place_is_not_used(daemon: Daemon, name: str) -> None:
    file = daemon.home / "daemon.json"
    told = msgspec.json.decode(file.read_bytes())
    assert told[name] is not None
    file.write_bytes(msgspec.json.encode({**told, name: 99_999 if name == "uid" else "another"}))
    ran = daemon.segue("run", "k", "hi", "--agent", "rehearsal", "--json")
    assert (ran.code, ran.turn["transport"]) == (0, "process")
    notice = ran.stderr.splitlines()[0]
    assert (notice.startswith("segue: the daemon runs elsewhere"), ran.stderr.count("elsewhere")) == (True, 1)
    assert notice.endswith("; running this without it")
    daemon.end(signal.SIGKILL)  # what is left of it says nothing
    assert "elsewhere" not in daemon.segue("run", "k", "hi").stderr


def test_a_daemon_file_without_a_machine_is_believed(daemon: Daemon) -> None:
    file = daemon.home / "daemon.json"
    told = msgspec.json.decode(file.read_bytes())
    del told["machine_id"]
    file.write_bytes(msgspec.json.encode(told))
    assert daemon.segue("run", "k", "hi", "--agent", "rehearsal", "--json").turn["transport"] == "daemon"


def test_a_daemon_of_another_store_is_not_used(daemon: Daemon) -> None:
    ran = daemon.segue("run", "k", "hi", SEGUE_STORE_URL="postgresql://nobody@127.0.0.1:9/none")
    assert ran.stderr.splitlines()[0] == "segue: the daemon uses another store; running this without it"
    assert ran.code == 75


def test_the_client_loads_almost_nothing() -> None:
    code = "import segue.cli.main, segue.cli.turn, segue.cli.turn_remote, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert not {"msgspec", "click", "anyio", "asyncio", "sqlite3", "pathlib"} & set(loaded)
    assert len([name for name in loaded if name.startswith("segue")]) <= 25


@pytest.mark.parametrize(
    "env",
    [
        {"HOME": "/h"},
        {"HOME": "/h", "SEGUE_HOME": "/x/y"},
        {"HOME": "/h", "SEGUE_HOME": "~/z"},
        {"HOME": "/h", "XDG_DATA_HOME": "/data"},
        {"HOME": "/h", "XDG_DATA_HOME": "relative"},
        {"HOME": "/h", "XDG_CONFIG_HOME": "/conf"},
    ],
)
def test_the_client_finds_the_same_home(env: dict[str, str]) -> None:
    assert home_root(env) == str(home_of(env).root)
    assert config_file(env) == str(home_of(env).config_file)


def test_eight_at_once_in_one_conversation(daemon: Daemon) -> None:
    """Half through the daemon, half beside it: one after the other, and none is lost."""
    args = [("--no-daemon",) if n % 2 else () for n in range(8)]
    racing = [
        daemon.segue.start("run", "race", f"remember number {n}", "--agent", "rehearsal", *args[n])
        for n in range(8)
    ]
    outputs = [process.communicate(timeout=WAIT_S * 2) for process in racing]
    assert [process.returncode for process in racing] == [0] * 8, outputs
    final = finished(daemon, submit(daemon, "race", "what numbers?")["run"])
    assert sorted(final["turn"]["text"].rstrip(".").split(", ")) == [str(n) for n in range(8)]


def test_a_retry_runs_in_this_process_if_asked_to(daemon: Daemon) -> None:
    daemon.segue("run", "k", "hi", "--agent", "rehearsal", "-q", "--no-daemon")
    again = daemon.segue("retry", "k", "--no-daemon")
    assert (again.code, again.stdout) == (0, "Understood.\n")
    assert "local/turns" not in requests(daemon)
