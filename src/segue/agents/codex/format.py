"""What a turn needs from Codex's sessions: where one ends, a copy that ends earlier, fixes before a resume.

An anchor is the place where a turn ends. Codex only appends to a rollout, so a place is the number of bytes
before it. It stays the same in a copy under another id, because all ids have the same length. A hash of the
line that ends there shows whether the file was rewritten; in that case the anchor is found by the turn's id,
if the turn was completed. A last line without a line break has a place too: a place is where a line's text
ends.

A branch is a copy of the rollout's lines under a new id; Codex needs nothing else to resume it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import IO

import msgspec

from segue.agents import jsonl
from segue.agents.base import CutRequest, StoredSession
from segue.agents.codex import rollouts
from segue.agents.codex.schema import Auth, Line, TurnMark
from segue.agents.decoding import DAMAGE, login_fingerprint
from segue.core.ids import checked_uuid
from segue.core.json_values import decode
from segue.core.request import Runtime, Start
from segue.core.usage import Pays

IDLE = frozenset(("thread_settings_applied", "thread_name_updated"))
"""What Codex writes when it only opens a session, or the user names it: no message was added."""
LONGEST_LINE = 1 << 26
"""The search from the end stops after this many bytes; a record of tens of megabytes is normal."""
PAGED, UNPAGED = b'"history_mode":"paginated"', b'"history_mode":"legacy"   '
"""Both have the same length, so that every place stays the same."""
_BASE = re.compile(rb'("history_base"\s*:\s*\{[^{}]*\})')
_NOBODY = "0" * 36
_ANCHOR = re.compile(r"(\d{1,15}):([0-9a-f]{16})(?::([\w-]{1,80}))?")


class CodexFormat:
    """Rollouts, found by their thread's id under the home."""

    def find(self, home: Path, session: str, cwd: Path | None = None) -> StoredSession | None:
        """An archived session is found only without ``cwd``: Codex does not resume it. With ``cwd``, the size
        of a packed rollout is its unpacked size."""
        path = rollouts.find(home, session)
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
                return _anchor_at_end(file, rollouts.thread_of(stored.path))
        except OSError:
            return None

    def cut(self, stored: StoredSession, wanted: CutRequest) -> Start | None:
        new_id = checked_uuid(wanted.new_id)
        target = rollouts.rollout_path(wanted.home, new_id, datetime.now())
        try:
            for part in rollouts.parts(wanted.home, stored.path):
                if part.path is None:
                    break
                thread = rollouts.thread_of(part.path)
                with rollouts.opened(part.path) as file:
                    place = _locate(file, thread, wanted.anchor)
                    if place is not None and (part.length is None or place.offset <= part.length):
                        rollouts.write_rollout(target, _copied(file, place, thread, new_id))
                        return Start("resume", new_id)
        except OSError:
            return None
        return None

    def continues(self, stored: StoredSession, anchor: str) -> bool:
        """Exactly one turn follows the anchor, apart from those that Codex itself started from it."""
        try:
            with rollouts.opened(stored.path) as file:
                place = _locate(file, rollouts.thread_of(stored.path), anchor)
                return place is not None and len(_roots(file, place)) == 1
        except OSError:
            return False

    def make_resumable(self, stored: StoredSession, runtime: Runtime) -> None:
        """Unpack, end the last line, stop numbering: old versions cannot read what new ones packed and append
        to an unfinished line; new ones refuse a numbered rollout to which an old one added lines."""
        with suppress(OSError):
            packed = stored.path.suffix == rollouts.PACKED
            path = rollouts.unpack(stored.path) if packed else stored.path
            with path.open("r+b") as file:
                _end_last_line(file)
                _stop_numbering(file)

    def login(self, home: Path, env: Mapping[str, str]) -> str | None:
        """None also if an API key is used."""
        return login_fingerprint(home / "auth.json", Auth, _account)


FORMAT = CodexFormat()


def renamed(line: bytes, thread: str, other: str) -> bytes:
    """A line of one thread with the id of another.

    Only id fields are replaced, never ids in messages. The session's id stays: it is the thread's first one,
    and in new versions the key of the prompt cache.
    """
    if thread.encode() not in line:
        return line
    return _own_ids(thread).sub(rb"\g<1>" + other.encode() + b'"', line)


@lru_cache(maxsize=8)
def _own_ids(thread: str) -> re.Pattern[bytes]:
    return re.compile(rb'("(?!session_id")\w*[iI]d"\s*:\s*")' + thread.encode() + b'"')


class _Place(msgspec.Struct, frozen=True):
    """A place in a rollout, and the line that ends there."""

    offset: int
    line: bytes


class _Mark(msgspec.Struct, frozen=True):
    """What a line shows about turns. Its kind is the type of the event, else of the line."""

    kind: str
    numbered: bool
    turn: str
    root: str
    """The turn that this one came from: itself, unless Codex started it."""


def _mark_of(text: bytes) -> _Mark | None:
    """None if the line is damaged, or not a line of a rollout."""
    try:
        line = decode(text, Line)
    except DAMAGE:
        return None
    if not line.type:
        return None
    event = TurnMark()
    if line.type == "event_msg":
        with suppress(*DAMAGE):
            event = decode(line.payload, TurnMark)
    return _Mark(
        kind=event.type or line.type,
        numbered=line.ordinal is not None,
        turn=event.turn_id,
        root=event.root_turn_id or event.turn_id,
    )


