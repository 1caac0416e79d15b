"""The journal of a 3.x store as entries: the turn that was under way when the store was last written.

A resume finishes such a turn first, so what stands here comes back. Only what was told to the agent's core
counts (``core_input``); requests and their copies of the whole history are passed over unread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from segue.agents.reader import place
from segue.agents.records import forwards
from segue.agents.vibe.items import ERRORS, Block, answer, images, told, words
from segue.core.transcript import Entry

_MARK = b'"type":"core_input"}'


class _Result(msgspec.Struct, frozen=True):
    """Of a request: its parts. Of a tool: what it gave."""

    parts: list[Block] = []
    content: list[Block] = []
    structured_content: Any = None
    error: Any = None
    type: str = ""


class _Command(msgspec.Struct, frozen=True):
    type: str = ""
    content: list[Block] = []
    result: _Result | None = None
    call_id: str = ""


class _Determinism(msgspec.Struct, frozen=True):
    time_unix_ms: int | None = None


class _Input(msgspec.Struct, frozen=True):
    command: _Command = _Command()
    determinism: _Determinism = _Determinism()


class _Payload(msgspec.Struct, frozen=True):
    input: _Input = _Input()


class _Record(msgspec.Struct, frozen=True):
    payload: _Payload = _Payload()


_record = msgspec.json.Decoder(_Record)


def records(path: str | None, start: int) -> Iterator[tuple[int, Sequence[Entry]]]:
    """What the turn did up to now, each with its place; nothing where there is no such turn."""
    if path is None:
        return
    try:
        with open(path, "rb") as file:
            for n, line in enumerate(forwards(file)):
                if line.text is not None and line.whole and line.text.endswith(_MARK):
                    found = entries(line.text, start + n)
                    if found:
                        yield start + n, found
    except OSError:
        return


def entries(text: bytes, start: int) -> Sequence[Entry]:
    try:
        given = _record.decode(text).payload.input
    except ERRORS:
        return ()
    command, at_ms = given.command, given.determinism.time_unix_ms
    result = command.result
    if command.type == "user_message":
        return (
            Entry(
                id=place(start),
                kind="user",
                text=words(command.content),
                at_ms=at_ms,
                images=images(command.content),
            ),
        )
    if command.type == "completion_succeeded" and result is not None:
        return tuple(answer(result.parts, start, at_ms))
    if command.type in ("tool_succeeded", "tool_failed") and result is not None:
        given_back = result.structured_content if result.structured_content is not None else result.error
        return (
            Entry(
                id=place(start),
                kind="result",
                text=words(result.content) or (told(given_back) if given_back is not None else ""),
                call=command.call_id,
                failed=command.type == "tool_failed",
                at_ms=at_ms,
            ),
        )
    return ()
