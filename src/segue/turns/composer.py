"""Composes the request of an attempt: the new message, and before it what the session does not have yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from segue.core.cut import UNKNOWN_PLACE
from segue.core.ladder import Decision
from segue.core.model import Attached, Instructions, Message, Voice
from segue.core.prompt import Carry, RoutedInstructions, compose, instructions_due, route
from segue.core.prompt_messages import MessageText, speaker_name
from segue.core.request import Request
from segue.core.turn import Mode
from segue.core.verdicts import Said
from segue.store.store import Store
from segue.turns.gate import Admission
from segue.turns.request import name_of
from segue.turns.situation import Gathered, continued_request
from segue.turns.texts import load_texts

if TYPE_CHECKING:
    from segue.turns.attachments import ChosenAttachments

LOST = ("file", "host", "runtime", "size", "retired", "poisoned", "workdir", "account", "ttl", "fits")
"""If one of these checks rules out a resume, an expected session is lost."""
NATIVE = ("resume", "branch")
GO_ON = "Go on with what you were asked last."


class ComposedRequest(msgspec.Struct, frozen=True):
    """The request, the instructions that the session has after it, and how many messages it gets as text."""

    request: Request
    instructions: Instructions | None
    text_messages: int
    attachments: tuple[Attached, ...] = ()
    notices: tuple[Said, ...] = ()


class _DueInstructions(msgspec.Struct, frozen=True):
    """The instructions that the session has after the attempt, and those that are sent now."""

    held: Instructions | None = None
    sent: RoutedInstructions = RoutedInstructions()


class Composer:
    """Composes the request of one turn in one mode. ``refused``: why the previous attempt was refused."""

    def __init__(
        self,
        admission: Admission,
        store: Store,
        gathered: Gathered,
        decision: Decision,
        mode: Mode,
        refused: str | None,
    ) -> None:
        self.prepared, self.store = admission.prepared, store
        self.gathered, self.decision = gathered, decision
        self.mode, self.refused, self.native = mode, refused, mode in NATIVE
        self.cut = gathered.situation.cut
        self.corrections = self.cut.corrections if self.native else ()
        self._attached: ChosenAttachments | None = None

    def text(self) -> tuple[Message, ...]:
        """The messages that are sent as text."""
        if self.native:
            return self.cut.text
        return self.gathered.view if self.mode != "fresh" else self.gathered.view[-1:]

    def compose(self) -> ComposedRequest:
        prepared, pin = self.prepared, self.gathered.pin
        due = self._instructions()
        carried = compose(self._carry(due.sent.in_message))
        base = continued_request(prepared, pin) if self.native and pin is not None else prepared.request
        request = msgspec.structs.replace(base, prompt=carried.prompt, system_prompt=due.sent.system_prompt)
        attached = self._attached
        sent, notices = (attached.sent, attached.notices) if attached is not None else ((), ())
        return ComposedRequest(request, due.held, carried.text_messages, sent, (*notices, *self._unseen()))

    def _carry(self, instructions: str | None) -> Carry:
        prepared, pin = self.prepared, self.gathered.pin
        can, facts = prepared.runtime.capabilities, prepared.agent.facts
        text = (*(self._unsure() if self.native else ()), *self.text())
        words = self._with_attachments(text, load_texts(self.store, text))
        words |= load_texts(self.store, self.corrections)
        last = pin.ended if pin is not None else None
        ended = last if self.native else None
        return Carry(
            mode=self.mode,
            voice=prepared.voice,
            label=facts.label,
            # A message that is retried after its tools had run is already in the session.
            new=self._new(words[text[-1].id] if text else MessageText(self.gathered.view[-1], GO_ON)),
            earlier=tuple(words[each.id] for each in text[:-1]),
            corrections=tuple(words[each.id] for each in self.corrections),
            instructions=instructions,
            lost=self._lost(),
            interrupted=ended.tools_run or None if ended is not None else None,
            left=self._left(text),
            unsure=last is not None and last.tools_run is None,
            echo=self.native and self._echoes(),
            role=prepared.role or None,
            objective=prepared.ask.briefing.objective if prepared.ask.briefing is not None else None,
            max_bytes=prepared.config.recap.max_bytes,
            limit=can.prompt_limit,
            unit=can.prompt_unit,
            quiet_at=facts.expands_at,
        )

    def _new(self, message: MessageText) -> MessageText:
        """The new message; in a new session of a flow's role, the whole prompt in its place."""
        briefing = self.prepared.ask.briefing
        if briefing is None or self.mode != "fresh":
            return message
        return msgspec.structs.replace(message, text=briefing.full)

    def _with_attachments(
        self, text: Sequence[Message], words: dict[str, MessageText]
    ) -> dict[str, MessageText]:
        """Choose the attachments to send, and say of each message what is sent with it."""
        found = self.store.attachments([each.id for each in text if each.sender == "user"])
        if not found:
            return words
        from segue.turns.attachments import choose

        can, label = self.prepared.runtime.capabilities, self.prepared.agent.facts.label
        self._attached = chosen = choose(text, found, can, mode=self.mode, label=label)
        remarked = {
            message: msgspec.structs.replace(words[message], attached=remarks)
            for message, remarks in chosen.remarks.items()
        }
        return words | remarked

    def _unseen(self) -> tuple[Said, ...]:
        """The notice that the session does not show its earlier attachments any more."""
        can, pin = self.prepared.runtime.capabilities, self.gathered.pin
        if can.keeps_attachments or not self.native or pin is None:
            return ()
        from segue.turns.attachments import lost_in_session

        kept = [each.message for each in self.gathered.kept]
        return lost_in_session(self.store, kept, name_of(self.prepared.agent, self.prepared.runtime))

    def _instructions(self) -> _DueInstructions:
        prepared, native, rows = self.prepared, self.native, self.cut.rows
        wanted = prepared.instructions if prepared.instructions and prepared.instructions.strip() else None
        digest = _digest(wanted) if wanted else None
        pin = self.gathered.pin if native else None
        given = pin.instructions if pin is not None else None
        due = instructions_due(digest, given, rows, False) if native else wanted is not None
        sent = route(wanted if due else None, prepared.runtime.capabilities, fresh=not native)
        if digest is not None and due:
            # a session keeps its system prompt whatever is cut off: it counts as given at the start
            given = Instructions(digest, -1 if sent.system_prompt is not None else rows if native else 0)
        return _DueInstructions(given, sent)

    def _unsure(self) -> tuple[Message, ...]:
        """The message that the session was interrupted in, if it is not known whether the CLI kept it."""
        pin, cut = self.gathered.pin, self.cut
        if pin is None or pin.ended is None or pin.ended.tools_run is not None:
            return ()
        if cut.anchor is None or not cut.anchor.startswith(UNKNOWN_PLACE):
            return ()
        last = pin.held[cut.rows - 1].message
        return tuple(each for each in self.gathered.view if each.id == last and each.sender == "user")

    def _lost(self) -> str | None:
        """Why an expected session is gone; the agent is told once."""
        if self.native or self.mode == "fresh" or self.gathered.pin is None:
            return None
        if self.refused is not None:
            return self.refused
        why = [c.detail for c in self.decision.checks if c.check in LOST and "resume" in c.bars]
        return why[0] if why else None

    def _left(self, text: Sequence[Message]) -> tuple[str, int | None] | None:
        """Who was interrupted before, if neither the session nor the carried text says so."""
        told, pin = self.gathered.interrupted, self.gathered.pin
        if told is None:
            return None
        voice = Voice(told.agent, told.role or "")
        ended = pin.ended if voice == self.prepared.voice and pin is not None else None
        if ended is not None and (ended.tools_run is None or (self.native and ended.tools_run)):
            return None
        marked = {message.id for message in text[:-1]} if self.native or self.mode == "replay" else set()
        return None if told.message in marked else (speaker_name(voice), told.tools_run)

    def _echoes(self) -> bool:
        """Whether the agent may answer an earlier message: after a question, a failure or a fork."""
        pin = self.gathered.pin
        if pin is not None and (pin.ended is not None or pin.foreign is not None):
            return True
        return pin is not None and pin.asked


def _digest(text: str) -> str:
    from hashlib import sha256  # only needed for instructions

    return sha256(text.encode()).hexdigest()[:16]