def _anchor_at_end(file: IO[bytes], thread: str) -> str | None:
    """None if no intact line is found there."""
    for offset, line in _backwards(file, file.seek(0, 2)):
        mark = _mark_of(line)
        if mark is not None and mark.kind not in IDLE:
            anchor = f"{offset}:{_digest(line, thread)}"
            with_turn = f"{anchor}:{mark.turn}"
            ended = mark.kind == "task_complete" and _ANCHOR.fullmatch(with_turn)
            return with_turn if ended else anchor
    return None


def _locate(file: IO[bytes], thread: str, anchor: str) -> _Place | None:
    """Where an anchor is in a rollout; None if it is not there."""
    fields = _ANCHOR.fullmatch(anchor)
    if fields is None:
        return None
    offset, check, turn = int(fields[1]), fields[2], fields[3]
    line = _line_before(file, offset)
    if line is not None and _digest(line, thread) == check:
        return _Place(offset, line)
    return _end_of_turn(file, turn) if turn else None


def _digest(line: bytes, thread: str) -> str:
    return sha256(renamed(line, thread, _NOBODY)).hexdigest()[:16]


def _line_before(file: IO[bytes], offset: int) -> bytes | None:
    if offset > file.seek(0, 2):
        return None
    file.seek(offset)
    if file.read(1) not in (b"\n", b""):
        return None
    return next((line for _, line in _backwards(file, offset)), None)


def _end_of_turn(file: IO[bytes], turn: str) -> _Place | None:
    turn_id = turn.encode()
    for offset, line in _forwards(file, 0):
        if turn_id in line and b'"task_complete"' in line:
            mark = _mark_of(line)
            if mark is not None and (mark.kind, mark.turn) == ("task_complete", turn):
                return _Place(offset, line)
    return None


def _backwards(file: IO[bytes], end: int) -> Iterator[tuple[int, bytes]]:
    """The lines up to ``end``, the last one first, each with its place."""
    for line in jsonl.backwards(file, end):
        if end - line.start > LONGEST_LINE:
            return
        if line.text is not None:
            yield line.start + len(line.text), line.text


def _forwards(file: IO[bytes], start: int) -> Iterator[tuple[int, bytes]]:
    """The lines from ``start`` on, empty ones too, each with its place."""
    file.seek(start)
    at = start
    for line in file:
        text = line.removesuffix(b"\n")
        yield at + len(text), text
        at += len(line)


def _copied(file: IO[bytes], place: _Place, thread: str, new_id: str) -> Iterator[bytes]:
    """The lines up to a place, with the id of another thread; every place stays the same."""
    last = _mark_of(place.line)
    numbered = last is not None and last.numbered
    for number, (offset, line) in enumerate(_forwards(file, 0)):
        if offset > place.offset:
            return
        if number:
            yield renamed(line, thread, new_id) + b"\n"
        else:
            yield _head_renamed(line if numbered else line.replace(PAGED, UNPAGED), thread, new_id) + b"\n"


def _head_renamed(line: bytes, thread: str, new_id: str) -> bytes:
    """The first line; the reference to the rollout that it continues stays, even if the id is the same."""
    pieces = _BASE.split(line)
    pieces[::2] = [renamed(piece, thread, new_id) for piece in pieces[::2]]
    return b"".join(pieces)


def _roots(file: IO[bytes], place: _Place) -> set[str]:
    """The turns that began after a place; stops at two, because only one is allowed."""
    roots: set[str] = set()
    for _, line in _forwards(file, place.offset):
        mark = _mark_of(line) if b'"task_started"' in line else None
        if mark is not None and mark.kind == "task_started":
            roots.add(mark.root)
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
    if at < 0:
        return
    marks = (_mark_of(line) for _, line in _backwards(file, file.seek(0, 2)))
    last = next((mark for mark in marks if mark is not None), None)
    if last is not None and not last.numbered:
        file.seek(at)
        file.write(UNPAGED)


def _account(auth: Auth) -> str | None:
    return auth.tokens.account_id if auth.tokens is not None else None


_PROVIDER = re.compile(r"""^model_provider\s*=\s*["']([^"']+)["']""", re.M)
"""In Codex's settings. ``openai`` is the one that logins are for."""


def pays(home: Path, env: Mapping[str, str]) -> Pays:
    """What the settings, the kind of login and the names of variables show."""
    provider = _provider(home)
    if provider is not None:
        return provider
    if env.get("CODEX_API_KEY"):
        return "api_key"
    try:
        auth = decode((home / "auth.json").read_bytes(), Auth)
    except FileNotFoundError:
        return "api_key" if env.get("OPENAI_API_KEY") else "unknown"
    except (OSError, *DAMAGE):
        return "unknown"
    mode = (auth.auth_mode or ("chatgpt" if auth.tokens is not None else "apikey")).lower()
    if mode.startswith("bedrock"):
        return "cloud"
    return "subscription" if mode.startswith("chatgpt") else "api_key" if mode == "apikey" else "unknown"


def _provider(home: Path) -> Pays | None:
    """What pays for a provider that the settings name; None: it is the usual one."""
    try:
        text = (home / "config.toml").read_text("utf-8")
    except (OSError, ValueError):
        return None
    named = _PROVIDER.search(text)
    if named is None or named[1] == "openai":
        return None
    if "bedrock" in named[1]:
        return "cloud"
    table = re.search(rf"^\[model_providers\.{re.escape(named[1])}\]([^\[]*)", text, re.M)
    return "api_key" if table is not None and "env_key" in table[1] else "unknown"
