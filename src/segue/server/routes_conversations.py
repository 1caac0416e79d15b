"""Routes to look through conversations: pages, search, versions, lineage, marks. And usage and settings."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from segue import (
    Chain,
    ConversationHit,
    ConversationLineage,
    ConversationSession,
    ConversationShown,
    MessagePage,
    MessageVersion,
    Misuse,
    SettingsShown,
    UnpaidTurn,
    UsageStatistics,
)
from segue.core.request import IMAGES
from segue.core.usage import Grouping
from segue.server.endpoint import Call, Endpoint

CONVERSATIONS = "/api/v1/conversations"
ONE = f"{CONVERSATIONS}/{{key}}"
OTHER = "application/octet-stream"
Text = Annotated[str, msgspec.Meta(min_length=1)]
Limit = Annotated[int, msgspec.Meta(ge=1, le=1000)]


class CreateBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new conversation. What is given is used by its first turn."""

    key: Text
    agent: Text | None = None
    account: Text | None = None
    model: Text | None = None
    role: Text | None = None
    cwd: Text | None = None
    title: str = ""


class ChangeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change of a conversation; what is left out stays. An empty title: lists show how it begins."""

    title: str | None = None
    starred: bool | None = None


class PageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Without ``before``, ``at`` and ``after``: the newest page. At most one of them can be given.

    ``before``: the page before this message (a page's ``first_id``). ``after``: the page after this message
    (a page's ``last_id``). ``at``: the page with this message in its middle. ``events``: with the events of
    the messages' runs.
    """

    before: Text | None = None
    at: Text | None = None
    after: Text | None = None
    limit: Limit = 100
    events: bool = False


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The words as they stand; upper and lower case are alike. ``since``: ``7d``, ``12h``, or a date."""

    text: Text
    agent: Text | None = None
    since: Text | None = None
    limit: Limit = 20


class UsageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``since``: ``7d``, ``12h``, or a date. ``split``: a second grouping, for the ``parts`` of each sum."""

    since: Text | None = None
    by: Grouping = "day"
    split: Grouping | None = None


class UnpaidQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``since``: ``7d``, ``12h``, or a date."""

    since: Text | None = None
    limit: Limit = 100


async def create(call: Call) -> ConversationShown:
    new: CreateBody = call.body
    return await call.segue.conversations.create(
        new.key,
        agent=new.agent,
        account=new.account,
        model=new.model,
        role=new.role,
        cwd=new.cwd,
        title=new.title,
    )


async def show(call: Call) -> ConversationShown:
    return await call.segue.conversations.show(call.path["key"])


async def change(call: Call) -> ConversationShown:
    key, new, conversations = call.path["key"], call.body, call.segue.conversations
    if new.title is None and new.starred is None:
        raise Misuse("nothing to change: give a title, or starred")
    if new.title is not None:
        await conversations.rename(key, new.title)
    if new.starred is not None:
        await conversations.star(key, new.starred)
    return await conversations.show(key)


async def disallow(call: Call) -> ConversationShown:
    return await call.segue.conversations.disallow(call.path["key"], call.path["tool"])


async def mark_read(call: Call) -> None:
    await call.segue.conversations.mark_read(call.path["key"])


async def messages(call: Call) -> MessagePage:
    asked: PageQuery = call.query
    return await call.segue.conversations.messages(
        call.path["key"],
        before=asked.before,
        at=asked.at,
        after=asked.after,
        limit=asked.limit,
        events=asked.events,
    )


async def search(call: Call) -> list[ConversationHit]:
    asked: SearchQuery = call.query
    return await call.segue.conversations.search(
        asked.text, agent=asked.agent, since=asked.since, limit=asked.limit
    )


async def attachment(call: Call) -> Response:
    """Images can be shown; everything else is only saved. Nothing in it can run or load anything."""
    found = await call.segue.conversations.attachment(call.path["key"], call.path["attachment"])
    shown = found.media_type in IMAGES
    how, name = "inline" if shown else "attachment", quote(found.name, safe="")
    return Response(
        found.data,
        media_type=found.media_type if shown else OTHER,
        headers={
            "content-disposition": f"{how}; filename*=UTF-8''{name}",
            "content-security-policy": "default-src 'none'; sandbox",
            "x-content-type-options": "nosniff",
        },
    )


async def siblings(call: Call) -> list[MessageVersion]:
    return await call.segue.conversations.siblings(call.path["key"], call.path["message"])


async def lineage(call: Call) -> ConversationLineage:
    return await call.segue.conversations.lineage(call.path["key"])


async def chain(call: Call) -> Chain:
    return await call.segue.conversations.chain(call.path["name"])


async def sessions(call: Call) -> list[ConversationSession]:
    return await call.segue.conversations.sessions(call.path["key"])


async def usage(call: Call) -> UsageStatistics:
    asked: UsageQuery = call.query
    return await call.segue.usage(since=asked.since, by=asked.by, split=asked.split)


async def unpaid(call: Call) -> list[UnpaidTurn]:
    return await call.segue.unpaid(since=call.query.since, limit=call.query.limit)


async def settings(call: Call) -> SettingsShown:
    return await call.segue.settings()


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "POST",
        CONVERSATIONS,
        ("Segue.conversations.create",),
        create,
        "Create a conversation in which nothing was said yet",
        returns=ConversationShown,
        body=CreateBody,
        status=201,
    ),
    Endpoint(
        "GET",
        ONE,
        ("Segue.conversations.show",),
        show,
        "One conversation, as in the list",
        returns=ConversationShown,
    ),
    Endpoint(
        "PATCH",
        ONE,
        ("Segue.conversations.rename", "Segue.conversations.star"),
        change,
        "Give a conversation a title or a star",
        returns=ConversationShown,
        body=ChangeBody,
    ),
    Endpoint(
        "DELETE",
        f"{ONE}/allowed-tools/{{tool}}",
        ("Segue.conversations.disallow",),
        disallow,
        "Take back that a tool may always be used",
        returns=ConversationShown,
    ),
    Endpoint(
        "POST",
        f"{ONE}/read",
        ("Segue.conversations.mark_read",),
        mark_read,
        "Record that somebody has seen the newest answer",
    ),
    Endpoint(
        "GET",
        f"{ONE}/messages",
        ("Segue.conversations.messages",),
        messages,
        "A page of messages: the newest, or around a message",
        returns=MessagePage,
        query=PageQuery,
    ),
    Endpoint(
        "GET",
        f"{ONE}/attachments/{{attachment}}",
        ("Segue.conversations.attachment",),
        attachment,
        "An attachment of one of its messages",
        returns=Any,
        media=", ".join((*IMAGES, OTHER)),
    ),
    Endpoint(
        "GET",
        f"{ONE}/messages/{{message}}/siblings",
        ("Segue.conversations.siblings",),
        siblings,
        "The versions of a message: its wordings, or the answers of all runs",
        returns=list[MessageVersion],
    ),
    Endpoint(
        "GET",
        f"{ONE}/lineage",
        ("Segue.conversations.lineage",),
        lineage,
        "All turns, what each came from, and what came out of the conversation",
        returns=ConversationLineage,
        large=True,
    ),
    Endpoint(
        "GET",
        "/api/v1/chains/{name}",
        ("Segue.conversations.chain",),
        chain,
        "All turns that came out of each other, from a run, a session, a conversation or a flow",
        returns=Chain,
        large=True,
    ),
    Endpoint(
        "GET",
        f"{ONE}/sessions",
        ("Segue.conversations.sessions",),
        sessions,
        "The native sessions that its next turns would continue",
        returns=list[ConversationSession],
    ),
    Endpoint(
        "GET",
        "/api/v1/search",
        ("Segue.conversations.search",),
        search,
        "Conversations and messages that contain a text; of an agent, since a time",
        returns=list[ConversationHit],
        query=SearchQuery,
    ),
    Endpoint(
        "GET",
        "/api/v1/usage",
        ("Segue.usage",),
        usage,
        "What turns used, cost and saved, by day, agent, version, mode or conversation",
        returns=UsageStatistics,
        query=UsageQuery,
        large=True,
    ),
    Endpoint(
        "GET",
        "/api/v1/usage/unpaid",
        ("Segue.unpaid",),
        unpaid,
        "The turns for which continuing a session did not pay",
        returns=list[UnpaidTurn],
        query=UnpaidQuery,
    ),
    Endpoint(
        "GET",
        "/api/v1/settings",
        ("Segue.settings",),
        settings,
        "The configuration as it is in effect, without anything secret",
        returns=SettingsShown,
    ),
)
