"""A line of a 2.x session as entries: one message of the chat, in the form in which the model is sent it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from segue.agents.reader import damaged, place
from segue.core.transcript import Entry

ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
SUMMARY, SUMMARY_END = "<compaction_summary>", "</compaction_summary>"
FAILED = ("<tool_error>", "<user_cancellation>")
"""How the result of a tool begins that failed, or was never run to its end."""


class _Function(msgspec.Struct, frozen=True):
    name: str | None = None
    arguments: str | None = None


class Call(msgspec.Struct, frozen=True):
    id: str | None = None
    function: _Function = _Function()


class Source(msgspec.Struct, frozen=True):
    kind: str = ""
    path: str = ""
    data: msgspec.Raw = msgspec.Raw(b"")


class Image(msgspec.Struct, frozen=True):
    """A picture: a file beside the session, or its data in the line."""

    source: Source = Source()
    data: msgspec.Raw = msgspec.Raw(b"")

    @property
    def size(self) -> int:
        return max(len(self.source.data), len(self.data))


class _Part(msgspec.Struct, frozen=True):
    text: str = ""


class Line(msgspec.Struct, frozen=True):
    role: str
    content: str | list[_Part] | None = None
    injected: bool = False
    reasoning_content: str | list[_Part] | None = None
    tool_calls: list[Call] | None = None
    name: str | None = None
    tool_call_id: str | None = None
    message_id: str | None = None
    images: list[Image] | None = None

    @property
    def words(self) -> str:
        return _words(self.content)

    @property
    def opens(self) -> bool:
        return self.role == "user" and not self.injected


_line = msgspec.json.Decoder(Line)
_any = msgspec.json.Decoder()


def decoded(text: bytes) -> Line | None:
    try:
        return _line.decode(text)
    except ERRORS:
        return None


def entries(text: bytes, start: int) -> Sequence[Entry]:
    try:
        line = _line.decode(text)
    except ERRORS as error:
        return (damaged(start, f"not a message of Vibe: {error}"),)
    native = line.message_id or ""
    match line.role:
        case "user":
            return (_prompt(line, start, native),)
        case "assistant":
            return tuple(_answer(line, start, native))
        case "tool":
            return (
                Entry(
                    id=place(start),
                    kind="result",
                    text=line.words,
                    tool=line.name or "",
                    call=line.tool_call_id or "",
                    failed=line.words.startswith(FAILED),
                    images=_sizes(line),
                ),
            )
        case "system":
            return (
                Entry(id=place(start), kind="state", label="instructions", text=line.words, restored=False),
            )
        case role:
            return (Entry(id=place(start), kind="unknown", label=role, restored=False),)


def summary(text: str) -> str | None:
    """What a compaction left of the past, where the text carries it."""
    begin = text.find(SUMMARY)
    if begin < 0:
        return None
    end = text.rfind(SUMMARY_END)
    return text[begin + len(SUMMARY) : end if end > begin else None].strip()


def arguments(text: str | None) -> Any:
    """The input of a call, as an object where it is one."""
    try:
        return _any.decode(text or "{}")
    except ERRORS:
        return text


def _prompt(line: Line, start: int, native: str) -> Entry:
    said = summary(line.words) if line.injected else None
    return Entry(
        id=place(start),
        kind="user" if said is None else "boundary",
        text=line.words if said is None else said,
        native=native,
        inserted=line.injected,
        images=_sizes(line),
    )


def _answer(line: Line, start: int, native: str) -> Iterator[Entry]:
    """What it thought, said and asked for; an answer without any of it is an empty one."""
    thought, said = _words(line.reasoning_content), line.words
    n = 0
    if thought:
        yield Entry(id=place(start), kind="thinking", text=thought, native=native)
        n += 1
    if said or not (thought or line.tool_calls):
        yield Entry(id=place(start, n), kind="assistant", text=said, native=native)
        n += 1
    for call in line.tool_calls or ():
        yield Entry(
            id=place(start, n),
            kind="call",
            native=native,
            tool=call.function.name or "",
            input=arguments(call.function.arguments),
            call=call.id or "",
        )
        n += 1


def _sizes(line: Line) -> tuple[int, ...]:
    return tuple(image.size for image in line.images) if line.images else ()


def _words(content: str | list[_Part] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.text for part in content)
