"""What is sent: the new message, and before it what this session does not have yet.

A turn with nothing to carry sends the user's text exactly as typed. Otherwise the prompt is a row of parts
(see ``carried``), and the new message is the last, under the same heading as the user's earlier ones. What
stays the same from turn to turn stands in front; what is true of this turn alone stands right before the new
message: so a replay begins with the replay before it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from segue.core import notes
from segue.core.carried import NEW, Part, render, size
from segue.core.model import Voice
from segue.core.recap import Recap, recap
from segue.core.request import Unit
from segue.core.spoken import Spoken, correction, name, parts_of
from segue.core.turn import Mode

RECAP_BYTES = 24_000
_ANEW: frozenset[Mode] = frozenset({"replay", "recap", "fresh"})
"""Modes that begin a native session."""


class Carry(msgspec.Struct, frozen=True, kw_only=True):
    """All that a turn may have to say to the agent. Values only."""

    mode: Mode
    voice: Voice
    label: str
    """What the agent is called in sentences."""
    new: Spoken
    earlier: tuple[Spoken, ...] = ()
    """What is to be sent as text, in order; of a ``fresh`` turn nothing is."""
    corrections: tuple[Spoken, ...] = ()
    """What the session has second-hand in an older wording."""
    instructions: str | None = None
    """Given only if they must ride in the message."""
    lost: str | None = None
    """Why a session that was expected is not there."""
    interrupted: int | None = None
    """How many tool calls ran before the last turn was interrupted."""
    left: tuple[str, int | None] | None = None
    """Who was interrupted in the turn before and after how many tool calls (None: unknown), where neither the
    session nor what is carried tells."""
    unsure: bool = False
    """It was interrupted, and nobody knows what it did."""
    echo: bool = False
    """After a question, a failure or a fork."""
    role: str | None = None
    objective: str | None = None
    max_bytes: int = RECAP_BYTES
    """Of a recap."""
    limit: int | None = None
    """Of the whole prompt, in ``unit``: a recap keeps to what the rest leaves of it, if that is of use."""
    unit: Unit = "bytes"
    quiet_at: bool = False
    """The agent takes ``@word`` for a file to read. In the new message that is meant; in others it is not."""


class Composed(msgspec.Struct, frozen=True):
    """``text_messages``: how many messages stand in the prompt, the new one included."""

    prompt: str
    text_messages: int
    bytes: int


def compose(carry: Carry) -> Composed:
    standing, now = _standing(carry), _now(carry)
    new = Part(NEW, carry.new.text, literal=True)
    carried = _carried(carry, [*standing, *now, new])
    said = [*carried.parts, *(correction(each, carry.voice) for each in carry.corrections)]
    if said:
        said.insert(0, _header(carry))
    before = [*standing, *said, *now] if carry.mode in _ANEW else [*said, *standing, *now]
    prompt = carry.new.text
    if before:
        prompt = render([*before, new], carry.quiet_at)
    return Composed(prompt, carried.messages + 1, len(prompt.encode()))


def _carried(carry: Carry, around: Sequence[Part]) -> Recap:
    if carry.mode == "fresh" or not carry.earlier:
        return Recap()
    if carry.mode == "recap":
        header, bound = size([_header(carry)], carry.quiet_at), _bound(carry, around)
        return recap(carry.earlier, carry.voice, bound, reserved=header, quiet_at=carry.quiet_at)
    parts = (part for spoken in carry.earlier for part in parts_of(spoken, carry.voice))
    return Recap(tuple(parts), len(carry.earlier))


def _bound(carry: Carry, around: Sequence[Part]) -> int:
    """How many bytes a recap may have beside what else is sent. A byte is never less than a character."""
    if carry.limit is None:
        return carry.max_bytes
    rest = f"{render(around, carry.quiet_at)}\n\n"
    taken = len(rest.encode()) if carry.unit == "bytes" else len(rest)
    return min(carry.max_bytes, carry.limit - taken)


def _header(carry: Carry) -> Part:
    me = name(Voice(carry.label, carry.voice.role))
    return Part("prior context", notes.record(carry.mode, me, carry.quiet_at))


def _standing(carry: Carry) -> list[Part]:
    """What holds for every turn of the session."""
    parts = []
    if carry.instructions and carry.instructions.strip():
        from_now = "instructions" if carry.mode in _ANEW else "instructions from now on"
        parts.append(Part(from_now, carry.instructions.strip(), literal=True))
    if carry.role:
        parts.append(Part("role", notes.part_played(carry.role, carry.objective), literal=True))
    return parts


def _now(carry: Carry) -> list[Part]:
    """What is to be said of this turn alone."""
    lines = []
    if carry.lost is not None:
        lines.append(notes.lost(carry.lost, carry.mode))
    if carry.interrupted:
        lines.append(notes.interrupted(carry.interrupted))
    if carry.unsure:
        lines.append(notes.interrupted(None))
    if carry.left is not None:
        lines.append(notes.left_behind(*carry.left))
    if carry.echo:
        lines.append(notes.ECHO)
    return [Part("note", "\n".join(lines))] if lines else []
