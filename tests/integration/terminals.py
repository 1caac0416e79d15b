"""A terminal to run the program on, and what a person would see on it."""

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
from typing import Self

from tests.integration.conftest import SEGUE, Program

PATIENCE_S = 60


Keys = tuple[tuple[float | Path | str, bytes], ...]
"""What is typed, after so many seconds, when a file is there, or when a text was shown since the last."""


def on_terminal(segue: Program, *args: str, keys: Keys = (), columns: int = 80) -> tuple[int, str]:
    """Run it on a terminal of its own: how it ended, and what it wrote there."""
    code, written = bytes_on_terminal(segue, *args, keys=keys, columns=columns)
    return code, written.decode("utf-8", "replace")


def bytes_on_terminal(segue: Program, *args: str, keys: Keys = (), columns: int = 80) -> tuple[int, bytes]:
    with Terminal(segue, *args, columns=columns) as terminal:
        began, waiting, since = time.monotonic(), list(keys), 0
        while time.monotonic() - began < PATIENCE_S:
            if waiting and _due(waiting[0][0], began, terminal.seen[since:]):
                since = len(terminal.seen)
                os.write(terminal.leader, waiting.pop(0)[1])
            if not terminal.read():
                break
        return terminal.process.wait(timeout=10), terminal.written


def _due(when: float | Path | str, began: float, shown: str) -> bool:
    if isinstance(when, str):
        return when in shown
    return when.exists() if isinstance(when, Path) else time.monotonic() - began > when


class Terminal:
    """The program on a terminal of its own, and the screen as it looks."""

    def __init__(self, segue: Program, *args: str, columns: int = 80, rows: int = 24) -> None:
        self.leader, follower = pty.openpty()
        self.screen, self.seen, self.written, self._rows = Wrapping(columns), "", b"", rows
        self._resize(columns)
        self.process = subprocess.Popen(
            [*SEGUE, *args],
            cwd=segue.cwd,
            env={**segue.env, "TERM": "xterm-256color"},
            stdin=follower,
            stdout=follower,
            stderr=follower,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(follower)
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.leader)

    def read(self, patience: float = 0.1) -> bool:
        """What it writes; False: it has ended, and nothing more will come."""
        ended = self.process.poll() is not None  # looked at before reading: what it wrote last is read, too
        if not select.select([self.leader], [], [], patience)[0]:
            return not ended
        try:
            chunk = os.read(self.leader, 65_536)
        except OSError:
            return False
        self.written += chunk
        self._rest += chunk
        text = self._rest.decode("utf-8", "ignore")
        self._rest = self._rest[len(text.encode()) :]
        self.seen += text
        self.screen.feed(text)
        return True

    def until(self, text: str, times: int = 1) -> None:
        """Read until it has written this so many times more."""
        start, began = len(self.seen), time.monotonic()
        while self.seen.count(text, start) < times:
            assert self.read() or self.seen.count(text, start) >= times, "it has ended"
            assert time.monotonic() - began < PATIENCE_S, f"no {text} came"

    def resize(self, columns: int) -> None:
        """Between two of its strokes, as a terminal does that has shown all it was given."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)
        while select.select([self.leader], [], [], 0)[0]:
            self.read()
        self._resize(columns)
        self.screen.resize(columns)
        self.process.send_signal(signal.SIGCONT)

    def _resize(self, columns: int) -> None:
        fcntl.ioctl(self.leader, termios.TIOCSWINSZ, struct.pack("HHHH", self._rows, columns, 0, 0))


def beside_our_own(output: str) -> list[str]:
    """The control characters in the output that are not how we draw."""
    rest = re.sub(r"\x1b\[(2m|0m|K|A|C|J)|[\r\n]", "", output)
    return re.findall(r"[\x00-\x1f\x7f-\x9f\u202e]", rest)


def left_on_screen(output: str) -> list[str]:
    """The lines that stay when all erasing is done, on a terminal without a right edge."""
    return Wrapping(1_000_000).feed(output)


class Wrapping:
    """A terminal of a width: it goes on in the next row when one is full, and breaks such lines anew when its
    width changes, as most terminals do. The cursor stays with the character that it stood on."""

    def __init__(self, width: int) -> None:
        self.width, self.rows, self.row, self.column = width, [""], 0, 0
        self._goes_on: set[int] = set()
        """Rows that go on in the next one."""
        self._rest = ""

    def feed(self, output: str) -> list[str]:
        """The rows that are not empty, once this is written."""
        for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\[[0-9;?]*$|\x1b$|[\s\S]", self._rest + output):
            if re.fullmatch(r"\x1b(\[[0-9;?]*)?", part):
                self._rest = part
                return self.shown
            self._one(part)
        self._rest = ""
        return self.shown

    @property
    def shown(self) -> list[str]:
        return [line.rstrip() for line in self.rows if line.strip()]

    def resize(self, width: int) -> None:
        rows: list[str] = []
        goes_on: set[int] = set()
        place = 0, 0
        for first, last in self._lines():
            line = "".join(row.ljust(self.width) for row in self.rows[first:last]) + self.rows[last]
            if first <= self.row <= last:
                at = (self.row - first) * self.width + self.column
                place = len(rows) + at // width, at % width
            cut = [line[at : at + width] for at in range(0, max(len(line), 1), width)]
            goes_on |= set(range(len(rows), len(rows) + len(cut) - 1))
            rows += cut
        self.width, self.rows, self._goes_on = width, rows, goes_on
        self.row, self.column = place
        self.rows += [""] * (self.row + 1 - len(self.rows))

    def _lines(self) -> list[tuple[int, int]]:
        """First and last row of each line."""
        ends = [at for at in range(len(self.rows)) if at not in self._goes_on]
        return list(zip([0, *(end + 1 for end in ends[:-1])], ends, strict=True))

    def _one(self, part: str) -> None:
        if part == "\x1b[K":
            self.rows[self.row] = self.rows[self.row][: self.column]
            self._goes_on.discard(self.row)
        elif part == "\x1b[J":
            self._one("\x1b[K")
            del self.rows[self.row + 1 :]
            self._goes_on = {at for at in self._goes_on if at < self.row}
        elif part == "\x1b[A":
            self.row = max(self.row - 1, 0)
        elif part == "\x1b[C":
            self.column = min(self.column + 1, self.width - 1)
        elif part == "\r":
            self.column = 0
        elif part == "\n":
            self._goes_on.discard(self.row)
            self._down()
        elif not part.startswith("\x1b"):
            self._print(part)

    def _print(self, char: str) -> None:
        if self.column == self.width:
            self._goes_on.add(self.row)
            self._down()
            self.column = 0
        line = self.rows[self.row].ljust(self.column)
        self.rows[self.row] = line[: self.column] + char + line[self.column + 1 :]
        self.column += 1

    def _down(self) -> None:
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append("")
