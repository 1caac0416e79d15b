"""The copies that are kept: which one is meant, and where it belongs on this host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from segue.agents import registry
from segue.config.schema import Config
from segue.core.errors import Misuse
from segue.core.hosts import Host
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
    path: str | None
    """Where the session belongs on this host; None: nowhere, for its account is not known here."""
    present: bool
    """Something is there."""
    size: int
    kept_size: int
    kept: int
    last_used: int


def shown(row: KeptRow, home: Path | None, keys: Mapping[str, str]) -> CopyShown:
    """``home``: where it belongs, see ``home_on``; ``keys``: the conversations' keys by their ids."""
    manifest = manifests.read(row.manifest)
    manifest = manifest if manifest is not None and manifest.confined else None
    path = home / manifest.root if home is not None and manifest is not None else home
    return CopyShown(
        id=row.native_id,
        agent=row.agent,
        account=row.account or None,
        conversation=keys.get(row.conversation),
        cwd=row.cwd,
        host=row.host,
        path=str(path) if path is not None else None,
        present=manifest is not None and path is not None and path.exists(),
        size=row.size,
        kept_size=row.packed,
        kept=row.kept_ms,
        last_used=row.used_ms,
    )


def chosen(store: Store, name: str) -> list[KeptRow]:
    """The copy of a session by its id or the beginning of it, ``AGENT:`` or ``AGENT/ACCOUNT:`` in front where
    several have the same; or by its conversation's key: those of the sessions that it goes on with."""
    copies = kept.every(store.db)
    if whole := [
        row for row in copies if name in (row.native_id, *(who + row.native_id for who in _who(row)))
    ]:
        return _one(whole, name)
    if (conversation := store.conversation(name)) is not None:
        pinned = {(pin.voice.agent, pin.account, pin.native_id) for pin in store.pins(conversation.id)}
        found = [row for row in copies if (row.agent, row.account, row.native_id) in pinned]
        if not found:
            raise Misuse(f"no copy is kept of a session of {name}; segue sessions restore lists all copies")
        return found
    who, colon, rest = name.rpartition(":")
    if len(rest) < LEAST:
        raise Misuse(f'"{name}" is too short for a session\'s id; give {LEAST} characters or more of it')
    begin = rest.lower()
    return _one(
        [
            row
            for row in copies
            if row.native_id.lower().startswith(begin) and (not colon or f"{who}:" in _who(row))
        ],
        name,
    )


def home_on(row: KeptRow, host: Host, config: Config, env: Mapping[str, str]) -> Path:
    """Where it was; or, where that was on another host, the home of its account on this one.

    ``Misuse`` where that account is not known here: its sessions are nothing for another one.
    """
    if host.has(row):
        return Path(row.home)
    account = config.accounts.get(row.account)
    if row.account and (account is None or account.agent != row.agent):
        raise Misuse(
            f'session {row.native_id} is of the account "{row.account}" of {row.agent} on {row.host}, '
            f"which is not known here; declare [accounts.{row.account}] in config.toml to restore it"
        )
    if account is not None and account.home is not None:
        return Path(account.home)
    return registry.get(row.agent, config).default_home(env)


def _one(found: Sequence[KeptRow], name: str) -> list[KeptRow]:
    if not found:
        raise Misuse(f'no copy is kept of a session "{name}"; segue sessions restore lists all copies')
    if len(found) > 1:
        several = len({(row.agent, row.native_id) for row in found}) < len(found)
        names = sorted(f"{_who(row)[several]}{row.native_id}" for row in found)
        raise Misuse(f'several copies begin with "{name}": {", ".join(names[:5])}')
    return [found[0]]


def _who(row: KeptRow) -> tuple[str, str]:
    """What may stand before the id."""
    return f"{row.agent}:", f"{row.agent}/{row.account}:"
