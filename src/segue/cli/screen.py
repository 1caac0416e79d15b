"""What the user sees on stderr while a turn runs: alive on a terminal, plain lines otherwise."""

from __future__ import annotations

import os
import sys
import time
import unicodedata
from typing import Protocol, TextIO

from segue.cli import words
from segue.core import events as ev
from segue.core.reading import Reading

DIM, PLAIN = "\x1b[2m", "\x1b[0m"


class Screen(Protocol):
    """Shows events as they come."""

    @property
    def shown(self) -> bool:
        """Whether the whole answer stands on the terminal already."""
        ...

    def event(self, event: ev.Event) -> None: ...
    def tick(self) -> None: ...
    def note(self, line: str) -> None: ...
    def close(self) -> None: ...


class Silent:
    """``--quiet``: errors only, and those are printed by others."""

    shown = False

    def event(self, event: ev.Event) -> None: ...
    def tick(self) -> None: ...
    def note(self, line: str) -> None: ...
    def close(self) -> None: ...


class Lines:
    """Plain lines, for pipes and logs."""

    shown = False

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def event(self, event: ev.Event) -> None:
        line = plain_line(event)
        if line:
            self.note(line)

    def tick(self) -> None: ...

    def note(self, line: str) -> None:
        print(line, file=self._out, flush=True)

    def close(self) -> None: ...


class Live:
    """A terminal: text as it streams, one line per tool call, a status line that is alive below it."""

    def __init__(self, out: TextIO, title: str, *, answer_here: bool) -> None:
        self._out = out
        self._title = title
        self._reading = Reading()
        self._began = time.monotonic()
        self._partial = ""
        self._spoken = ""
        self._drawn = 0
        self._answer_here = answer_here
        self._closed = False

    @property
    def shown(self) -> bool:
        return self._answer_here and bool(self._spoken) and self._spoken == self._reading.answer

    def event(self, event: ev.Event) -> None:
        self._reading.add(event)
        if isinstance(event, ev.TextDelta):
            self._spoken += event.text
            self._say(event.text)
        elif isinstance(event, ev.Text):
            if not self._spoken.endswith(event.text):
                self._spoken = event.text
                self._say(event.text)
        else:
            if isinstance(event, ev.ToolCall):
                self._end_line()
                self._spoken = ""
            line = plain_line(event)
            if line:
                self.note(f"{DIM}{line}{PLAIN}")

    def tick(self) -> None:
        """Draw the unfinished line of text and the status below it, over the old ones."""
        if self._closed:
            return
        width = os.get_terminal_size(self._out.fileno()).columns
        usage = self._reading.usage
        right = f"{words.clock(int(time.monotonic() - self._began))}"
        if usage.prompt is not None:
            right += f" · {words.tokens(usage.prompt)} in · {words.tokens(usage.output)} out"
        gap = max(width - len(self._title) - len(right) - 3, 1)
        status = f"{DIM}● {self._title}{' ' * gap}{right}{PLAIN}"[: width + len(DIM) + len(PLAIN) - 1]
        self._erase()
        lines = [self._partial, status] if self._partial else [status]
        self._out.write("\n".join(lines))
        self._drawn = len(lines)
        self._out.flush()

    def note(self, line: str) -> None:
        self._end_line()
        self._erase()
        self._out.write(line + "\n")
        self._out.flush()

    def close(self) -> None:
        self._end_line()
        self._erase()
        self._closed = True
        self._out.flush()

    def _say(self, text: str) -> None:
        """Whole screen lines are written for good; the rest waits in the drawn region."""
        self._erase()
        width = os.get_terminal_size(self._out.fileno()).columns
        *whole, self._partial = (self._partial + text).split("\n")
        for line in whole:
            self._out.write(line + "\n")
        while columns(self._partial) >= width:
            head = cut(self._partial, width)
            self._out.write(head + "\n")
            self._partial = self._partial[len(head) :]
        self.tick()

    def _end_line(self) -> None:
        if self._partial:
            self._erase()
            self._out.write(self._partial + "\n")
            self._partial = ""

    def _erase(self) -> None:
        if self._drawn:
            self._out.write("\r\x1b[K" + "\x1b[A\r\x1b[K" * (self._drawn - 1))
            self._drawn = 0


def plain_line(event: ev.Event) -> str:
    """The one line an event is worth, or nothing."""
    match event:
        case ev.ToolCall():
            return "  ├ " + words.tool(event.name, event.input)
        case ev.ToolResult(denied=True):
            return "  │ refused: this run may not use it"
        case ev.ToolResult(ok=False):
            code = f"exit {event.exit_code}" if event.exit_code is not None else "failed"
            return f"  │ {code}: {words.tool('', event.output, 90)}"
        case ev.Retry():
            tries = f" {event.attempt}/{event.limit}" if event.attempt and event.limit else ""
            return f"  │ trying again{tries} {event.message}".rstrip()
        case ev.Compacted():
            return "  │ the agent replaced its history by a summary"
        case ev.Notice():
            return "  │ " + words.tool("", event.text)
        case ev.Question():
            return "  │ the agent asks a question; nobody can answer here, it goes on by itself"
        case ev.Permission():
            call = words.tool(event.tool, event.input, 80)
            return f"  │ may it use {call}? no: see --permission and --allow-tool"
    return ""


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


def open_screen(title: str, *, quiet: bool, answer_on_stdout: bool) -> Screen:
    """The right screen for where stderr leads."""
    if quiet:
        return Silent()
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return Live(sys.stderr, title, answer_here=answer_on_stdout and sys.stdout.isatty())
    return Lines(sys.stderr)
