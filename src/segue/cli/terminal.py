"""The screen on a terminal: what is finished scrolls by, what goes on is drawn below it, over and over."""

from __future__ import annotations

import os
import time
import unicodedata
from typing import TextIO

from segue.cli import words
from segue.cli.screen import plain_line
from segue.core import events as ev
from segue.core.reading import Reading

DIM, PLAIN = "\x1b[2m", "\x1b[0m"
PENDING_SHOWN = 4


class Live:
    """Text as it streams, one line per tool call, and a status line that is alive below them."""

    def __init__(self, out: TextIO, title: str, *, answer_here: bool) -> None:
        self._out = out
        self._title = title
        self._reading = Reading()
        self._began = time.monotonic()
        self._partial = ""
        self._spoken = ""
        self._pending: dict[str, tuple[str, float]] = {}
        self._drawn = 0
        self._answer_here = answer_here
        self._closed = False

    @property
    def shown(self) -> bool:
        return self._answer_here and bool(self._spoken) and self._spoken == self._reading.answer

    def event(self, event: ev.Event) -> None:
        self._reading.add(event)
        match event:
            case ev.TextDelta():
                self._spoken += event.text
                self._say(event.text)
            case ev.Text() if not self._spoken.endswith(event.text):
                self._spoken = event.text
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
        if self._closed:
            return
        width = self._width()
        now = time.monotonic()
        running = [
            f"{DIM}{cut(f'{line} … {now - began:.0f} s', width - 1)}{PLAIN}"
            for line, began in list(self._pending.values())[-PENDING_SHOWN:]
        ]
        lines = [*([self._partial] if self._partial else []), *running, self._status(width)]
        self._erase()
        self._out.write("\n".join(lines))
        self._drawn = len(lines)
        self._out.flush()

    def note(self, line: str) -> None:
        self._write(DIM + line + PLAIN)

    def close(self) -> None:
        """Leave the terminal as one would expect it: everything said, nothing drawn."""
        for line, _ in self._pending.values():
            self._write(DIM + line + PLAIN)
        self._pending.clear()
        self._end_line()
        self._erase()
        self._closed = True
        self._out.flush()

    def _call(self, event: ev.ToolCall) -> None:
        self._end_line()
        self._spoken = ""
        line = "  ├ " + words.tool(event.name, event.input, self._width() - 30)
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
        gap = " " * max(width - columns(self._title) - len(right) - 3, 1)
        return DIM + cut(f"● {self._title}{gap}{right}", width - 1) + PLAIN

    def _say(self, text: str) -> None:
        """Whole screen lines are written for good; the rest waits in what is drawn."""
        self._erase()
        width = self._width()
        *whole, self._partial = (self._partial + text).split("\n")
        for line in whole:
            self._out.write(line + "\n")
        while columns(self._partial) >= width:
            head = cut(self._partial, width)
            self._out.write(head + "\n")
            self._partial = self._partial[len(head) :]
        self.tick()

    def _write(self, line: str) -> None:
        self._end_line()
        self._erase()
        self._out.write(line + "\n")
        self.tick()
        self._out.flush()

    def _end_line(self) -> None:
        if self._partial:
            self._erase()
            self._out.write(self._partial + "\n")
            self._partial = ""

    def _erase(self) -> None:
        if self._drawn:
            self._out.write("\r\x1b[K" + "\x1b[A\r\x1b[K" * (self._drawn - 1))
            self._drawn = 0

    def _width(self) -> int:
        """At least wide enough to draw on; a terminal that does not say is taken for 80."""
        return max(os.get_terminal_size(self._out.fileno()).columns or 80, 20)


def columns(text: str) -> int:
    """How many columns the text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else not unicodedata.combining(c) for c in text)


def cut(text: str, width: int) -> str:
    """The longest beginning of the text that fits the width."""
    if text.isascii():
        return text[:width]
    end = 0
    while end < len(text) and columns(text[: end + 1]) <= width:
        end += 1
    return text[: max(end, 1)]
