"""The calling process: its environment and directory, its terminal, and the prompt on its stdin."""

from __future__ import annotations

import os
import select
import stat
import sys
from contextlib import suppress

from segue.cli.render.output import say
from segue.core.errors import Misuse, SegueError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from segue.app.workspace import Workspace

SILENCE_S = 3.0
"""After this long without a byte, we say that we are waiting. Only the caller knows whether anything will
come: a pipe that is written to at the end of a long test run looks like one that is never written to."""
WAITING = "segue: waiting for piped input (add </dev/null if there is none)"
NOTHING = 'the prompt is empty; use segue run KEY "TEXT", or pipe it in'
CHUNK = 1 << 20


def open_here() -> Workspace:
    """Open the store for this process's environment and directory."""
    from pathlib import Path

    from segue.app.workspace import open_workspace

    return open_workspace(os.environ, Path.cwd(), notice=lambda text: say(f"segue: {text}", err=True))


def say_mentions() -> None:
    """Print which parts of the configuration have no effect here. Errors in it are left to the command."""
    from pathlib import Path

    from segue.config.load import load

    with suppress(SegueError, OSError):
        for mention in load(os.environ, Path.cwd()).mentions:
            say(f"segue: {mention}", err=True)


def can_answer() -> bool:
    """Whether stdin and stderr are a terminal: a question on stderr can be answered on stdin."""
    streams = (sys.stdin, sys.stderr)
    return all(stream is not None and not stream.closed and stream.isatty() for stream in streams)


def gather_prompt(text: str | None, use_stdin: bool = True, nothing: str = NOTHING) -> str:
    """The prompt. Raises ``Misuse`` if it is empty (with the message ``nothing``) or not UTF-8."""
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
        raise Misuse(f"cannot read stdin: {error.strerror or error}") from None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = data[error.start]
        raise Misuse(f"the prompt on stdin is not UTF-8: byte 0x{byte:02x} at offset {error.start}") from None


def _read(descriptor: int) -> bytes:
    """Read everything up to the end, however long that takes."""
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
    """Raise ``Misuse`` for an argument that was not UTF-8: Python decodes it with surrogates."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Misuse(f"the prompt is not UTF-8: invalid byte at offset {error.start}") from None
    return text
