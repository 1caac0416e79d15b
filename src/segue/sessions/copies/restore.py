"""Restores sessions from our copies: which copy is meant, where it belongs, and how it is put there.

Nothing that stands there is ever overwritten. Every piece is checked against its hash and every file against
its length before the CLI sees any of them: a session comes back whole, or not at all.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO

import msgspec

from segue.agents import registry
from segue.config.schema import Config
from segue.core.errors import Broken, Misuse
from segue.core.model import Host
from segue.sessions.copies.chunks import Chunks, KeptFile, Manifest, is_below, read_manifest, unpack
from segue.sessions.copies.pieces import open_regular
from segue.store.copies import KeptRow
from segue.store.store import Store
from segue.system import clock
from segue.system.files import make_folder, place, place_new

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


def shown_copies(row: KeptRow, home: Path | None, keys: Mapping[str, str]) -> CopyShown:
    """``home``: where it belongs, see ``home_on``; ``keys``: the conversations' keys by their ids."""
    manifest = read_manifest(row.manifest)
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


def choose_copy(store: Store, name: str) -> list[KeptRow]:
    """The copy of a session by its id or the beginning of it, ``AGENT:`` or ``AGENT/ACCOUNT:`` in front where
    several have the same; or by its conversation's key: those of the sessions that it goes on with."""
    copies = store.session_copies()
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


_Identity = tuple[int, int, int, int]
"""Which file it is, and whether anybody wrote to it."""


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """``path``: the session's file or directory. ``files``: how many were written; the others were there."""

    path: Path
    files: int
    size: int


def restore_copy(row: KeptRow, chunks: Chunks, home: Path, *, behind: bool = False) -> Restored:
    """The session below this home. ``Misuse`` where something else stands there, ``Broken`` for a bad copy.

    ``behind``: a file that is the beginning of what was kept, and nothing else, is brought up to date. A host
    has that of a session that went on on another one.
    """
    manifest = read_manifest(row.manifest)
    if manifest is None:
        raise Broken(f"the copy of session {row.native_id} was made by another version of Segue")
    try:
        written = _Restoring(manifest, chunks, home, behind).run()
    except OSError as error:
        raise Broken(f"{error.filename or home}: {error.strerror or error}") from error
    return Restored(
        path=home / _below(manifest.root), files=len(written), size=sum(file.size for file in written)
    )


class _Restoring:
    def __init__(self, manifest: Manifest, chunks: Chunks, home: Path, behind: bool) -> None:
        self._manifest, self._chunks, self._home, self._behind = manifest, chunks, home, behind
        self._root = home / _below(manifest.root)
        self._beside = self._root.with_name(f".{self._root.name}.{clock.random_hex(4)}.part")
        """Where the files are put together."""
        self._placed: dict[Path, _Identity] = {}
        self._outdated: dict[Path, _Identity] = {}
        """What is to be brought up to date, as it was when it was looked at."""

    def run(self) -> list[KeptFile]:
        missing = [file for file in self._manifest.files if not self._stands(file)]
        if not missing:
            return []
        try:
            parts = {file.path: self._assemble(file, n) for n, file in enumerate(missing)}
            self._place(missing, parts)
        except BaseException:
            self._take_back()
            raise
        finally:
            shutil.rmtree(self._beside, ignore_errors=True)
        return missing

    def _take_back(self) -> None:
        """What we put there. What somebody wrote to since, or put in its place, is not ours any more."""
        for path, placed in self._placed.items():
            with suppress(OSError):
                if _identity(os.lstat(path)) == placed:
                    path.unlink()

    def _stands(self, file: KeptFile) -> bool:
        """Whether it is there already. Beside the session itself anything will do: others may share it."""
        target = self._home / _below(file.path)
        if not target.is_relative_to(self._root) and os.path.lexists(target):
            return True
        try:
            os.lstat(target)
            opened = open_regular(target, follow=True)
        except FileNotFoundError:
            return False
        except NotADirectoryError:
            opened = None
        if opened is not None:
            with opened as there:
                now = os.fstat(there.fileno())
                if now.st_size == file.size and self._begins(file, there):
                    return True
                if self._behind and now.st_size < file.size and self._begins(file, there):
                    self._outdated[target] = _identity(now)
                    return False
        raise Misuse(f"{target} is there already and is not what was kept; move it away to restore the copy")

    def _begins(self, file: KeptFile, there: IO[bytes]) -> bool:
        """Whether the copy begins with all that is there."""
        for plain in self._parts(file):
            part = there.read(len(plain))
            if not plain.startswith(part):
                return False
            if len(part) < len(plain):
                break
        return not there.read(1)

    def _assemble(self, file: KeptFile, n: int) -> Path:
        """Below the session's own directory everything stands as it will; else the names do not matter."""
        target = self._home / _below(file.path)
        inside = target != self._root and target.is_relative_to(self._root)
        part = self._beside / "root" / target.relative_to(self._root) if inside else self._beside / str(n)
        make_folder(part.parent)
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as made:
            for plain in self._parts(file):
                made.write(plain)
            if made.tell() != file.size:
                raise Broken(f"the copy of {file.path} is incomplete")
        return part

    def _place(self, missing: list[KeptFile], parts: dict[str, Path]) -> None:
        """The session's own file or directory comes last: until then the CLI does not see it."""
        whole = (self._beside / "root").is_dir() and not os.path.lexists(self._root)
        targets = [(parts[file.path], self._home / _below(file.path)) for file in missing]
        for part, target in sorted(targets, key=lambda each: each[1] == self._root):
            if not (whole and target.is_relative_to(self._root)):
                make_folder(target.parent)
                self._put(part, target)
        if whole:
            place(self._beside / "root", self._root)

    def _put(self, part: Path, target: Path) -> None:
        if target in self._outdated:
            if _identity(os.stat(target)) != self._outdated[target]:
                raise Misuse(f"{target} was written to meanwhile")
            place(part, target)
        else:
            made = _identity(os.lstat(part))
            try:
                place_new(part, target)
            except FileExistsError:
                raise Misuse(f"{target} has come into being meanwhile") from None
            self._placed[target] = made

    def _parts(self, file: KeptFile) -> Iterator[bytes]:
        for chunk in file.chunks:
            packed = self._chunks.get(chunk.name)
            plain = unpack(packed, chunk.name, chunk.size) if packed is not None else None
            if plain is None:
                self._chunks.delete([chunk.name], 0)  # a later copy stores it anew
                raise Broken(f"a part of the copy of {file.path} is {'damaged' if packed else 'missing'}")
            yield plain


def _identity(now: os.stat_result) -> _Identity:
    return now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns


def _below(path: str) -> PurePosixPath:
    if not is_below(path):
        raise Broken(f"the copy names a file outside of its home: {path}")
    return PurePosixPath(path)
