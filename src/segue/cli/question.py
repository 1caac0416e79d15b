"""Asks the agent's questions at the terminal. The answer is the number of an option, or free text."""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import anyio
import msgspec

from segue.app.ready_turn import NOBODY, REFUSED, Answer
from segue.cli.render import words
from segue.cli.render.output import harmless, say
from segue.cli.render.screen import Screen
from segue.core.events import Permission, Question

LINE_BYTES = 65_536
DENIED = "the user does not allow it."


class Option(msgspec.Struct, frozen=True):
    label: str
    description: str = ""


class Asked(msgspec.Struct, frozen=True):
    """One question, in the agents' format."""

    question: str
    options: tuple[Option, ...] = ()
    many: bool = msgspec.field(name="multiSelect", default=False)


class QuestionForm:
    """Asks the person at the terminal, one question at a time. Ctrl-C cancels the turn."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    @cached_property
    def _one(self) -> anyio.Lock:
        return anyio.Lock()  # made when it is needed: it loads asyncio

    async def __call__(self, event: Question | Permission) -> Answer:
        async with self._one:
            self._screen.pause()
            # What was typed before the question was shown is not an answer to it.
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
            try:
                return await _asked(event)
            except EOFError:
                return NOBODY if isinstance(event, Question) else REFUSED
            except anyio.get_cancelled_exc_class():
                say(
                    "\n  it is not asked any more: somebody else has answered, or the turn has ended",
                    err=True,
                )
                raise
            finally:
                self._screen.unpause()


async def _asked(event: Question | Permission) -> Answer:
    if isinstance(event, Permission):
        return await _permitted(event)
    asked = read_questions(event.questions)
    if not asked:
        return NOBODY
    answers = {each.question: await _answered(each, n, len(asked)) for n, each in enumerate(asked, 1)}
    return Answer(True, answers=answers)


async def _permitted(event: Permission) -> Answer:
    for line in permission_lines(event):
        say(line, err=True)
    while True:
        say("> ", err=True, end="")
        answer = permission_of(await _line())
        if answer is not None:
            return answer
        say("  enter y, a or n", err=True)


def permission_lines(event: Permission) -> Iterator[str]:
    """What the agent wants to do, and how to answer."""
    yield f"? May it use {words.tool(event.tool, event.input)}?"
    yield "  y  yes, this time"
    yield f"  a  always: {harmless(event.tool)} needs no permission in this conversation any more"
    yield "  n  no; a reason can follow"


def permission_of(line: str) -> Answer | None:
    """The answer in a line of input; None if it is not a valid one."""
    word, _, reason = line.strip().partition(" ")
    if word.lower() in ("y", "yes"):
        return Answer(True)
    if word.lower() in ("a", "always"):
        return Answer(True, always=True)
    if word.lower() in ("n", "no"):
        return Answer(False, reason.strip() or DENIED)
    return None


def read_questions(given: Any) -> list[Asked]:
    """The questions; none if they are not in a known format."""
    try:
        return msgspec.convert(given, list[Asked])
    except msgspec.ValidationError:
        return []


async def _answered(asked: Asked, number: int, total: int) -> str:
    for line in question_lines(asked, number, total):
        say(line, err=True)
    while True:
        say("> ", err=True, end="")
        answer = answer_of(asked, await _line())
        if answer is not None:
            return answer
        say(f"  enter a number from 1 to {len(asked.options)}, or an answer in your own words", err=True)


def question_lines(asked: Asked, number: int = 1, total: int = 1) -> Iterator[str]:
    """The question, its options, and how to answer."""
    yield f"? {harmless(asked.question)}" + (f" ({number} of {total})" if total > 1 else "")
    for n, option in enumerate(asked.options, 1):
        about = words.one_line(option.description)
        more = f": {about}" if about and about != option.label else ""
        yield f"  {n}  {words.one_line(option.label)}{more}"
    if not asked.options:
        yield "  answer in your own words"
    elif asked.many:
        yield "  one or more numbers (1, 2), or your own words; Enter chooses 1"
    else:
        yield "  a number, or your own words; Enter chooses 1"


def answer_of(asked: Asked, line: str) -> str | None:
    """The answer in a line of input; None if it is not a valid one."""
    typed, labels = line.strip(), [option.label for option in asked.options]
    if not typed:
        return labels[0] if labels else None
    numbers = typed.replace(",", " ").split()
    if not labels or not all(each.isdecimal() for each in numbers) or (len(numbers) > 1 and not asked.many):
        return typed
    chosen = [int(each) for each in numbers]
    if not all(1 <= each <= len(labels) for each in chosen):
        return None
    return ", ".join(labels[each - 1] for each in dict.fromkeys(chosen))


async def _line() -> str:
    """Read a line. The terminal allows editing it until Enter. Raises ``EOFError`` on Ctrl-D."""
    descriptor = sys.stdin.fileno()
    await anyio.wait_readable(descriptor)
    line = os.read(descriptor, LINE_BYTES)
    if not line:
        raise EOFError
    return line.decode("utf-8", "replace")
