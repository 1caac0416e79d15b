"""Whether Vibe is logged in, without a look at any secret: of its ``.env``, only whether it is there.

Vibe's sessions on disk: where one ends, and a new one that ends earlier.

Neither version can go on from the middle of a session by itself. A store of 3.x is cut into another store,
whose id is ours. Everything else is cut into a directory of 2.x: 2.x forks it when it resumes it, as it does
with every session, and 3.x takes it in. Both give the session that comes of it an id of their own, and the
directory has then done its duty.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from segue.agents import probe
from segue.agents.base import CutRequest, SessionFormat, StoredSession
from segue.agents.vibe import anchors, folder, meta, store_writer
from segue.agents.vibe import store as unified
from segue.agents.vibe.store_writer import Cut
from segue.core.errors import Misuse
from segue.core.ids import native_id
from segue.core.request import Request, Runtime, Start

DEFAULT_KEY = "MISTRAL_API_KEY"


def logged_in(home: Path, env: Mapping[str, str]) -> bool | None:
    """None: it cannot be told, because a keyring may hold the key."""
    key = _key(home)
    if not key or env.get(key):
        return True
    if _holds_something(home / ".env"):
        return True
    return None if home.is_dir() and probe.keyring_is_reachable(env) else False


def _key(home: Path) -> str:
    """The variable that holds the key of the provider that is set; empty where it needs none."""
    try:
        config = tomllib.loads((home / "config.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return DEFAULT_KEY
    models, providers = _entries(config, "models"), _entries(config, "providers")
    wanted = config.get("active_model")
    model = next((each for each in models if wanted in (each.get("alias"), each.get("name"))), {})
    provider = next((each for each in providers if each.get("name") == model.get("provider")), None)
    return str(provider.get("api_key_env_var", "")) if provider is not None else DEFAULT_KEY


def _entries(config: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = config.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _holds_something(file: Path) -> bool:
    try:
        return file.stat().st_size > 0
    except OSError:
        return False


STORES = "unified"
READABLE = 256 * 1024 * 1024
"""Beyond this a session is not read: it is much too large to be resumed."""


class VibeFormat:
    """The directories of 2.x and the stores of 3.x, told apart by what lies in them."""

    def find(self, home: Path, session: str, cwd: Path | None = None) -> StoredSession | None:
        """A session is found wherever it was begun: to Vibe the directory does not matter."""
        try:
            store = stored_store(home, str(folder.root_of(home) / STORES / native_id(session)))
        except Misuse:
            return None
        path = folder.find_folder(home, session) if store is None else None
        return store if path is None else stored_folder(home, str(path))

    def end(self, stored: StoredSession) -> str | None:
        if stored.size > READABLE:
            return None
        try:
            anchor = anchors.end_of(_messages(stored.path))
        except anchors.Damaged:
            return None
        return str(anchor) if anchor is not None else None

    def cut(self, stored: StoredSession, wanted: CutRequest) -> Start | None:
        mark = anchors.read_messages(wanted.anchor)
        kept = _kept(stored.path, mark) if mark is not None else None
        if kept is None:
            return None
        stores = folder.root_of(wanted.home) / STORES
        native = stored.path.parent == stores and not wanted.runtime.capabilities.id_on_disk_only
        written = native and _store(stored.path, len(kept), wanted.new_id, wanted.request)
        written = written or _folder(stored.path, kept, wanted.new_id, wanted.request, wanted.home)
        return Start("resume", wanted.new_id) if written else None

    def continues(self, stored: StoredSession, anchor: str) -> bool:
        """One turn, and no more, came after the anchor; after a compaction nobody can tell any more."""
        mark = anchors.read_messages(anchor)
        if mark is None:
            return False
        try:
            messages = list(_messages(stored.path))
            kept = anchors.upto(messages, mark)
        except anchors.Damaged:
            return False
        if kept is None:
            return _compacted(stored.path)
        return sum(message.opens for message in messages[len(kept) :]) == 1

    def make_resumable(self, stored: StoredSession, runtime: Runtime) -> None:
        """Vibe sends a resumed history as it was."""

    def login(self, home: Path, env: Mapping[str, str]) -> str | None:
        """Vibe's files say nothing openly of who is logged in."""
        return None


FORMAT: SessionFormat = VibeFormat()


def stored_folder(home: Path, path: str) -> StoredSession | None:
    try:
        messages = os.stat(f"{path}/{folder.MESSAGES}")
    except OSError:
        return None
    if not stat.S_ISREG(messages.st_mode):
        return None
    changed = max(messages.st_mtime_ns, _changed(f"{path}/{folder.META}"))
    session = meta.session_id(path, path[-8:])
    return StoredSession(id=session, home=home, file=path, size=messages.st_size, changed_ns=changed)


def stored_store(home: Path, path: str) -> StoredSession | None:
    """Its messages, what is shown of them, and the journal; the rest is small and does not grow with them."""
    try:
        current = os.stat(f"{path}/{unified.CURRENT}")
    except OSError:
        return None
    size, changed = 0, max(current.st_mtime_ns, _changed(f"{path}/{folder.META}"))
    for name in ("chunks", "journal"):
        for item in listed(Path(path, name)):
            try:
                found = item.stat()
            except OSError:
                continue
            size += found.st_size
            changed = max(changed, found.st_mtime_ns) if name == "journal" and found.st_size else changed
    session = os.path.basename(path)
    return StoredSession(id=session, home=home, file=path, size=size, changed_ns=changed, appends=False)


def _changed(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def listed(path: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(path) as listing:
            yield from listing
    except OSError:
        return


def _messages(path: Path) -> Iterator[anchors.Messages]:
    return unified.messages_in(path) if unified.lies_in_store(path) else folder.messages_file(path)


def _kept(path: Path, anchor: anchors.Anchor) -> list[anchors.Messages] | None:
    try:
        return anchors.upto(_messages(path), anchor)
    except anchors.Damaged:
        return None


def _store(path: Path, kept: int, new_id: str, request: Request) -> bool:
    """A store of 3.x, cut into another beside it. A turn that was killed is not in the store yet."""
    try:
        messages = list(unified.messages_in(path))
    except anchors.Damaged:
        return False
    stored = [message for message in messages if isinstance(message, unified.StoreFile)]
    prompts = sum(message.opens for message in stored[kept:])
    wanted = Cut(new_id, kept, prompts, str(request.cwd), request.model)
    return kept <= len(stored) and store_writer.write_cut(path, wanted)


def _folder(path: Path, kept: list[anchors.Messages], new_id: str, request: Request, home: Path) -> bool:
    """A directory of 2.x, where every message can be written in its form."""
    try:
        lines = [line for message in kept if (line := message.line()) is not None]
        whole = len(lines) == len(kept)
        return whole and folder.write_folder(home, new_id, _known(path, request, len(lines)), lines, path)
    except (anchors.Damaged, OSError):
        return False


def _known(path: Path, request: Request, count: int) -> dict[str, Any]:
    """The new directory's meta. 3.x pins the model named here, and 2.x none."""
    store = unified.lies_in_store(path)
    old = {} if store else folder.meta_of(path) or {}
    config = old["config"] if isinstance(old.get("config"), dict) else {}
    model = request.model or (unified.model_of(path) if store else config.get("active_model"))
    return old | {
        "environment": {"working_directory": str(request.cwd)},
        "total_messages": count,
        "config": config | ({"active_model": model} if model else {}),
    }


def _compacted(path: Path) -> bool:
    return unified.compacted(path) if unified.lies_in_store(path) else folder.compacted(path)
