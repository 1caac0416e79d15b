"""Taking a session of Vibe away: its directory, and exactly what Vibe's own indexes say of it.

    logs/session/.session_index.json           3.x of the directories of 2.x: their names as keys
    logs/session/.last_session/<terminal>      2.x: the id of the session last used there
    logs/session/unified/.session-index.json   3.x of its stores: a list of entries
    logs/session/plugins/data/<id>/            3.x: what its plugins wrote for a session

An index that cannot be read is left alone: Vibe makes it anew by itself.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from segue.agents.reader import Stored
from segue.agents.vibe import folder
from segue.agents.vibe.store import STORES, is_store
from segue.core.decoder import decode
from segue.core.errors import Broken

_ERRORS = (OSError, KeyError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Entry(msgspec.Struct, frozen=True):
    session_id: str = ""


def remove(stored: Stored) -> None:
    root = folder.root(stored.home)
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
