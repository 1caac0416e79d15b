"""The rollouts that a rollout goes on from.

One that Codex forked holds only its own lines. Its first line names the rollout before it, and the place in
that one at which the fork begins; the one before may go on from another again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from segue.agents.codex import files

GENERATIONS = 16


class Base(msgspec.Struct, frozen=True):
    """Where a rollout begins: after so many bytes of another one."""

    thread_id: str
    end_byte_offset: int


class _Payload(msgspec.Struct, frozen=True):
    history_base: Base | None = None


class _Head(msgspec.Struct, frozen=True):
    payload: _Payload = _Payload()


_head = msgspec.json.Decoder(_Head)


def base(path: Path) -> Base | None:
    """What a rollout's first line says of the one before it."""
    first = files.first_line(path)
    try:
        return _head.decode(first).payload.history_base if b'"history_base"' in first else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def ancestry(home: Path, path: Path) -> Iterator[tuple[Path, int | None]]:
    """The rollout, and those it goes on from, each with the place up to which it counts."""
    end: int | None = None
    for _ in range(GENERATIONS):
        yield path, end
        before = base(path)
        origin = files.of_rollout(home, before.thread_id) if before is not None else None
        if before is None or origin is None:
            return
        path, end = origin, before.end_byte_offset
