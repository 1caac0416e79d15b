"""A repaired copy of a Vibe session.

The rules are the providers': an assistant's calls are followed by their results and by nothing else, no
result comes without its call, no answer is empty. A directory of 2.x becomes another one. A store of 3.x
becomes another store or, if its records are too damaged for that, a directory of 2.x, which 3.x imports to
resume it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from segue.agents.base import RepairedCopy, RepairOptions, StoredSession
from segue.agents.jsonl import forwards
from segue.agents.repair_words import Repairs, repaired_copy
from segue.agents.vibe import blocks, folder, store, walk
from segue.agents.vibe.anchors import Damaged
from segue.agents.vibe.meta import content
from segue.agents.vibe.repair_pieces import Piece, item_piece, line_piece, of_entries
from segue.agents.vibe.store_writer import write_repaired
from segue.core.errors import Broken, NotFound
from segue.system import clock

ROLES = ("user", "assistant", "tool", "system")


def repair(stored: StoredSession, new_id: str, options: RepairOptions) -> RepairedCopy:
    done = Repairs()
    try:
        if store.is_store(stored.path):
            path = _of_store(stored, new_id, options, done)
        else:
            path = _target(stored.home, new_id)
            lines = _sound(_lines(stored, path), options, done)
            folder.write_folder(path, _meta(stored, new_id), lines, stored.path)
    except OSError as error:
        raise Broken(f"the session cannot be repaired: {error.strerror or error}") from error
    return repaired_copy(new_id, path, done)


def _of_store(stored: StoredSession, new_id: str, options: RepairOptions, done: Repairs) -> Path:
    source = store.newest(stored.path)
    if source is None:
        raise Broken("none of its generations can be read: nothing can be saved")
    path = stored.path.with_name(new_id)
    if path.exists():
        raise Broken(f"a session {new_id} already exists")
    if write_repaired(source, path, lambda: _sound(_items(source), options, done)):
        return path
    done.clear()
    path = _target(stored.home, new_id)
    lines = (line for item in _sound(_items(source), options, done) if (line := _as_line(item)) is not None)
    folder.write_folder(path, _meta(stored, new_id), lines, stored.path)
    return path


def _as_line(raw: bytes) -> bytes | None:
    """A message of 3.x as 2.x writes it; None if that form cannot represent it."""
    try:
        item = blocks.item_of(raw)
        return item.line() if item is not None else None
    except Damaged:
        return None


def _target(home: Path, new_id: str) -> Path:
    target = folder.new_folder(home, new_id)
    if target is None:
        raise Broken(f"a session whose id begins with {new_id[:8]} already exists; use another id")
    return target


def _meta(stored: StoredSession, new_id: str) -> dict[str, Any]:
    """The old meta with the new id; what is missing in it is filled with the minimum that Vibe needs."""
    now = datetime.fromtimestamp(clock.now_s(), UTC).isoformat()
    minimum: dict[str, Any] = {
        "session_id": new_id,
        "start_time": now,
        "end_time": now,
        "git_commit": None,
        "git_branch": None,
        "environment": {},
        "username": "",
    }
    return minimum | (folder.meta_of(stored.path) or {}) | {"session_id": new_id}


# --- what can be read ------------------------------------------------------------------------------


def _lines(stored: StoredSession, target: Path) -> Iterator[Piece | None]:
    with (stored.path / folder.MESSAGES).open("rb") as file:
        for line in forwards(file):
            readable = line.text is not None
            yield line_piece(line.text or b"", line.start, stored.path, target) if readable else None


def _items(source: store.Store) -> Iterator[Piece | None]:
    """All messages, with those of an unfinished turn, so that a resume has nothing to finish."""
    turn = 0
    for n, path in enumerate(source.messages()):
        try:
            raws = blocks.raws_of(content(path))
        except store.ERRORS:
            yield None
            continue
        for index, raw in enumerate(raws):
            piece = item_piece(bytes(raw), walk.MESSAGES + n * walk.PIECE + index)
            turn = piece.turn if piece is not None else turn
            yield piece
    names: dict[str, str] = {}
    for place, entries in walk.unfinished(source):
        names |= {entry.call: entry.tool for entry in entries if entry.kind == "call"}
        yield item_piece(of_entries(entries, names, turn + 1), place)


# --- what can be sent ------------------------------------------------------------------------------


def _sound(pieces: Iterable[Piece | None], options: RepairOptions, done: Repairs) -> Iterator[bytes]:
    """The messages of a history that can be sent. A piece is None if it could not be read."""
    since, started = _since(options), options.since is None
    waiting: dict[str, tuple[Piece, str]] = {}
    for piece in pieces:
        if piece is None or piece.role not in ROLES:
            done["damaged"] += 1
            continue
        started = started or (piece.opens and piece.place >= since)
        if not started:
            done["before"] += 1
            continue
        yield from _kept(piece, waiting, options, done)
    yield from _closed(waiting, done)
    if not started:
        raise Broken("it has no prompt after that event")


def _kept(
    piece: Piece, waiting: dict[str, tuple[Piece, str]], options: RepairOptions, done: Repairs
) -> Iterator[bytes]:
    if piece.role == "tool":
        if waiting.pop(piece.call, None) is None:
            done["orphans"] += 1
        else:
            done["outputs"] += options.trim
            yield piece.written(options, done)
        return
    yield from _closed(waiting, done)
    if piece.role == "assistant" and piece.silent:
        done["empty"] += 1
        return
    if piece.role == "assistant":
        waiting.update((call, (piece, tool)) for call, tool in piece.calls)
    yield piece.written(options, done)


def _closed(waiting: dict[str, tuple[Piece, str]], done: Repairs) -> Iterator[bytes]:
    for call, (piece, tool) in waiting.items():
        done["closed"] += 1
        yield piece.closing(call, tool)
    waiting.clear()


def _since(options: RepairOptions) -> int:
    place = (options.since or "0").partition(".")[0]
    if not place.isdecimal():
        raise NotFound(f'there is no event "{options.since}" in this session')
    return int(place)
