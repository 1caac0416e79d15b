"""A message of a session as entries. Pure, and the hot path of whoever reads a whole session.

A call and its result stand beside the words of the answer, in parts of the content, or both; whoever walks
through a session passes over what was there before by an entry's ``native`` (see ``walking``).

The parts that a message is made of: its words, its images, and a tool's result.

The older form, one object: its messages as records, counted instead of measured.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from segue.agents.base import Record, damaged, entry_id
from segue.agents.gemini.schema import (
    ERRORS,
    Content,
    Done,
    Header,
    Message,
    Part,
    Response,
    as_header,
    as_message,
    clean,
    header,
    held,
    ms,
)
from segue.core.json_values import as_table
from segue.core.transcript import Entry


def as_list(content: Content) -> list[Part]:
    if isinstance(content, str):
        return [Part(text=content)] if content else []
    if isinstance(content, Part):
        return [content]
    return [part if isinstance(part, Part) else Part(text=part) for part in content or ()]


def words_of(parts: list[Part]) -> str:
    if len(parts) == 1:
        return "" if parts[0].thought else parts[0].text or ""
    return "".join(part.text for part in parts if part.text and not part.thought)


def images_of(parts: list[Part]) -> tuple[int, ...]:
    """The data of an image is text in the file: its size there, less the quotes."""
    return tuple(memoryview(part.inlineData.data).nbytes - 2 for part in parts if part.inlineData is not None)


def result_entry(
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
        images=images + images_of(answer.parts or []),
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


CONTEXTS = ("<session_context>", "<hook_context>")
_COMMANDS = ("/", "?")
_SNAPSHOT = "<state_snapshot>"
_THANKS = "Got it. Thanks for the additional context!"
"""What Gemini lets the model say behind a summary it has made of what came before."""
_INTERRUPTED = "[The previous response was interrupted before it completed.]"
_NOTES = ("info", "warning", "error")


def entries(raw: bytes, start: int) -> Sequence[Entry]:
    """One line of a session file."""
    try:
        found, name = held(raw)
    except ERRORS:
        return (damaged(start, "a line that is not JSON"),)
    return entries_of_line(found, name, start)


def entries_of_line(found: Message | Header | str | None, name: str, start: int) -> list[Entry]:
    out: list[Entry] = []
    if isinstance(found, Message):
        message_entries(found, start, out)
    elif isinstance(found, Header):
        _of_header(found, start, out)
    elif isinstance(found, str):
        out.append(_state(start, out, "rewind", found))
    else:
        out.append(Entry(id=entry_id(start), kind="unknown", label=name, restored=False))
    return out


def message_entries(message: Message, start: int, out: list[Entry]) -> None:
    if message.type == "gemini":
        _answer(message, start, out)
    elif message.type == "user":
        _heard(message, start, out)
    else:
        kind = message.type or ""
        out.append(
            Entry(
                id=entry_id(start, len(out)),
                kind="state" if kind in _NOTES else "unknown",
                text=words_of(as_list(message.content)),
                at_ms=ms(message.timestamp),
                native=message.id or "",
                label=kind,
                restored=False,
            )
        )


def all_context(messages: Sequence[Message]) -> bool:
    return all(one.type == "user" and _is_context(words_of(as_list(one.content))) for one in messages)


# --- headers and patches ---------------------------------------------------------------------------


def _of_header(header: Header, start: int, out: list[Entry]) -> None:
    if header.startTime is not None:
        out.append(_state(start, out, "header", header.sessionId or ""))
    if header.summary:
        out.append(_state(start, out, "title", header.summary))
    if header.directories:
        out.append(_state(start, out, "directories", "\n".join(header.directories)))
    if header.memoryScratchpad:
        out.append(_state(start, out, "memory", ""))
    said = header.messages or ()
    summary = summary_at(said)
    for at, message in enumerate(said):
        if at == summary:
            out.append(_boundary(message, start, out))
        else:
            message_entries(message, start, out)


def summary_at(messages: Sequence[Message]) -> int | None:
    """Which of a list of all messages is a summary of what was there before: one of the first, or none."""
    for at, (one, following) in enumerate(pairwise(messages[:4])):
        if one.type == "user" and following.type == "gemini":
            return at if words_of(as_list(following.content)) == _THANKS else None
    return None


def _boundary(message: Message, start: int, out: list[Entry]) -> Entry:
    return Entry(
        id=entry_id(start, len(out)),
        kind="boundary",
        text=words_of(as_list(message.content)),
        at_ms=ms(message.timestamp),
        native=message.id or "",
    )


def _state(start: int, out: list[Entry], label: str, text: str) -> Entry:
    return Entry(
        id=entry_id(start, len(out)), kind="state", label=label, text=text, restored=label == "title"
    )


# --- the user's side -------------------------------------------------------------------------------


def _heard(message: Message, start: int, out: list[Entry]) -> None:
    parts = as_list(message.content)
    answers = [part.functionResponse for part in parts if part.functionResponse is not None]
    at_ms, images = ms(message.timestamp), images_of(parts)
    for n, answer in enumerate(answers):
        out.append(result_entry(answer, start, out, at_ms, images=images if n == 0 else ()))
    words = words_of(parts)
    if answers and not words:
        return
    if words.startswith(_SNAPSHOT):
        out.append(_boundary(message, start, out))
        return
    context = _is_context(words)
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


def _is_context(words: str) -> bool:
    return words.lstrip().startswith(CONTEXTS)


def _is_command(parts: list[Part]) -> bool:
    """Words that a resume of the bare CLI leaves out; a thought before them hides them from it."""
    return bool(parts) and parts[0].thought is None and (parts[0].text or "").lstrip().startswith(_COMMANDS)


# --- the agent's side ------------------------------------------------------------------------------


def _answer(message: Message, start: int, out: list[Entry]) -> None:
    parts, at_ms, native = as_list(message.content), ms(message.timestamp), message.id or ""
    first = len(out)
    if thought := _thought(message, parts):
        out.append(
            Entry(
                id=entry_id(start, first),
                kind="thinking",
                text=thought,
                at_ms=at_ms,
                native=f"{native}/thought",
            )
        )
    words, done = words_of(parts), message.toolCalls or ()
    made = [part.functionCall for part in parts if part.functionCall is not None] or done
    spent = message.tokens.input if message.tokens is not None else None
    if words or not (made or thought):
        out.append(
            Entry(
                id=entry_id(start, len(out)),
                kind="assistant",
                text=words,
                at_ms=at_ms,
                native=native,
                inserted=words in (_THANKS, _INTERRUPTED),
                restored=bool(words),
                images=images_of(parts),
                model=message.model,
                tokens=spent,
            )
        )
        spent = None
    for call in made:
        key = f"{native}/{call.id or len(out) - first}"
        out.append(
            Entry(
                id=entry_id(start, len(out)),
                kind="call",
                at_ms=at_ms,
                native=key,
                tool=call.name or "",
                input=call.args,
                call=call.id or "",
                model=message.model,
                tokens=spent,
            )
        )
        spent = None
    for one in done:
        if (recorded := _recorded(one, start, out, at_ms)) is not None:
            out.append(recorded)


def _thought(message: Message, parts: list[Part]) -> str:
    """Of the content where it stands there, as after a resume; else of what is beside it."""
    inside = "\n".join(part.text for part in parts if part.thought and part.text)
    if inside or not message.thoughts:
        return inside
    return "\n".join(
        f"**{one.subject}** {one.description or ''}" if one.subject else one.description or ""
        for one in message.thoughts
    ).strip()


def _recorded(done: Done, start: int, out: list[Entry], at_ms: int | None) -> Entry | None:
    """The result beside a call, without those of others that a resume may have put there."""
    if not done.result:
        return None
    parts = as_list(done.result)
    answers = [part.functionResponse for part in parts if part.functionResponse is not None]
    own = next((one for one in answers if one.id == done.id), answers[0] if answers else None)
    if own is None:
        own = Response(response=words_of(parts))
    failed = done.status in ("error", "cancelled")
    return result_entry(own, start, out, at_ms, call=done.id or "", images=images_of(parts), failed=failed)


WHOLE_BYTES = 256 * 1024 * 1024


def document_records(path: Path) -> list[Record]:
    """All of them; of a file that was cut off, those that are whole, and that it was."""
    try:
        if path.stat().st_size > WHOLE_BYTES:
            return [_trouble(0, f"a file of over {WHOLE_BYTES >> 20} MB in one object")]
        raw = path.read_bytes()
    except OSError as error:
        return [_trouble(0, f"it cannot be read: {error.strerror or error}")]
    found, whole = _document(raw)
    made = list(_made(found))
    return made if whole else [*made, _trouble(len(made), "the file is cut off or not JSON")]


def _made(found: Header) -> Iterator[Record]:
    for at, message in enumerate(found.messages or ()):
        entries: list[Entry] = []
        message_entries(message, at, entries)
        yield Record(at, at + 1, entries)


def _document(raw: bytes) -> tuple[Header, bool]:
    try:
        return header(raw), True
    except ERRORS:
        head, messages = salvage(raw)
        said: list[Message] = [as_message(one) for one in messages]
        return replace(as_header(head), messages=said), False


def salvage(raw: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What can be read of an object that was cut off: its header, and the messages that are whole."""
    text, decoder = raw.decode("utf-8", "replace"), json.JSONDecoder()
    head, found, rest = text.partition('"messages"')
    try:
        known = as_table(json.loads(head.rstrip().rstrip(",") + "}")) if found else {}
    except (ValueError, RecursionError):
        known = {}
    messages: list[dict[str, Any]] = []
    at = rest.find("[") + 1
    while at > 0:
        at = rest.find("{", at)
        try:
            one, at = decoder.raw_decode(rest, at) if at >= 0 else (None, -1)
        except (ValueError, RecursionError):
            break
        if isinstance(one, dict) and isinstance(one.get("id"), str):
            messages.append(one)
        if at >= 0 and not rest[at : at + 20].lstrip().startswith(","):
            break
    return clean(known, raw), clean(messages, raw)


def _trouble(at: int, why: str) -> Record:
    return Record(at, at, (damaged(at, why),))
