"""Keeps copies of native sessions, so that no clean-up and no lost disk can take them.

A copy is a manifest in the store and the pieces that it names. The pieces are written first and the manifest
last, in one step: whoever is killed meanwhile leaves the copy of before, and some pieces for the collector.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from pathlib import Path, PurePosixPath

import msgspec

from segue.agents.reader import Reader, Stored
from segue.config.schema import Keep
from segue.core.hosts import Host
from segue.sessions import manifest as manifests
from segue.sessions.bounding import MB, bound
from segue.sessions.chunks import Chunks, chunks_of
from segue.sessions.copying import copied, untouched, whole
from segue.sessions.manifest import KeptFile, Manifest
from segue.store import kept
from segue.store.kept import KeptRow
from segue.store.store import Store

TRIES = 3


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """The session that is to be kept."""

    agent: str
    account: str
    native_id: str
    conversation: str
    host: Host
    home: Path
    cwd: Path


def keep(store: Store, directory: Path, limits: Keep, reader: Reader, session: Session) -> bool:
    """Copy what is new of the session. False: it is too large, or not there. ``directory``: our own."""
    chunks = chunks_of(store, directory)
    for _ in range(TRIES):
        row = kept.find(store.db, session.agent, session.account, session.native_id)
        before = _before(row, session)
        made = _copy(reader, session, before, chunks, min(limits.max_session_mb, limits.max_mb) * MB)
        if made is None:
            return False
        if kept.save(store.db, _row(session, made, row), row):
            break
    bound(store, chunks, limits, directory)
    return True


def _before(row: KeptRow | None, session: Session) -> Manifest | None:
    """The copy so far, if it can be trusted. What another host says of its files says nothing of ours."""
    before = manifests.read(row.manifest) if row is not None else None
    if before is None or row is None or not before.confined:
        return None
    if session.host.has(row) and row.home == str(session.home):
        return before
    elsewhere = tuple(msgspec.structs.replace(file, inode=0, changed_ns=0) for file in before.files)
    return msgspec.structs.replace(before, files=elsewhere)


def _copy(
    reader: Reader, session: Session, before: Manifest | None, chunks: Chunks, most: int
) -> Manifest | None:
    stored = _stored(reader, session, before)
    if stored is None:
        return None
    known = {file.path: file for file in before.files} if before is not None else {}
    there = _there(reader, stored, session.home)
    if not there or sum(now.st_size for _, now in there.values()) > most:
        return None
    lost = (
        chunks.lost({chunk.name: chunk.packed for chunk in before.unique()}) if before is not None else set()
    )
    root, files = str(stored.path.relative_to(session.home)), dict[str, KeptFile]()
    for name, (path, now) in there.items():
        file = known.get(name)
        if file is None or not untouched(file, now) or not whole(file, lost):
            file = copied(path, name, file, chunks, lost, follow=name == root)
        if file is not None:  # the CLI cleans up behind itself
            files[name] = file
    if root in known and root not in files:  # the copy of before is better than one without the session
        return None
    return Manifest(root, stored.appends, tuple(files.values()))


def _there(reader: Reader, stored: Stored, home: Path) -> dict[str, tuple[Path, os.stat_result]]:
    """The session's files by their names below the home. There may be many: each is looked at once.

    The session's own file may be a link to one; any other link may lead to what is none of the session's.
    """
    above, found = f"{home}{os.sep}", {}
    for path in reader.files(stored):
        with suppress(OSError):
            now = os.stat(path, follow_symlinks=path == stored.path)
            if str(path).startswith(above) and stat.S_ISREG(now.st_mode):
                found[str(path)[len(above) :]] = path, now
    return found


def _stored(reader: Reader, session: Session, before: Manifest | None) -> Stored | None:
    """Where it was the last time, or wherever the reader finds it. Whoever shares the store could name any
    file of the home, such as a login: every agent's files of a session have the beginning of its id in their
    names."""
    if before is not None and session.native_id[:8] in PurePosixPath(before.root).name:
        path = session.home / before.root
        try:
            now = os.stat(path)
        except OSError:
            pass
        else:
            return Stored(
                id=session.native_id,
                home=session.home,
                file=str(path),
                size=now.st_size,
                changed_ns=now.st_mtime_ns,
                appends=before.appends,
            )
    found = reader.find(session.home, session.native_id)
    return found if found is not None and found.path.is_relative_to(session.home) else None


def _row(session: Session, made: Manifest, before: KeptRow | None) -> KeptRow:
    now_ms = time.time_ns() // 1_000_000
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
        manifest=manifests.write(made),
    )


def _garbage(made: Manifest, before: KeptRow | None) -> int:
    """What this copy has left behind and nobody has collected yet."""
    old = manifests.read(before.manifest) if before is not None else None
    if before is None or old is None:
        return 0
    return before.garbage + sum(chunk.packed for chunk in old.unique() - made.unique())
