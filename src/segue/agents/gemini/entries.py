"""A message of a session as entries. Pure, and the hot path of whoever reads a whole session.

A call and its result stand beside the words of the answer, in parts of the content, or both; whoever walks
through a session passes over what was there before by an entry's ``native`` (see ``walking``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from segue.agents.gemini.lines import ERRORS, held, ms
from segue.agents.gemini.pieces import images_of, listed, result, words_of
from segue.agents.gemini.shapes import Done, Header, Message, Part, Response
from segue.agents.reader import damaged, place
from segue.core.transcript import Entry

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
    return of(found, name, start)


def of(found: Message | Header | str | None, name: str, start: int) -> list[Entry]:
    out: list[Entry] = []
    if isinstance(found, Message):
        of_message(found, start, out)
    elif isinstance(found, Header):
        _of_header(found, start, out)
    elif isinstance(found, str):
        out.append(_state(start, out, "rewind", found))
    else:
        out.append(Entry(id=place(start), kind="unknown", label=name, restored=False))
    return out


def of_message(message: Message, start: int, out: list[Entry]) -> None:
    if message.type == "gemini":
        _answer(message, start, out)
    elif message.type == "user":
        _heard(message, start, out)
    else:
        kind = message.type or ""
        out.append(
            Entry(
                id=place(start, len(out)),
                kind="state" if kind in _NOTES else "unknown",
                text=words_of(listed(message.content)),
                at_ms=ms(message.timestamp),
                native=message.id or "",
                label=kind,
                restored=False,
            )
        )


def all_context(messages: Sequence[Message]) -> bool:
    return all(one.type == "user" and _is_context(words_of(listed(one.content))) for one in messages)


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
            of_message(message, start, out)


def summary_at(messages: Sequence[Message]) -> int | None:
    """Which of a list of all messages is a summary of what was there before: one of the first, or none."""
    for at, (one, following) in enumerate(pairwise(messages[:4])):
        if one.type == "user" and following.type == "gemini":
            return at if words_of(listed(following.content)) == _THANKS else None
    return None


def _boundary(message: Message, start: int, out: list[Entry]) -> Entry:
    return Entry(
        id=place(start, len(out)),
        kind="boundary",
        text=words_of(listed(message.content)),
        at_ms=ms(message.timestamp),
        native=message.id or "",
    )


def _state(start: int, out: list[Entry], label: str, text: str) -> Entry:
    return Entry(id=place(start, len(out)), kind="state", label=label, text=text, restored=label == "title")


# --- the user's side -------------------------------------------------------------------------------


def _heard(message: Message, start: int, out: list[Entry]) -> None:
    parts = listed(message.content)
    answers = [part.functionResponse for part in parts if part.functionResponse is not None]
    at_ms, images = ms(message.timestamp), images_of(parts)
    for n, answer in enumerate(answers):
        out.append(result(answer, start, out, at_ms, images=images if n == 0 else ()))
    words = words_of(parts)
    if answers and not words:
        return
    if words.startswith(_SNAPSHOT):
        out.append(_boundary(message, start, out))
        return
    context = _is_context(words)
    out.append(
        Entry(
            id=place(start, len(out)),
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
    parts, at_ms, native = listed(message.content), ms(message.timestamp), message.id or ""
    first = len(out)
    if thought := _thought(message, parts):
        out.append(
            Entry(
                id=place(start, first), kind="thinking", text=thought, at_ms=at_ms, native=f"{native}/thought"
            )
        )
    words, done = words_of(parts), message.toolCalls or ()
    made = [part.functionCall for part in parts if part.functionCall is not None] or done
    spent = message.tokens.input if message.tokens is not None else None
    if words or not (made or thought):
        out.append(
            Entry(
                id=place(start, len(out)),
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
                id=place(start, len(out)),
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
    parts = listed(done.result)
    answers = [part.functionResponse for part in parts if part.functionResponse is not None]
    own = next((one for one in answers if one.id == done.id), answers[0] if answers else None)
    if own is None:
        own = Response(response=words_of(parts))
    failed = done.status in ("error", "cancelled")
    return result(own, start, out, at_ms, call=done.id or "", images=images_of(parts), failed=failed)
