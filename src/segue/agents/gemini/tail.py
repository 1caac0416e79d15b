"""The end of a session file, read from its end: files may be huge."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from segue.agents.gemini.message import ECHO, is_context, is_sent
from segue.agents.gemini.story import read, record_of
from segue.agents.records import backwards
from segue.core.loose import items, table

SMALL_BYTES = 4 * 1024 * 1024
FAR_BYTES = 64 * 1024 * 1024
"""How far from the end a message is looked for."""
ID_CHARACTERS = 200

_LAST = re.compile(rb'\n {6}"id": "([^"\\]+)",\n {6}"timestamp": "[^"\\]*",\n {6}"type": "(?:user|gemini)"')
"""A message's head, as the versions that wrote one object indented it; text cannot hold such lines."""


def end(path: Path) -> str | None:
    """The id of the last message that is sent; results that repeat a record are part of that message."""
    try:
        found = _of_object(path) if path.suffix == ".json" else _of_lines(path)
    except (OSError, RecursionError):
        return None
    found = found and found.removesuffix(ECHO)
    return found if found and len(found) <= ID_CHARACTERS else None


def _of_object(path: Path) -> str | None:
    if path.stat().st_size <= SMALL_BYTES:
        return _of_story(path)
    with path.open("rb") as file:
        file.seek(-SMALL_BYTES, 2)
        data = file.read()
    heads = _LAST.findall(data)
    if not heads:
        return _of_story(path)
    return heads[-1].decode("utf-8", "replace") if data.rstrip().endswith(b"}") else None


def _of_story(path: Path) -> str | None:
    story = read(path)
    return _last(story.messages) if story else None


def _of_lines(path: Path) -> str | None:
    """From the last line back to the first that tells."""
    opening = False
    with path.open("rb") as file:
        for line in _backwards(file):
            record = record_of(line)
            if opening and "sessionId" not in record:
                return None  # taken back to the beginning; behind a header, it is only opened anew
            opening = False
            said = table(record.get("$set")).get("messages")
            if "$rewindTo" in record:
                return _of_story(path)
            if isinstance(said, list):
                opening = all(map(is_context, map(table, said)))
            found = _last([record] if said is None else items(said))
            if found is not None:
                return found
    return None


def _last(messages: list[Any]) -> str | None:
    sent = filter(is_sent, map(table, reversed(messages)))
    return next((one["id"] for one in sent if isinstance(one.get("id"), str)), None)


def _backwards(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file, the last one first; what follows the last line break is a line in the making."""
    size = file.seek(0, 2)
    for line in backwards(file):
        if size - line.start > FAR_BYTES:
            return
        yield line.text or b""
