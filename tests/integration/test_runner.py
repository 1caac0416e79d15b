"""Real processes, started, followed and ended. After every one of them nobody is left."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING

import anyio
import pytest

from segue.core.errors import Broken, Misuse, NotInstalled
from segue.core.request import Command
from segue.core.stream import Oversize
from segue.runner.launch import Running, launch
from segue.runner.supervisor import Limits
from segue.system import processes
from segue.system.groups import ProcessGroup
from segue.system.loop import begin
from segue.system.processes import MARK, groups, marked_processes, process_mark

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from pathlib import Path

ENV = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
SOON = Limits(grace_s=0.3)
USUAL = Limits()
NUMBER = count()
RUN = f"run-{os.getpid()}"
"""Processes are found by the name of their directory, so no other test may use it at the same time."""


def members(pgid: int) -> list[int]:
    return [pid for pid, group in groups().items() if group == pgid]


def reaped(pid: int) -> bool:
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return True


@asynccontextmanager
async def started(
    tmp_path: Path, *argv: str, limits: Limits = USUAL, stdin: bytes = b"", hold: bool = False
) -> AsyncIterator[Running]:
    """Launch it, and see afterwards that it was reaped and that its group is gone."""
    command = Command(argv=argv, cwd=tmp_path, stdin=stdin, hold_stdin=hold)
    running: Running | None = None
    try:
        async with launch(
            command, env=ENV, run_dir=tmp_path / f"{RUN}-{next(NUMBER)}", limits=limits
        ) as running:
            yield running
    finally:
        if running is not None:
            assert members(running.pid) == []
            assert reaped(running.pid)


def sh(script: str) -> tuple[str, ...]:
    return ("sh", "-c", script)


def py(script: str) -> tuple[str, ...]:
    return (sys.executable, "-c", script)


async def all_lines(running: Running) -> list[bytes]:
    return [line async for line in running.lines() if isinstance(line, bytes)]


def text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""


async def read_number(path: Path) -> int:
    """A pid that a child writes to a file."""
    for _ in range(500):
        if (text := text_of(path)).endswith("\n"):
            return int(text)
        await anyio.sleep(0.01)
    raise TimeoutError(f"{path} was never written")


def lives(pid: int) -> bool:
    return pid in groups([pid])


# --- what it writes ----------------------------------------------------------------------------------


def test_lines_and_exit(tmp_path: Path) -> None:
    async def main() -> None:
        async with started(
            tmp_path, *sh("echo one; echo two; printf three; echo oops >&2; exit 3")
        ) as running:
            assert await all_lines(running) == [b"one", b"two", b"three"]
            assert (running.exit.code, running.exit.ended_by, running.exit.stderr) == (3, None, "oops\n")

    anyio.run(main)


def test_exit_is_not_known_before_the_end(tmp_path: Path) -> None:
    async def main() -> None:
        async with started(tmp_path, "sleep", "30", limits=SOON) as running:
            with pytest.raises(RuntimeError, match="not ended"):
                _ = running.exit
        assert running.exit.ended_by == "cancelled"

    anyio.run(main)


def test_a_plain_end_costs_no_grace(tmp_path: Path) -> None:
    async def main() -> float:
        begun = time.monotonic()
        async with started(tmp_path, "true", limits=Limits(exit_grace_s=3, linger_s=3)) as running:
            await all_lines(running)
        return time.monotonic() - begun

    assert anyio.run(main) < 1.5


def test_lines_arrive_live(tmp_path: Path) -> None:
    script = "import time\nfor _ in range(5): print(time.monotonic(), flush=True); time.sleep(0.3)"

    async def main() -> list[float]:
        async with started(tmp_path, *py(script)) as running:
            return [
                time.monotonic() - float(line) async for line in running.lines() if isinstance(line, bytes)
            ]

    delays = anyio.run(main)
    assert len(delays) == 5
    assert max(delays) < 0.2


def test_lines_in_a_row_arrive_in_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with started(tmp_path, *sh("for i in 1 2 3; do echo $i; sleep 0.1; done")) as running:
            assert await all_lines(running) == [b"1", b"2", b"3"]

    anyio.run(main)


def test_a_line_of_20_mb(tmp_path: Path) -> None:
    script = "import sys; sys.stdout.write('x' * 20_000_000 + '\\nlast\\n')"

    async def main() -> None:
        async with started(tmp_path, *py(script)) as running:
            long, last = await all_lines(running)
        assert long == b"x" * 20_000_000
        assert last == b"last"

    anyio.run(main)


def test_an_oversize_line_is_reported_in_its_place(tmp_path: Path) -> None:
    async def main() -> None:
        argv = py("print('a'); print('x' * 5000); print('b')")
        async with started(tmp_path, *argv, limits=Limits(line_cap=1000)) as running:
            got = [line async for line in running.lines()]
        assert [line.length if isinstance(line, Oversize) else line for line in got] == [b"a", 5000, b"b"]

    anyio.run(main)


def test_a_file_emptied_by_the_process_is_read_from_its_start(tmp_path: Path) -> None:
    async def main() -> None:
        script = "echo a long first line; sleep 0.3; echo b > /dev/stdout; sleep 0.3; echo c"
        async with started(tmp_path, *sh(script)) as running:
            assert await all_lines(running) == [b"a long first line", b"b", b"c"]

    anyio.run(main)


def test_a_grandchild_that_holds_stdout_does_not_hold_up_the_end(tmp_path: Path) -> None:
    async def main() -> float:
        async with started(tmp_path, *sh("sleep 60 & echo done")) as running:
            begun = time.monotonic()
            assert await all_lines(running) == [b"done"]
            assert running.exit.code == 0
            assert running.exit.ended_by is None
            return time.monotonic() - begun

    assert anyio.run(main) < 3


def test_what_a_grandchild_writes_within_the_grace_is_read(tmp_path: Path) -> None:
    async def main() -> None:
        limits = Limits(exit_grace_s=5)
        async with started(tmp_path, *sh("(sleep 0.3; echo late) & echo done"), limits=limits) as running:
            assert await all_lines(running) == [b"done", b"late"]

    anyio.run(main)


def test_a_grandchild_that_writes_for_ever_does_not_hold_up_the_end(tmp_path: Path) -> None:
    script = "(trap '' TERM; while :; do echo y; done) & sleep 0.1; exit 4"

    async def main() -> None:
        with anyio.fail_after(20):
            async with started(tmp_path, *sh(script), limits=Limits(linger_s=0.2)) as running:
                got = await all_lines(running)
                assert len(got) > 10
                assert set(got) <= {b"y", b""}
                assert running.exit.code == 4

    anyio.run(main)


def test_5_mb_of_stderr_do_not_block_it(tmp_path: Path) -> None:
    async def main() -> None:
        script = "import sys; sys.stderr.write('e' * 5_000_000 + 'END'); print('done')"
        with anyio.fail_after(20):
            async with started(tmp_path, *py(script)) as running:
                assert await all_lines(running) == [b"done"]
        assert len(running.exit.stderr) == 64 * 1024
        assert running.exit.stderr.endswith("eEND")

    anyio.run(main)


def test_stderr_stays_bounded_and_keeps_its_end(tmp_path: Path) -> None:
    script = """
