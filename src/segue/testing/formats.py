"""Checks of an agent's session format and archive, on copies of homes with real sessions in them.

``check_sessions`` checks what has to agree: listed sessions are found, reading forwards and backwards gives
the same, a brief matches a full read, a cut and a repair do not change their source, nothing else writes, and
damage of any kind raises only our own errors.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from msgspec import Struct

from segue.agents.base import (
    Agent,
    CutRequest,
    Record,
    RepairOptions,
    SessionArchive,
    SessionFormat,
    StoredSession,
    entries_of,
)
from segue.core.errors import SegueError
from segue.core.request import Request, Runtime
from segue.core.transcript import Brief, Entry, is_message
from segue.testing import mutations
from segue.testing.sample import NEW_ID

T = TypeVar("T")

PLACES = 8
"""From how many records of a session reading is resumed."""
SMALL = 200_000
"""Only files up to this size are damaged: larger ones would only be slower."""

Tree = dict[str, bytes]


class Kept(Struct, frozen=True):
    """A home with sessions, and the format and archive to check."""

    format: SessionFormat
    archive: SessionArchive
    runtime: Runtime
    home: Path
    takes_back: bool


Check = Callable[[Kept, Random, int], Iterator[str]]


class _Broke(Struct, frozen=True):
    why: str


def check_sessions(
    agent: Agent,
    homes: Sequence[Path],
    *,
    outputs: Sequence[str] | None = None,
    takes_back: bool = False,
    seed: int = 0,
    rounds: int = 100,
) -> list[str]:
    """The problems of an agent's session format and archive; empty if they conform.

    ``homes``: recorded homes with sessions in them. They are copied, never changed. ``outputs``: as for
    ``check_adapter``. ``takes_back``: a record can say that earlier ones no longer count. Reading such a
    session backwards gives less: only what still counts.
    """
    archive = agent.archive()
    if agent.format is None or archive is None:
        return [] if archive is None else ["archive: it needs a format that finds sessions"]
    given = [""] * len(agent.facts.probes) if outputs is None else list(outputs)
    runtime = agent.runtime(("/opt/program",), given)
    problems: dict[str, None] = {}
    for recorded in homes:
        for check in CHECKS:
            with tempfile.TemporaryDirectory(prefix="segue-formats-") as folder:
                home = Path(folder) / "home"
                shutil.copytree(recorded, home, symlinks=True)
                kept = Kept(agent.format, archive, runtime, home, takes_back)
                found = _problems(check, kept, Random(seed), rounds)  # noqa: S311 - damage, not secrets
                problems |= dict.fromkeys(f"{recorded.name}: {problem} (seed {seed})" for problem in found)
    return list(problems)


def _problems(check: Check, kept: Kept, rng: Random, rounds: int) -> Iterator[str]:
    """What a check finds; an exception is a problem, too."""
    try:
        yield from check(kept, rng, rounds)
    except Exception as error:
        yield f"{check.__name__}: raised {type(error).__name__}: {error}"


def looking_changes_nothing(kept: Kept, rng: Random, rounds: int) -> Iterator[str]:
    before = _tree(kept.home)
    for stored in _sessions(kept):
        for name, look in _looks(kept, stored):
            found = _call(look)
            if isinstance(found, _Broke):
                yield f"{name}: {found.why} for {stored.id}"
        if _tree(kept.home) != before:
            yield f"reading {stored.id} has changed something in the home"
            return


def what_is_listed_is_found(kept: Kept, rng: Random, rounds: int) -> Iterator[str]:
    for stored in _sessions(kept):
        if kept.format.find(kept.home, stored.id) != stored:
            yield f"find: {stored.id} is not found as it is listed"
        files = [Path(path) for path in kept.archive.files(stored)]
        if not files or not all(path.is_file() and path.is_relative_to(kept.home) for path in files):
            yield f"files: some of {stored.id} are not files below its home"
    for session in ("../x", "-x", "", NEW_ID):
        if _call(lambda: kept.format.find(kept.home, session)) is not None:  # noqa: B023 - called at once
            yield f"find: it found {session!r}, which does not exist"


def reading_agrees_both_ways(kept: Kept, rng: Random, rounds: int) -> Iterator[str]:
    for stored in _sessions(kept):
        records, back = list(kept.archive.read(stored)), list(kept.archive.back(stored))[::-1]
        if kept.takes_back:
            said, counting = ({entry.text for entry in _said(each)} for each in (records, back))
            if not counting <= said:
                yield f"back: reading {stored.id} backwards gives messages that reading it forwards does not"
        elif back[: len(records)] != records or len(back) > len(records) + 1:
            yield f"back: reading {stored.id} backwards differs from reading it forwards"
        else:
            for number in rng.sample(range(len(records)), min(PLACES, len(records))):
                yield from _resumed(kept, stored, records, number)


def _resumed(kept: Kept, stored: StoredSession, records: list[Record], number: int) -> Iterator[str]:
    start, following = records[number].start, records[number].next
    if list(kept.archive.back(stored, start))[::-1] != records[:number]:
        yield f"back: reading {stored.id} from {start} gives something else"
    if stored.appends and following and list(kept.archive.read(stored, following)) != records[number + 1 :]:
        yield f"read: reading {stored.id} from {following} gives something else"


def a_brief_is_what_a_full_read_shows(kept: Kept, rng: Random, rounds: int) -> Iterator[str]:
    """Records that start before 0 are in the file of another session."""
    for stored in _sessions(kept):
        brief, records = kept.archive.brief(stored), list(kept.archive.read(stored))
        counts = {len(_said(record for record in records if record.start >= 0))}
        if kept.takes_back:
            counts.add(sum(entry.restored for entry in _said(kept.archive.back(stored))))
        if not isinstance(brief, Brief):
            yield f"brief: {brief!r:.60} is not a brief"
        elif brief.trouble is None and not brief.messages_estimated and brief.messages not in counts:
            yield f"brief: {stored.id} has {counts} messages, not {brief.messages}"
        elif brief.empty and 0 not in counts:
            yield f"brief: {stored.id} is not empty"
        counted = kept.archive.count(stored)
        if counted is not None and counted not in counts:
            yield f"count: {stored.id} has {counts} messages, not {counted}"


def a_cut_ends_where_it_was_asked_to(kept: Kept, rng: Random, rounds: int) -> Iterator[str]:
    starts = []
    for stored, end in _ended(kept):
        before = _tree(kept.home)
        yield from _strange_anchors(kept, stored, before)
        start = kept.format.cut(stored, _wanted(kept, stored, end))
        starts.append(start)
        after = _tree(kept.home)
        if any(after.get(name) != data for name, data in before.items()):
            yield f"cut: it has changed {stored.id}, or another file in the home"
        if start is None and after != before:
            yield f"cut: it has written something, although {stored.id} could not be cut"
        if start is not None and start.mode == "resume":
            copy = kept.format.find(kept.home, start.session or "", _directory(kept, stored))
            if copy is None or kept.format.end(copy) != end:
                yield f"cut: the copy of {stored.id} does not end at the anchor"
        _restore(kept.home, before)
    if starts and not any(starts):
        yield "cut: no session can be cut at its own end"


def _strange_anchors(kept: Kept, stored: StoredSession, before: Tree) -> Iterator[str]:
    for anchor in ("no such anchor", NEW_ID):
        made = kept.format.cut(stored, _wanted(kept, stored, anchor))
        if made is not None or _tree(kept.home) != before:
            yield f"cut: it found an anchor that {stored.id} does not have"
        if kept.format.continues(stored, anchor):
            yield f"continues: it found an anchor that {stored.id} does not have"


def nothing_is_said_after_the_end(kept: Kept, rng: Random, rounds: int) -> Iterator[str]:
    for stored, end in _ended(kept):
        after = kept.archive.after(end)
        if [entry for entry in entries_of(kept.archive, stored) if after(entry) and is_message(entry)]:
            yield f"after: something was said in {stored.id} after its end"


def what_is_resumable_stays_as_it_is(kept: Kept, rng: Random, rounds: int) -> Iterator[str]:
    for stored, end in _ended(kept):
        kept.format.make_resumable(stored, kept.runtime)
        once, again = _tree(kept.home), kept.format.find(kept.home, stored.id, _directory(kept, stored))
        if again is None or kept.format.end(again) != end:
            yield f"make_resumable: {stored.id} no longer ends where it did"
            continue
        kept.format.make_resumable(again, kept.runtime)
        if _tree(kept.home) != once:
            yield f"make_resumable: {stored.id} was changed a second time"


def a_repaired_copy_is_sound_and_can_be_removed(kept: Kept, rng: Random, rounds: int) -> Iterator[str]:
    for stored in _sessions(kept):
        before = _tree(kept.home)
        made = _call(lambda: kept.archive.repair(stored, NEW_ID, RepairOptions()))  # noqa: B023 - called at once
        if isinstance(made, SegueError):
            continue
        if isinstance(made, _Broke):
            yield f"repair: {made.why} for {stored.id}"
            continue
        if any(_tree(kept.home).get(name) != data for name, data in before.items()):
            yield f"repair: it has changed {stored.id}, or another file in the home"
        copy = kept.format.find(kept.home, made.session)
        if copy is None:
            yield f"repair: the copy of {stored.id} is not found"
            continue
        if any(entry.kind == "damaged" for entry in entries_of(kept.archive, copy)):
            yield f"repair: the copy of {stored.id} is damaged"
        kept.archive.remove(copy)
        if kept.format.find(kept.home, made.session) is not None or _tree(kept.home) != before:
            yield f"remove: something remains of the copy of {stored.id}, or something else is gone"


def no_damage_is_fatal(kept: Kept, rng: Random, rounds: int) -> Iterator[str]:
    files = [path for path in sorted(kept.home.rglob("*")) if path.is_file() and not path.is_symlink()]
    files = [path for path in files if path.stat().st_size <= SMALL]
    whole = _tree(kept.home)
    for _ in range(rounds if files else 0):
        _restore(kept.home, whole)
        path = rng.choice(files)
        path.write_bytes(_damaged(path.read_bytes(), rng))
        listed = _call(lambda: _sessions(kept))
        if not isinstance(listed, list):
            yield f"stored: {listed} after damage to {path.name}"
            continue
        for stored in rng.sample(listed, min(1, len(listed))):
            for name, look in (*_looks(kept, stored), *_changes(kept, stored)):
                found = _call(look)
                if isinstance(found, _Broke):
                    yield f"{name}: {found.why} after damage to {path.name}"


CHECKS: tuple[Check, ...] = (
    looking_changes_nothing,
    what_is_listed_is_found,
    reading_agrees_both_ways,
    a_brief_is_what_a_full_read_shows,
    a_cut_ends_where_it_was_asked_to,
    nothing_is_said_after_the_end,
    what_is_resumable_stays_as_it_is,
    a_repaired_copy_is_sound_and_can_be_removed,
    no_damage_is_fatal,
)


def _looks(kept: Kept, stored: StoredSession) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Everything that only reads."""
    archive, sessions = kept.archive, kept.format
    yield "brief, expires_ms", lambda: archive.expires_ms(stored, archive.brief(stored))
    yield "read", lambda: list(archive.read(stored))
    yield "back", lambda: list(archive.back(stored))
    yield "side", lambda: [list(archive.read(each)) for each in archive.side(stored)]
    yield "files, count", lambda: (archive.files(stored), archive.count(stored))
    yield "stamp", lambda: archive.stamp(kept.home)
    yield "end, continues", lambda: sessions.continues(stored, sessions.end(stored) or "x")
    yield "find", lambda: sessions.find(kept.home, stored.id)
    yield "login", lambda: sessions.login(kept.home, {})


