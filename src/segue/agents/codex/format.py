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
from typing import IO

import msgspec

from segue.agents.base import CutRequest, StoredSession
from segue.agents.codex import rollouts, trace
from segue.agents.codex.rollouts import ancestry
from segue.agents.codex.schema import Record, backwards, forwards, last_record, read_record
from segue.core.ids import checked_uuid
from segue.core.request import Runtime, Start

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

    def find(self, home: Path, session: str, cwd: Path | None = None) -> StoredSession | None:
        """What was archived is found too, but not to go on with: Codex does not resume it there. The size of
        what is packed is, to go on with it, what it comes to when unpacked."""
        path = trace.find_trace(home, session)
        if path is None and cwd is None:
            path = rollouts.archived(home, session)
        stored = rollouts.stored(home, session, str(path)) if path is not None else None
        if stored is None or stored.appends or cwd is None:
            return stored
        with suppress(OSError), rollouts.opened(stored.path) as file:
            stored = msgspec.structs.replace(stored, size=file.seek(0, 2))
        return stored

    def end(self, stored: StoredSession) -> str | None:
        try:
            with rollouts.opened(stored.path) as file:
                return at_end(file, rollouts.thread_of(stored.path))
        except OSError:
            return None

    def cut(self, stored: StoredSession, wanted: CutRequest) -> Start | None:
        new_id = checked_uuid(wanted.new_id)
        target = rollouts.rollout_path(wanted.home, new_id, datetime.now())
        try:
            for path, end in ancestry(wanted.home, stored.path):
                with rollouts.opened(path) as file:
                    thread = rollouts.thread_of(path)
                    place = locate(file, thread, wanted.anchor)
                    if place is not None and (end is None or place.offset <= end):
                        rollouts.write_rollout(target, _copied(file, place, thread, new_id))
                        return Start("resume", new_id)
        except OSError:
            return None
        return None

    def continues(self, stored: StoredSession, anchor: str) -> bool:
        """Exactly one turn follows the anchor, with those that Codex began out of it by itself."""
        try:
            with rollouts.opened(stored.path) as file:
                place = locate(file, rollouts.thread_of(stored.path), anchor)
                return place is not None and len(_roots(file, place)) == 1
        except OSError:
            return False

    def make_resumable(self, stored: StoredSession, runtime: Runtime) -> None:
        """Old versions cannot read what new ones packed, and add to a line that was not finished; new ones
        refuse a rollout with numbered lines to which an old one added some without a number."""
        with suppress(OSError):
            packed = stored.path.suffix == rollouts.PACKED
            path = rollouts.unpack(stored.path) if packed else stored.path
            with path.open("r+b") as file:
                _end_last_line(file)
                _stop_numbering(file)

    def login(self, home: Path, env: Mapping[str, str]) -> str | None:
        return login_fingerprint(home / "auth.json")


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
