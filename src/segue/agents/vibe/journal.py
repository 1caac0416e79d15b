"""The journal of a 3.x session: what a turn did that was broken off before Vibe could write its export.

A tool's entry in the stream comes only when the tool is done, so of a killed turn the stream may know
nothing although tools ran. The newest journal file holds what happened since the last turn that ended well.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from segue.core.usage import Usage, disjoint


class Tokens(msgspec.Struct, frozen=True):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None

    def plain(self) -> Usage:
        return disjoint(self.input_tokens, self.cached_input_tokens, self.output_tokens)


class _Reply(msgspec.Struct, frozen=True):
    usage: Tokens | None = None


class _Result(msgspec.Struct, frozen=True):
    type: str = ""
    result: _Reply | None = None


class _Payload(msgspec.Struct, frozen=True):
    kind: str | None = None
    result: _Result | None = None


class _Record(msgspec.Struct, frozen=True):
    type: str
    payload: _Payload = _Payload()


class Trace(msgspec.Struct, frozen=True):
    """The tools that were begun, the requests that were answered, and the last of them."""

    tools: int = 0
    requests: int = 0
    usage: Usage = Usage()
    last: Usage | None = None


_record = msgspec.json.Decoder(_Record)


def trace(session_dir: Path) -> Trace:
    tools, requests, usage, last = 0, 0, Usage(), None
    for record in _records(session_dir):
        if record.type == "action_intent" and record.payload.kind == "tool":
            tools += 1
        reply = record.payload.result.result if record.payload.result is not None else None
        if record.type == "action_result" and reply is not None and reply.usage is not None:
            last = reply.usage.plain()
            requests, usage = requests + 1, usage + last
    return Trace(tools, requests, usage, last)


def _records(session_dir: Path) -> Iterator[_Record]:
    files = sorted(session_dir.glob("journal/*.jsonl"))
    if not files:
        return
    try:
        with files[-1].open("rb") as lines:
            for line in lines:
                try:
                    yield _record.decode(line)
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                    continue
    except OSError:
        return
