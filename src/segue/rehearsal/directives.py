"""The directives that say what the model does: `[[verb argument]]`, any number of them, in order.

    [[say TEXT]]                     answer with this text
    [[think TEXT]]                   think this before what follows
    [[tool NAME {JSON}]]             call this tool; continue with the next directive after its result.
                                     `NAMESPACE/NAME`: one in a namespace that the request does not declare
    [[shell COMMAND]]                call the shell tool that the request declares
    [[read FILE]]  [[write FILE TEXT]]
    [[ask QUESTION | A | B]]         ask the user, by a tool if one is declared, else as text
    [[together N]]                   make the next N tool calls in one answer
    [[result]]                       say what the last tool of this turn returned
    [[recall PATTERN]]               say a regular expression's last match in the history before this turn
    [[slow SECONDS [PIECES]]]        spread what follows over this time
    [[huge BYTES]]  [[empty]]        an answer of this many bytes; an empty answer
    [[context-full [stream]]]        the provider's own "too long"; with `stream` as an event of a stream
    [[decline [prompt [stream]]]]    the provider stops the answer here for its content; with `prompt` it
                                     refuses what is asked; with `stream` as an event of a stream
    [[error STATUS [retry-after S] [times N]]]   refuse; with `times` only the first N requests of this turn
    [[limit WINDOW USED [SECONDS]]]  tell that this part of a usage limit is used: `[[limit 5h 0.82 3600]]`
    [[drop]]                         close the connection in the middle of the text
    [[malformed [start]]]            a broken event in the middle of the text; with `start` only garbage
    [[hang]]                         never answer

An argument ends at the first `]]` that is not followed by another `]`. A tool's JSON can have any brackets.
An unknown verb is answered with a text that says so.
"""

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import Struct

from segue.rehearsal.types import Limit


class Say(Struct, frozen=True):
    text: str


class Think(Struct, frozen=True):
    text: str


class UseTool(Struct, frozen=True):
    name: str
    arguments: dict[str, Any] | str


class Shell(Struct, frozen=True):
    command: str


class Read(Struct, frozen=True):
    file: str


class Write(Struct, frozen=True):
    file: str
    text: str


class AskUser(Struct, frozen=True):
    question: str
    options: tuple[str, ...]


class Result(Struct, frozen=True):
    pass


class Recall(Struct, frozen=True):
    pattern: str


class Together(Struct, frozen=True):
    calls: int


class Slow(Struct, frozen=True):
    seconds: float
    pieces: int = 10


class Empty(Struct, frozen=True):
    pass


class ContextFull(Struct, frozen=True):
    streamed: bool = False


class Decline(Struct, frozen=True):
    prompt: bool = False
    streamed: bool = False


class Error(Struct, frozen=True):
    status: int
    retry_after: float | None = None
    times: int | None = None


class Broken(Struct, frozen=True):
    how: Literal["dropped", "malformed", "garbage", "hang"]


Directive = (
    Say
    | Think
    | UseTool
    | Shell
    | Read
    | Write
    | AskUser
    | Result
    | Recall
    | Slow
    | Together
    | Empty
    | ContextFull
    | Decline
    | Error
    | Broken
    | Limit
)
TOOLS = (UseTool, Shell, Read, Write, AskUser)

_OPENING = re.compile(r"\[\[\s*([a-z][a-z-]*)\b[ \t]*")
_CLOSING = re.compile(r"\]\](?!\])")
_TOOL_INPUT = re.compile(r"[\w.:/-]+\s+(?=\{)")
_ERROR = re.compile(r"(\d{3})(?:\s+retry-after\s+([\d.]+))?(?:\s+times\s+(\d+))?$")


def parse(text: str) -> tuple[Directive, ...]:
    """All directives of a text, in order. An invalid one becomes a `Say` that names it."""
    found: list[Directive] = []
    at = 0
    while opening := _OPENING.search(text, at):
        closing = _CLOSING.search(text, _past_json(text, opening))
        if closing is None:
            break
        found.append(_one(opening[1], text[opening.end() : closing.start()].strip()))
        at = closing.end()
    return tuple(found)


def _past_json(text: str, opening: re.Match[str]) -> int:
    """Where to search for the end: after a tool's JSON, which can contain brackets."""
    tool_input = _TOOL_INPUT.match(text, opening.end()) if opening[1] == "tool" else None
    if tool_input is None:
        return opening.end()
    try:
        return json.JSONDecoder().raw_decode(text, tool_input.end())[1]
    except ValueError:
        return opening.end()


def _one(verb: str, argument: str) -> Directive:
    reader = _READERS.get(verb)
    if reader is None:
        return Say(f"Unknown directive: {verb}")
    try:
        return reader(argument)
    except (ValueError, AttributeError):
        return Say(f"Bad directive: {verb} {argument}")


def _tool(argument: str) -> UseTool:
    name, _, rest = argument.partition(" ")
    rest = rest.strip()
    if rest and not rest.startswith("{"):
        return UseTool(name, rest)
    return UseTool(name, msgspec.json.decode(rest or "{}", type=dict[str, Any]))


def _write(argument: str) -> Write:
    file, _, text = argument.partition(" ")
    return Write(file, text)


def _ask(argument: str) -> AskUser:
    question, *options = (piece.strip() for piece in argument.split("|"))
    return AskUser(question, tuple(options) or ("Yes", "No"))


def _slow(argument: str) -> Slow:
    seconds, *pieces = argument.split()
    return Slow(float(seconds), max(1, int(pieces[0])) if pieces else 10)


def _error(argument: str) -> Error:
    status, retry_after, times = _ERROR.match(argument).groups()  # type: ignore[union-attr]
    return Error(int(status), float(retry_after) if retry_after else None, int(times) if times else None)


def _limit(argument: str) -> Limit:
    window, used, *seconds = argument.split()
    return Limit(window, float(used), *map(float, seconds[:1]))


def _recall(argument: str) -> Recall:
    try:
        re.compile(argument)
    except re.error as error:
        raise ValueError(argument) from error
    return Recall(argument)


def _filler(size: int) -> str:
    """A text of this many bytes without repetitions: some clients stop an answer that repeats itself."""
    lines = (hashlib.sha256(str(line).encode()).hexdigest() for line in range(size // 65 + 1))
    return "\n".join(lines)[:size]


_READERS: dict[str, Callable[[str], Directive]] = {
    "say": Say,
    "think": Think,
    "tool": _tool,
    "shell": Shell,
    "read": Read,
    "write": _write,
    "ask": _ask,
    "result": lambda _: Result(),
    "recall": _recall,
    "slow": _slow,
    "together": lambda calls: Together(int(calls)),
    "huge": lambda size: Say(_filler(int(size))),
    "empty": lambda _: Empty(),
    "context-full": lambda how: ContextFull(how == "stream"),
    "decline": lambda what: Decline(what.startswith("prompt"), what.endswith("stream")),
    "error": _error,
    "limit": _limit,
    "drop": lambda _: Broken("dropped"),
    "malformed": lambda how: Broken("garbage" if how == "start" else "malformed"),
    "hang": lambda _: Broken("hang"),
}
