"""Where the prompt comes from: the argument, stdin, or both (the argument first)."""

from __future__ import annotations

import os
import select
import stat
import sys

from segue.core.errors import Misuse

PATIENCE_S = 3.0
"""How long a silent pipe is waited for when there is a text already: some callers never close theirs."""


def gather(text: str | None) -> str:
    """The prompt, or ``Misuse`` when there is none or it is not UTF-8."""
    given = _checked(text) if text is not None else ""
    piped = _stdin(patience=PATIENCE_S if given.strip() else None)
    prompt = "\n\n".join(part for part in (given, piped) if part.strip())
    if not prompt.strip():
        raise Misuse('the prompt is empty; say segue run KEY "TEXT", or pipe it in')
    return prompt


def _stdin(patience: float | None) -> str:
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        return ""
    descriptor = sys.stdin.fileno()
    mode = os.fstat(descriptor).st_mode
    if patience is not None and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        ready, _, _ = select.select([descriptor], [], [], patience)
        if not ready:
            print(f"segue: nothing came on stdin for {patience:.0f} s; going on without it", file=sys.stderr)
            return ""
    data = sys.stdin.buffer.read()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = data[error.start]
        raise Misuse(f"the prompt on stdin is not UTF-8: byte 0x{byte:02x} at offset {error.start}") from None


def _checked(text: str) -> str:
    """Arguments that were not UTF-8 arrive with surrogates in them."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Misuse(f"the prompt is not UTF-8: wrong byte at offset {error.start}") from None
    return text
