"""What is sent: the new message, and before it what this session does not have yet.

A turn with nothing to carry sends the user's text exactly as typed. Otherwise the prompt is a sequence of
parts (see ``prompt_parts``), and the new message is the last, under the same heading as the user's earlier
ones. What stays the same from turn to turn comes first; what applies to this turn alone comes right before
the new message. So each replay begins with the previous replay.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from segue.core import prompt_parts
from segue.core.model import Instructions, Voice
from segue.core.prompt_messages import MessageText, correction_part, message_parts, speaker_name
from segue.core.prompt_parts import NEW_MESSAGE, Part, render_parts, size_of
from segue.core.prompt_recap import Recap, recap
from segue.core.request import Capabilities, Unit
from segue.core.turn import Mode

RECAP_BYTES = 24_000
_ANEW: frozenset[Mode] = frozenset({"replay", "recap", "fresh"})
"""Modes that begin a new native session."""


class Carry(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a turn may have to tell the agent. Values only."""

    mode: Mode
    voice: Voice
    label: str
    """The agent's name in sentences."""
    new: MessageText
    earlier: tuple[MessageText, ...] = ()
    """What is sent as text, in order; nothing in a ``fresh`` turn."""
    corrections: tuple[MessageText, ...] = ()
    """Messages that the session has second-hand in an older revision."""
    instructions: str | None = None
    """Set only if they have to be sent in the message."""
    lost: str | None = None
    """Why an expected session is gone."""
    interrupted: int | None = None
    """How many tool calls ran before the last turn was interrupted."""
    left: tuple[str, int | None] | None = None
    """Who was interrupted in the previous turn and after how many tool calls (None: unknown), if neither the
    session nor the carried text says so."""
    unsure: bool = False
    """It was interrupted, and it is not known what it did."""
    echo: bool = False
    """Remind the agent to answer the new message: after a question, a failure or a fork."""
    role: str | None = None
    objective: str | None = None
    max_bytes: int = RECAP_BYTES
    """The limit of a recap."""
    limit: int | None = None
    """The limit of the whole prompt, in ``unit``: a recap uses what the rest leaves, if that is enough."""
    unit: Unit = "bytes"
    quiet_at: bool = False
    """The agent takes ``@word`` for a file to read. That is intended only in the new message."""


class Composed(msgspec.Struct, frozen=True):
    """``text_messages``: how many messages the prompt contains, including the new one."""

    prompt: str
    text_messages: int
    bytes: int


def compose(carry: Carry) -> Composed:
    standing, now = _standing(carry), _now(carry)
    new = Part(NEW_MESSAGE, carry.new.text, literal=True)
    carried = _carried(carry, [*standing, *now, new])
    said = [*carried.parts, *(correction_part(each, carry.voice) for each in carry.corrections)]
    if said and not (_carried_only(carry) and not carry.corrections):
        said.insert(0, _header(carry))
    before = [*standing, *said, *now] if carry.mode in _ANEW else [*said, *standing, *now]
    prompt = carry.new.text
    if before:
        before += [Part(f"{remark}, with the message below") for remark in carry.new.attached]
        prompt = render_parts([*before, new], carry.quiet_at)
    return Composed(prompt, carried.messages + 1, len(prompt.encode()))


def _carried(carry: Carry, around: Sequence[Part]) -> Recap:
    if carry.mode == "fresh" or not carry.earlier:
        return Recap()
    if carry.mode == "recap" and not _carried_only(carry):
        header, bound = size_of([_header(carry)], carry.quiet_at), _bound(carry, around)
        return recap(carry.earlier, carry.voice, bound, reserved=header, quiet_at=carry.quiet_at)
    parts = (part for spoken in carry.earlier for part in message_parts(spoken, carry.voice))
    return Recap(tuple(parts), len(carry.earlier))


def _carried_only(carry: Carry) -> bool:
    """All of the text was carried over from another account: it explains itself, and is sent whole."""
    return all(each.message.kind == "carried" for each in carry.earlier)


def _bound(carry: Carry, around: Sequence[Part]) -> int:
    """How many bytes are left for a recap beside the rest. A character has at least one byte."""
    if carry.limit is None:
        return carry.max_bytes
    rest = f"{render_parts(around, carry.quiet_at)}\n\n"
    taken = len(rest.encode()) if carry.unit == "bytes" else len(rest)
    return min(carry.max_bytes, carry.limit - taken)


def _header(carry: Carry) -> Part:
    me = speaker_name(Voice(carry.label, carry.voice.role))
    return Part(prompt_parts.PRIOR, prompt_parts.tool_record(carry.mode, me, carry.quiet_at))


def _standing(carry: Carry) -> list[Part]:
    """What applies to every turn of the session."""
    parts = []
    if carry.instructions and carry.instructions.strip():
        from_now = "instructions" if carry.mode in _ANEW else "instructions from now on"
        parts.append(Part(from_now, carry.instructions.strip(), literal=True))
    if carry.role:
        parts.append(Part("role", prompt_parts.role_note(carry.role, carry.objective), literal=True))
    return parts


def _now(carry: Carry) -> list[Part]:
    """What applies to this turn alone."""
    lines = []
    if carry.lost is not None:
        lines.append(prompt_parts.lost_note(carry.lost, carry.mode))
    if carry.interrupted:
        lines.append(prompt_parts.interrupted_note(carry.interrupted))
    if carry.unsure:
        lines.append(prompt_parts.interrupted_note(None))
    if carry.left is not None:
        lines.append(prompt_parts.left_behind_note(*carry.left))
    if carry.echo:
        lines.append(prompt_parts.ECHO)
    return [Part("note", "\n".join(lines))] if lines else []


class RoutedInstructions(msgspec.Struct, frozen=True):
    """Where the instructions of a turn go: into its message, or to the CLI as a system prompt."""

    in_message: str | None = None
    system_prompt: str | None = None


def route(instructions: str | None, can: Capabilities, *, fresh: bool) -> RoutedInstructions:
    """``fresh``: the turn begins a native session. A system prompt is used only if the session keeps it."""
    if instructions is None or not instructions.strip():
        return RoutedInstructions()
    if fresh and can.system_prompt == "session":
        return RoutedInstructions(system_prompt=instructions)
    return RoutedInstructions(in_message=instructions.strip())


def instructions_due(
    wanted_hash: str | None, pin_instructions: Instructions | None, cut_at: int, compacted: bool
) -> bool:
    """Whether to send the instructions: once per native session, and when they changed, were cut off, or may
    be missing from a summary.

    ``cut_at``: how many deliveries the session keeps. ``compacted``: since they were given, its history was
    replaced by a summary (a system prompt survives that: then the caller passes false).
    """
    if wanted_hash is None:
        return False
    if pin_instructions is None or pin_instructions.hash != wanted_hash:
        return True
    return compacted or pin_instructions.at >= cut_at