def _changes(kept: Kept, stored: StoredSession) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Everything that can write."""
    yield "cut", lambda: kept.format.cut(stored, _wanted(kept, stored, kept.format.end(stored) or "x"))
    yield "repair", lambda: kept.archive.repair(stored, NEW_ID, RepairOptions(trim=True))
    yield "make_resumable", lambda: kept.format.make_resumable(stored, kept.runtime)
    yield "remove", lambda: kept.archive.remove(stored)


def _said(records: Iterable[Record]) -> list[Entry]:
    return [entry for record in records for entry in record.entries if is_message(entry)]


def _sessions(kept: Kept) -> list[StoredSession]:
    return sorted(kept.archive.stored(kept.home), key=lambda stored: stored.id)


def _ended(kept: Kept) -> Iterator[tuple[StoredSession, str]]:
    """The sessions that the CLI would continue, each with the anchor at its end."""
    for listed in _sessions(kept):
        stored = kept.format.find(kept.home, listed.id, _directory(kept, listed))
        end = kept.format.end(stored) if stored is not None else None
        if stored is not None and end is not None:
            yield stored, end


def _directory(kept: Kept, stored: StoredSession) -> Path:
    return Path(kept.archive.brief(stored).cwd or "/")


def _wanted(kept: Kept, stored: StoredSession, anchor: str) -> CutRequest:
    request = Request(prompt="", cwd=_directory(kept, stored))
    return CutRequest(anchor=anchor, new_id=NEW_ID, home=kept.home, request=request, runtime=kept.runtime)


def _call(function: Callable[[], T]) -> T | SegueError | _Broke:
    """The result of a call, an error of ours, or how it broke."""
    try:
        return function()
    except SegueError as error:
        return error
    except Exception as error:
        return _Broke(f"raised {type(error).__name__}: {error}")


def _damaged(data: bytes, rng: Random) -> bytes:
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    damage: tuple[Callable[[bytes], bytes], ...] = (
        lambda line: rng.choice(mutations.GARBAGE),
        lambda line: line[: rng.randrange(len(line) + 1)],
        lambda line: mutations.flipped(line, rng),
        lambda line: mutations.rewritten(line, rng),
    )
    lines[at] = rng.choice(damage)(lines[at])
    return b"\n".join(lines)


def _tree(home: Path) -> Tree:
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in sorted(home.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def _restore(home: Path, tree: Tree) -> None:
    for name in _tree(home).keys() - tree.keys():
        (home / name).unlink()
    for folder in sorted((path for path in home.rglob("*") if path.is_dir()), reverse=True):
        if not any(folder.iterdir()):
            folder.rmdir()
    for name, data in tree.items():
        path = home / name
        if not path.is_file() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
