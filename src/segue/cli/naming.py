"""What is meant on the command line: a session by its id or its conversation, agents by their names."""

from __future__ import annotations

from collections.abc import Iterable

from segue.agents.registry import BUILT_IN
from segue.core.errors import Misuse
from segue.sessions.listing import Listed
from segue.sessions.shelf import Shelf
from segue.store.store import Store


def named(shelf: Shelf, store: Store, name: str) -> Listed:
    """The session of that id; else the one that the conversation of that key used last."""
    try:
        return shelf.find(name)
    except Misuse:
        conversation = store.conversation(name)
        pins = store.pins(conversation.id) if conversation is not None else []
        if not pins:
            raise
        return shelf.find(f"{pins[0].voice.agent}:{pins[0].native_id}")


def known_agents(names: Iterable[str], declared: Iterable[str]) -> None:
    """``Misuse`` for one that there is not: a slip would look like an empty list."""
    known = {*BUILT_IN, *declared}
    for name in names:
        if name not in known:
            raise Misuse(f'there is no agent "{name}". Known: {", ".join(sorted(known))}')
