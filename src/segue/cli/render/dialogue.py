"""A conversation as lines: one message each, with the turn that answered it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from segue.cli.render import words
from segue.cli.render.output import harmless
from segue.cli.render.table import columns, fitted
from segue.core.outcome import DOUBT
from segue.core.turn import Turn
from segue.core.usage import count_in_words, tokens_in_words
from segue.system import clock

if TYPE_CHECKING:
    from segue.app.shapes import Dialogue, LogMessage

TEXT_ROOM = 24
"""If the text would get less room than this, the age is left out, and then the tokens."""


SHOWN = {"queued": "waiting", "running": "running", "needs_you": "asks you", "parked": "parked"}
ADOPTED = "Segue was killed, but the agent is still running: the next segue run follows it to its end"
LATER = "not recorded yet: the next segue run does that"
NEVER = "not sent"
"""How the reason begins why no agent sees a message."""
DIED = f"{NEVER}: its process ended while it waited"
NOTED_ROOM = 12
"""A note is left out if the text would get less room than this."""


def dialogue_lines(
    dialogue: Dialogue, width: int, *, full: bool = False, now_ms: int | None = None
) -> Iterator[str]:
    """One line per message; with ``full`` its whole text below it."""
    now = clock.now_ms() if now_ms is None else now_ms
    heads, tails = _heads(dialogue, width), _tails(dialogue, now, width)
    for message, head, tail in zip(dialogue.messages, heads, tails, strict=True):
        room = width - columns(head) - len(tail) - 4
        text = "" if full else _fitted(_with_attachments(message), room)
        yield f"{head}  {text}{' ' * (room - columns(text))}  {tail}".rstrip()
        if full:
            yield from textwrap.indent(harmless(message.text), "    ").splitlines()
            yield from (f"    [{harmless(each.name)}]" for each in message.attachments)
        yield from _left_behind(message, dialogue.turn_of(message), width)
        if full:
            yield ""


def _with_attachments(message: LogMessage) -> str:
    """The text on one line, after the names of its attachments."""
    return " ".join((*(f"[{each.name}]" for each in message.attachments), message.text))


def total_line(dialogue: Dialogue, width: int) -> Iterator[str]:
    """The total of all messages; and the total of the turns whose messages were dropped."""
    present = {message.run for message in dialogue.messages}
    shown = [turn for run, turn in dialogue.turns.items() if run in present]
    gone = [turn for run, turn in dialogue.turns.items() if run not in present]
    saved = sum(turn.saved.usd for turn in shown if turn.saved.usd is not None)
    sums = [*_sums(shown), f"saved {words.money(saved)}" if saved >= 0.0005 else ""]
    dropped = list(_sums(gone))
    if any(sums):
        line = f"total {' · '.join(part for part in sums if part)}"
        yield f"{line:>{width}}"
    if dropped:
        line = f"dropped: {' · '.join((count_in_words(len(gone), 'turn'), *dropped))}"
        yield f"{line:>{width}}"


def _sums(turns: Iterable[Turn]) -> Iterator[str]:
    """Tokens and cost of these turns together. What is unknown is not counted."""
    ended = list(turns)
    new = [count for turn in ended if (count := _new(turn)) is not None]
    costs = [turn.cost_usd for turn in ended if turn.cost_usd is not None]
    if new:
        yield tokens_in_words(sum(new))
    if costs:
        yield words.money(sum(costs), any(turn.cost_estimated for turn in ended))


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


def _heads(dialogue: Dialogue, width: int) -> list[str]:
    """Number, voice and mode, in columns."""
    messages = dialogue.messages
    names = [_who(message, messages[at - 1] if at else None) for at, message in enumerate(messages)]
    numbers = max((len(str(message.n or 0)) for message in messages), default=1) + 1
    widest = min(max(map(columns, names), default=3), width // 3)
    names = [fitted(name, widest) for name in names]
    return [
        f"{_number(message):<{numbers}}  {name}{' ' * (widest - columns(name))}  {_mode(message):<6}"
        for message, name in zip(messages, names, strict=True)
    ]


def _mode(message: LogMessage) -> str:
    return (message.mode or "") if message.sender == "assistant" else ""


def _number(message: LogMessage) -> str:
    """``#n``; a message that is not part of the conversation has no number."""
    if message.n is not None:
        return f"#{message.n}"
    return "–" if message.run is None or message.state == "withdrawn" else "…"


