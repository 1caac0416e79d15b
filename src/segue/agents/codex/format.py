"""Anchors in a rollout: the place where a turn ends, and how it is found again.

Codex only ever adds to a rollout, so a place is the number of bytes before it. It stays in a copy under
another id, because ids are of one length. A hash of the line that ends there tells when the file was written
anew; then the id of the turn still finds it, where the turn came to its end.

Who is logged in, as a fingerprint: of Codex's ``auth.json`` only the account's open id is read.

Codex's session format: where a session ends, a copy that ends earlier, and what a resume needs mended.

A branch is a copy of the rollout's lines under a new id; Codex needs nothing else to resume it. Rollouts that
were forked by Codex itself hold only their own lines, and name the file and the place they go on from.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec

from segue.agents.base import Found, RepairedCopy, RepairOptions
from segue.agents.codex import rollouts, trace
from segue.agents.codex.rollouts import ancestry
from segue.agents.codex.schema import Record, backwards, forwards, last_record, read_record
from segue.core.ids import checked_uuid
from segue.core.request import Request, Runtime, Start

if TYPE_CHECKING:
    from segue.agents.base import AfterAnchor, StoredSession


IDLE = frozenset(("thread_settings_applied", "thread_name_updated"))
"""What Codex notes when it only opens a session, or somebody names it: nobody has spoken."""
_NOBODY = "0" * 36
_ANCHOR = re.compile(r"(\d{1,15}):([0-9a-f]{16})(?::([\w-]{1,80}))?")


class Offset(msgspec.Struct, frozen=True):
    """A place in a rollout, and the line that ends there."""

    offset: int
    line: bytes


def at_end(file: IO[bytes], thread: str) -> str | None:
    """The anchor at a rollout's end; ``None`` when no whole line can be found there."""
    for offset, line in backwards(file, file.seek(0, 2)):
        record = read_record(line)
        if record is not None and record.kind not in IDLE:
            return _anchor(offset, line, record, thread)
    return None


def locate(file: IO[bytes], thread: str, anchor: str) -> Offset | None:
    """Where an anchor is in a rollout; ``None`` when it is not there."""
    parts = _ANCHOR.fullmatch(anchor)
    if parts is None:
        return None
    offset, check, turn = int(parts[1]), parts[2], parts[3]
    line = _line_before(file, offset)
    if line is not None and _digest(line, thread) == check:
        return Offset(offset, line)
    return _end_of_turn(file, turn) if turn else None


def renamed(line: bytes, thread: str, other: str) -> bytes:
    """A line of a thread as one of another thread's.

    Only ids are replaced, never what was said, in which an id may stand as well. The session's id stays: it
    is the thread's first one, and what new versions have the service keep its cache of the prompt under.
    """
    if thread.encode() not in line:
        return line
    return _own_ids(thread).sub(rb"\g<1>" + other.encode() + b'"', line)


@lru_cache(maxsize=8)
def _own_ids(thread: str) -> re.Pattern[bytes]:
    return re.compile(rb'("(?!session_id")\w*[iI]d"\s*:\s*")' + thread.encode() + b'"')


def _anchor(offset: int, line: bytes, record: Record, thread: str) -> str:
    anchor = f"{offset}:{_digest(line, thread)}"
    with_turn = f"{anchor}:{record.turn}"
    ended = record.kind == "task_complete" and _ANCHOR.fullmatch(with_turn)
    return with_turn if ended else anchor


def _digest(line: bytes, thread: str) -> str:
    return sha256(renamed(line, thread, _NOBODY)).hexdigest()[:16]


def _line_before(file: IO[bytes], offset: int) -> bytes | None:
    if offset > file.seek(0, 2):
        return None
    file.seek(offset)
    if file.read(1) not in (b"\n", b""):
        return None
    return next((line for _, line in backwards(file, offset)), None)


def _end_of_turn(file: IO[bytes], turn: str) -> Offset | None:
    mark = turn.encode()
    for offset, line in forwards(file, 0):
        if mark in line and b'"task_complete"' in line:
            record = read_record(line)
            if record is not None and (record.kind, record.turn) == ("task_complete", turn):
                return Offset(offset, line)
    return None


REWRITE_S = 0.05
"""How long a file that is just being written may be broken."""


class _Tokens(msgspec.Struct, frozen=True):
    account_id: str | None = None


class _Auth(msgspec.Struct, frozen=True):
    tokens: _Tokens | None = None


_auth = msgspec.json.Decoder(_Auth)


def login_fingerprint(path: Path) -> str | None:
    """``None``: nobody, somebody with a key of their own, or a file that stays unreadable."""
    auth = _read(path)
    if auth is None and path.exists():
        time.sleep(REWRITE_S)
        auth = _read(path)
    account = auth.tokens.account_id if auth is not None and auth.tokens is not None else None
    return sha256(account.encode()).hexdigest()[:16] if account else None


