"""A copy of a Claude session that the CLI resumes: read twice, record by record, never held in memory.

The first pass notes which calls have a result. The second writes: what is torn or said twice is left out, a
record whose parent is missing is tied to the one before it, and a call without a result gets one that says
so, behind the answer it stands in. Notes of what earlier requests looked like, and the running totals, stay
behind: they are of the session that was.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec

from segue.agents.base import Mended, Mending
from segue.agents.claude.blocks import Mender
from segue.agents.claude.chain import Chain
from segue.agents.claude.pieces import Piece, piece
from segue.agents.reader import Stored
from segue.agents.records import forwards
from segue.core.errors import Broken

LEFT_BEHIND = frozenset({"cost-state", "api-request", "api-request-blob", "api-request-shape"})
KEPT_FROM_BEFORE = frozenset({"custom-title", "ai-title", "agent-name", "agent-color", "tag", "mode"})
"""Notes that hold for the whole session, wherever they stand."""
_DONE = {
    "damaged": ("{} damaged line was left out", "{} damaged lines were left out"),
    "again": (
        "{} record that was there twice was left out",
        "{} records that were there twice were left out",
    ),
    "linked": (
        "{} broken link between records was tied anew",
        "{} broken links between records were tied anew",
    ),
    "closed": ("{} call without a result was closed", "{} calls without a result were closed"),
    "orphans": ("{} result without a call was left out", "{} results without a call were left out"),
    "empty": ("{} empty answer was left out", "{} empty answers were left out"),
    "images": ("{} image was replaced by a line of text", "{} images were replaced by a line of text"),
    "outputs": ("the output of {} tool call was left out", "the output of {} tool calls was left out"),
    "before": ("{} earlier record was left out", "{} earlier records were left out"),
}


def repair(stored: Stored, new_id: str, mending: Mending) -> Mended:
    start = _since(mending)
    calls, results, first = _survey(stored.path, start)
    if first is None:
        where = "after that place" if start else "in it"
        raise Broken(f"session {stored.id} cannot be repaired: nobody said anything {where}")
    counts: Counter[str] = Counter()
    chain = Chain(new_id, calls - results, counts)
    mender = Mender(calls, mending, counts)
    target = stored.path.with_name(f"{new_id}.jsonl")
    beside = target.with_name(f".{new_id}.{os.getpid()}.part")
    try:
        with stored.path.open("rb") as old, open(beside, "wb", opener=_private) as new:
            _copy(old, new, (start, first), chain, mender, counts)
        beside.rename(target)
    except OSError as error:
        raise Broken(f"session {stored.id} cannot be repaired: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
    return Mended(session=new_id, path=target, done=_told(counts))


def _since(mending: Mending) -> int:
    try:
        return int((mending.since or "0").partition(".")[0])
    except ValueError:
        raise Broken(f'"{mending.since}" is no place in a session') from None


def _survey(path: Path, start: int) -> tuple[set[str], set[str], int | None]:
    """The ids of calls and of results from a place on, and where the copy begins: with a user's words."""
    calls: set[str] = set()
    results: set[str] = set()
    first: int | None = None
    try:
        with path.open("rb") as file:
            for at, found in _pieces(file):
                if found is None or at < start or found.is_side:
                    continue
                if first is None and (found.is_prompt or (not start and found.is_link)):
                    first = at
                if first is not None:
                    calls |= found.calls
                    results |= found.results
    except OSError as error:
        raise Broken(f"the session cannot be read: {error.strerror or error}") from error
    return calls, results, first


def _copy(
    old: IO[bytes], new: IO[bytes], begin: tuple[int, int], chain: Chain, mender: Mender, counts: Counter[str]
) -> None:
    start, first = begin
    for at, found in _pieces(old):
        if found is None:
            counts["damaged"] += at >= start
        elif at < first and found.type not in KEPT_FROM_BEFORE:
            counts["before"] += found.is_link
        elif found.type not in LEFT_BEHIND:
            kept = mender.mended(found) if found.is_link else found
            for fields in chain.linked(found, kept):
                new.write(msgspec.json.encode(fields) + b"\n")
    for fields in chain.closed():
        new.write(msgspec.json.encode(fields) + b"\n")


def _pieces(file: IO[bytes]) -> Iterator[tuple[int, Piece | None]]:
    """Every record and its place; None for what is no record."""
    for line in forwards(file):
        yield line.start, None if line.text is None else piece(line.text)


def _told(counts: Counter[str]) -> tuple[str, ...]:
    return tuple(
        words[counts[what] != 1].format(counts[what]) for what, words in _DONE.items() if counts[what]
    )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
