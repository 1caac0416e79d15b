"""Routes for the agents' own sessions: list, read, search, check, repair, restore, prune."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from segue import (
    CheckReport,
    CopyShown,
    Hit,
    Page,
    PruneReport,
    RepairReport,
    RestoreReport,
    SessionInfo,
    SessionShown,
)
from segue.app.run_shapes import LATEST_MS, AttachmentOrder, RunOptions, RunOrder, RunShown
from segue.core.errors import NotFound
from segue.server.endpoint import Call, Endpoint
from segue.server.problems import Refused
from segue.server.routes_runs import KEY, ORDER_BYTES, named, refuse_paths

SESSIONS = "/api/v1/sessions"
ONE = f"{SESSIONS}/{{agent}}/{{id}}"
Count = Annotated[int, msgspec.Meta(ge=1, le=1000)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]


class ListQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The sessions of one directory, or of all (``everywhere``). ``before``: ``LAST_USED:ID`` of the last one
    of a page, for the page after it."""

    everywhere: bool = False
    agent: tuple[str, ...] = ()
    cwd: str | None = None
    limit: Count | None = None
    before: Annotated[str, msgspec.Meta(min_length=1)] | None = None


class EventsQuery(
    msgspec.Struct, frozen=True, kw_only=True, rename={"before_id": "beforeId", "after_id": "afterId"}
):
    """``beforeId``: the ``firstId`` of a page, for the page before it. ``afterId``: the ``lastId`` of a page,
    for the page after it. ``at``: the event that the page ends with. Without: the newest page."""

    anchor_to_latest: bool = False
    before_id: str | None = None
    after_id: str | None = None
    at: str | None = None
    size: Count = 100


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``since``: ``7d``, ``12h``, or a date. ``here``: only sessions of the daemon's directory."""

    q: Annotated[str, msgspec.Meta(min_length=1)]
    agent: tuple[str, ...] = ()
    since: str | None = None
    where: Literal["tool", "text"] | None = None
    here: bool = False
    limit: Count = 20
    index: bool = True


class RepairBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``trim``: without tool output and images. ``since``: from this event on."""

    trim: bool = False
    since: str | None = None


class PruneBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to delete. Without ``dry_run: false`` it is only listed."""

    days: Amount | None = None
    larger_than: Amount | None = None
    agents: tuple[str, ...] = ()
    cwd: str | None = None
    keep_last: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    all_sessions: bool = False
    confirm: str | None = None
    dry_run: bool = True


class ContinueBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message to a session. ``key``: the conversation's, if the session does not belong to one yet.
    The rest as for any run."""

    message: Annotated[str, msgspec.Meta(min_length=1)]
    key: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    account: str | None = None
    model: str | None = None
    role: str | None = None
    cwd: str | None = None
    not_before: Annotated[int, msgspec.Meta(ge=0, le=LATEST_MS)] | None = None
    answers: bool = False
    attachments: tuple[AttachmentOrder, ...] = ()
    options: RunOptions = RunOptions()

    @property
    def order(self) -> RunOrder:
        fields = msgspec.structs.asdict(self)
        del fields["key"]
        return RunOrder(**fields)


def _name(call: Call) -> str:
    return f"{call.path['agent']}:{call.path['id']}"


async def ls(call: Call) -> list[SessionShown]:
    asked: ListQuery = call.query
    return await call.segue.sessions.ls(
        everywhere=asked.everywhere,
        agents=asked.agent,
        cwd=asked.cwd,
        limit=asked.limit,
        before=asked.before,
    )


async def info(call: Call) -> SessionInfo:
    return await call.segue.sessions.info(_name(call))


async def events(call: Call) -> Page:
    asked: EventsQuery = call.query
    named = [each for each in (asked.before_id, asked.after_id, asked.at) if each is not None]
    if len(named) + asked.anchor_to_latest > 1:
        raise Refused("misuse", "give one of beforeId, afterId, at and anchor_to_latest")
    try:
        return await call.segue.sessions.show(
            _name(call), before=asked.before_id, at=asked.at, after=asked.after_id, size=asked.size
        )
    except NotFound as error:
        if not named:
            raise
        page = await call.segue.sessions.show(_name(call), size=asked.size)
        raise Refused("gone", error.message, page=page) from None


async def search(call: Call) -> list[Hit]:
    asked: SearchQuery = call.query
    return await call.segue.sessions.search(
        asked.q,
        agents=asked.agent,
        since=asked.since,
        where=asked.where,
        here=asked.here,
        limit=asked.limit,
        index=asked.index,
    )


async def check(call: Call) -> CheckReport:
    return await call.segue.sessions.check(_name(call))


async def repair(call: Call) -> RepairReport:
    return await call.segue.sessions.repair(_name(call), trim=call.body.trim, since=call.body.since)


async def continue_(call: Call) -> RunShown:
    asked: ContinueBody = call.body
    refuse_paths(call, asked.attachments)
    return await call.segue.runs.continue_session(
        _name(call), asked.order, key=asked.key, run_key=named(call)
    )


async def restore(call: Call) -> RestoreReport:
    return await call.segue.sessions.restore(_name(call))


async def copies(call: Call) -> list[CopyShown]:
    return await call.segue.sessions.copies()


async def prune(call: Call) -> PruneReport:
    asked: PruneBody = call.body
    return await call.segue.sessions.prune(
        days=asked.days,
        larger_than=asked.larger_than,
        agents=asked.agents,
        cwd=asked.cwd,
        keep_last=asked.keep_last,
        all_sessions=asked.all_sessions,
        confirm=asked.confirm,
        dry_run=asked.dry_run,
    )


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "GET",
        SESSIONS,
        ("Segue.sessions.ls",),
        ls,
        "The sessions of a directory, or all, newest first",
        returns=list[SessionShown],
        query=ListQuery,
        large=True,
    ),
    Endpoint(
        "GET",
        f"{SESSIONS}/search",
        ("Segue.sessions.search",),
        search,
        "Search the text of all sessions",
        returns=list[Hit],
        query=SearchQuery,
    ),
    Endpoint(
        "GET",
        f"{SESSIONS}/copies",
        ("Segue.sessions.copies",),
        copies,
        "The copies that Segue has kept",
        returns=list[CopyShown],
    ),
    Endpoint(
        "POST",
        f"{SESSIONS}/prune",
        ("Segue.sessions.prune",),
        prune,
        "Delete sessions that are no longer needed, or list which those are",
        returns=PruneReport,
        body=PruneBody,
    ),
    Endpoint(
        "GET",
        ONE,
        ("Segue.sessions.info",),
        info,
        "One session, and what a resume would load and restore",
        returns=SessionInfo,
    ),
    Endpoint(
        "GET",
        f"{ONE}/events",
        ("Segue.sessions.show",),
        events,
        "A page of a session's events: the newest, or one before, at or after an event",
        returns=Page,
        query=EventsQuery,
        large=True,
    ),
    Endpoint(
        "GET",
        f"{ONE}/check",
        ("Segue.sessions.check",),
        check,
        "What would make a resume fail, go wrong or cost too much",
        returns=CheckReport,
    ),
    Endpoint(
        "POST",
        f"{ONE}/repair",
        ("Segue.sessions.repair",),
        repair,
        "Write a repaired copy beside a session",
        returns=RepairReport,
        body=RepairBody,
    ),
    Endpoint(
        "POST",
        f"{ONE}/continue",
        ("Segue.runs.continue_session", "Segue.sessions.continue_"),
        continue_,
        "Queue a run that continues a session, in its conversation or in a new one",
        returns=RunShown,
        body=ContinueBody,
        headers=(KEY,),
        status=202,
        max_body=ORDER_BYTES,
    ),
    Endpoint(
        "POST",
        f"{ONE}/restore",
        ("Segue.sessions.restore",),
        restore,
        "Restore a session from its copy",
        returns=RestoreReport,
    ),
)
