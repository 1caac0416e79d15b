"""Vibe's sessions, for those who only look: the directories of 2.x and the stores of 3.x.

3.x takes a directory of 2.x in when it is asked to resume it. Both are then there and both can be resumed,
the old one by 2.x; the new one names the old one its parent.

Taking a session of Vibe away: its directory, and exactly what Vibe's own indexes say of it.

    logs/session/.session_index.json           3.x of the directories of 2.x: their names as keys
    logs/session/.last_session/<terminal>      2.x: the id of the session last used there
    logs/session/unified/.session-index.json   3.x of its stores: a list of entries
    logs/session/plugins/data/<id>/            3.x: what its plugins wrote for a session

An index that cannot be read is left alone: Vibe makes it anew by itself.
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
from segue.agents.jsonl import JsonlArchive
from segue.agents.vibe import anchors, brief, folder, store, walk
from segue.agents.vibe import brief as unified_brief
from segue.agents.vibe.format import listed, stored_folder, stored_store
from segue.agents.vibe.store import STORES, is_store
from segue.core.errors import Broken
from segue.core.json_values import decode
from segue.core.transcript import Brief, Entry

PREFIX = "session_"


class VibeArchive(JsonlArchive):
    window_rules = WindowRules(reserved=4096, compacts_at=0.8, window=250_000, tried=("2.18.4", "3.0.2"))
    """3.x keeps ``output_token_reserve`` free and compacts at 80 % of a window that the model's settings
    declare; without one, as 2.x always, at 200,000 tokens."""

    def stored(self, home: Path) -> Iterator[StoredSession]:
        root = folder.root_of(home)
        for item in listed(root):
            if item.name.startswith(PREFIX):
                found = stored_folder(home, item.path)
                if found is not None:
                    yield found
        for item in listed(root / store.STORES):
            found = None if item.name.startswith(".") else stored_store(home, item.path)
            if found is not None:
                yield found

    def brief(self, stored: StoredSession) -> Brief:
        return (
            unified_brief.store_brief(stored) if store.is_store(stored.path) else brief.folder_brief(stored)
        )

    def entries(self, text: bytes, start: int) -> Sequence[Entry]:
        return folder.entries(text, start)

    def opened(self, stored: StoredSession) -> AbstractContextManager[IO[bytes]]:
        return (stored.path / folder.MESSAGES).open("rb")

    def read(self, stored: StoredSession, start: int = 0) -> Iterator[Record]:
        return walk.walk_on(stored.path) if store.is_store(stored.path) else super().read(stored, start)

    def back(self, stored: StoredSession, end: int | None = None) -> Iterator[Record]:
        return walk.walk_back(stored.path, end) if store.is_store(stored.path) else super().back(stored, end)

    def files(self, stored: StoredSession) -> Sequence[Path]:
        """Of a store the newest generation only (the older ones are Vibe's own way back), and its plugins."""
        if not store.is_store(stored.path):
            return tuple(_files(stored.path))
        try:
            newest = store.opened(stored.path)
        except store.ERRORS:
            return tuple(_files(stored.path))
        named = newest.manifest
        digests = {
            digest
            for part in (named.checkpoint, named.projection_state, named.runtime_state)
            for digest in part.chunks or ()
        }
        wanted = [
            *(path for path in stored.path.iterdir() if path.is_file()),
            *_files(Path(newest.generation)),
            *(Path(newest.chunk(digest)) for digest in sorted(digests)),
            *([Path(newest.journal)] if newest.journal is not None else ()),
            *store.plugin_files(stored.home, newest, stored.id),
        ]
        return tuple(path for path in wanted if path.is_file())

    def after(self, anchor: str) -> AfterAnchor:
        """An anchor is the number of the user's messages before it."""
        mark, heard = anchors.read_messages(anchor), 0

        def upto(entry: Entry) -> bool:
            nonlocal heard
            heard += entry.restored and entry.kind in ("user", "boundary")
            return mark is not None and heard <= mark.users

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


_ERRORS = (OSError, KeyError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Entry(msgspec.Struct, frozen=True):
    session_id: str = ""


def remove(stored: StoredSession) -> None:
    root = folder.root_of(stored.home)
    if not stored.path.parent.resolve().is_relative_to(stored.home.resolve()):
        raise Broken(f"{stored.path} lies outside of its home: it is left alone")
    if is_store(stored.path):
        _edit(root / STORES / ".session-index.json", lambda body: _without_entry(body, stored.id))
        _drop(root / "plugins" / "data" / stored.path.name)
    else:
        _edit(root / ".session_index.json", lambda body: _without_key(body, stored.path.name))
        _forget(root / ".last_session", stored.id)
    _drop(stored.path)


def _drop(path: Path) -> None:
    """A link is taken away, never what it points to."""
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
    beside = index.with_name(f"{index.name}.{os.getpid()}.part")
    try:
        body = without(index.read_bytes())
        if body is None:
            return
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(body)
        beside.rename(index)
    except _ERRORS:
        with suppress(FileNotFoundError):
            beside.unlink()


def _without_key(body: bytes, name: str) -> bytes | None:
    """The index without one name; each of the others as it stood there. None: it was not there."""
    kept = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    if kept.pop(name, None) is None:
        return None
    pairs = (msgspec.json.encode(key) + b": " + bytes(value) for key, value in kept.items())
    return b"{" + b", ".join(pairs) + b"}" + _ending(body)


def _without_entry(body: bytes, session: str) -> bytes | None:
    index = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    entries = msgspec.json.decode(index["entries"], type=list[msgspec.Raw])
    kept = [one for one in entries if decode(one, _Entry).session_id != session]
    if len(kept) == len(entries):
        return None
    index["entries"] = msgspec.Raw(b"[" + b",".join(map(bytes, kept)) + b"]")
    pairs = (msgspec.json.encode(key) + b":" + bytes(value) for key, value in index.items())
    return b"{" + b",".join(pairs) + b"}" + _ending(body)


def _ending(body: bytes) -> bytes:
    return body[len(body.rstrip()) :]
