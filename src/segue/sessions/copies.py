"""The copies that are kept: which one is meant, and where it belongs on this host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from segue.agents import registry
from segue.config.schema import Config
from segue.core.errors import Misuse
from segue.sessions import manifest as manifests
from segue.store import kept
from segue.store.kept import KeptRow
from segue.store.store import Store

LEAST = 4
"""So many characters of an id are needed."""


class CopyShown(msgspec.Struct, frozen=True, kw_only=True):
    """A copy as lists show it; times in milliseconds, sizes in bytes."""

    id: str
    agent: str
    account: str | None
    conversation: str | None
    cwd: str
    host: str
    path: str
    """Where the session belongs on this host."""
    present: bool
    """Something is there."""
    size: int
    kept_size: int
    kept: int
    last_used: int


def shown(row: KeptRow, home: Path, keys: Mapping[str, str]) -> CopyShown:
    """``keys``: the conversations' keys by their ids."""
    manifest = manifests.read(row.manifest)
    path = home / manifest.root if manifest is not None else home
    return CopyShown(
        id=row.native_id,
        agent=row.agent,
        account=row.account or None,
        conversation=keys.get(row.conversation),
        cwd=row.cwd,
        host=row.host,
        path=str(path),
        present=manifest is not None and path.exists(),
        size=row.size,
        kept_size=row.packed,
        kept=row.kept_ms,
        last_used=row.used_ms,
    )


def chosen(store: Store, name: str) -> list[KeptRow]:
    """The copy of a session by its id or the beginning of it, ``AGENT:`` in front where two have the same; or
    by its conversation's key: those of the sessions that it goes on with."""
    copies = kept.every(store.db)
    if whole := [row for row in copies if name in (row.native_id, f"{row.agent}:{row.native_id}")]:
        return _one(whole, name)
    if (conversation := store.conversation(name)) is not None:
        pinned = {(pin.voice.agent, pin.account, pin.native_id) for pin in store.pins(conversation.id)}
        found = [row for row in copies if (row.agent, row.account, row.native_id) in pinned]
        if not found:
            raise Misuse(f"no copy is kept of a session of {name}; segue sessions restore lists all copies")
        return found
    agent, colon, rest = name.rpartition(":")
    if len(rest) < LEAST:
        raise Misuse(f'"{name}" is too short for a session\'s id; give {LEAST} characters or more of it')
    begin = rest.lower()
    return _one(
        [
            row
            for row in copies
            if row.native_id.lower().startswith(begin) and (not colon or row.agent == agent)
        ],
        name,
    )


def home_on(row: KeptRow, host: str, config: Config, env: Mapping[str, str]) -> Path:
    """Where it was; or, where that was on another host, the home of its account on this one."""
    if row.host == host:
        return Path(row.home)
    account = config.accounts.get(row.account)
    if account is not None and account.home is not None:
        return Path(account.home)
    return registry.get(row.agent, config).default_home(env)


def _one(found: Sequence[KeptRow], name: str) -> list[KeptRow]:
    if not found:
        raise Misuse(f'no copy is kept of a session "{name}"; segue sessions restore lists all copies')
    if len({(row.agent, row.native_id) for row in found}) > 1:
        names = ", ".join(sorted({f"{row.agent}:{row.native_id}" for row in found})[:5])
        raise Misuse(f'several copies begin with "{name}": {names}')
    return [found[0]]
