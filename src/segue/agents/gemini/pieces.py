"""The parts that a message is made of: its words, its images, and a tool's result."""

from __future__ import annotations

from typing import Any

import msgspec

from segue.agents.gemini.shapes import Content, Part, Response
from segue.agents.reader import place
from segue.core.transcript import Entry


def listed(content: Content) -> list[Part]:
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


def result(
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
        id=place(start, len(out)),
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