import sys, time
for n in range(20):
    sys.stderr.write(f'{n} ' + 'e' * 2_000_000 + '\\n'); sys.stderr.flush(); time.sleep(0.1)
sys.stderr.write('the end\\n')
"""

    async def main() -> None:
        async with started(tmp_path, *py(script)) as running:
            await all_lines(running)
        assert running.exit.stderr.endswith("e\nthe end\n")

    anyio.run(main)
    (size,) = (path.stat().st_size for path in tmp_path.glob("run*/stderr"))
    assert size < 16 * 1024 * 1024


def test_stderr_that_is_not_utf8(tmp_path: Path) -> None:
    async def main() -> None:
        async with started(tmp_path, *sh(r"printf '\377bad\n' >&2")) as running:
            await all_lines(running)
        assert running.exit.stderr == "�bad\n"

    anyio.run(main)


# --- what it is given --------------------------------------------------------------------------------


def test_10_mb_of_stdin_while_it_writes(tmp_path: Path) -> None:
    prompt = (b"x" * 99 + b"\n") * 100_000

    async def main() -> None:
        with anyio.fail_after(30):
            async with started(tmp_path, "cat", stdin=prompt) as running:
                got = await all_lines(running)
        assert b"\n".join(got) + b"\n" == prompt
        assert running.exit.code == 0

    anyio.run(main)


@pytest.mark.parametrize(
    "script", ["echo unread", "exec <&-; echo unread; sleep 0.2", "head -c 10 >/dev/null; echo unread"]
)
def test_a_process_that_does_not_want_its_stdin(tmp_path: Path, script: str) -> None:
    async def main() -> None:
        with anyio.fail_after(10):
            async with started(tmp_path, *sh(script), stdin=b"x" * 10_000_000) as running:
                assert await all_lines(running) == [b"unread"]
                assert running.exit.code == 0

    anyio.run(main)


def test_an_outsider_that_inherits_an_unread_stdin_does_not_hold_up_send(tmp_path: Path) -> None:
    async def main() -> int:
        with anyio.fail_after(10):
            argv = sh("exec 3<&0; setsid sh -c 'echo $$ > pid; exec sleep 60' <&3 & sleep 0.3; echo done")
            async with started(tmp_path, *argv, stdin=b"x" * 1_000_000, hold=True) as running:
                await running.send(b"never read")
                assert await all_lines(running) == [b"done"]
        return await read_number(tmp_path / "pid")

    outsider = anyio.run(main)
    assert lives(outsider)
    os.kill(outsider, signal.SIGKILL)


def test_a_held_stdin_takes_lines_until_it_is_closed(tmp_path: Path) -> None:
    async def main() -> None:
        with anyio.fail_after(10):
            async with started(
                tmp_path, *sh("while read x; do echo got $x; done; echo end"), stdin=b"a\n", hold=True
            ) as running:
                await running.send(b"b")
                lines = running.lines()
                assert [await anext(lines), await anext(lines)] == [b"got a", b"got b"]
                await running.send(b"c\n")
                assert await anext(lines) == b"got c"
                await running.close_stdin()
                assert [line async for line in lines] == [b"end"]
                await running.send(b"too late")
                assert running.exit.code == 0

    anyio.run(main)


def test_close_stdin_waits_for_what_was_sent(tmp_path: Path) -> None:
    async def main() -> None:
        with anyio.fail_after(20):
            async with started(
                tmp_path, *sh("sleep 0.3; wc -c"), stdin=b"x" * 1_000_000, hold=True
            ) as running:
                await running.send(b"y" * 999_999)
                await running.close_stdin()
                assert int((await all_lines(running))[0]) == 2_000_000

    anyio.run(main)


def test_close_stdin_at_once_loses_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with started(tmp_path, "cat", stdin=b"the prompt\n", hold=True) as running:
            await running.close_stdin()
            assert await all_lines(running) == [b"the prompt"]

    anyio.run(main)


def test_finish_lets_it_go_and_ends_it_if_it_stays(tmp_path: Path) -> None:
    async def main(script: str) -> Running:
        with anyio.fail_after(10):
            async with started(tmp_path, *sh(script), hold=True, limits=Limits(finish_s=0.3)) as running:
                async for _ in running.lines():
                    await running.finish()
        return running

    assert anyio.run(main, "echo bye; cat; exit 5").exit.code == 5
    stayed = anyio.run(main, "echo bye; exec sleep 60").exit
    assert (stayed.code, stayed.ended_by) == (-signal.SIGTERM, None)


def test_environment_directory_and_mark(tmp_path: Path) -> None:
    async def main() -> None:
        (tmp_path / "work").mkdir()
        command = Command(
            argv=sh('pwd; echo "$ONE $TWO $SEGUE_MARK ${HOME-none}"'),
            cwd=tmp_path / "work",
            env={"TWO": "2"},
        )
        async with launch(command, env={**ENV, "ONE": "1"}, run_dir=tmp_path / RUN) as running:
            where, values = await all_lines(running)
        assert where.decode() == str(tmp_path / "work")
        assert values.decode() == f"1 2 {RUN} none"

    anyio.run(main)
    assert process_mark(tmp_path / RUN) == RUN


def test_process_json_and_modes(tmp_path: Path) -> None:
    async def main() -> None:
        run_dir = tmp_path / "deep" / RUN
        async with launch(
            Command(argv=("sleep", "30"), cwd=tmp_path), env=ENV, run_dir=run_dir, limits=SOON
        ) as running:
            noted = json.loads((run_dir / "process.json").read_bytes())
            assert noted["pid"] == noted["pgid"] == running.pid
            assert noted["argv0"] == "sleep"
            assert noted["start_time"] == processes.start_time(running.pid) is not None
            assert noted["boot_id"] == processes.boot_id()
            assert abs(noted["started_ms"] / 1000 - time.time()) < 60
            assert os.getpgid(running.pid) == os.getsid(running.pid) == running.pid
        assert stat.S_IMODE(run_dir.stat().st_mode) == 0o700
        files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in run_dir.iterdir()}
        assert files == {"stdout": 0o600, "stderr": 0o600, "process.json": 0o600}

    anyio.run(main)


# --- how it is ended ---------------------------------------------------------------------------------


def test_cancel_lets_it_clean_up(tmp_path: Path) -> None:
    async def main() -> None:
        script = "trap 'echo cleaned; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
        async with started(tmp_path, *sh(script)) as running:
            lines = running.lines()
            assert await anext(lines) == b"ready"
            running.cancel()
            assert b"cleaned" in [line async for line in lines]
            assert (running.exit.code, running.exit.ended_by) == (0, "cancelled")

    anyio.run(main)


IGNORES = "trap '' TERM; echo ready; while :; do sleep 0.05; done"


def test_who_ignores_term_is_killed_after_the_grace(tmp_path: Path) -> None:
    async def main() -> float:
        async with started(tmp_path, *sh(IGNORES), limits=Limits(grace_s=0.5)) as running:
            lines = running.lines()
            await anext(lines)
            begun = time.monotonic()
            running.cancel()
            assert [line async for line in lines] == []
            assert (running.exit.code, running.exit.ended_by) == (-signal.SIGKILL, "cancelled")
            return time.monotonic() - begun

    assert 0.4 < anyio.run(main) < 3


def test_the_second_cancel_kills_at_once(tmp_path: Path) -> None:
    async def main() -> float:
        async with started(tmp_path, *sh(IGNORES), limits=Limits(grace_s=60)) as running:
            lines = running.lines()
            await anext(lines)
            running.cancel()
            await anyio.sleep(0.1)
            begun = time.monotonic()
            running.cancel()
            assert [line async for line in lines] == []
            assert running.exit.code == -signal.SIGKILL
        return time.monotonic() - begun

    assert anyio.run(main) < 3


def test_time_limit(tmp_path: Path) -> None:
    async def main() -> None:
        async with started(tmp_path, *sh("echo on; exec sleep 60"), limits=Limits(time_s=0.3)) as running:
            assert await all_lines(running) == [b"on"]
            assert (running.exit.code, running.exit.ended_by) == (-signal.SIGTERM, "timeout")

    anyio.run(main)


def test_cancel_after_the_end_changes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with started(tmp_path, "true", limits=Limits(time_s=0.2)) as running:
            await all_lines(running)
            running.cancel()
            await anyio.sleep(0.3)
        assert (running.exit.code, running.exit.ended_by) == (0, None)

    anyio.run(main)


def test_the_whole_group_is_ended(tmp_path: Path) -> None:
    async def main() -> None:
        deaf = "(trap '' TERM; sleep 60 & sh -c 'echo $$ > pid; exec sleep 60'; sleep 60) & exec sleep 60"
        async with started(tmp_path, *sh(deaf), limits=SOON) as running:
            grandchild = await read_number(tmp_path / "pid")
            assert lives(grandchild)
            assert len(members(running.pid)) >= 3
            running.cancel()
            await all_lines(running)
        assert not lives(grandchild)

    anyio.run(main)


def test_who_lingers_in_the_group_is_ended_after_a_normal_end(tmp_path: Path) -> None:
    async def main() -> None:
        script = (
            "(trap '' TERM; echo $$ > leader; sh -c 'echo $$ > pid; exec sleep 60'; sleep 60) & sleep 0.3"
        )
        async with started(tmp_path, *sh(script), limits=Limits(exit_grace_s=0.1, linger_s=0.2)) as running:
            await all_lines(running)
            assert running.exit.code == 0
            lingering = await read_number(tmp_path / "pid")
        assert not lives(lingering)

    anyio.run(main)


SETSID = "setsid sh -c 'echo $$ > pid; exec sleep 60' & "


@pytest.mark.skipif(not processes.HAS_PROC, reason="only /proc shows who carries the mark")
@pytest.mark.parametrize("how", ["cancelled", "timeout", "killed"])
def test_who_left_the_group_is_ended_with_a_turn_that_was(tmp_path: Path, how: str) -> None:
    async def main() -> int:
        limits = Limits(time_s=0.7 if how == "timeout" else None, grace_s=0.3, linger_s=0.3)
        async with started(tmp_path, *sh(SETSID + "exec sleep 60"), limits=limits) as running:
            outsider = await read_number(tmp_path / "pid")
            assert os.getpgid(outsider) != running.pid
            if how == "cancelled":
                running.cancel()
            elif how == "killed":
                os.kill(running.pid, signal.SIGKILL)
            await all_lines(running)
            assert running.exit.ended_by == (None if how == "killed" else how)
        return outsider

    assert not lives(anyio.run(main))


def test_who_left_the_group_stays_after_a_normal_end(tmp_path: Path) -> None:
    async def main() -> int:
        async with started(tmp_path, *sh(SETSID + "sleep 0.3")) as running:
            await all_lines(running)
        return await read_number(tmp_path / "pid")

    outsider = anyio.run(main)
    assert lives(outsider)
    os.kill(outsider, signal.SIGKILL)


def test_the_mark_of_another_run_is_left_alone(tmp_path: Path) -> None:
    other = subprocess.Popen(["sleep", "60"], env={**ENV, MARK: process_mark(tmp_path / f"{RUN}-other")})
    try:

        async def main() -> None:
            async with started(tmp_path, "sleep", "60", limits=SOON) as running:
                running.cancel()
                await all_lines(running)

        anyio.run(main)
        assert other.poll() is None
        assert marked_processes(process_mark(tmp_path / f"{RUN}-other")) == (
            [other.pid] if processes.HAS_PROC else []
        )
    finally:
        other.kill()
        other.wait()


def test_an_exception_in_the_block_comes_out_as_it_is_and_ends_the_group(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(KeyError, match="mine"):
            async with started(tmp_path, *sh("sleep 60 & sleep 60"), limits=SOON):
                raise KeyError("mine")

    anyio.run(main)


@pytest.mark.parametrize("script", ["sleep 60 & exec sleep 60", IGNORES])
def test_a_cancelled_task_ends_the_group(tmp_path: Path, script: str) -> None:
    async def main() -> Running:
        with anyio.move_on_after(0.4) as scope:
            async with started(tmp_path, *sh(script), limits=SOON) as running:
                await all_lines(running)
        assert scope.cancelled_caught
        return running

    assert anyio.run(main).exit.ended_by == "cancelled"


def test_leaving_early_ends_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with started(tmp_path, *sh("while echo x; do sleep 0.01; done"), limits=SOON) as running:
            async for _ in running.lines():
                break
        assert running.exit.ended_by == "cancelled"

    anyio.run(main)


def test_without_proc_the_group_is_ended_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way of macOS: ``ps`` answers."""
    monkeypatch.setattr(processes, "HAS_PROC", False)

    async def main() -> None:
        async with started(tmp_path, *sh("sleep 60 & echo $! > pid; " + IGNORES), limits=SOON) as running:
            assert processes.start_time(running.pid)
            grandchild = await read_number(tmp_path / "pid")
            running.cancel()
            await all_lines(running)
        assert not lives(grandchild)

    anyio.run(main)


