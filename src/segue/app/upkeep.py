"""Maintenance of the agents' own sessions: check, repair, restore and prune."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from segue.app.git_directories import tidy_git
from segue.app.native import MB, OpenSession, catalog_of, refuse_unknown_agents
from segue.app.session_shapes import (
    CheckReport,
    PrunedSession,
    PruneReport,
    RepairReport,
    RestoredSession,
    RestoreReport,
)
from segue.app.workspace import Workspace
from segue.core.errors import Misuse
from segue.sessions.catalog import short_names
from segue.sessions.check import Seen
from segue.sessions.check import check as findings_of
from segue.sessions.session_facts import facts_of, torn
from segue.sessions.summary import title_of

if TYPE_CHECKING:
    from segue.sessions.copies.restore import CopyShown
    from segue.sessions.idle_homes import IdleHome
    from segue.sessions.prune import Prunable
    from segue.store.copies import KeptRow


def check(session: OpenSession, on_progress: Callable[[int], None] | None = None) -> CheckReport:
    """Everything that would make a resume fail, go wrong or cost too much.

    ``on_progress`` is called with the number of bytes read so far.
    """
    seen, listed = Seen(), session.listed
    reader = listed.place.archive
    for record in reader.read(listed.stored):
        seen.look(record.entries)
        if on_progress is not None:
            on_progress(record.next)
    seen.look(torn(reader, listed.stored))
    facts = facts_of(session.catalog, listed)
    findings = findings_of(facts, seen)
    return CheckReport(
        session=session.id,
        agent=session.agent,
        sound=all(each.level != "error" for each in findings),
        load=facts.load,
        findings=tuple(findings),
    )


async def repair(
    workspace: Workspace, session: OpenSession, *, trim: bool = False, since: str | None = None
) -> RepairReport:
    """Write a repaired copy of the session beside it, and verify it."""
    from segue.agents.base import RepairOptions
    from segue.sessions.repair import repair_session

    repaired = await repair_session(
        session.catalog,
        workspace.store,
        workspace.env,
        session.listed,
        RepairOptions(trim=trim, since=since),
    )
    return RepairReport(agent=session.agent, **msgspec.structs.asdict(repaired))


def copies(workspace: Workspace) -> list[CopyShown]:
    """The copies of sessions that Segue has kept."""
    return [_copy(workspace, row, lenient=True) for row in workspace.store.session_copies()]


async def restore(workspace: Workspace, name: str) -> RestoreReport:
    """Restore the session or sessions of that name from their copies. Nothing is overwritten."""
    from segue.turns.session_copies import restore_if_gone

    restored = []
    for row in _missing(workspace, name):
        home = _home_of_copy(workspace, row)
        done = await restore_if_gone(workspace.store, row, home, workspace.home, workspace.host)
        copy = _copy(workspace, row)
        restored.append(
            RestoredSession(
                id=copy.id,
                agent=copy.agent,
                account=copy.account,
                conversation=copy.conversation,
                path=str(done.path),
                files=done.files,
                size=done.size,
            )
        )
    return RestoreReport(restored=tuple(restored))


def _missing(workspace: Workspace, name: str) -> list[KeptRow]:
    """The copies with that name whose sessions are missing."""
    from segue.sessions.copies.restore import choose_copy

    rows = choose_copy(workspace.store, name)
    gone = [row for row in rows if not _copy(workspace, row).present]
    if not gone:
        copy = _copy(workspace, rows[0])
        raise Misuse(f"{copy.path} already exists; move it away to restore the copy")
    return gone


def _copy(workspace: Workspace, row: KeptRow, *, lenient: bool = False) -> CopyShown:
    """The copy as it is shown. ``lenient``: one that has no place on this host has no path."""
    from segue.sessions.copies.restore import shown_copies

    keys = {each.conversation.id: each.conversation.key for each in workspace.store.conversations()}
    try:
        home = _home_of_copy(workspace, row)
    except Misuse:
        if not lenient:
            raise
        return shown_copies(row, None, keys)
    return shown_copies(row, home, keys)


def _home_of_copy(workspace: Workspace, row: KeptRow) -> Path:
    from segue.sessions.copies.restore import home_on

    return home_on(row, workspace.host, workspace.config, workspace.env)


class PruneRow(msgspec.Struct, frozen=True):
    """A session that can be deleted, as a table shows it."""

    shown: PrunedSession
    used_ms: int
    title: str


class PrunePlan:
    """What ``prune`` would delete."""

    def __init__(
        self, chosen: Sequence[Prunable], homes: Sequence[IdleHome], kept: int, names: dict[str, str]
    ) -> None:
        self.chosen, self.idle, self.kept, self.names = chosen, homes, kept, names
        """``kept``: how many of the sessions that were examined stay; ``names``: a short name for each id."""

    @property
    def rows(self) -> list[PruneRow]:
        return list(map(_row, self.chosen))

    @property
    def foreign(self) -> list[PruneRow]:
        """The sessions that Segue did not make."""
        return [row for row in self.rows if not row.shown.ours]

    @property
    def code(self) -> str:
        """Identifies exactly the foreign sessions of this plan."""
        names = sorted(f"{row.shown.agent}:{row.shown.id}" for row in self.foreign)
        return sha256("\n".join(names).encode("utf-8", "surrogateescape")).hexdigest()[:8]

    def refuse_unconfirmed(self, confirm: str | None) -> None:
        """Raise ``Misuse`` unless ``confirm`` is the code: whoever deletes foreign sessions must have seen
        this list."""
        count = len(self.foreign)
        if not count or confirm == self.code:
            return
        were, them = ("session was", "it") if count == 1 else ("sessions were", "them")
        what = f"{count:,} {were} not made by Segue (listed on stderr)"
        raise Misuse(f"{what}; to delete {them}, add --confirm {self.code}")

    def report(self) -> PruneReport:
        sizes = (each.session.stored.size for each in self.chosen)
        return PruneReport(
            deleted=False,
            freed=sum(sizes),
            sessions=tuple(row.shown for row in self.rows),
            homes=tuple(str(idle.home) for idle in self.idle),
        )


class PruneResult(msgspec.Struct, frozen=True):
    """``stays``: id and reason for each session that turned out to be needed or could not be deleted."""

    report: PruneReport
    rows: tuple[PruneRow, ...]
    stays: tuple[tuple[str, str], ...]


def plan_prune(
    workspace: Workspace,
    *,
    days: float | None = None,
    larger_than: float | None = None,
    agents: Sequence[str] = (),
    cwd: str | Path | None = None,
    keep_last: int = 0,
    all_sessions: bool = False,
) -> PrunePlan:
    """Choose the sessions to delete.

    ``days`` None: as configured. ``larger_than``: in MB. ``cwd``: only those of this project directory.
    """
    from segue.sessions.idle_homes import idle_homes
    from segue.sessions.prune import Rules, prunable, wanted

    catalog, store = catalog_of(workspace), workspace.store
    refuse_unknown_agents(agents, catalog.config)
    limit = catalog.config.retention.days if days is None else days
    rules = Rules(
        days=limit,
        larger=round(larger_than * MB) if larger_than is not None else None,
        agents=tuple(agents),
        keep_last=keep_last,
        all_sessions=all_sessions,
    )
    looked_at = prunable(catalog, store, rules, workspace.cwd / cwd if cwd is not None else None)
    chosen = [each for each in looked_at if each.verdict.goes]
    whole = cwd is None and larger_than is None and not agents
    homes = idle_homes(catalog.home.runners, limit, wanted(catalog, store, chosen)) if whole else []
    names = short_names(each.id for each in catalog.all())
    return PrunePlan(chosen, homes, len(looked_at) - len(chosen), names)


async def prune(workspace: Workspace, plan: PrunePlan) -> PruneResult:
    """Delete what the plan names, each under its lease."""
    from anyio.to_thread import run_sync

    from segue.sessions.prune import prune as delete

    catalog = catalog_of(workspace)
    done = await delete(catalog, workspace.store, plan.chosen, plan.idle, catalog.home.locks)
    await run_sync(tidy_git, workspace)
    rows = tuple(map(_row, done.deleted))
    return PruneResult(
        PruneReport(
            deleted=True,
            freed=done.freed,
            failed=len(done.failed),
            sessions=tuple(row.shown for row in rows),
            homes=tuple(map(str, done.homes)),
        ),
        rows,
        tuple((each.session.id, why) for each, why in (*done.kept, *done.failed)),
    )


def _row(each: Prunable) -> PruneRow:
    session, known = each.session, each.verdict.candidate.known
    shown = PrunedSession(
        id=session.id,
        agent=session.place.agent,
        size=session.stored.size,
        last_used=session.last_used_ms,
        ours=known.ours,
        conversation=known.conversation,
        path=session.stored.file,
        why=each.verdict.why.text,
        why_clauses=each.verdict.why.clauses,
    )
    return PruneRow(shown, each.verdict.candidate.last_used_ms, title_of(session.brief) or "")
