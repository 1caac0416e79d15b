"""A session of Vibe written anew without what is broken in it.

A directory of 2.x becomes another one. A store of 3.x becomes another store; where its own records are too
damaged for that, a directory of 2.x, which 3.x takes in when it is asked to resume it.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from segue.agents.base import RepairedCopy, RepairOptions, StoredSession
from segue.agents.jsonl import forwards
from segue.agents.vibe import folder, repair_pieces, store, store_writer
from segue.agents.vibe.repair_pieces import Piece, Repairs, in_words, repaired_pieces
from segue.core.errors import Broken


def repair(stored: StoredSession, new_id: str, mending: RepairOptions) -> RepairedCopy:
    done: Repairs = Counter()
    try:
        if store.is_store(stored.path):
            path = _of_store(stored, new_id, mending, done)
        else:
            target = _target(stored.home, new_id)
            path = _folder(
                target, new_id, _known(stored), repaired_pieces(_lines(stored, target), mending, done)
            )
            _attachments(stored.path, path)
    except OSError as error:
        raise Broken(f"the session cannot be repaired: {error.strerror or error}") from error
    return RepairedCopy(session=new_id, path=path, done=in_words(done))


def _of_store(stored: StoredSession, new_id: str, mending: RepairOptions, done: Repairs) -> Path:
    source = store_writer.newest_records(stored.path)
    if source is None:
        raise Broken("none of its generations can be read: nothing of it can be saved")
    path = stored.path.with_name(new_id)
    if path.exists():
        raise Broken(f"there is already a session {new_id}")
    if store_writer.write_repaired(
        source, path, lambda: repaired_pieces(store_writer.store_pieces(source), mending, done)
    ):
        return path
    done.clear()
    items = repaired_pieces(store_writer.store_pieces(source), mending, done)
    lines = (line for item in items if (line := store_writer.record_line(item)) is not None)
    return _folder(_target(stored.home, new_id), new_id, _known(stored), lines)


def _lines(stored: StoredSession, target: Path) -> Iterator[Piece | None]:
    with (stored.path / folder.MESSAGES).open("rb") as file:
        for line in forwards(file):
            yield (
                repair_pieces.line_piece(line.text, line.start, stored.path, target)
                if line.text is not None
                else None
            )


def _target(home: Path, new_id: str) -> Path:
    if any(folder.root_of(home).glob(f"session_*_{new_id[:8]}")):
        raise Broken(f"there is already a session {new_id[:8]}")
    return folder.root_of(home) / f"session_{time.strftime('%Y%m%d_%H%M%S', time.gmtime())}_{new_id[:8]}"


def _known(stored: StoredSession) -> dict[str, Any]:
    """What the meta says; where it says nothing, the little that Vibe needs."""
    now = datetime.now(UTC).isoformat()
    least: dict[str, Any] = {
        "session_id": stored.id,
        "start_time": now,
        "end_time": now,
        "git_commit": None,
        "git_branch": None,
        "environment": {},
        "username": "",
    }
    return least | (folder.meta_of(stored.path) or {})


def _folder(target: Path, new_id: str, known: dict[str, Any], lines: Iterable[bytes]) -> Path:
    """A directory of 2.x, whole or not at all."""
    part = target.with_name(f".{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True, mode=0o700)
    try:
        count = _put(part / folder.MESSAGES, lines)
        if not count:
            raise Broken("nothing of it can be saved")
        meta = known | {"session_id": new_id, "total_messages": count}
        _put(part / folder.META, [msgspec.json.format(msgspec.json.encode(meta), indent=2)])
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return target


def _put(path: Path, lines: Iterable[bytes]) -> int:
    count = 0
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        for line in lines:
            file.write(line.rstrip(b"\n") + b"\n")
            count += 1
        file.flush()
        os.fsync(file.fileno())
    return count


def _attachments(source: Path, target: Path) -> None:
    """The pictures that messages show lie beside them as files."""
    if (source / folder.ATTACHMENTS).is_dir():
        shutil.copytree(source / folder.ATTACHMENTS, target / folder.ATTACHMENTS, dirs_exist_ok=True)