def _tails(dialogue: Dialogue, now_ms: int, width: int) -> list[str]:
    """Notes, tokens, cost and age, in columns that end at the right edge."""
    cells = [_tail(message, dialogue, now_ms) for message in dialogue.messages]
    widths = [max((len(cell[at]) for cell in cells), default=0) for at in range(4)]
    head = max((columns(head) for head in _heads(dialogue, width)), default=0)
    for left_out in (3, 1):
        if width - head - sum(widths[1:]) - 12 < TEXT_ROOM:
            widths[left_out] = 0
    used = [at for at in (1, 2, 3) if widths[at]]
    room = width - head - sum(widths[at] + 2 for at in used) - NOTED_ROOM
    return [
        "  ".join([cell[0]] * (0 < len(cell[0]) <= room) + [f"{cell[at]:>{widths[at]}}" for at in used])
        for cell in cells
    ]


def _tail(message: LogMessage, dialogue: Dialogue, now_ms: int) -> tuple[str, str, str, str]:
    turn = dialogue.turn_of(message)
    notes = _notes(message, turn, dialogue.walled)
    return (notes, *_spent(message, turn), age(message.created, now_ms))


def _who(message: LogMessage, before: LogMessage | None) -> str:
    name = f"{message.agent} ({message.role})" if message.role else message.agent
    if message.kind == "carried":
        return f"carried to {message.account or 'no account'} ({name})"
    if message.sender == "assistant":
        return name
    same = before is None or (before.agent, before.role) == (message.agent, message.role)
    return "you" if same else f"you → {name}"


def _notes(message: LogMessage, turn: Turn | None, walled: bool) -> str:
    notes = ["(edited)" if message.edited is not None else "", "(no history)" if message.blank else ""]
    if message.sender == "assistant" and turn is not None:
        stepped_down = f"after {turn.attempts[0].mode}" if turn.attempts[1:] else ""
        notes += [_caught_up(message, turn, walled), stepped_down]
    elif message.run is not None and message.state in SHOWN:
        notes.append(SHOWN[message.state])
    return "  ".join(note for note in notes if note)


def _caught_up(message: LogMessage, turn: Turn, walled: bool) -> str:
    """For a resume, how many messages came with it as text; for a branch, which message it continued from.

    If there is more than one account or login, what was sent is not simply everything before the answer.
    """
    late = turn.sent.text_messages - 1
    if turn.mode == "resume":
        return f"+{late} to catch up" if late > 0 else ""
    start = (message.n or 0) - 2 - late
    return f"↳ from #{start}" if turn.mode == "branch" and start > 0 and not walled else ""


def _spent(message: LogMessage, turn: Turn | None) -> tuple[str, str]:
    if turn is None or (message.sender == "user" and turn.cost_usd in (None, 0) and not _new(turn)):
        return "", ""
    cost = words.money(turn.cost_usd, turn.cost_estimated) if turn.cost_usd is not None else "–"
    return tokens_in_words(_new(turn)), cost


def _new(turn: Turn) -> int | None:
    known = [n for n in (turn.usage.input, turn.usage.cache_write, turn.usage.output) if n is not None]
    return sum(known) if known else None


def _left_behind(message: LogMessage, turn: Turn | None, width: int) -> Iterator[str]:
    """Why a message has no answer, and what the next turn will do about it."""
    if (why := _unanswered(message, turn)) is not None:
        yield f"    ✗ {_fitted(why, width - 6)}"
    if message.recovery is not None:
        yield f"    ↻ {_fitted(ADOPTED if message.recovery == 'adopt' else LATER, width - 6)}"


def _unanswered(message: LogMessage, turn: Turn | None) -> str | None:
    if message.sender != "user":
        turn = None
    withdrawn = message.state == "withdrawn"
    if turn is None or turn.failure is None:
        return DIED if withdrawn and turn is None else None
    why = words.failure(turn, message.agent) if turn.failure.kind != "cancelled" else "cancelled"
    if message.state in SHOWN:  # it met a limit, and goes on
        return f"{why}{_done(turn, why)}" if message.state == "parked" else None
    why = f"{NEVER}: {why}" if withdrawn else why
    return why + _done(turn, why)


def _done(turn: Turn, why: str) -> str:
    if turn.tools_run is None:
        return "" if DOUBT in why else f"; {DOUBT}"
    return f", after {count_in_words(turn.tools_run, 'tool call')}" if turn.tools_run else ""


def _fitted(text: str, room: int) -> str:
    return fitted(words.one_line(text), room)
