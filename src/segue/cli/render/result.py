"""Prints how a turn ended: the answer on stdout, everything else on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

from segue.cli.render import words
from segue.cli.render.output import answer, escaped_json, print_line, say
from segue.core.turn import Turn


class Closing(Protocol):
    """The screen that a turn was shown on."""

    @property
    def shown(self) -> bool: ...

    def note(self, text: str) -> None: ...


class Facts(NamedTuple):
    """What is printed besides the turn itself."""

    label: str
    """The agent's name in sentences."""
    model_from: str | None
    directory: str | None
    """The turn's directory, if a command that continues has to name it."""
    number: int | None
    """The n of ``#n`` of the message, if the turn failed."""


def print_result(
    turn: Turn, facts: Facts, screen: Closing, code: int, *, as_json: bool, line: bytes | None = None
) -> int:
    """Print the result and the closing line. Returns the exit code. ``line``: the turn as JSON, if known."""
    trouble = None
    if as_json:
        trouble = written(partial(print_line, line or escaped_json(turn.to_json().encode())))
    elif turn.text and not screen.shown:
        trouble = written(partial(answer, turn.text + "\n"))
    if turn.failure is not None:
        say(f"segue: {words.one_line(words.failure(turn, facts.label))}", err=True)
        say(f"       {words.next_step(turn, facts.number, facts.directory)}", err=True)
    screen.note(words.summary(turn, facts.model_from))
    if trouble is None:
        return code
    read = f"print it with: segue last {turn.conversation}"
    say(f"segue: the answer could not be written to stdout ({trouble}); {read}", err=True)
    return code or 1


def written(write: Callable[[], None]) -> str | None:
    """None, or why stdout cannot be written. ``BrokenPipeError`` is raised: the reader has gone."""
    try:
        write()
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # flushing the rest would fail, too
        return error.strerror or str(error)
    return None
