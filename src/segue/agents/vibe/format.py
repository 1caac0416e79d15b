"""Whether Vibe is logged in, without a look at any secret: of its ``.env``, only whether it is there.

Vibe's sessions on disk: where one ends, and a new one that ends earlier.

Neither version can go on from the middle of a session by itself. A store of 3.x is cut into another store,
whose id is ours. Everything else is cut into a directory of 2.x: 2.x forks it when it resumes it, as it does
with every session, and 3.x takes it in. Both give the session that comes of it an id of their own, and the
directory has then done its duty.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segue.agents import probe
from segue.agents.base import Found, RepairedCopy, RepairOptions, SessionFormat
from segue.agents.vibe import anchors, folder, store_writer
from segue.agents.vibe import store as unified
from segue.agents.vibe.store_writer import Cut
from segue.core.errors import Misuse
from segue.core.ids import native_id
from segue.core.request import Request, Runtime, Start

if TYPE_CHECKING:
    from segue.agents.base import AfterAnchor, StoredSession
    from segue.core.transcript import Entry


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

    def look(self, home: Path, session: str, cwd: Path) -> Found | None:
        """A session is found wherever it was begun: to Vibe the directory does not matter."""
        path = _find(home, session)
        if path is None:
            return None
        size = _size(path)
        return Found(path, size, _end(path) if size <= READABLE else None)

    def cut(
        self,
        found: Found,
        session: str,
        anchor: str,
        new_id: str,
        request: Request,
        home: Path,
        runtime: Runtime,
    ) -> Start | None:
        mark = anchors.read_messages(anchor)
        kept = _kept(found.path, mark) if mark is not None else None
        if kept is None:
            return None
        stores = folder.root_of(home) / STORES
        native = found.path.parent == stores and not runtime.capabilities.id_on_disk_only
        written = native and _store(found.path, len(kept), new_id, request)
        written = written or _folder(found.path, kept, new_id, request, home)
        return Start("resume", new_id) if written else None

    def continues(self, found: Found, anchor: str) -> bool:
        """One turn, and no more, came after the anchor; after a compaction nobody can tell any more."""
        mark = anchors.read_messages(anchor)
        if mark is None:
            return False
        try:
            messages = list(_messages(found.path))
            kept = anchors.upto(messages, mark)
        except anchors.Damaged:
            return False
        if kept is None:
            return _compacted(found.path)
        return sum(message.opens for message in messages[len(kept) :]) == 1

    def mend(self, found: Found, session: str, runtime: Runtime) -> None:
        """Vibe sends a resumed history as it was."""

    def behind(self, anchor: str) -> AfterAnchor:
        """An anchor is the number of the user's messages before it."""
        from segue.agents.base import AfterAnchor

        mark, heard = anchors.read_messages(anchor), 0

        def upto(entry: Entry) -> bool:
            nonlocal heard
            heard += entry.restored and entry.kind in ("user", "boundary")
            return mark is not None and heard <= mark.users

        return AfterAnchor(upto)

    def repair(self, stored: StoredSession, new_id: str, mending: RepairOptions) -> RepairedCopy:
        from segue.agents.vibe import repair as repairing

        return repairing.repair(stored, new_id, mending)

    def remove(self, stored: StoredSession) -> None:
        from segue.agents.vibe import archive

        archive.remove(stored)

    def login(self, home: Path, env: Mapping[str, str]) -> str | None:
        """Vibe's files say nothing openly of who is logged in."""
        return None


FORMAT: SessionFormat = VibeFormat()


def _find(home: Path, session: str) -> Path | None:
    try:
        store = folder.root_of(home) / STORES / native_id(session)
    except Misuse:
        return None
    return store if unified.lies_in_store(store) else folder.find_folder(home, session)


def _messages(path: Path) -> Iterator[anchors.Messages]:
    return unified.messages_in(path) if unified.lies_in_store(path) else folder.messages_file(path)


def _end(path: Path) -> str | None:
    try:
        anchor = anchors.end_of(_messages(path))
    except anchors.Damaged:
        return None
    return str(anchor) if anchor is not None else None


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


def _size(path: Path) -> int:
    total = 0
    for file in path.rglob("*"):
        try:
            total += file.stat().st_size if file.is_file() else 0
        except OSError:
            continue
    return total
