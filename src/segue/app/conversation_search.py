"""A search over the titles and messages of all conversations."""

from __future__ import annotations

from segue.app.conversation_shapes import ConversationHit
from segue.app.native import refuse_unknown_agents, since_ms
from segue.app.workspace import Workspace
from segue.core.errors import Misuse
from segue.store.reading import FoundRow
from segue.system import clock

AROUND = 60
"""How many characters a snippet shows before and after what was found."""


def search(
    workspace: Workspace, text: str, *, agent: str | None, since: str | None, limit: int
) -> list[ConversationHit]:
    wanted = text.strip()
    if not wanted:
        raise Misuse("nothing to search for: the text is empty")
    refuse_unknown_agents((agent,) if agent is not None else (), workspace.config)
    from_ms = since_ms(since, clock.now_s()) if since is not None else 0
    found = workspace.store.reading.search(wanted, limit, agent or "", from_ms)
    return [_hit(each, wanted) for each in found]


def _hit(found: FoundRow, wanted: str) -> ConversationHit:
    return ConversationHit(
        key=found.key,
        title=found.title,
        where="title" if found.message is None else "message",
        message=found.message,
        sender=found.sender,
        agent=found.agent,
        snippet=snippet(found.text, wanted),
        created=found.ms,
    )


def snippet(text: str, wanted: str) -> str:
    """The first place where it stands, with what is around it, on one line."""
    at = max(0, text.lower().find(wanted.lower()))
    start, end = max(0, at - AROUND), min(len(text), at + len(wanted) + AROUND)
    line = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{line}{'…' if end < len(text) else ''}"
