"""What the user sees on stderr while a turn runs: alive on a terminal, plain lines otherwise."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Protocol

from segue.cli import words
from segue.cli.output import say
from segue.core import events as ev


class Screen(Protocol):
    """Shows events as they come."""

    @property
    def shown(self) -> bool:
        """Whether the whole answer stands on the terminal already."""
        ...

    def entitle(self, title: str) -> None:
        """What the turn is called while it runs."""
        ...

    def event(self, event: ev.Event) -> None: ...
    def tick(self) -> None: ...
    def note(self, line: str) -> None:
        """A line of ours."""
        ...

    def pause(self) -> None:
        """Leave the terminal alone: somebody is asked something."""
        ...

    def go_on(self) -> None: ...
    def close(self) -> None: ...


class Silent:
    """``--quiet``: errors only, and those are printed by others."""

    shown = False

    def entitle(self, title: str) -> None: ...
    def event(self, event: ev.Event) -> None: ...
    def tick(self) -> None: ...
    def note(self, line: str) -> None: ...
    def pause(self) -> None: ...
    def go_on(self) -> None: ...
    def close(self) -> None: ...


class Lines:
    """Plain lines, for pipes and logs."""

    shown = False

    def entitle(self, title: str) -> None: ...

    def event(self, event: ev.Event) -> None:
        line = plain_line(event)
        if line:
            self.note(line)

    def tick(self) -> None: ...

    def note(self, line: str) -> None:
        with suppress(OSError):  # nobody reads our lines any more; the answer is another matter
            say(line, err=True)

    def pause(self) -> None: ...
    def go_on(self) -> None: ...
    def close(self) -> None: ...


def plain_line(event: ev.Event) -> str:
    """The one line an event is worth, or nothing."""
    match event:
        case ev.ToolCall():
            return "  ├ " + words.tool(event.name, event.input)
        case ev.ToolResult(denied=True):
            return "  │ refused: this run may not use it"
        case ev.ToolResult(ok=False):
            return "  │ " + words.result(event.exit_code, event.output)
        case ev.Retry():
            return "  │ " + words.waiting(event)
        case ev.Compacted():
            return "  │ the agent replaced its history with a summary"
        case ev.Notice():
            return "  │ " + words.tool("", event.text)
        case ev.Question():
            return "  │ the agent asks a question, but nobody can answer here; it goes on without an answer"
        case ev.Permission():
            call = words.tool(event.tool, event.input, 80)
            return f"  │ it may not use {call}; see --permission and --allow-tool"
    return ""


def open_screen(title: str, *, quiet: bool, answer_on_stdout: bool) -> Screen:
    """The right screen for where stderr leads."""
    if quiet:
        return Silent()
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        from segue.cli.terminal import Live

        return Live(sys.stderr, title, answer_here=answer_on_stdout and sys.stdout.isatty())
    return Lines()
