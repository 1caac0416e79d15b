"""``Segue.sessions``: the agents' own sessions from Python. The methods are named like the commands."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

from anyio.to_thread import run_sync

from segue.app import native, upkeep
from segue.app.native import OpenSession
from segue.app.ready_turn import Answerer, Cancel, Listener, NoticeListener, Options, ready_turn
from segue.app.session_shapes import CheckReport, PruneReport, RepairReport, RestoreReport, SessionInfo
from segue.app.workspace import Workspace
from segue.core.laws import Door
from segue.core.turn import Turn
from segue.sessions.copies.restore import CopyShown
from segue.sessions.reading import Page
from segue.sessions.search.search import Hit
from segue.sessions.summary import SessionShown

if TYPE_CHECKING:
    from segue.app.segue import Segue


class NativeSessions:
    """A session is named by its id or the beginning of it, by ``AGENT:ID``, or by a conversation's key."""

    def __init__(self, segue: Segue) -> None:
        self._segue = segue

    async def ls(
        self,
        *,
        everywhere: bool = False,
        agents: Sequence[str] = (),
        cwd: str | Path | None = None,
        limit: int | None = None,
        before: str | None = None,
    ) -> list[SessionShown]:
        """The sessions of one directory, or of all; most recently used first. ``before``: those after one
        that was listed, named by ``f"{it.last_used}:{it.id}"``."""
        wanted = partial(native.ls, everywhere=everywhere, agents=agents, cwd=cwd, limit=limit, before=before)
        return (await run_sync(wanted, self._workspace)).sessions

    async def info(self, session: str) -> SessionInfo:
        """One session as in ``ls``, and what a resume would load and restore. Of a large one, only the
        beginning and the end are counted."""
        opened = await self._find(session)
        return await run_sync(opened.info)

    async def show(
        self,
        session: str,
        *,
        before: str | None = None,
        at: str | None = None,
        after: str | None = None,
        size: int = 100,
    ) -> Page:
        """The newest page, or the one before the event ``before`` (a page's ``first_id``), or the one that
        ends with the event ``at``, or the one after the event ``after`` (a page's ``last_id``)."""
        opened = await self._find(session)
        return await run_sync(partial(opened.page, before=before, at=at, after=after, size=size))

    async def search(
        self,
        text: str,
        *,
        agents: Sequence[str] = (),
        since: str | None = None,
        where: Literal["tool", "text"] | None = None,
        here: bool = False,
        limit: int = 20,
        index: bool = True,
    ) -> list[Hit]:
        """The best and newest matches. ``since``: ``7d``, ``12h``, or a date. ``where``: only tool calls and
        their output, or only what was said. ``index`` false: without indexing what is new first."""
        result = await run_sync(
            partial(
                native.search,
                self._workspace,
                text,
                agents=agents,
                since=since,
                where=where,
                here=here,
                limit=limit,
                index=index,
            )
        )
        return result.hits

    async def check(self, session: str) -> CheckReport:
        """What would make a resume fail, go wrong or cost too much. Nothing is changed."""
        opened = await self._find(session)
        return await run_sync(upkeep.check, opened)

    async def repair(self, session: str, *, trim: bool = False, since: str | None = None) -> RepairReport:
        """Write a repaired copy beside the session. ``trim``: without tool output and images. ``since``: from
        this event on."""
        opened = await self._find(session)
        return await upkeep.repair(self._workspace, opened, trim=trim, since=since)

    async def restore(self, session: str) -> RestoreReport:
        """Restore a session, or all of a conversation that are gone, from the copies that Segue kept."""
        return await upkeep.restore(self._workspace, session)

    async def copies(self) -> list[CopyShown]:
        """The copies that Segue has kept."""
        return await run_sync(upkeep.copies, self._workspace)

    async def prune(
        self,
        *,
        days: float | None = None,
        larger_than: float | None = None,
        agents: Sequence[str] = (),
        cwd: str | Path | None = None,
        keep_last: int = 0,
        all_sessions: bool = False,
        confirm: str | None = None,
        dry_run: bool = True,
    ) -> PruneReport:
        """Delete sessions that are no longer needed; with ``dry_run``, only report which those are.

        ``days``: not used for this many days (default: as configured). ``larger_than``: in MB.
        ``all_sessions``: also those that Segue did not make. They are deleted only with ``confirm``, the code
        for exactly this list; the error that is raised without it contains the code.
        """
        plan = await run_sync(
            partial(
                upkeep.plan_prune,
                self._workspace,
                days=days,
                larger_than=larger_than,
                agents=agents,
                cwd=cwd,
                keep_last=keep_last,
                all_sessions=all_sessions,
            )
        )
        if dry_run:
            return plan.report()
        plan.refuse_unconfirmed(confirm)
        return (await upkeep.prune(self._workspace, plan)).report

    async def continue_(
        self,
        session: str | None,
        text: str,
        *,
        key: str | None = None,
        on_event: Listener | None = None,
        on_notice: NoticeListener | None = None,
        answer: Answerer | None = None,
        cancel: Cancel | None = None,
        **options: Unpack[Options],
    ) -> Turn:
        """Continue a session as a conversation; None: the newest one of the directory.

        ``key``: the conversation's key (default: the agent and the beginning of the id). A session that
        belongs to a conversation continues there.
        """
        answers = answer is not None
        wanted = await run_sync(native.continuation, self._workspace, session, key, options)
        ready = await run_sync(
            partial(
                ready_turn,
                self._workspace,
                wanted.key,
                text,
                wanted.options,
                answers=answers,
                door=Door.CONTINUE,
            )
        )
        return await self._segue.finish(
            ready, on_event=on_event, on_notice=on_notice, answer=answer, cancel=cancel
        )

    @property
    def _workspace(self) -> Workspace:
        return self._segue.workspace

    async def _find(self, name: str) -> OpenSession:
        return await run_sync(native.find, self._workspace, name)
