"""Restores sessions from Segue's copies: chooses the copy, finds where it belongs, and writes it there.

Existing files are never overwritten. Every piece is checked against its hash and every file against its
length before the CLI sees any of them: a session is restored completely, or not at all.
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
from segue.core.errors import Broken, Misuse, NotFound
from segue.core.model import Host
from segue.sessions.copies.chunks import Chunks, KeptFile, Manifest, is_below, read_manifest, unpack
from segue.sessions.copies.pieces import open_regular
from segue.store.copies import KeptRow
from segue.store.store import Store
from segue.system import clock
from segue.system.files import make_folder, place, place_new

LEAST = 4
"""How many characters of an id must be given."""


class CopyShown(msgspec.Struct, frozen=True, kw_only=True):
    """A copy as it is listed; times in milliseconds since 1970, sizes in bytes."""

    id: str
    agent: str
    account: str | None
    conversation: str | None
    cwd: str
    host: str
    path: str | None
    """Where the session belongs on this host; None if its account is not known here."""
    present: bool
    """Whether the path exists."""
    size: int
    kept_size: int
    kept: int
    last_used: int


def shown_copies(row: KeptRow, home: Path | None, keys: Mapping[str, str]) -> CopyShown:
    """The copy as it is listed. ``home``: where it belongs, see ``home_on``; ``keys``: conversation keys by
    id."""
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
    """The copies that ``name`` means: the copy of one session, by its id or the beginning of it, with
    ``AGENT:`` or ``AGENT/ACCOUNT:`` before it if several match; or, for a conversation's key, the copies of
    the sessions that it would continue."""
    copies = store.session_copies()
    if whole := [
        row for row in copies if name in (row.native_id, *(who + row.native_id for who in _who(row)))
    ]:
        return _one(whole, name)
    if (conversation := store.conversation(name)) is not None:
        pinned = {(pin.voice.agent, pin.account, pin.native_id) for pin in store.pins(conversation.id)}
        found = [row for row in copies if (row.agent, row.account, row.native_id) in pinned]
        if not found:
            none = f"there is no copy of a session of {name}"
            raise NotFound(f"{none}; segue sessions restore lists all copies")
        return found
    who, colon, rest = name.rpartition(":")
    if len(rest) < LEAST:
        raise Misuse(f'"{name}" is too short for a session\'s id; give at least {LEAST} characters')
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
    """The home where the session was; if that was on another host, the home of its account on this one.

    Raises ``Misuse`` if that account is not known here: another account must not get its sessions.
    """
    if host.has(row):
        return Path(row.home)
    account = config.accounts.get(row.account)
    if row.account and (account is None or account.agent != row.agent):
        raise Misuse(
            f'session {row.native_id} belongs to the account "{row.account}" of {row.agent} on {row.host}, '
            f"which is not known here; declare [accounts.{row.account}] in config.toml to restore it"
        )
    if account is not None and account.home is not None:
        return Path(account.home)
    return registry.get(row.agent, config).default_home(env)


def _one(found: Sequence[KeptRow], name: str) -> list[KeptRow]:
    if not found:
        raise NotFound(f'there is no copy of a session "{name}"; segue sessions restore lists all copies')
    if len(found) > 1:
        several = len({(row.agent, row.native_id) for row in found}) < len(found)
        names = sorted(f"{_who(row)[several]}{row.native_id}" for row in found)
        raise Misuse(f'several copies match "{name}"; choose one: {", ".join(names[:5])}')
    return [found[0]]


def _who(row: KeptRow) -> tuple[str, str]:
    """The prefixes that an id can have."""
    return f"{row.agent}:", f"{row.agent}/{row.account}:"


_Identity = tuple[int, int, int, int]
"""Device, inode, size and modification time: which file it is, and whether it was written to."""


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """``path``: the session's file or directory. ``files``: how many were written; the others existed."""

    path: Path
    files: int
    size: int


def restore_copy(row: KeptRow, chunks: Chunks, home: Path, *, behind: bool = False) -> Restored:
    """Restore the session in this home. Raises ``Misuse`` if something else is there, ``Broken`` if the copy
    is bad.

    ``behind``: a file that is exactly the beginning of the copy is replaced by the copy. A host has such a
    file if the session was continued on another host.
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
        """Where the files are assembled."""
        self._placed: dict[Path, _Identity] = {}
        self._outdated: dict[Path, _Identity] = {}
        """The files to replace, as they were when they were examined."""

    def run(self) -> list[KeptFile]:
        missing = [file for file in self._manifest.files if not self._exists(file)]
        if not missing:
            return []
        try:
            parts = {file.path: self._assemble(file, n) for n, file in enumerate(missing)}
            self._place(missing, parts)
        except BaseException:
            self._undo()
            raise
        finally:
            shutil.rmtree(self._beside, ignore_errors=True)
        return missing

    def _undo(self) -> None:
        """Delete the files that we wrote, except those that were changed or replaced since."""
        for path, placed in self._placed.items():
            with suppress(OSError):
                if _identity(os.lstat(path)) == placed:
                    path.unlink()

    def _exists(self, file: KeptFile) -> bool:
        """Whether the file exists already. Outside of the session's own files, any content is accepted,
        because other sessions may share the file."""
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
            with opened as existing:
                now = os.fstat(existing.fileno())
                if now.st_size == file.size and self._begins(file, existing):
                    return True
                if self._behind and now.st_size < file.size and self._begins(file, existing):
                    self._outdated[target] = _identity(now)
                    return False
        raise Misuse(f"{target} already exists and differs from the copy; move it away to restore the copy")

    def _begins(self, file: KeptFile, existing: IO[bytes]) -> bool:
        """Whether the copy begins with the whole content of the existing file."""
        for plain in self._parts(file):
            part = existing.read(len(plain))
            if not plain.startswith(part):
                return False
            if len(part) < len(plain):
                break
        return not existing.read(1)

    def _assemble(self, file: KeptFile, n: int) -> Path:
        """Write the file next to its final place. Files in the session's own directory keep their relative
        paths, so that the directory can be moved as a whole."""
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
        """Move the files to their final places. The session's own file or directory comes last: until then,
        the CLI does not see the session."""
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
                raise Misuse(f"{target} was changed meanwhile; try again")
            place(part, target)
        else:
            made = _identity(os.lstat(part))
            try:
                place_new(part, target)
            except FileExistsError:
                raise Misuse(f"{target} was created meanwhile; move it away to restore the copy") from None
            self._placed[target] = made

    def _parts(self, file: KeptFile) -> Iterator[bytes]:
        for chunk in file.chunks:
            packed = self._chunks.get(chunk.name)
            plain = unpack(packed, chunk.name, chunk.size) if packed is not None else None
            if plain is None:
                self._chunks.delete([chunk.name], 0)  # a later copy stores it again
                raise Broken(f"a part of the copy of {file.path} is {'damaged' if packed else 'missing'}")
            yield plain


def _identity(now: os.stat_result) -> _Identity:
    return now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns


def _below(path: str) -> PurePosixPath:
    if not is_below(path):
        raise Broken(f"the copy contains a path outside of its home: {path}")
    return PurePosixPath(path)
