"""Where the prompt comes from: the argument, stdin, or both (the argument first)."""

from __future__ import annotations

import os
import select
import stat
import sys

from segue.cli.output import say
from segue.core.errors import Misuse

SILENCE_S = 3.0
"""After so long without a byte it is said that we wait. Only the caller knows whether anything will come:
a pipe that a test run writes to at its end looks like one that nobody ever writes to."""
WAITING = "segue: waiting for piped input (add </dev/null if there is none)"
NOTHING = 'the prompt is empty; use segue run KEY "TEXT", or pipe it in'
CHUNK = 1 << 20


def gather(text: str | None, use_stdin: bool = True, nothing: str = NOTHING) -> str:
    """The prompt, or ``Misuse`` when there is none (``nothing`` says so) or it is not UTF-8."""
    given = _checked(text) if text is not None else ""
    piped = _stdin() if use_stdin else ""
    prompt = "\n\n".join(part for part in (given, piped) if part.strip())
    if not prompt.strip():
        raise Misuse(nothing)
    return prompt


def _stdin() -> str:
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        return ""
    try:
        data = _read(sys.stdin.fileno())
    except OSError as error:
        raise Misuse(f"stdin cannot be read: {error.strerror or error}") from None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = data[error.start]
        raise Misuse(f"the prompt on stdin is not UTF-8: byte 0x{byte:02x} at offset {error.start}") from None


def _read(descriptor: int) -> bytes:
    """Everything up to the end, however long that takes."""
    mode = os.fstat(descriptor).st_mode
    silence = SILENCE_S if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else None
    chunks: list[bytes] = []
    while True:
        if not select.select([descriptor], [], [], silence)[0]:
            say(WAITING, err=True)
            silence = None
            continue
        chunk = os.read(descriptor, CHUNK)
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)


def _checked(text: str) -> str:
    """Arguments that were not UTF-8 arrive with surrogates in them."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Misuse(f"the prompt is not UTF-8: wrong byte at offset {error.start}") from None
    return text
