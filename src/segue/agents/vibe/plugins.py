"""What a 3.x session needs beside its store: the plugins it was begun with, by their content.

    logs/session/plugins/manifests/<2>/<digest>   a plugin's files, each by its digest
    logs/session/plugins/blobs/<2>/<digest>       the files, and the catalogue of what the plugins offer

All sessions share them. A resume without them is refused; the packages themselves are unpacked anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from segue.agents.vibe import folder
from segue.agents.vibe.store import ERRORS, Store, decoded


class _Plugin(msgspec.Struct, frozen=True):
    content_digest: str = ""


class _Lock(msgspec.Struct, frozen=True):
    plugins: tuple[_Plugin, ...] = ()
    snapshot_digest: str | None = None


class _Runtime(msgspec.Struct, frozen=True):
    plugin_lock: _Lock | None = None


class _Entry(msgspec.Struct, frozen=True):
    sha256: str | None = None


class _Manifest(msgspec.Struct, frozen=True):
    entries: tuple[_Entry, ...] = ()


def files(home: Path, store: Store, session: str) -> Iterator[Path]:
    root = folder.root(home) / "plugins"
    yield from (path for path in (root / "data" / session).rglob("*") if path.is_file())
    try:
        lock = decoded(store.part("runtime_state"), _Runtime).plugin_lock or _Lock()
    except ERRORS:
        return
    yield from _found(root / "blobs", lock.snapshot_digest)
    for plugin in lock.plugins:
        for manifest in _found(root / "manifests", plugin.content_digest):
            yield manifest
            try:
                entries = decoded(str(manifest), _Manifest).entries
            except ERRORS:
                continue
            for entry in entries:
                yield from _found(root / "blobs", entry.sha256)


def _found(where: Path, digest: str | None) -> Iterator[Path]:
    if digest and digest.isalnum() and (where / digest[:2] / digest).is_file():
        yield where / digest[:2] / digest
