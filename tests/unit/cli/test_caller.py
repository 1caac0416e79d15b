"""Where the prompt comes from, with real pipes and sockets on stdin."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import pytest

GATHER = (
    "import sys; from segue.cli import caller; caller.SILENCE_S = 0.7;"
    "sys.stdout.write(caller.gather_prompt(*sys.argv[1:] or [None]))"
)
SHOW = (
    "import sys\nfrom segue.cli.caller import gather_prompt\nfrom segue.core.errors import Misuse\n"
    "try: gather_prompt('text')\nexcept Misuse as error: print(error)"
)
WAITING = "segue: waiting for piped input (add </dev/null if there is none)\n"


def start(stdin: int | IO[bytes], *args: str, code: str = GATHER) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *args],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def hear_waiting(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    assert process.stderr.read(len(WAITING)) == WAITING


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_a_slow_writer_is_waited_for_and_that_is_said_once(kind: str) -> None:
    """``make test | segue run k "what failed?"``: the tests take longer than anybody's patience."""
    if kind == "pipe":
        reading, writing = os.pipe()
    else:
        reading, writing = (end.detach() for end in socket.socketpair())
    process = start(reading, "what failed?")
    os.close(reading)
    hear_waiting(process)
    os.write(writing, b"two tests ")
    time.sleep(1.0)
    os.write(writing, b"failed")
    os.close(writing)
    assert process.communicate(timeout=60) == ("what failed?\n\ntwo tests failed", "")


def test_a_writer_that_pauses_in_between_is_waited_for_too() -> None:
    process = start(subprocess.PIPE, "what failed?")
    assert process.stdin is not None
    process.stdin.write("first ")
    process.stdin.flush()
    hear_waiting(process)
    assert process.communicate("second", timeout=60) == ("what failed?\n\nfirst second", "")


@pytest.mark.parametrize(("args", "prompt"), [(("hi",), "hi\n\npiped"), ((), "piped")])
def test_what_is_there_already_is_taken_in_silence(args: tuple[str, ...], prompt: str) -> None:
    assert start(subprocess.PIPE, *args).communicate("piped", timeout=60) == (prompt, "")


def test_nothing_is_waited_for_where_nothing_can_come() -> None:
    assert start(subprocess.DEVNULL, "hi").communicate(timeout=60) == ("hi", "")


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "diff").write_text("x" * 3_000_000)
    with (tmp_path / "diff").open("rb") as file:
        stdout, stderr = start(file, "review").communicate(timeout=60)
    assert (stdout, stderr) == ("review\n\n" + "x" * 3_000_000, "")


def test_a_stdin_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with (tmp_path / "written").open("wb") as file:
        stdout, stderr = start(file, code=SHOW).communicate(timeout=60)
    assert (stdout, stderr) == ("cannot read stdin: Bad file descriptor\n", "")
