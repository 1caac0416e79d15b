"""A session of Vibe written anew without what is broken in it.

The rules are the providers': an assistant's calls are followed by their results and by nothing else, no
result comes without its call, no answer is empty. A directory of 2.x becomes another one. A store of 3.x
becomes another store; where its own records are too damaged for that, a directory of 2.x, which 3.x takes in
when it is asked to resume it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from segue.agents.base import RepairedCopy, RepairOptions, StoredSession
from segue.agents.jsonl import forwards
from segue.agents.vibe import blocks, folder, store, walk
from segue.agents.vibe.anchors import Damaged
from segue.agents.vibe.meta import content
from segue.agents.vibe.repair_pieces import Piece, Repairs, item_piece, line_piece, of_entries
from segue.agents.vibe.store_writer import write_repaired
from segue.core.errors import Broken

ROLES = ("user", "assistant", "tool", "system")
_DONE = {
    "damaged": ("a damaged record was dropped", "{} damaged records were dropped"),
    "closed": ("a call without a result was closed", "{} calls without a result were closed"),
    "loose": ("a result without a call was dropped", "{} results without a call were dropped"),
    "silent": ("an empty answer was dropped", "{} empty answers were dropped"),
    "images": ("an image was left out", "{} images were left out"),
    "trimmed": ("the output of a tool was left out", "the output of {} tools was left out"),
    "before": ("a message before the place was left out", "{} messages before the place were left out"),
}


def repair(stored: StoredSession, new_id: str, mending: RepairOptions) -> RepairedCopy:
    done: Repairs = Counter()
    try:
        if store.is_store(stored.path):
            path = _of_store(stored, new_id, mending, done)
        else:
            path = _target(stored.home, new_id)
            lines = _sound(_lines(stored, path), mending, done)
            folder.write_folder(path, _meta(stored, new_id), lines, stored.path)
    except OSError as error:
        raise Broken(f"the session cannot be repaired: {error.strerror or error}") from error
    return RepairedCopy(session=new_id, path=path, done=in_words(done))


def in_words(done: Repairs) -> tuple[str, ...]:
    return tuple(
        one if done[what] == 1 else many.format(done[what])
        for what, (one, many) in _DONE.items()
        if done[what]
    )


def _of_store(stored: StoredSession, new_id: str, mending: RepairOptions, done: Repairs) -> Path:
    source = store.newest(stored.path)
    if source is None:
        raise Broken("none of its generations can be read: nothing of it can be saved")
    path = stored.path.with_name(new_id)
    if path.exists():
        raise Broken(f"there is already a session {new_id}")
    if write_repaired(source, path, lambda: _sound(_items(source), mending, done)):
        return path
    done.clear()
    path = _target(stored.home, new_id)
    lines = (line for item in _sound(_items(source), mending, done) if (line := _as_line(item)) is not None)
    folder.write_folder(path, _meta(stored, new_id), lines, stored.path)
    return path


def _as_line(raw: bytes) -> bytes | None:
    """A message of 3.x as 2.x writes it; None where that form cannot hold it."""
    try:
        item = blocks.item_of(raw)
        return item.line() if item is not None else None
    except Damaged:
        return None


def _target(home: Path, new_id: str) -> Path:
    target = folder.new_folder(home, new_id)
    if target is None:
        raise Broken(f"there is already a session {new_id[:8]}")
    return target


def _meta(stored: StoredSession, new_id: str) -> dict[str, Any]:
    """What the meta says; where it says nothing, the little that Vibe needs."""
    now = datetime.now(UTC).isoformat()
    least: dict[str, Any] = {
        "session_id": new_id,
        "start_time": now,
        "end_time": now,
        "git_commit": None,
        "git_branch": None,
        "environment": {},
        "username": "",
    }
    return least | (folder.meta_of(stored.path) or {}) | {"session_id": new_id}


# --- what can be read ------------------------------------------------------------------------------


def _lines(stored: StoredSession, target: Path) -> Iterator[Piece | None]:
    with (stored.path / folder.MESSAGES).open("rb") as file:
        for line in forwards(file):
            readable = line.text is not None
            yield line_piece(line.text or b"", line.start, stored.path, target) if readable else None


def _items(source: store.Store) -> Iterator[Piece | None]:
    """With the turn that was under way, as far as it came: nothing is left for a resume to finish."""
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


def _sound(pieces: Iterable[Piece | None], mending: RepairOptions, done: Repairs) -> Iterator[bytes]:
    """The messages of a history that can be sent; None stands for what could not be read."""
    since, started = _since(mending), mending.since is None
    waiting: dict[str, tuple[Piece, str]] = {}
    for piece in pieces:
        if piece is None or piece.role not in ROLES:
            done["damaged"] += 1
            continue
        started = started or (piece.opens and piece.place >= since)
        if not started:
            done["before"] += 1
            continue
        yield from _kept(piece, waiting, mending, done)
    yield from _closed(waiting, done)
    if not started:
        raise Broken("the user said nothing after that place")


def _kept(
    piece: Piece, waiting: dict[str, tuple[Piece, str]], mending: RepairOptions, done: Repairs
) -> Iterator[bytes]:
    if piece.role == "tool":
        if waiting.pop(piece.call, None) is None:
            done["loose"] += 1
        else:
            done["trimmed"] += mending.trim
            yield piece.written(mending, done)
        return
    yield from _closed(waiting, done)
    if piece.role == "assistant" and piece.silent:
        done["silent"] += 1
        return
    if piece.role == "assistant":
        waiting.update((call, (piece, tool)) for call, tool in piece.calls)
    yield piece.written(mending, done)


def _closed(waiting: dict[str, tuple[Piece, str]], done: Repairs) -> Iterator[bytes]:
    for call, (piece, tool) in waiting.items():
        done["closed"] += 1
        yield piece.closing(call, tool)
    waiting.clear()


def _since(mending: RepairOptions) -> int:
    place = (mending.since or "0").partition(".")[0]
    if not place.isdecimal():
        raise Broken(f"{mending.since} is no place in a session of Vibe")
    return int(place)
