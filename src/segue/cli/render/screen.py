"""What the user sees on stderr while a turn runs. On a terminal, what is finished scrolls by and what is in
progress is drawn below it; elsewhere, plain lines are printed."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from typing import Protocol, TextIO

from segue.cli.render import words
from segue.cli.render.output import DIM, PLAIN, Canvas, harmless, say
from segue.cli.render.table import columns, fitted, joined, wrap_rows
from segue.core import events as ev
from segue.core.stream import TurnState
from segue.core.turn import PARKED
from segue.core.usage import tokens_in_words

PENDING_SHOWN = 4
NOTE_INDENT = 3


class Screen(Protocol):
    """Shows events as they come."""

    @property
    def shown(self) -> bool:
        """Whether the whole answer is on the terminal already."""
        ...

    def set_title(self, title: str) -> None:
        """Set the title of the status line."""
        ...

    def event(self, event: ev.Event) -> None: ...
    def tick(self) -> None: ...
    def note(self, line: str) -> None:
        """Print a line from Segue."""
        ...

    def pause(self) -> None:
        """Draw nothing until ``unpause``: the user is asked a question."""
        ...

    def unpause(self) -> None: ...
    def close(self) -> None: ...


def open_screen(title: str, *, quiet: bool, answer_on_stdout: bool) -> Screen:
    """The screen that suits stderr."""
    if quiet:
        return Silent()
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return Live(sys.stderr, title, answer_here=answer_on_stdout and sys.stdout.isatty())
    return Lines()


class Silent:
    """``--quiet``: errors only, and those are printed by others."""

    shown = False

    def set_title(self, title: str) -> None: ...
    def event(self, event: ev.Event) -> None: ...
    def tick(self) -> None: ...
    def note(self, line: str) -> None: ...
    def pause(self) -> None: ...
    def unpause(self) -> None: ...
    def close(self) -> None: ...


class Lines:
    """Plain lines, for pipes and logs."""

    shown = False

    def set_title(self, title: str) -> None: ...

    def event(self, event: ev.Event) -> None:
        line = plain_line(event)
        if line:
            self.note(line)

    def tick(self) -> None: ...

    def note(self, line: str) -> None:
        with suppress(OSError):  # a closed stderr must not affect the answer
            say(line, err=True)

    def pause(self) -> None: ...
    def unpause(self) -> None: ...
    def close(self) -> None: ...


def show_notice(screen: Screen, title: str, text: str) -> None:
    """Print a notice. While the turn is parked, the status line says until when."""
    screen.note(f"segue: {text}")
    if text.startswith(PARKED):
        screen.set_title(f"{title} · {text.partition(': ')[0]}")


def plain_line(event: ev.Event) -> str:
    """The one line an event is worth, or nothing."""
    match event:
        case ev.ToolCall():
            return "  ├ " + words.tool(event.name, event.input)
        case ev.ToolResult(denied=True):
            return "  │ refused: not allowed in this turn"
        case ev.ToolResult(ok=False):
            return "  │ " + words.result(event.exit_code, event.output)
        case ev.Retry():
            return "  │ " + words.waiting(event)
        case ev.Compacted():
            return "  │ the agent replaced its history with a summary"
        case ev.Notice():
            return "  │ " + words.tool("", event.text)
        case ev.Question():
            return "  │ the agent asks a question, but nobody can answer here; it continues without an answer"
        case ev.Permission():
            call = words.tool(event.tool, event.input, 80)
            return f"  │ it is not allowed to use {call}; see --permission and --allow-tool"
    return ""


class Live:
    """Text as it streams, one line per tool call, and a status line below them that is updated.

    If the terminal is gone, nothing is written.
    """

    def __init__(self, out: TextIO, title: str, *, answer_here: bool) -> None:
        self._canvas = Canvas(out, beside=(1,) if answer_here else ())
        self._title = title
        self._reading = TurnState()
        self._began = self._heard = time.monotonic()
        self._waits = False
        self._partial = ""
        self._spoken: list[str] = []
        self._pending: dict[str, tuple[str, float]] = {}
        self._answer_here = answer_here
        self._closed = False
        self._paused = False

    @property
    def shown(self) -> bool:
        spoken = "".join(self._spoken)
        return self._answer_here and bool(spoken) and spoken == self._reading.answer

    def set_title(self, title: str) -> None:
        self._title = title

    def event(self, event: ev.Event) -> None:
        self._reading.add(event)
        self._heard, self._waits = time.monotonic(), isinstance(event, ev.Retry)
        match event:
            case ev.TextDelta():
                self._spoken.append(event.text)
                self._said(event.text)
            case ev.Text() if not "".join(self._spoken).endswith(event.text):
                self._spoken = [event.text]
                self._said(event.text)
            case ev.ToolCall():
                self._call(event)
            case ev.ToolResult() if event.id in self._pending:
                self._result(event)
            case _:
                line = plain_line(event)
                if line:
                    self._write(DIM + line + PLAIN)

    def tick(self) -> None:
        """Draw what is in progress: the unfinished line of text, the running tools, the status."""
        if self._closed or self._paused:
            return
        width = self._canvas.width
        now = time.monotonic()
        running = [
            DIM + _beside(line, f" … {now - began:.0f} s", width - 1) + PLAIN
            for line, began in list(self._pending.values())[-PENDING_SHOWN:]
        ]
        self._say("", width)  # the terminal may be narrower than it was
        partial = [self._partial] if self._partial else []
        self._canvas.draw([*partial, *running, self._status(width)])

    def note(self, line: str) -> None:
        """Print a line from Segue. If it does not fit, it is wrapped between its parts."""
        for each in joined(line.split(" · "), self._canvas.width, NOTE_INDENT):
            self._write(DIM + each + PLAIN)

    def pause(self) -> None:
        self._end_line()
        self._canvas.erase()
        self._paused = True
        self._canvas.flush()

    def unpause(self) -> None:
        self._paused = False

    def close(self) -> None:
        """Write everything that is pending, and erase what is drawn."""
        for line, _ in self._pending.values():
            self._write(DIM + line + PLAIN)
        self._pending.clear()
        self._end_line()
        self._canvas.erase()
        self._closed = True
        self._canvas.flush()

    def _call(self, event: ev.ToolCall) -> None:
        self._end_line()
        self._spoken = []
        line = "  ├ " + words.tool(event.name, event.input, max(self._canvas.width - 30, 10))
        self._pending[event.id] = (line, time.monotonic())
        self.tick()

    def _result(self, event: ev.ToolResult) -> None:
        line, began = self._pending.pop(event.id)
        took = words.seconds(int((time.monotonic() - began) * 1000))
        state = "refused" if event.denied else "" if event.ok else words.exited(event.exit_code)
        right = " · ".join(part for part in (state, took) if part)
        gap = " " * max(self._canvas.width - columns(line) - columns(right) - 1, 1)
        self._write(f"{DIM}{line}{gap}{right}{PLAIN}")

    def _status(self, width: int) -> str:
        usage = self._reading.usage
        now = time.monotonic()
        quiet = words.quiet(now - self._heard, self._waits) if not self._pending else ""
        spent = "  " + (f"{quiet} · " if quiet else "") + words.clock(int(now - self._began))
        if usage.prompt is not None:
            spent += f" · {tokens_in_words(usage.prompt)} in · {tokens_in_words(usage.output)} out"
        return DIM + _beside(f"● {self._title}", spent, width - 1) + PLAIN

    def _said(self, text: str) -> None:
        self._say(text, self._canvas.width)
        self.tick()

    def _say(self, text: str, width: int) -> None:
        """Write full screen lines permanently, and draw the rest."""
        *whole, last = (self._partial + harmless(text)).expandtabs().split("\n")
        *full, self._partial = wrap_rows(last, width)
        if whole or full:
            self._canvas.write("".join(line + "\n" for line in (*whole, *full)))

    def _write(self, line: str) -> None:
        self._end_line()
        self._canvas.write(line + "\n")
        self.tick()
        self._canvas.flush()

    def _end_line(self) -> None:
        if self._partial:
            self._canvas.write(self._partial + "\n")
            self._partial = ""


def _beside(left: str, right: str, width: int) -> str:
    """Both parts; the left one is cut if they do not fit. They are not aligned to the right edge: the shorter
    a line is, the narrower a terminal can become without wrapping it."""
    return fitted(fitted(left, max(width - columns(right), width // 2, 1)) + right, width)
