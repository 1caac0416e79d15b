"""What an agent has from the process that called it: the same with and without the daemon."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

import pytest

from segue.core.request import Inherited
from segue.runner.child import can_have, start_child
from tests.integration.conftest import SEGUE, Program
from tests.integration.server.conftest import Daemon, finish, start
from tests.integration.server.streams import streams
from tests.integration.server.test_runs import finished

__all__ = ["streams"]

ASK = "[[shell umask; ulimit -Sn; ulimit -Hn; ulimit -f; ulimit -c; trap]][[result]]"
ARGS = ("--agent", "rehearsal", "--permission", "full")


def within(segue: Program, words: str) -> Program:
    """The same program, called by a shell that did this before."""
    return Program(segue.home, segue.cwd, segue.env, ["sh", "-c", f'{words}; exec "$@"', "sh", *SEGUE])


def test_umask_and_limits_are_those_of_the_caller(daemon: Daemon) -> None:
    own = Path(f"/proc/{daemon.process.pid}/limits").read_text()
    caller = within(daemon.segue, "umask 027; ulimit -Sn 333; ulimit -Hn 444; ulimit -f 200000")
    here = caller("run", "a", ASK, *ARGS, "--no-daemon")
    there = caller("run", "b", ASK, *ARGS)
    assert there.stdout == here.stdout
    queued = finished(daemon, caller("run", "c", ASK, *ARGS, "--queue").stdout.strip())
    assert queued["turn"]["text"] + "\n" == here.stdout
    assert daemon.segue("run", "d", ASK, *ARGS).stdout != here.stdout
    assert Path(f"/proc/{daemon.process.pid}/limits").read_text() == own
    daemon.end()
    assert daemon.log().count("local/turns") == 2


def test_a_daemon_with_lower_limits_is_not_used(segue: Program) -> None:
    daemon = start(within(segue, "ulimit -n 200"))
    try:
        caller = within(segue, "ulimit -Sn 300")
        ran = caller("run", "k", "[[shell ulimit -Sn]][[result]]", *ARGS)
        assert ran.stdout == "300\n"
        assert ran.stderr.splitlines()[0] == (
            "segue: the daemon has lower resource limits; running this without it"
        )
        hard = within(segue, "ulimit -Sn 150")(
            "run", "k", "[[shell ulimit -Sn; ulimit -Hn]][[result]]", *ARGS
        )
        assert hard.stdout == "150\n200\n"  # more than the daemon may have cannot be passed on
    finally:
        finish(daemon.process)


def inherits(**limits: tuple[int, int]) -> Inherited:
    return Inherited(0o027, limits)


def test_what_cannot_be_started_is_told_as_ever(tmp_path: Path) -> None:
    fewer = inherits(RLIMIT_NOFILE=(100, 100))
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    for program in ("/no/such/program", str(script)):
        with pytest.raises(FileNotFoundError) as missing:
            start_child([program], fewer, env={}, pass_fds=())
        assert missing.value.filename == program
    script.chmod(0o644)
    with pytest.raises(PermissionError):
        start_child([str(script)], fewer, env={}, pass_fds=())


def test_only_umask_and_limits_differ() -> None:
    argv = [
        "/bin/sh",
        "-c",
        "env | grep -v ^_= | sort; umask; grep -i sig /proc/self/status; ls /proc/self/fd",
    ]
    told = []
    for limits in ({}, {"RLIMIT_NOFILE": (100, 100), "RLIMIT_NO_SUCH": (1, 1)}):
        process = start_child(
            argv, Inherited(0o027, limits), env={"A": "1", "LANG": "C"}, pass_fds=(), stdout=subprocess.PIPE
        )
        out, _ = process.communicate()
        told.append(out)
    assert told[0] == told[1]
    assert b"0027" in told[0]


def test_nobody_gets_more_than_the_process_itself_may_have() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert can_have(inherits(RLIMIT_NOFILE=(hard, hard)))
    assert can_have(inherits(RLIMIT_NOFILE=(hard, hard + 1)))
    assert not can_have(inherits(RLIMIT_NOFILE=(hard + 1, hard + 1)))
