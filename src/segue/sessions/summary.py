"""A native session as the command line and the library show it."""

from __future__ import annotations

import msgspec

from segue.core.prompt_parts import user_words
from segue.core.transcript import Brief
from segue.core.turn import Clause
from segue.core.usage import Context
from segue.sessions.catalog import KnownSessions, SessionCatalog
from segue.sessions.counts import context_load
from segue.sessions.listing import Listed


class SessionShown(msgspec.Struct, frozen=True, kw_only=True):
    """One session of ``segue sessions ls``. Times are milliseconds since 1970; what is not known is null."""

    id: str
    agent: str
    account: str | None
    cwd: str | None
    """As recorded in the session, never guessed from a folder's name."""
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
    """Whether Segue has seen it before."""
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
    """What could not be read."""
    command: str | None = None
    """The line that opens it in a terminal; None: there is no way."""
    trouble_clauses: tuple[Clause, ...] = ()
    """``trouble`` as data."""


def shown_session(each: Listed, catalog: SessionCatalog) -> SessionShown:
    brief, known = each.brief, catalog.known(each.place.agent, each.id)
    messages, estimated = _messages(each, catalog)
    loaded = context_load(brief, each.place.archive.window_rules, _window(known))
    return SessionShown(
        id=each.id,
        agent=each.place.agent,
        account=each.place.account,
        cwd=brief.cwd,
        title=title_of(brief),
        title_by=brief.title_by,
        first_prompt=user_words(brief.first_prompt or "") or None,
        last_prompt=user_words(brief.last_prompt or "") or None,
        messages=messages,
        messages_estimated=estimated,
        size=each.stored.size,
        tokens=brief.tokens,
        cost_usd=brief.cost_usd,
        context=Context(loaded.tokens, loaded.window),
        branch=brief.branch,
        created=brief.created_ms,
        last_used=each.last_used_ms,
        expires=each.place.archive.expires_ms(each.stored, brief),
        known=known.row is not None or known.ours,
        conversation=known.conversation,
        pinned=known.pinned,
        ours=known.ours,
        tags=brief.tags,
        agent_name=brief.agent_name,
        model=brief.model,
        version=brief.version,
        parent=brief.parent,
        path=each.stored.file,
        trouble=brief.trouble,
        command=catalog.commands.line(each.place.agent, each.place.home, each.id, brief.cwd),
        trouble_clauses=brief.trouble_clauses,
    )


def title_of(brief: Brief) -> str | None:
    """The title. If it is a prompt, only the user's own words, without what Segue sent before them."""
    if brief.title_by != "prompt":
        return brief.title
    words = (brief.title, brief.first_prompt, brief.last_prompt)
    return next(filter(None, (user_words(each) for each in words if each)), None)


def _messages(each: Listed, catalog: SessionCatalog) -> tuple[int | None, bool]:
    """The number of messages, and whether it is an estimate. It is exact if the search index has read all."""
    if each.brief.messages is None or each.brief.messages_estimated:
        read, count = catalog.counted.get(each.stored.file, (-1, 0))
        if read == each.stored.size:
            return count, False
    return each.brief.messages, each.brief.messages_estimated


def _window(known: KnownSessions) -> int | None:
    return known.row.context.window if known.row is not None else None
