"""The session that a conversation leaves when it moves to another account, and whose words are in it."""

from __future__ import annotations

from collections.abc import Sequence

from segue.config.schema import Config
from segue.core.model import Pin
from segue.core.view import UNKNOWN, Viewer, account_mark, under, visible
from segue.store.records import Conversation
from segue.store.store import Store
from segue.turns.gate import Refused, may_send

To = tuple[str, str, str]
"""Where the conversation moves: agent, account and login."""


def left_pin(pins: Sequence[Pin], conversation: Conversation, to: To) -> Pin | None:
    """The session that would be carried over. If the conversation was moved to the new account before,
    without being carried over: that of the last other account."""

    def nearness(pin: Pin) -> tuple[bool, bool, bool, int]:
        left = (pin.voice.agent, pin.account) == (conversation.agent, conversation.account)
        return pin.voice.agent == to[0], left, pin.voice.role == conversation.role, pin.succeeded_ms

    others = (pin for pin in pins if (pin.voice.agent, pin.account, pin.login) != to)
    return max(others, key=nearness, default=None)


def pin_viewer(pin: Pin, config: Config) -> Viewer:
    """Who it is that continues a session."""
    return Viewer(pin.voice, pin.account, pin.login or UNKNOWN, config.closed_to(pin.account))


def can_carry(store: Store, conversation: Conversation, config: Config, to: To) -> bool:
    """Whether ``segue account switch --carry`` has something to carry over, and no rule forbids it."""
    pin = left_pin(store.pins(conversation.id), conversation, to)
    same_agent = pin is not None and pin.voice.agent == to[0]
    return same_agent and refused_carry(store, conversation, config, to) is None


def refused_carry(store: Store, conversation: Conversation, config: Config, to: To) -> Refused | None:
    """The rule that forbids a carry which the user asks for; None: there is none, or nothing to carry."""
    pin = left_pin(store.pins(conversation.id), conversation, to)
    if pin is None:
        return None
    viewer = pin_viewer(pin, config)
    marks = under(visible(store.messages(conversation.id), viewer), viewer)
    return may_send(config, marks, account_mark(*to), "user")
