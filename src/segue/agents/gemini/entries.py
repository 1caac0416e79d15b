"""A line of a session, or a message, as entries. Pure, and the hot path when a whole session is read.

A call and its result are beside the text of the answer, in parts of the content, or both; ``walk`` skips
duplicates by an entry's ``native``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec

from segue.agents.base import entry_id
from segue.agents.decoding import moment_ms
from segue.agents.gemini.schema import (
    INTERRUPTED,
    SNAPSHOT,
    THANKS,
    Header,
    Line,
    Message,
    Part,
    Response,
    Rewind,
    ToolCall,
    is_command_text,
    is_context_text,
    part_list,
    words_of,
)
from segue.core.transcript import Entry

_NOTES = ("info", "warning", "error")


def entries_of_line(line: Line, start: int) -> list[Entry]:
    out: list[Entry] = []
    if isinstance(line, Message):
        _add_message(line, start, out)
    elif isinstance(line, Header):
        _add_header(line, start, out)
    elif isinstance(line, Rewind):
        out.append(_state(start, out, "rewind", line.to))
    else:
        out.append(Entry(id=entry_id(start), kind="unknown", label=line.name, restored=False))
    return out


def entries_of(message: Message, start: int = 0) -> list[Entry]:
    out: list[Entry] = []
    _add_message(message, start, out)
    return out


def summary_at(messages: Sequence[Message]) -> int | None:
    """The index of the summary in a list of all messages: one of the first, or None."""
    for at, (one, following) in enumerate(pairwise(messages[:4])):
        if one.type == "user" and following.type == "gemini":
            return at if words_of(part_list(following.content)) == THANKS else None
    return None


def _add_message(message: Message, start: int, out: list[Entry]) -> None:
    if message.type == "gemini":
        _add_answer(message, start, out)
    elif message.type == "user":
        _add_prompt(message, start, out)
    else:
        kind = message.type or ""
        out.append(
            Entry(
                id=entry_id(start, len(out)),
                kind="state" if kind in _NOTES else "unknown",
                text=words_of(part_list(message.content)),
                at_ms=moment_ms(message.timestamp),
                native=message.id or "",
                label=kind,
                restored=False,
            )
        )


# --- headers and patches ---------------------------------------------------------------------------


def _add_header(header: Header, start: int, out: list[Entry]) -> None:
    if header.opens:
        out.append(_state(start, out, "header", header.sessionId or ""))
    if header.summary:
        out.append(_state(start, out, "title", header.summary))
    if header.directories:
        out.append(_state(start, out, "directories", "\n".join(header.directories)))
    if header.memoryScratchpad:
        out.append(_state(start, out, "memory", ""))
    messages = header.messages or ()
    summary = summary_at(messages)
    for at, message in enumerate(messages):
        if at == summary:
            out.append(_boundary(message, start, out))
        else:
            _add_message(message, start, out)


def _boundary(message: Message, start: int, out: list[Entry]) -> Entry:
    return Entry(
        id=entry_id(start, len(out)),
        kind="boundary",
        text=words_of(part_list(message.content)),
        at_ms=moment_ms(message.timestamp),
        native=message.id or "",
    )


def _state(start: int, out: list[Entry], label: str, text: str) -> Entry:
    return Entry(
        id=entry_id(start, len(out)), kind="state", label=label, text=text, restored=label == "title"
    )


# --- the user's side -------------------------------------------------------------------------------


def _add_prompt(message: Message, start: int, out: list[Entry]) -> None:
    parts = part_list(message.content)
    answers = [part.functionResponse for part in parts if part.functionResponse is not None]
    at_ms, images = moment_ms(message.timestamp), _images(parts)
    for n, answer in enumerate(answers):
        out.append(_result(answer, start, out, at_ms, images=images if n == 0 else ()))
    words = words_of(parts)
    if answers and not words:
        return
    if words.startswith(SNAPSHOT):
        out.append(_boundary(message, start, out))
        return
    context = is_context_text(words)
    out.append(
        Entry(
            id=entry_id(start, len(out)),
            kind="user",
            text=words,
            at_ms=at_ms,
            native=message.id or "",
            inserted=context,
            restored=not context and not _is_command(parts) and bool(parts),
            images=() if answers else images,
        )
    )


def _is_command(parts: list[Part]) -> bool:
    """Text that a resume by the CLI alone leaves out, unless a thought is before it."""
    return bool(parts) and parts[0].thought is None and is_command_text(parts[0].text or "")


# --- the agent's side ------------------------------------------------------------------------------


def _add_answer(message: Message, start: int, out: list[Entry]) -> None:
    parts, at_ms, native = part_list(message.content), moment_ms(message.timestamp), message.id or ""
    first = len(out)
    thought = _thought(message, parts)
    if thought:
        where = entry_id(start, first)
        out.append(Entry(id=where, kind="thinking", text=thought, at_ms=at_ms, native=f"{native}/thought"))
    words, recorded = words_of(parts), message.toolCalls or ()
    calls = [part.functionCall for part in parts if part.functionCall is not None] or recorded
    tokens = message.tokens.input if message.tokens is not None else None
    if words or not (calls or thought):
        out.append(_text_entry(message, parts, words, entry_id(start, len(out)), at_ms))
        tokens = None
    for call in calls:
        out.append(
            Entry(
                id=entry_id(start, len(out)),
                kind="call",
                at_ms=at_ms,
                native=f"{native}/{call.id or len(out) - first}",
                tool=call.name or "",
                input=call.args,
                call=call.id or "",
                model=message.model,
                tokens=tokens,
            )
        )
        tokens = None
    for done in recorded:
        if (result := _recorded_result(done, start, out, at_ms)) is not None:
            out.append(result)


def _text_entry(message: Message, parts: list[Part], words: str, where: str, at_ms: int | None) -> Entry:
    return Entry(
        id=where,
        kind="assistant",
        text=words,
        at_ms=at_ms,
        native=message.id or "",
        inserted=words in (THANKS, INTERRUPTED),
        restored=bool(words),
        images=_images(parts),
        model=message.model,
        tokens=message.tokens.input if message.tokens is not None else None,
    )


def _thought(message: Message, parts: list[Part]) -> str:
    """From the content, if it is there, as after a resume; else from what is beside it."""
    inside = "\n".join(part.text for part in parts if part.thought and part.text)
    if inside or not message.thoughts:
        return inside
    return "\n".join(
        f"**{one.subject}** {one.description or ''}" if one.subject else one.description or ""
        for one in message.thoughts
    ).strip()


def _recorded_result(call: ToolCall, start: int, out: list[Entry], at_ms: int | None) -> Entry | None:
    """The result beside a call, without results of other calls that a resume may have put there."""
    if not call.result:
        return None
    parts = part_list(call.result)
    answers = [part.functionResponse for part in parts if part.functionResponse is not None]
    own = next((one for one in answers if one.id == call.id), answers[0] if answers else None)
    if own is None:
        own = Response(response=words_of(parts))
    failed = call.status in ("error", "cancelled")
    return _result(own, start, out, at_ms, call=call.id or "", images=_images(parts), failed=failed)


def _result(
    answer: Response,
    start: int,
    out: list[Entry],
    at_ms: int | None,
    call: str = "",
    images: tuple[int, ...] = (),
    failed: bool = False,
) -> Entry:
    call = call or answer.id or ""
    response = answer.response
    wrong = isinstance(response, dict) and "error" in response and "output" not in response
    return Entry(
        id=entry_id(start, len(out)),
        kind="result",
        text=_output(response),
        at_ms=at_ms,
        native=f"{call}/result" if call else "",
        call=call,
        failed=failed or wrong,
        images=images + _images(answer.parts or []),
    )


def _output(response: Any) -> str:
    if isinstance(response, dict):
        if len(response) == 1 and isinstance(only := next(iter(response.values())), str):
            return only
        if isinstance(response.get("output"), str):
            return str(response["output"])
    if isinstance(response, str):
        return response
    try:
        return msgspec.json.encode(response).decode() if response else ""
    except (TypeError, ValueError, OverflowError, RecursionError):
        return ""


def _images(parts: list[Part]) -> tuple[int, ...]:
    """The size of each image's data in the file, where it is text, without the quotes."""
    return tuple(memoryview(part.inlineData.data).nbytes - 2 for part in parts if part.inlineData is not None)