def _read(path: Path) -> _Auth | None:
    try:
        return _auth.decode(path.read_bytes())
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


PAGED, UNPAGED = b'"history_mode":"paginated"', b'"history_mode":"legacy"   '
"""Of one length, so that every place stays."""
_BASE = re.compile(rb'("history_base"\s*:\s*\{[^{}]*\})')


class CodexFormat:
    """Rollouts, found by their thread's id under the home."""

    def look(self, home: Path, session: str, cwd: Path) -> Found | None:
        path = trace.find_trace(home, session)
        if path is None:
            return None
        try:
            with rollouts.opened(path) as file:
                end = at_end(file, rollouts.thread_of(path))
                return Found(path, file.seek(0, 2), end)
        except OSError:
            return _unreadable(path)

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
        target = rollouts.rollout_path(home, checked_uuid(new_id), datetime.now())
        try:
            for path, end in ancestry(home, found.path):
                with rollouts.opened(path) as file:
                    place = locate(file, rollouts.thread_of(path), anchor)
                    if place is not None and (end is None or place.offset <= end):
                        rollouts.write_rollout(
                            target, _copied(file, place, rollouts.thread_of(path), checked_uuid(new_id))
                        )
                        return Start("resume", new_id)
        except OSError:
            return None
        return None

    def continues(self, found: Found, anchor: str) -> bool:
        """Exactly one turn follows the anchor, with those that Codex began out of it by itself."""
        try:
            with rollouts.opened(found.path) as file:
                place = locate(file, rollouts.thread_of(found.path), anchor)
                return place is not None and len(_roots(file, place)) == 1
        except OSError:
            return False

    def mend(self, found: Found, session: str, runtime: Runtime) -> None:
        """Old versions cannot read what new ones packed, and add to a line that was not finished; new ones
        refuse a rollout with numbered lines to which an old one added some without a number."""
        with suppress(OSError):
            packed = found.path.suffix == rollouts.PACKED
            path = rollouts.unpack(found.path) if packed else found.path
            with path.open("r+b") as file:
                _end_last_line(file)
                _stop_numbering(file)

    def behind(self, anchor: str) -> AfterAnchor:
        """An anchor is the number of bytes before it."""
        from segue.agents.base import AfterAnchor

        offset = int(anchor.split(":")[0])
        return AfterAnchor(lambda entry: int(entry.id.split(".")[0]) < offset)

    def repair(self, stored: StoredSession, new_id: str, mending: RepairOptions) -> RepairedCopy:
        from segue.agents.codex.repair import repair

        return repair(stored, new_id, mending)

    def remove(self, stored: StoredSession) -> None:
        from segue.agents.codex.archive import remove

        remove(stored)

    def login(self, home: Path, env: Mapping[str, str]) -> str | None:
        return login_fingerprint(home / "auth.json")


def _unreadable(path: Path) -> Found | None:
    try:
        return Found(path, path.stat().st_size, None)
    except OSError:
        return None


def _copied(file: IO[bytes], place: Offset, thread: str, new_id: str) -> Iterator[bytes]:
    """The lines up to a place, as those of another thread, each at the place it had."""
    last = read_record(place.line)
    numbered = last is not None and last.numbered
    for number, (offset, line) in enumerate(forwards(file, 0)):
        if offset > place.offset:
            return
        if number:
            yield renamed(line, thread, new_id) + b"\n"
        else:
            yield _head_renamed(line if numbered else line.replace(PAGED, UNPAGED), thread, new_id) + b"\n"


def _head_renamed(line: bytes, thread: str, new_id: str) -> bytes:
    """The first line; what names the rollout it goes on from stays, even if that was the same thread."""
    parts = _BASE.split(line)
    parts[::2] = [renamed(part, thread, new_id) for part in parts[::2]]
    return b"".join(parts)


def _roots(file: IO[bytes], place: Offset) -> set[str]:
    """The turns that began after a place; at most two of them, which is one too many."""
    roots: set[str] = set()
    for _, line in forwards(file, place.offset):
        record = read_record(line) if b'"task_started"' in line else None
        if record is not None and record.kind == "task_started":
            roots.add(record.root)
            if len(roots) > 1:
                break
    return roots


def _end_last_line(file: IO[bytes]) -> None:
    if file.seek(0, 2) == 0:
        return
    file.seek(-1, 2)
    if file.read(1) != b"\n":
        file.write(b"\n")


def _stop_numbering(file: IO[bytes]) -> None:
    file.seek(0)
    at = file.readline().find(PAGED)
    last = last_record(file) if at >= 0 else None
    if last is not None and not last.numbered:
        file.seek(at)
        file.write(UNPAGED)


FORMAT = CodexFormat()
