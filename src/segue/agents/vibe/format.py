"""What a turn needs from Vibe's sessions: where one ends, and a new one that ends earlier.

Neither version can continue from the middle of a session. A store of 3.x is cut into another store, whose id
is ours. Everything else is cut into a directory of 2.x: 2.x forks it when it resumes it, as it does with
every session, and 3.x imports it. Both choose the id of the resulting session, and the directory is then no
longer needed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from segue.agents import probe
from segue.agents.base import CutRequest, SessionFormat, StoredSession
from segue.agents.vibe import anchors, folder, store
from segue.core.errors import Misuse
from segue.core.ids import native_id
from segue.core.json_values import as_table
from segue.core.request import Request, Runtime, Start

READABLE = 256 * 1024 * 1024
"""A larger session is not read: it is much too large to be resumed."""


class VibeFormat:
    """The directories of 2.x and the stores of 3.x."""

    def find(self, home: Path, session: str, cwd: Path | None = None) -> StoredSession | None:
        """A session is found in any directory: it makes no difference to Vibe."""
        try:
            stored = store.stored_store(home, str(store.store_path(home, native_id(session))))
        except Misuse:
            return None
        path = folder.find_folder(home, session) if stored is None else None
        return stored if path is None else folder.stored_folder(home, str(path))

    def end(self, stored: StoredSession) -> str | None:
        if stored.size > READABLE:
            return None
        try:
            anchor = anchors.end_of(_messages(stored.path))
        except anchors.Damaged:
            return None
        return str(anchor) if anchor is not None else None

    def cut(self, stored: StoredSession, wanted: CutRequest) -> Start | None:
        mark = anchors.parse_anchor(wanted.anchor)
        kept = _kept(stored.path, mark) if mark is not None else None
        if kept is None:
            return None
        here = store.store_path(wanted.home, wanted.new_id).parent == stored.path.parent
        native = here and not wanted.runtime.capabilities.id_on_disk_only
        written = native and _cut_store(stored.path, len(kept), wanted)
        written = written or _cut_to_folder(stored.path, kept, wanted)
        return Start("resume", wanted.new_id) if written else None

    def continues(self, stored: StoredSession, anchor: str) -> bool:
        """Exactly one turn came after the anchor. After a compaction that is unknown, and assumed."""
        mark = anchors.parse_anchor(anchor)
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
        """Vibe resumes its sessions as they are."""

    def login(self, home: Path, env: Mapping[str, str]) -> str | None:
        """Vibe's files do not openly show who is logged in."""
        return None


FORMAT: SessionFormat = VibeFormat()


def _messages(path: Path) -> Iterator[anchors.AnchoredMessage]:
    return store.messages_in(path) if store.is_store(path) else folder.messages_in(path)


def _kept(path: Path, anchor: anchors.Anchor) -> list[anchors.AnchoredMessage] | None:
    try:
        return anchors.upto(_messages(path), anchor)
    except anchors.Damaged:
        return None


def _cut_store(path: Path, kept: int, wanted: CutRequest) -> bool:
    """Cut a store of 3.x into another beside it. A turn that was killed is not in the store yet."""
    from segue.agents.vibe.store_writer import Cut, write_cut

    try:
        messages = [one for one in store.messages_in(path) if not isinstance(one, store.Pending)]
    except anchors.Damaged:
        return False
    prompts = sum(message.opens for message in messages[kept:])
    cut = Cut(wanted.new_id, kept, prompts, str(wanted.request.cwd), wanted.request.model)
    return kept <= len(messages) and write_cut(path, cut)


def _cut_to_folder(path: Path, kept: list[anchors.AnchoredMessage], wanted: CutRequest) -> bool:
    """Write a directory of 2.x, if its form can represent every message."""
    try:
        lines = [line for message in kept if (line := message.line()) is not None]
        target = folder.new_folder(wanted.home, wanted.new_id) if len(lines) == len(kept) else None
        if target is None:
            return False
        folder.write_folder(target, _meta(path, wanted.request, wanted.new_id), lines, path)
    except (anchors.Damaged, OSError):
        return False
    return True


def _meta(path: Path, request: Request, new_id: str) -> dict[str, Any]:
    """The new directory's meta. 3.x keeps the model named here, 2.x does not."""
    old = {} if store.is_store(path) else folder.meta_of(path) or {}
    config = as_table(old.get("config"))
    model = request.model or (_pinned_model(path) if store.is_store(path) else config.get("active_model"))
    return old | {
        "session_id": new_id,
        "environment": {"working_directory": str(request.cwd)},
        "config": config | ({"active_model": model} if model else {}),
        folder.OURS: "segue",
    }


def _pinned_model(path: Path) -> str | None:
    """The model that a store continues with, whatever else is requested."""
    try:
        return store.opened(path).runtime().session_metadata.active_model
    except store.ERRORS:
        return None


def _compacted(path: Path) -> bool:
    """Whether a compaction removed the messages that an anchor counts."""
    if not store.is_store(path):
        return folder.compacted(path)
    try:
        return store.opened(path).compacted()
    except store.ERRORS:
        return False


# --- whether Vibe is logged in -----------------------------------------------------------------------
#
# Reads no secret: for its ``.env``, only whether it has content.

DEFAULT_KEY = "MISTRAL_API_KEY"


def logged_in(home: Path, env: Mapping[str, str]) -> bool | None:
    """None: unknown, because a keyring may contain the key."""
    key = _key(home)
    if not key or env.get(key):
        return True
    if _has_content(home / ".env"):
        return True
    return None if home.is_dir() and probe.keyring_is_reachable(env) else False


def _key(home: Path) -> str:
    """The variable for the key of the configured provider; empty if it needs none."""
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


def _has_content(file: Path) -> bool:
    try:
        return file.stat().st_size > 0
    except OSError:
        return False
