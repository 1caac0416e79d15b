"""A native session as the outside sees it: one stable form for the command line, the library and the API."""

from __future__ import annotations

import msgspec

from segue.core.transcript import Brief
from segue.core.usage import Context
from segue.sessions.listing import Listed
from segue.sessions.shelf import Known, Shelf
from segue.sessions.tally import load

OPENING = "--- prior context ---"
"""How a prompt begins that carries a conversation as text."""


class SessionShown(msgspec.Struct, frozen=True, kw_only=True):
    """Times are milliseconds since 1970; what is not known is null."""

    id: str
    agent: str
    account: str | None
    cwd: str | None
    """As it was recorded, never guessed from a folder's name."""
    title: str | None
    title_by: str | None
    """``user``, ``agent`` or ``prompt``: who gave it that title."""
    first_prompt: str | None
    last_prompt: str | None
    messages: int | None
    messages_estimated: bool
    size: int
    tokens: int | None
    cost_usd: float | None
    context: Context
    """What a resume would load, and the window."""
    branch: str | None
    created: int | None
    last_used: int
    expires: int | None
    """When the agent's own clean-up will delete it."""
    known: bool
    """Whether Segue has seen it."""
    conversation: str | None
    pinned: bool
    ours: bool
    """Whether a turn of Segue made it."""
    tags: tuple[str, ...]
    agent_name: str | None
    model: str | None
    version: str | None
    parent: str | None
    path: str
    trouble: str | None
    """What could not be read of it."""


def shown(each: Listed, shelf: Shelf) -> SessionShown:
    brief, known = each.brief, shelf.known(each.place.agent, each.id)
    messages, estimated = _messages(each, shelf)
    loaded = load(brief, each.place.reader.allowance, _window(known))
    return SessionShown(
        id=each.id,
        agent=each.place.agent,
        account=each.place.account,
        cwd=brief.cwd,
        title=_title(brief),
        title_by=brief.title_by,
        first_prompt=brief.first_prompt,
        last_prompt=brief.last_prompt,
        messages=messages,
        messages_estimated=estimated,
        size=each.stored.size,
        tokens=brief.tokens,
        cost_usd=brief.cost_usd,
        context=Context(loaded.tokens, loaded.window),
        branch=brief.branch,
        created=brief.created_ms,
        last_used=each.last_used_ms,
        expires=each.place.reader.expires_ms(each.stored, brief),
        known=known.row is not None or known.ours,
        conversation=known.conversation,
        pinned=known.pinned,
        ours=known.ours,
        tags=brief.tags,
        agent_name=brief.agent_name,
        model=brief.model,
        version=brief.version,
        parent=brief.parent,
        path=str(each.stored.path),
        trouble=brief.trouble,
    )


def _title(brief: Brief) -> str | None:
    """What a replay sent before the message is nobody's title."""
    title = brief.title
    if title is None or brief.title_by != "prompt" or not title.startswith(OPENING):
        return title
    return brief.last_prompt if brief.last_prompt and not brief.last_prompt.startswith(OPENING) else None


def _messages(each: Listed, shelf: Shelf) -> tuple[int | None, bool]:
    """Exact where the search index has read all of it."""
    if each.brief.messages is None or each.brief.messages_estimated:
        read, count = shelf.counted.get(str(each.stored.path), (-1, 0))
        if read == each.stored.size:
            return count, False
    return each.brief.messages, each.brief.messages_estimated


def _window(known: Known) -> int | None:
    return known.row.context.window if known.row is not None else None
