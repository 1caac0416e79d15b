"""The store as a turn would find it that forks, adopts or retries first. Nothing is written."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from segue.core.model import Held, Message, Pin, Voice
from segue.core.view import risen
from segue.store.forks import Adoption
from segue.store.records import Conversation
from segue.store.store import Store
from segue.turns.changes import voices_of
from segue.turns.marks import marks_of
from segue.turns.prepare import Prepared
from segue.turns.projection import ProjectedStore


class PlannedStore(ProjectedStore):
    """Changes one conversation in memory, in the order in which a turn would: fork, adopt, retry."""

    def __init__(self, store: Store, conversation: Conversation) -> None:
        super().__init__(store)
        self._conversation = conversation
        self._forked: list[Message] | None = None
        self._adoption: Adoption | None = None
        self._retried: Message | None = None
        self._moved: list[Voice] = []

    def fork_messages(self) -> None:
        """The messages so far, without one that is being answered right now."""
        unsettled = {row.message for row in self.unsettled(self._conversation.id)}
        messages = super().messages(self._conversation.id)
        settled = [n for n, message in enumerate(messages, 1) if message.id not in unsettled]
        self._forked = messages[: settled[-1]] if settled else []

    def adopt_messages(self, adoption: Adoption) -> None:
        """The messages of a native session, which is pinned."""
        self._adoption = adoption

    def retry_message(self, message: str, prepared: Prepared) -> None:
        """The message is the last one, addressed as this turn does."""
        messages = self.messages(self._conversation.id)
        at = next((n for n, each in enumerate(messages) if each.id == message), None)
        old = messages[at] if at is not None else None
        self._retried = Message(
            id=message,
            sender="user",
            voice=prepared.voice,
            revision=old.revision if old is not None else 1,
            account=prepared.account_name,
            under=marks_of(prepared),
            blank=prepared.ask.blank,
            size=len(prepared.ask.prompt.encode()),
        )
        if at is not None and messages[at + 1 :]:
            self._moved = risen(messages, messages[: at + 1], voices_of(messages))

    # what is read then

    def messages(self, conversation_id: str) -> list[Message]:
        if conversation_id != self._conversation.id:
            return super().messages(conversation_id)
        messages = super().messages(conversation_id) if self._forked is None else list(self._forked)
        if self._adoption is not None:
            messages += [message for message, _, _ in self._adoption.said]
        if self._retried is None:
            return messages
        return [*_before(messages, self._retried.id), self._retried]

    def pin(
        self, conversation_id: str, voice: Voice, account: str, login: str | None = None, *, held: bool = True
    ) -> Pin | None:
        mine, pin = conversation_id == self._conversation.id, None
        if mine and self._adoption is not None:
            pin = self._adopted(voice, account, login, held=held)
        if pin is None:
            pin = super().pin(conversation_id, voice, account, login, held=held)
        return self._shared(pin) if mine and self._forked is not None and pin is not None else pin

    def pins(self, conversation_id: str) -> list[Pin]:
        pins = super().pins(conversation_id)
        if self._adoption is None or conversation_id != self._conversation.id:
            return pins
        return [self._adoption.pin, *(pin for pin in pins if pin.session != self._adoption.pin.session)]

    def epochs(self, conversation_id: str) -> dict[Voice, int]:
        epochs = super().epochs(conversation_id)
        return epochs | {voice: epochs.get(voice, 0) + 1 for voice in self._moved}

    def _adopted(self, voice: Voice, account: str, login: str | None, *, held: bool) -> Pin | None:
        adoption = self._adoption
        if adoption is None or (voice, account, login) != _whose(adoption.pin):
            return None
        before = self.held_by(adoption.pin.session)[: adoption.held_from]
        return msgspec.structs.replace(adoption.pin, held=(*before, *adoption.held) if held else ())

    def _shared(self, pin: Pin) -> Pin | None:
        """The pin of a fork, which shares the session up to the first message that it does not have."""
        there = {message.id for message in self._forked or ()}
        kept: list[Held] = []
        for each in pin.held:
            if each.message not in there:
                break
            kept.append(each)
        foreign = pin.foreign or self._conversation.key
        return msgspec.structs.replace(pin, held=tuple(kept), foreign=foreign) if kept else None


def _before(messages: Sequence[Message], message: str) -> list[Message]:
    """Those before a message; all, if it is not there: one that never began comes last."""
    ids = [each.id for each in messages]
    return list(messages[: ids.index(message)] if message in ids else messages)


def _whose(pin: Pin) -> tuple[Voice, str, str | None]:
    return pin.voice, pin.account, pin.login
