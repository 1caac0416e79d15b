"""A conversation as lines or as objects: one message each, with the turn that made it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from segue.cli.render import words
from segue.cli.render.output import harmless
from segue.cli.render.table import columns, fitted
from segue.core.outcome import DOUBT
from segue.core.turn import Turn, status_of
from segue.core.usage import count_in_words, tokens_in_words
from segue.core.view import has_walls
from segue.store.records import LogRow, TurnRow
from segue.system import clock

TEXT_ROOM = 24
"""Rather than give the text less room than this, the age is left out, and then the tokens."""


SHOWN = {"queued": "waiting", "running": "running"}
ADOPTED = "its Segue was killed, its agent still runs: the next segue run reads it to its end"
LATER = "not written down yet: the next segue run does that"
DIED = "refused: its process ended while it waited"
NOTED_ROOM = 12
"""And a note is left out where it would leave less than this."""


def dialogue_lines(
    rows: Sequence[LogRow], width: int, *, full: bool = False, now_ms: int | None = None
) -> Iterator[str]:
    """One line per message; with ``full`` its whole text below it."""
    now = clock.now_ms() if now_ms is None else now_ms
    heads, tails = _heads(rows, width), _tails(rows, now, width)
    for row, head, tail in zip(rows, heads, tails, strict=True):
        room = width - columns(head) - len(tail) - 4
        text = "" if full else _fitted(row.text, room)
        yield f"{head}  {text}{' ' * (room - columns(text))}  {tail}".rstrip()
        if full:
            yield from textwrap.indent(harmless(row.text), "    ").splitlines()
        yield from _left_behind(row, width)
        if full:
            yield ""


def total_line(rows: Sequence[LogRow], turns: Iterable[TurnRow], width: int) -> Iterator[str]:
    """What the rows add up to; and what else was paid for: turns of which no message stands any more."""
    shown = {row.turn.id: row.turn.told for row in rows if row.turn is not None and row.turn.told is not None}
    gone = [turn.told for turn in turns if turn.told is not None and turn.id not in shown]
    saved = sum(turn.saved.usd for turn in shown.values() if turn.saved.usd is not None)
    sums = [*_sums(shown.values()), f"saved {words.money(saved)}" if saved >= 0.0005 else ""]
    dropped = list(_sums(gone))
    if any(sums):
        line = f"total {' · '.join(part for part in sums if part)}"
        yield f"{line:>{width}}"
    if dropped:
        line = f"dropped: {' · '.join((count_in_words(len(gone), 'turn'), *dropped))}"
        yield f"{line:>{width}}"


def _sums(turns: Iterable[Turn]) -> Iterator[str]:
    """Tokens and money of these turns together, as far as they are known."""
    told = list(turns)
    new = [count for turn in told if (count := _new(turn)) is not None]
    costs = [turn.cost_usd for turn in told if turn.cost_usd is not None]
    if new:
        yield tokens_in_words(sum(new))
    if costs:
        yield words.money(sum(costs), any(turn.cost_estimated for turn in told))


def as_object(row: LogRow) -> dict[str, Any]:
    """What ``segue log --json`` says of a message."""
    turn = row.turn.told if row.turn is not None else None
    return {
        "id": row.id if row.n or row.sender == "user" else None,
        "n": row.n or None,
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
        "state": row.turn.state if row.turn is not None else "done",
        "status": status_of(row.turn.state) if row.turn is not None else "ok",
        "recovery": row.turn.recovery if row.turn is not None else None,
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


def _heads(rows: Sequence[LogRow], width: int) -> list[str]:
    """Number, voice and mode, in columns."""
    names = [_who(row, rows[at - 1] if at else None) for at, row in enumerate(rows)]
    numbers = max((len(str(row.n)) for row in rows), default=1) + 1
    widest = min(max(map(columns, names), default=3), width // 3)
    names = [fitted(name, widest) for name in names]
    return [
        f"{_number(row):<{numbers}}  {name}{' ' * (widest - columns(name))}  {_mode(row):<6}"
        for row, name in zip(rows, names, strict=True)
    ]


def _number(row: LogRow) -> str:
    """What people call it by; a message that has no place has no number."""
    if row.n:
        return f"#{row.n}"
    return "–" if row.turn is None or row.turn.state == "withdrawn" else "…"


def _tails(rows: Sequence[LogRow], now_ms: int, width: int) -> list[str]:
    """Notes, tokens, cost and age, in columns that end at the right edge."""
    walls = len({row.account for row in rows}) > 1 or has_walls(m for row in rows for m in row.under)
    cells = [(_notes(row, walls), *_spent(row), age(row.created_ms, now_ms)) for row in rows]
    widths = [max((len(cell[at]) for cell in cells), default=0) for at in range(4)]
    head = max((columns(head) for head in _heads(rows, width)), default=0)
    for left_out in (3, 1):
        if width - head - sum(widths[1:]) - 12 < TEXT_ROOM:
            widths[left_out] = 0
    used = [at for at in (1, 2, 3) if widths[at]]
    room = width - head - sum(widths[at] + 2 for at in used) - NOTED_ROOM
    return [
        "  ".join([cell[0]] * (0 < len(cell[0]) <= room) + [f"{cell[at]:>{widths[at]}}" for at in used])
        for cell in cells
    ]


def _who(row: LogRow, before: LogRow | None) -> str:
    name = f"{row.voice.agent} ({row.voice.role})" if row.voice.role else row.voice.agent
    if row.sender == "assistant":
        return name
    return "you" if before is None or before.voice == row.voice else f"you → {name}"


def _mode(row: LogRow) -> str:
    turn = row.turn.told if row.turn is not None else None
    return turn.mode if turn is not None and row.sender == "assistant" else ""


def _notes(row: LogRow, walls: bool) -> str:
    turn = row.turn.told if row.turn is not None else None
    notes = ["(edited)" if row.edited_ms is not None else "", "(from nothing)" if row.blank else ""]
    if row.sender == "assistant" and turn is not None:
        notes += [_caught_up(row, turn, walls), f"after {turn.attempts[0].mode}" if turn.attempts[1:] else ""]
    elif row.turn is not None and row.turn.state in SHOWN:
        notes.append(SHOWN[row.turn.state])
    return "  ".join(note for note in notes if note)


def _caught_up(row: LogRow, turn: Turn, walls: bool) -> str:
    """Of a resume, what came with it as text; of a branch, where it went on from.

    Between walls of accounts or logins, what was sent is not simply what stands before the answer.
    """
    late = turn.sent.text_messages - 1
    if turn.mode == "resume":
        return f"+{late} to catch up" if late > 0 else ""
    start = row.n - 2 - late
    return f"↳ from #{start}" if turn.mode == "branch" and start > 0 and not walls else ""


def _spent(row: LogRow) -> tuple[str, str]:
    turn = row.turn.told if row.turn is not None else None
    if turn is None or (row.sender == "user" and turn.cost_usd in (None, 0) and not _new(turn)):
        return "", ""
    cost = words.money(turn.cost_usd, turn.cost_estimated) if turn.cost_usd is not None else "–"
    return tokens_in_words(_new(turn)), cost


def _new(turn: Turn) -> int | None:
    known = [n for n in (turn.usage.input, turn.usage.cache_write, turn.usage.output) if n is not None]
    return sum(known) if known else None


def _left_behind(row: LogRow, width: int) -> Iterator[str]:
    """Why a message has no answer, and what is still to be done about it."""
    if (why := _unanswered(row)) is not None:
        yield f"    ✗ {_fitted(why, width - 6)}"
    if row.turn is not None and row.turn.recovery is not None:
        yield f"    ↻ {_fitted(ADOPTED if row.turn.recovery == 'adopt' else LATER, width - 6)}"


def _unanswered(row: LogRow) -> str | None:
    turn = row.turn.told if row.turn is not None and row.sender == "user" else None
    withdrawn = row.turn is not None and row.turn.state == "withdrawn"
    if turn is None or turn.failure is None:
        return DIED if withdrawn and turn is None else None
    why = words.failure(turn, row.voice.agent) if turn.failure.kind != "cancelled" else "cancelled"
    why = f"refused: {why}" if withdrawn else why
    return why + _done(turn, why)


def _done(turn: Turn, why: str) -> str:
    if turn.tools_run is None:
        return "" if DOUBT in why else f"; {DOUBT}"
    return f", after {count_in_words(turn.tools_run, 'tool call')}" if turn.tools_run else ""


def _fitted(text: str, room: int) -> str:
    return fitted(words.one_line(text), room)
