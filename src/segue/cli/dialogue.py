"""A conversation as lines or as objects: one message each, with the turn that made it. Pure."""

from __future__ import annotations

import shutil
import textwrap
import time
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

import msgspec

from segue.cli import words
from segue.core.turn import Turn
from segue.store.records import LogRow

MIN_WIDTH, PIPE_WIDTH = 60, 120


def width_of(out: TextIO) -> int:
    return max(MIN_WIDTH, shutil.get_terminal_size().columns) if out.isatty() else PIPE_WIDTH


def lines(
    rows: Sequence[LogRow], width: int, *, full: bool = False, now_ms: int | None = None
) -> Iterator[str]:
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    numbers = max((len(str(row.n)) for row in rows), default=1) + 1
    voices = max((len(_who(row, rows)) for row in rows), default=3)
    for row in rows:
        head = f"{'#' + str(row.n):<{numbers}}  {_who(row, rows):<{voices}}  {_mode(row):<7}"
        tail = _tail(row, now)
        if full:
            yield f"{head}  {tail}".rstrip()
            yield from textwrap.indent(words.harmless(row.text), "    ").splitlines()
            yield ""
        else:
            room = width - len(head) - len(tail) - 4
            yield f"{head}  {_cut(row.text, room):<{room}}  {tail}".rstrip()
        failed = row.turn.told.failure if row.turn is not None and row.turn.told is not None else None
        if failed is not None and row.sender == "user":
            yield f"{'':<{numbers}}  ✗ {words.one_line(failed.message)[: width - numbers - 4]}"
    if rows:
        yield from _total(rows, width)


def as_object(row: LogRow) -> dict[str, Any]:
    """What ``segue log --json`` says of a message."""
    turn = row.turn.told if row.turn is not None else None
    return {
        "id": row.id,
        "n": row.n,
        "from": row.sender,
        "agent": row.voice.agent,
        "role": row.voice.role or None,
        "account": row.account or None,
        "text": row.text,
        "revision": row.revision,
        "edited": row.edited_ms,
        "created": row.created_ms,
        "blank": row.blank,
        "run": row.turn.id if row.turn is not None else None,
        "mode": (turn.mode if turn is not None else None) if row.sender == "assistant" else None,
        "status": row.turn.status if row.turn is not None else "ok",
        "model": turn.model if turn is not None else None,
        "usage": msgspec.to_builtins(turn.usage) if turn is not None else None,
        "cost_usd": turn.cost_usd if turn is not None else None,
        "cost_estimated": turn.cost_estimated if turn is not None else None,
        "saved_usd": turn.saved.usd if turn is not None else None,
        "sent": msgspec.to_builtins(turn.sent) if turn is not None else None,
        "failure": msgspec.to_builtins(turn.failure) if turn is not None else None,
    }


def age(ms: int, now_ms: int) -> str:
    """``just now``, ``12 min ago``, ``3 h ago``, ``5 days ago``."""
    minutes = max(0, now_ms - ms) // 60_000
    if minutes < 1:
        return "just now"
    if minutes < 60:
        return f"{minutes} min ago"
    if minutes < 48 * 60:
        return f"{minutes // 60} h ago"
    return f"{minutes // (24 * 60)} days ago"


def _who(row: LogRow, rows: Sequence[LogRow]) -> str:
    name = f"{row.voice.agent} ({row.voice.role})" if row.voice.role else row.voice.agent
    if row.sender == "assistant":
        return name
    before = [each.voice for each in rows[: row.n - 1]]
    return "you" if not before or before[-1] == row.voice else f"you → {name}"


def _mode(row: LogRow) -> str:
    turn = row.turn.told if row.turn is not None else None
    return turn.mode if turn is not None and row.sender == "assistant" else ""


def _tail(row: LogRow, now_ms: int) -> str:
    parts = []
    if row.edited_ms is not None:
        parts.append("(edited)")
    turn = row.turn.told if row.turn is not None else None
    if turn is not None and row.sender == "assistant":
        parts += [_caught_up(turn), words.tokens(_new(turn)), _cost(turn)]
    elif row.turn is not None and row.turn.status in ("waiting", "running"):
        parts.append(row.turn.status)
    parts.append(age(row.created_ms, now_ms))
    return "  ".join(part for part in parts if part)


def _caught_up(turn: Turn) -> str:
    late = turn.sent.text_messages - 1
    return f"+{late} to catch up" if turn.resumed and late > 0 else ""


def _new(turn: Turn) -> int | None:
    known = [n for n in (turn.usage.input, turn.usage.cache_write, turn.usage.output) if n is not None]
    return sum(known) if known else None


def _cost(turn: Turn) -> str:
    return words.money(turn.cost_usd, turn.cost_estimated) if turn.cost_usd is not None else "–"


def _total(rows: Sequence[LogRow], width: int) -> Iterator[str]:
    turns = {row.turn.id: row.turn.told for row in rows if row.turn is not None and row.turn.told is not None}
    new = [count for turn in turns.values() if (count := _new(turn)) is not None]
    costs = [turn.cost_usd for turn in turns.values() if turn.cost_usd is not None]
    saved = [turn.saved.usd for turn in turns.values() if turn.saved.usd is not None]
    parts = [f"total {words.tokens(sum(new))}" if new else "", words.money(sum(costs)) if costs else ""]
    if saved and sum(saved) >= 0.0005:
        parts.append(f"saved {words.money(sum(saved))}")
    line = " · ".join(part for part in parts if part)
    if line:
        yield f"{line:>{width}}"


def _cut(text: str, room: int) -> str:
    line = words.one_line(text)
    return line if len(line) <= room else line[: max(room - 1, 0)] + "…"
