"""What a person sees at a terminal: driven through a real pseudo-terminal and a real screen emulation."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest

from tests.integration.conftest import SEGUE, Program

Keys = tuple[tuple[float | Path | str, bytes], ...]
"""What is typed, after so many seconds, when a file is there, or when a text was shown since the last."""


def on_terminal(segue: Program, *args: str, keys: Keys = (), columns: int = 80) -> tuple[int, str]:
    """Run it on a terminal of its own: how it ended, and what stands there."""
    code, seen = seen_on_terminal(segue, *args, keys=keys, columns=columns)
    return code, seen.decode("utf-8", "replace")


def seen_on_terminal(segue: Program, *args: str, keys: Keys = (), columns: int = 80) -> tuple[int, bytes]:
    leader, follower = pty.openpty()
    env = {**segue.env, "TERM": "xterm-256color", "COLUMNS": str(columns)}
    subprocess.run(["stty", "cols", str(columns), "rows", "24"], stdin=follower, check=True)
    process = subprocess.Popen(
        [*SEGUE, *args],
        cwd=segue.cwd,
        env=env,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(follower)
    seen, began, waiting, since = b"", time.monotonic(), list(keys), 0
    while time.monotonic() - began < 30:
        if waiting and _due(waiting[0][0], began, seen[since:]):
            since = len(seen)
            os.write(leader, waiting.pop(0)[1])
        ended = process.poll() is not None  # looked at before reading: what it wrote last is read, too
        ready, _, _ = select.select([leader], [], [], 0.1)
        if ready:
            try:
                chunk = os.read(leader, 65536)
            except OSError:
                break
            seen += chunk
        elif ended:
            break
    os.close(leader)
    return process.wait(timeout=10), seen


def _due(when: float | Path | str, began: float, shown: bytes) -> bool:
    if isinstance(when, str):
        return when.encode() in shown
    return when.exists() if isinstance(when, Path) else time.monotonic() - began > when


def left_on_screen(output: str) -> list[str]:
    """The lines that stay when all erasing is done: enough of a terminal for what we write."""
    lines, row = [""], 0
    at = 0
    while at < len(output):
        if output.startswith("\x1b[K", at):
            lines[row] = ""
            at += 3
        elif output.startswith("\x1b[A", at):
            row = max(row - 1, 0)
            at += 3
        elif output[at] == "\x1b":
            at = output.index("m", at) + 1
        elif output[at] == "\n":
            row += 1
            if row == len(lines):
                lines.append("")
            at += 1
        elif output[at] == "\r":
            at += 1
        else:
            lines[row] += output[at]
            at += 1
    return [line.rstrip() for line in lines if line.strip()]


def test_text_streams_tools_are_lines_and_the_answer_stands_once(segue: Program) -> None:
    prompt = "[[shell echo hello]][[slow 1 5]][[say one two three four five]]"
    code, output = on_terminal(segue, "run", "t1", prompt, "--agent", "rehearsal", "--permission", "full")
    screen = left_on_screen(output)
    assert code == 0
    assert sum("one two three four five" in line for line in screen) == 1
    assert any("├ shell echo hello" in line for line in screen)
    assert screen[-1].startswith("── rehearsal · fresh")
    assert "● rehearsal · fresh · t1" in output, "the status line was alive, and knew the mode"
    assert not any("●" in line for line in screen), "and it is gone in the end"


def test_a_long_line_is_not_lost_at_the_edge(segue: Program) -> None:
    words = " ".join(f"word{n}" for n in range(60))
    code, output = on_terminal(
        segue, "run", "t1", f"[[slow 1 8]][[say {words}]]", "--agent", "rehearsal", columns=40
    )
    shown = "".join(line.ljust(40) if len(line) == 39 else line for line in left_on_screen(output)[:-1])
    assert code == 0
    assert shown.replace(" ", "") == words.replace(" ", "")


def test_ctrl_c_says_what_it_does(segue: Program, tmp_path: Path) -> None:
    mark = tmp_path / "running"
    prompt = f"[[shell touch {mark}; sleep 30]]"
    code, output = on_terminal(
        segue, "run", "t1", prompt, "--agent", "rehearsal", "--permission", "full", keys=((mark, b"\x03"),)
    )
    assert code == 130
    screen = Wrapping(80).feed(output)
    assert screen[0].startswith("Cancelling… (again to kill)"), "the status line left no trace, nor did ^C"
    assert "segue: cancelled; nothing more will happen in this turn" in screen
    assert "       Nothing was lost: the message is kept as #1. " in "\n".join(screen)


EVIL = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m\x9b5A\x08\x08\x07bell\rback\x1bcreset\u202eturned"


def beside_our_own(output: str) -> list[str]:
    """The control characters in the output that are not how we draw."""
    rest = re.sub(r"\x1b\[(2m|0m|K|A)|[\r\n]", "", output)
    return re.findall(r"[\x00-\x1f\x7f-\x9f\u202e]", rest)


def test_nothing_that_a_terminal_would_obey_reaches_it(segue: Program) -> None:
    prompt = f"[[shell echo {EVIL}; exit 3]][[slow 0.5 9]][[say one {EVIL} two]]"
    code, output = on_terminal(segue, "run", "t1", prompt, "--agent", "rehearsal", "--permission", "full")
    assert code == 0
    assert beside_our_own(output) == []
    assert any("├ shell echo" in line for line in left_on_screen(output))


def test_plain_lines_are_harmless_too(segue: Program) -> None:
    prompt = f"[[shell echo '{EVIL}' >&2; exit 3]][[say done]]"
    ran = segue("run", "t1", prompt, "--agent", "rehearsal", "--permission", "full")
    assert ran.stdout == "done\n"
    assert "├ shell echo" in ran.stderr
    assert "exit 3" in ran.stderr
    assert beside_our_own(ran.stderr) == []


class Wrapping:
    """A terminal of a width, which goes on in the next row when one is full."""

    def __init__(self, width: int) -> None:
        self.width, self.rows, self.row, self.column = width, [""], 0, 0

    def feed(self, output: str) -> list[str]:
        for part in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|[\s\S]", output):
            self._one(part)
        return [line.rstrip() for line in self.rows if line.strip()]

    def _one(self, part: str) -> None:
        if part == "\x1b[K":
            self.rows[self.row] = self.rows[self.row][: self.column]
        elif part == "\x1b[A":
            self.row = max(self.row - 1, 0)
        elif part == "\r":
            self.column = 0
        elif part == "\n":
            self._down()
        elif not part.startswith("\x1b"):
            self._print(part)

    def _print(self, char: str) -> None:
        if self.column == self.width:
            self._down()
            self.column = 0
        line = self.rows[self.row].ljust(self.column)
        self.rows[self.row] = line[: self.column] + char + line[self.column + 1 :]
        self.column += 1

    def _down(self) -> None:
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append("")


@pytest.mark.parametrize("columns", [20, 8])
def test_a_narrow_terminal_shows_everything_once(segue: Program, columns: int) -> None:
    words = " ".join(f"word{n}" for n in range(12))
    prompt = f"[[shell sleep 1; echo a rather long command line]][[slow 1 9]][[say {words}]]"
    code, output = on_terminal(
        segue, "run", "t1", prompt, "--agent", "rehearsal", "--permission", "full", columns=columns
    )
    screen = Wrapping(columns).feed(output)
    assert code == 0
    everything = "".join(screen).replace(" ", "")
    assert everything.count(words.replace(" ", "")) == 1
    assert "●" not in everything, "the status line left no traces"
    assert everything.count("├") == 1


def test_a_terminal_that_changes_its_size_or_goes_away_does_no_harm(segue: Program, tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    crashes = tmp_path / "crashes"
    crashes.mkdir()
    process = subprocess.Popen(
        [
            *SEGUE,
            "run",
            "t1",
            "[[shell echo hello]][[slow 6 40]][[say one two three]]",
            "--agent",
            "rehearsal",
        ],
        cwd=segue.cwd,
        env={**segue.env, "TERM": "xterm", "TMPDIR": str(crashes)},
        stdin=subprocess.DEVNULL,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    os.close(follower)
    seen = b""
    for columns in (3, 200, 1, 40):
        fcntl.ioctl(leader, termios.TIOCSWINSZ, struct.pack("HHHH", 5, columns, 0, 0))
        seen += os.read(leader, 65536)
        time.sleep(0.3)
    os.close(leader)
    assert process.wait(timeout=30) == 0, "the turn goes on"
    assert list(crashes.iterdir()) == []
    assert "●".encode() in seen