@pytest.mark.parametrize("has_proc", [processes.HAS_PROC, False])
def test_a_group_of_zombies_is_gone(monkeypatch: pytest.MonkeyPatch, has_proc: bool) -> None:
    monkeypatch.setattr(processes, "HAS_PROC", has_proc)
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        group = ProcessGroup(process.pid)
        assert group.alive()
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not group.alive()


def test_many_at_once(tmp_path: Path) -> None:
    async def one(n: int) -> None:
        async with started(tmp_path, *sh(f"cat; echo {n}"), stdin=b"in\n") as running:
            assert await all_lines(running) == [b"in", str(n).encode()]

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for n in range(20):
                tasks.start_soon(one, n)

    before = len(os.listdir("/dev/fd"))
    anyio.run(main)
    time.sleep(0.3)
    assert len(os.listdir("/dev/fd")) <= before


# --- what cannot be started --------------------------------------------------------------------------


def script_file(path: Path, text: str, mode: int) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda d: Command(argv=("no-such-agent",), cwd=d), NotInstalled, "no-such-agent was not found"),
        (lambda d: Command(argv=(str(d / "none"),), cwd=d), NotInstalled, "none was not found"),
        (
            lambda d: Command(argv=(script_file(d / "x", "#!/bin/sh\n", 0o600),), cwd=d),
            NotInstalled,
            "Permission denied",
        ),
        (
            lambda d: Command(argv=(script_file(d / "x", "#!/no/such\n", 0o700),), cwd=d),
            NotInstalled,
            "interpreter",
        ),
        (lambda d: Command(argv=(script_file(d / "x", "\x7fnot", 0o700),), cwd=d), NotInstalled, "format"),
        (lambda d: Command(argv=("true",), cwd=d / "gone"), Misuse, "gone does not exist"),
        (lambda d: Command(argv=("true", "x" * 3_000_000), cwd=d), Misuse, "too long"),
        (lambda d: Command(argv=("true", "a\0b"), cwd=d), Misuse, "NUL"),
    ],
)
@pytest.mark.parametrize("start", [anyio.run, lambda main: begin(main())], ids=["in a loop", "before it"])
def test_what_cannot_be_started_says_why_in_one_line(
    tmp_path: Path,
    make: Callable[[Path], Command],
    error: type[Misuse],
    says: str,
    start: Callable[[Callable[[], Coroutine[None, None, None]]], object],
) -> None:
    async def main() -> None:
        async with launch(make(tmp_path), env=ENV, run_dir=tmp_path / RUN):
            pytest.fail("it started")

    with pytest.raises(error, match=says) as caught:
        start(main)
    assert type(caught.value) is error
    assert "\n" not in str(caught.value)
    assert list((tmp_path / RUN).iterdir()) == []


def test_a_run_directory_serves_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with launch(
            Command(argv=("echo", "one"), cwd=tmp_path), env=ENV, run_dir=tmp_path / RUN
        ) as running:
            await all_lines(running)
        with pytest.raises(Broken, match="another run"):
            async with launch(Command(argv=("echo", "two"), cwd=tmp_path), env=ENV, run_dir=tmp_path / RUN):
                pass

    anyio.run(main)
    assert (tmp_path / RUN / "stdout").read_text() == "one\n"
