"""Vibe's sessions on disk, listed, read and deleted: the directories of 2.x and the stores of 3.x.

3.x imports a directory of 2.x to resume it. Then both exist and both can be resumed, the old one by 2.x; the
new one names the old one as its parent.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import IO

import msgspec

from segue.agents.base import (
    AfterAnchor,
    Record,
    RepairedCopy,
    RepairOptions,
    SessionArchive,
    StoredSession,
    WindowRules,
)
from segue.agents.decoding import DAMAGE
from segue.agents.jsonl import JsonlArchive
from segue.agents.vibe import anchors, brief, folder, store, walk
from segue.agents.vibe.meta import PluginLock, PluginManifest
from segue.agents.vibe.store import is_store
from segue.core.errors import Broken
from segue.core.json_values import as_table
from segue.core.transcript import Brief, Entry
from segue.system.files import write_whole

PREFIX = "session_"


class VibeArchive(JsonlArchive):
    window_rules = WindowRules(reserved=4096, compacts_at=0.8, window=250_000, tried=("2.18.4", "3.0.2"))
    """3.x keeps ``output_token_reserve`` free and compacts at 80 % of the window in the model's settings; if
    there is none, and always in 2.x, at 200,000 tokens."""

    def stored(self, home: Path) -> Iterator[StoredSession]:
        root = folder.root_of(home)
        for item in folder.listed(str(root)):
            stored = folder.stored_folder(home, item.path) if item.name.startswith(PREFIX) else None
            if stored is not None:
                yield stored
        for item in folder.listed(str(root / store.STORES)):
            stored = None if item.name.startswith(".") else store.stored_store(home, item.path)
            if stored is not None:
                yield stored

    def brief(self, stored: StoredSession) -> Brief:
        return brief.store_brief(stored) if is_store(stored.path) else brief.folder_brief(stored)

    def entries(self, text: bytes, start: int) -> Sequence[Entry]:
        return folder.entries(text, start)

    def opened(self, stored: StoredSession) -> AbstractContextManager[IO[bytes]]:
        return (stored.path / folder.MESSAGES).open("rb")

    def read(self, stored: StoredSession, start: int = 0) -> Iterator[Record]:
        return walk.forward(stored.path) if is_store(stored.path) else super().read(stored, start)

    def back(self, stored: StoredSession, end: int | None = None) -> Iterator[Record]:
        return walk.backward(stored.path, end) if is_store(stored.path) else super().back(stored, end)

    def files(self, stored: StoredSession) -> Sequence[Path]:
        """For a store, only the newest generation (the older ones are Vibe's backups), and its plugins."""
        if not is_store(stored.path):
            return tuple(_files(stored.path))
        try:
            opened = store.opened(stored.path)
        except store.ERRORS:
            return tuple(_files(stored.path))
        digests = {digest for file in opened.manifest.files() for digest in file.chunks or ()}
        wanted = [
            *(path for path in stored.path.iterdir() if path.is_file()),
            *_files(Path(opened.generation)),
            *(Path(opened.chunk(digest)) for digest in sorted(digests)),
            *([Path(opened.journal)] if opened.journal is not None else ()),
            *_plugin_files(stored.home, opened, stored.id),
        ]
        return tuple(path for path in wanted if path.is_file())

    def after(self, anchor: str) -> AfterAnchor:
        """An anchor is the number of the user's messages before it."""
        mark, users = anchors.parse_anchor(anchor), 0

        def upto(entry: Entry) -> bool:
            nonlocal users
            users += entry.restored and entry.kind in ("user", "boundary")
            return mark is not None and users <= mark.users

        return AfterAnchor(upto)

    def repair(self, stored: StoredSession, new_id: str, options: RepairOptions) -> RepairedCopy:
        from segue.agents.vibe import repair as repairing

        return repairing.repair(stored, new_id, options)

    def remove(self, stored: StoredSession) -> None:
        remove(stored)


ARCHIVE: SessionArchive = VibeArchive()


def _files(path: Path) -> Iterator[Path]:
    for where, _, names in os.walk(path):
        yield from (Path(where, name) for name in sorted(names))


# --- plugins ---------------------------------------------------------------------------------------
#
#    logs/session/plugins/manifests/<2>/<digest>   a plugin's files, each by its digest
#    logs/session/plugins/blobs/<2>/<digest>       the files, and the catalogue of what the plugins offer


def _plugin_files(home: Path, opened: store.Store, session: str) -> Iterator[Path]:
    """The plugins that a session began with. Sessions share them, and cannot be resumed without them."""
    root = folder.root_of(home) / "plugins"
    yield from (path for path in (root / "data" / session).rglob("*") if path.is_file())
    try:
        lock = opened.runtime().plugin_lock or PluginLock()
    except store.ERRORS:
        return
    yield from _named(root / "blobs", lock.snapshot_digest)
    for plugin in lock.plugins:
        for manifest in _named(root / "manifests", plugin.content_digest):
            yield manifest
            try:
                files = store.read(str(manifest), PluginManifest).entries
            except store.ERRORS:
                continue
            for file in files:
                yield from _named(root / "blobs", file.sha256)


def _named(where: Path, digest: str | None) -> Iterator[Path]:
    if digest and digest.isalnum() and (where / digest[:2] / digest).is_file():
        yield where / digest[:2] / digest


# --- removal ---------------------------------------------------------------------------------------
#
#    logs/session/.session_index.json           3.x of the directories of 2.x: their names as keys
#    logs/session/.last_session/<terminal>      2.x: the id of the session last used there
#    logs/session/unified/.session-index.json   3.x of its stores: a list of entries
#    logs/session/plugins/data/<id>/            3.x: what its plugins wrote for a session


def remove(stored: StoredSession) -> None:
    """Delete its directory and its entries in Vibe's own indexes."""
    root = folder.root_of(stored.home)
    if not stored.path.parent.resolve().is_relative_to(stored.home.resolve()):
        raise Broken(f"{stored.path} leads outside its home through a link, and is not deleted")
    if is_store(stored.path):
        _edit(root / store.STORES / ".session-index.json", lambda body: _without_entry(body, stored.id))
        _drop(root / "plugins" / "data" / stored.path.name)
    else:
        _edit(root / ".session_index.json", lambda body: _without_key(body, stored.path.name))
        _forget(root / ".last_session", stored.id)
    _drop(stored.path)


def _drop(path: Path) -> None:
    """Delete a directory or a link, never what a link points to."""
    try:
        if path.is_symlink():
            path.unlink()
        else:
            shutil.rmtree(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise Broken(f"{path} cannot be deleted: {error.strerror or error}") from error


def _forget(pointers: Path, session: str) -> None:
    with suppress(OSError):
        for pointer in list(pointers.iterdir()):
            if pointer.read_bytes().strip() == session.encode():
                pointer.unlink()


def _edit(index: Path, without: Callable[[bytes], bytes | None]) -> None:
    """Change an index. One that cannot be read is not changed: Vibe rebuilds it."""
    with suppress(OSError, KeyError, *DAMAGE):
        body = without(index.read_bytes())
        if body is not None:
            write_whole(index, body)


def _without_key(body: bytes, name: str) -> bytes | None:
    """The index without one name, the others unchanged; None if the name is not in it."""
    kept = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    if kept.pop(name, None) is None:
        return None
    pairs = (msgspec.json.encode(key) + b": " + bytes(value) for key, value in kept.items())
    return b"{" + b", ".join(pairs) + b"}" + _ending(body)


def _without_entry(body: bytes, session: str) -> bytes | None:
    index = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    entries = msgspec.json.decode(index["entries"], type=list[msgspec.Raw])
    kept = [one for one in entries if as_table(msgspec.json.decode(one)).get("session_id") != session]
    if len(kept) == len(entries):
        return None
    index["entries"] = msgspec.Raw(b"[" + b",".join(map(bytes, kept)) + b"]")
    pairs = (msgspec.json.encode(key) + b":" + bytes(value) for key, value in index.items())
    return b"{" + b",".join(pairs) + b"}" + _ending(body)


def _ending(body: bytes) -> bytes:
    return body[len(body.rstrip()) :]
