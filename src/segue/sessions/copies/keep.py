"""Keeps copies of native sessions, so that a clean-up or a lost disk cannot destroy them; within limits.

A copy is a manifest in the store and the pieces that it lists. The pieces are written first and the manifest
last, in one step: if Segue is killed meanwhile, the previous copy stays, and the new pieces are garbage.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path, PurePosixPath

import msgspec

from segue.agents.base import Agent, SessionArchive, SessionFormat, StoredSession
from segue.config.schema import Keep
from segue.core.model import Host
from segue.sessions.copies.chunks import Chunks, KeptFile, Manifest, chunks_of, read_manifest, write_manifest
from segue.sessions.copies.pieces import copy_file, untouched, whole_file
from segue.store.copies import KeptRow
from segue.store.store import Store
from segue.system import clock

MB = 1024 * 1024
DAY_S = 24 * 3600
ROOM = 0.9
"""If the copies exceed the limit, they are reduced to this part of it, so that not every turn has to."""
GARBAGE = 0.1
"""If more than this part of the limit is garbage, it is collected early."""
UNUSED_S = 600
"""Pieces in use this recently are not garbage: another process may be making a copy that has no manifest."""
MARK = "swept"
TRIES = 3


class SessionFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The session to copy."""

    agent: str
    account: str
    native_id: str
    conversation: str
    host: Host
    home: Path
    cwd: Path


def keep_copy(store: Store, directory: Path, limits: Keep, agent: Agent, session: SessionFiles) -> bool:
    """Copy what is new in the session. False: it is too large, or missing. ``directory``: for the copies."""
    chunks = chunks_of(store, directory)
    for _ in range(TRIES):
        row = store.session_copy(session.agent, session.account, session.native_id)
        before = _before(row, session)
        made = _copy(agent, session, before, chunks, min(limits.max_session_mb, limits.max_mb) * MB)
        if made is None:
            return False
        if store.save_copy(_row(session, made, row), row):
            break
    bound_copies(store, chunks, limits, directory)
    return True


def bound_copies(store: Store, chunks: Chunks, limits: Keep, directory: Path) -> None:
    """Enforce the limits after each copy. Usually this only reads the totals."""
    now_ms = clock.now_ms()
    most, oldest_ms = limits.max_mb * MB, now_ms - limits.days * DAY_S * 1000
    totals = store.copy_totals()
    too_old = totals.oldest_ms is not None and totals.oldest_ms < oldest_ms
    dropped = 0
    if too_old or totals.packed > most:
        too_much = totals.packed - round(most * ROOM) if totals.packed > most else 0
        dropped = store.drop_oldest_copies(oldest_ms, too_much, now_ms - DAY_S * 1000)
    if dropped or totals.garbage > most * GARBAGE or _due(directory / MARK):
        collect_garbage(store, chunks, directory)


def collect_garbage(store: Store, chunks: Chunks, directory: Path, unused_s: float = UNUSED_S) -> None:
    """Delete the pieces that belong to no copy."""
    _mark(directory / MARK)
    stored = chunks.sizes()  # before the manifests are read: pieces added later are left alone
    copies = [read_manifest(text) for text in store.copy_manifests()]
    needed = {chunk.name for copy in copies if copy is not None for chunk in copy.unique()}
    if None in copies:  # made by another version: what it needs is not known
        return
    chunks.delete([name for name in stored if name not in needed], unused_s)
    store.clear_copy_garbage()


def _before(row: KeptRow | None, session: SessionFiles) -> Manifest | None:
    """The previous copy, if it can be trusted. Inodes and times from another host mean nothing here."""
    before = read_manifest(row.manifest) if row is not None else None
    if before is None or row is None or not before.confined:
        return None
    if session.host.has(row) and row.home == str(session.home):
        return before
    elsewhere = tuple(msgspec.structs.replace(file, inode=0, changed_ns=0) for file in before.files)
    return msgspec.structs.replace(before, files=elsewhere)


def _copy(
    agent: Agent, session: SessionFiles, before: Manifest | None, chunks: Chunks, most: int
) -> Manifest | None:
    archive, stored = agent.archive(), _stored(agent.format, session, before)
    if archive is None or stored is None:
        return None
    known = {file.path: file for file in before.files} if before is not None else {}
    present = _present(archive, stored, session.home)
    if not present or sum(now.st_size for _, now in present.values()) > most:
        return None
    lost = (
        chunks.lost({chunk.name: chunk.packed for chunk in before.unique()}) if before is not None else set()
    )
    root, files = str(stored.path.relative_to(session.home)), dict[str, KeptFile]()
    for name, (path, now) in present.items():
        file = known.get(name)
        if file is None or not untouched(file, now) or not whole_file(file, lost):
            file = copy_file(path, name, file, chunks, lost, follow=name == root)
        if file is not None:  # otherwise the CLI has deleted it meanwhile
            files[name] = file
    if root in known and root not in files:  # the previous copy is better than one without the session
        return None
    return Manifest(root, stored.appends, tuple(files.values()))


def _present(
    archive: SessionArchive, stored: StoredSession, home: Path
) -> dict[str, tuple[Path, os.stat_result]]:
    """The session's files by their path relative to the home. There may be many, so each is examined once.

    The session's own file may be a link; other links are ignored, as they may lead to unrelated files.
    """
    above, found = f"{home}{os.sep}", {}
    for path in archive.files(stored):
        with suppress(OSError):
            now = os.stat(path, follow_symlinks=path == stored.path)
            if str(path).startswith(above) and stat.S_ISREG(now.st_mode):
                found[str(path)[len(above) :]] = path, now
    return found


def _stored(
    sessions: SessionFormat | None, session: SessionFiles, before: Manifest | None
) -> StoredSession | None:
    """The session, at its previous place or wherever it is found. Others who share the store could name any
    file of the home there, such as a login. So the name must contain the beginning of the session's id, as
    the names of all agents' session files do."""
    if before is not None and session.native_id[:8] in PurePosixPath(before.root).name:
        path = session.home / before.root
        try:
            now = os.stat(path)
        except OSError:
            pass
        else:
            return StoredSession(
                id=session.native_id,
                home=session.home,
                file=str(path),
                size=now.st_size,
                changed_ns=now.st_mtime_ns,
                appends=before.appends,
            )
    found = sessions.find(session.home, session.native_id) if sessions is not None else None
    return found if found is not None and found.path.is_relative_to(session.home) else None


def _row(session: SessionFiles, made: Manifest, before: KeptRow | None) -> KeptRow:
    now_ms = clock.now_ms()
    return KeptRow(
        agent=session.agent,
        account=session.account,
        native_id=session.native_id,
        conversation=session.conversation,
        host=session.host.name,
        host_id=session.host.id,
        home=str(session.home),
        cwd=str(session.cwd),
        size=made.size,
        packed=made.packed,
        garbage=_garbage(made, before),
        kept_ms=now_ms,
        used_ms=now_ms,
        manifest=write_manifest(made),
    )


def _garbage(made: Manifest, before: KeptRow | None) -> int:
    """How many bytes of this session's earlier copies are garbage that is not collected yet."""
    old = read_manifest(before.manifest) if before is not None else None
    if before is None or old is None:
        return 0
    return before.garbage + sum(chunk.packed for chunk in old.unique() - made.unique())


def _due(mark: Path) -> bool:
    """Whether the last collection was more than a day ago. In a new store, the first is due tomorrow."""
    try:
        return clock.now_s() - os.stat(mark).st_mtime > DAY_S
    except OSError:
        _mark(mark)
        return False


def _mark(mark: Path) -> None:
    mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    os.utime(mark)
