"""The screen on a terminal: what is finished scrolls by, what goes on is drawn below it, over and over."""

from __future__ import annotations

import os
import time
import unicodedata
from collections.abc import Iterator
from typing import TextIO

from segue.cli import words
from segue.cli.screen import plain_line
from segue.core import events as ev
from segue.core.reading import Reading

DIM, PLAIN = "\x1b[2m", "\x1b[0m"
PENDING_SHOWN = 4
NARROWEST = 4
TYPED = 3
"""Columns left free behind the status line: a terminal writes ``^C`` there, and must not begin a new row."""
MARKS_PER_COLUMN = 8
"""So many characters that take no column may stand in one; then a line is full."""


class Live:
    """Text as it streams, one line per tool call, and a status line that is alive below them.

    What agents say is made harmless before it is written. Where the terminal has gone, nothing is.
    """

    def __init__(self, out: TextIO, title: str, *, answer_here: bool) -> None:
        self._out = out
        self._title = title
        self._reading = Reading()
        self._began = time.monotonic()
        self._partial = ""
        self._spoken: list[str] = []
        self._pending: dict[str, tuple[str, float]] = {}
        self._drawn = 0
        self._answer_here = answer_here
        self._closed = False
        self._paused = False

    @property
    def shown(self) -> bool:
        spoken = "".join(self._spoken)
        return self._answer_here and bool(spoken) and spoken == self._reading.answer

    def entitle(self, title: str) -> None:
        self._title = title

    def event(self, event: ev.Event) -> None:
        self._reading.add(event)
        match event:
            case ev.TextDelta():
                self._spoken.append(event.text)
                self._say(event.text)
            case ev.Text() if not "".join(self._spoken).endswith(event.text):
                self._spoken = [event.text]
                self._say(event.text)
            case ev.ToolCall():
                self._call(event)
            case ev.ToolResult() if event.id in self._pending:
                self._result(event)
            case _:
                line = plain_line(event)
                if line:
                    self._write(DIM + line + PLAIN)

    def tick(self) -> None:
        """Draw what goes on: the unfinished line of text, the running tools, the status."""
        if self._closed or self._paused:
            return
        width = self._width()
        now = time.monotonic()
        running = [
            f"{DIM}{cut(f'{line} … {now - began:.0f} s', width - 1)}{PLAIN}"
            for line, began in list(self._pending.values())[-PENDING_SHOWN:]
        ]
        partial = [cut(self._partial, width)] if self._partial else []
        lines = [*partial, *running, self._status(width)]
        self._erase()
        self._put("\n".join(lines))
        self._drawn = len(lines)
        self._flush()

    def note(self, line: str) -> None:
        self._write(DIM + words.harmless(line) + PLAIN)

    def pause(self) -> None:
        self._end_line()
        self._erase()
        self._paused = True
        self._flush()

    def go_on(self) -> None:
        self._paused = False

    def close(self) -> None:
        """Leave the terminal as one would expect it: everything said, nothing drawn."""
        for line, _ in self._pending.values():
            self._write(DIM + line + PLAIN)
        self._pending.clear()
        self._end_line()
        self._erase()
        self._closed = True
        self._flush()

    def _call(self, event: ev.ToolCall) -> None:
        self._end_line()
        self._spoken = []
        line = "  ├ " + words.tool(event.name, event.input, max(self._width() - 30, 10))
        self._pending[event.id] = (line, time.monotonic())
        self.tick()

    def _result(self, event: ev.ToolResult) -> None:
        line, began = self._pending.pop(event.id)
        took = words.seconds(int((time.monotonic() - began) * 1000))
        state = "refused" if event.denied else "" if event.ok else words.exited(event.exit_code)
        right = " · ".join(part for part in (state, took) if part)
        gap = " " * max(self._width() - columns(line) - len(right) - 1, 1)
        self._write(f"{DIM}{line}{gap}{right}{PLAIN}")

    def _status(self, width: int) -> str:
        usage = self._reading.usage
        right = words.clock(int(time.monotonic() - self._began))
        if usage.prompt is not None:
            right += f" · {words.tokens(usage.prompt)} in · {words.tokens(usage.output)} out"
        gap = " " * max(width - columns(self._title) - len(right) - 2 - TYPED, 1)
        return DIM + cut(f"● {self._title}{gap}{right}", max(width - TYPED, 1)) + PLAIN

    def _say(self, text: str) -> None:
        """Whole screen lines are written for good; the rest waits in what is drawn."""
        self._erase()
        *whole, last = (self._partial + words.harmless(text)).expandtabs().split("\n")
        *full, self._partial = rows(last, self._width())
        self._put("".join(line + "\n" for line in (*whole, *full)))
        self.tick()

    def _write(self, line: str) -> None:
        self._end_line()
        self._erase()
        self._put(line + "\n")
        self.tick()
        self._flush()

    def _end_line(self) -> None:
        if self._partial:
            self._erase()
            self._put(self._partial + "\n")
            self._partial = ""

    def _erase(self) -> None:
        if self._drawn:
            self._put("\r\x1b[K" + "\x1b[A\r\x1b[K" * (self._drawn - 1))
            self._drawn = 0

    def _put(self, text: str) -> None:
        try:
            self._out.write(text)
        except OSError:
            self._lose()

    def _flush(self) -> None:
        try:
            self._out.flush()
        except OSError:
            self._lose()

    def _lose(self) -> None:
        """The terminal has gone. The turn goes on, and what is still written to it leads nowhere."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for descriptor in (self._out.fileno(), *((1,) if self._answer_here else ())):
            os.dup2(nowhere, descriptor)
        os.close(nowhere)

    def _width(self) -> int:
        """At least wide enough to draw on; a terminal that does not say is taken for 80."""
        try:
            width = os.get_terminal_size(self._out.fileno()).columns
        except OSError:
            width = 0
        return max(width or 80, NARROWEST)


def columns(text: str) -> int:
    """How many columns the text takes on a terminal."""
    return len(text) if text.isascii() else sum(map(_span, text))


def cut(text: str, width: int) -> str:
    """The longest beginning of the text that fits the width."""
    return next(rows(text, width))


def rows(text: str, width: int) -> Iterator[str]:
    """The text as lines of this width; the last of them is not full."""
    if text.isascii():
        yield from (text[at : at + width] for at in range(0, len(text) - len(text) % width, width))
        yield text[len(text) - len(text) % width :]
        return
    start = used = 0
    for at, char in enumerate(text):
        span = _span(char)
        used += span
        if used > width or at - start >= width * MARKS_PER_COLUMN:
            yield text[start:at]
            start, used = at, span
    if used == width:
        yield text[start:]
        start = len(text)
    yield text[start:]


def _span(char: str) -> int:
    if char.isascii():
        return 1
    return 2 if unicodedata.east_asian_width(char) in "WF" else int(not unicodedata.combining(char))
