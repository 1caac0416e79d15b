"""Through a session of lines, forwards as it was written and backwards as what it amounts to.

A message is written again when its calls have results (same id, next to each other), and a resume of the
bare CLI writes all of them again. Of two entries that say the same, the earlier one counts, both ways; but
backwards, a list of all messages is where the way ends: what is before it is superseded, save behind a
summary, where it is what a resume no longer brings back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import IO

from msgspec.structs import replace

from segue.agents.base import Record, damaged
from segue.agents.gemini.entries import all_context, entries_of_line, summary_at
from segue.agents.gemini.schema import ERRORS, Header, Message, held, is_touch
from segue.agents.jsonl import LONGEST, Line, backwards, forwards
from segue.core.transcript import Entry

_NEAR = 8
"""A message that is written again has no more lines than this in between."""

_NOWHERE = -1

FoundLine = tuple[Message | Header | str | None, list[Entry]]


def forward(file: IO[bytes], start: int) -> Iterator[Record]:
    seen: set[int] = set()
    if start:
        for line in islice(backwards(file, start), _NEAR):
            seen.update(map(_key, _found(line)[1]))
    waiting: list[Record] = []
    last = ""
    for line in forwards(file, start):
        if not line.whole:
            break
        found, entries = _found(line)
        if isinstance(found, Message):
            # what seemed an answer without a word was the first half of one that calls tools
            yield from _without_blanks(waiting) if found.id == last else waiting
            waiting, last = [], found.id or ""
        unknown = bool(start) and isinstance(found, Header)
        marked = [_marked(entry, seen, unknown) for entry in entries]
        waiting.append(Record(line.start, line.next, marked))
        if not any(map(_is_blank, marked)) and len(waiting) == 1:
            yield waiting.pop()
    yield from waiting


def _marked(entry: Entry, seen: set[int], unknown: bool) -> Entry:
    if not entry.native or _is_blank(entry):
        return entry
    key = _key(entry)
    if key in seen or unknown:
        return replace(entry, again=True)
    seen.add(key)
    return entry


def _key(entry: Entry) -> int:
    return hash((entry.native, entry.text))


def _is_blank(entry: Entry) -> bool:
    return entry.kind == "assistant" and not entry.text and not entry.images


def _without_blanks(records: Sequence[Record]) -> Iterator[Record]:
    for record in records:
        yield Record(record.start, record.next, [one for one in record.entries if not _is_blank(one)])


# --- backwards -------------------------------------------------------------------------------------


def backward(file: IO[bytes], end: int | None) -> Iterator[Record]:
    """Each message once, the newest one first."""
    shown: set[str] = set()
    now = _at(file, end)
    held_back = [Record(_NOWHERE, _NOWHERE, now.behind)]
    for record, is_message in _standing(file, end, now):
        if is_message:
            keys = {_key(one) for one in record.entries if one.native}
            for newer in held_back:
                left = [one for one in newer.entries if _key(one) not in keys]
                shown.update(one.native for one in left if one.native)
                if left and newer.start != _NOWHERE:
                    yield Record(newer.start, newer.next, left)
            held_back = [Record(record.start, record.next, _once(record.entries, shown))]
        else:
            held_back.append(record)
    yield from (record for record in held_back if record.entries and record.start != _NOWHERE)


def _once(entries: Sequence[Entry], shown: set[str]) -> list[Entry]:
    """Without what was said anew later on, and without what the same list says twice."""
    kept: dict[str, Entry] = {}
    for entry in entries:
        if entry.native not in shown:
            kept.setdefault(entry.native or entry.id, entry)
    return list(kept.values())


def _standing(file: IO[bytes], end: int | None, now: _Now) -> Iterator[tuple[Record, bool]]:
    """What was not taken back and not superseded, with whether it may repeat or replace others."""
    opening: Record | None = None
    for line in () if now.ended else backwards(file, end):
        found, entries = _found(line)
        if opening is not None:
            if not (isinstance(found, Header) and found.startTime is not None):
                return  # taken back to the beginning; behind a header, it is only opened anew
            if line.start == 0:
                yield opening, True
            opening = None
        if isinstance(found, str):
            now.target = now.target or found
        elif isinstance(found, Message):
            entries = now.message(found, entries)
        said = found.messages if isinstance(found, Header) else None
        if said and all_context(said) and not now.target:
            opening = Record(line.start, line.next, entries)
            continue
        if said is not None and now.target:
            said = _before(said, now.target)
            now.target, entries = "", entries_of_line(Header(messages=said), "", line.start)
        if entries and not now.target:
            shown = entries if now.restored else [replace(one, restored=False) for one in entries]
            yield Record(line.start, line.next, shown), isinstance(found, Message) or said is not None
        if said is not None:
            if summary_at(said) is None:
                return
            now.restored = False


class _Now:
    """What is known on the way back: what all was taken back to, and whether a resume still has it."""

    def __init__(self, target: str = "", ended: bool = False, restored: bool = True) -> None:
        self.target, self.ended, self.restored = target, ended, restored
        self.last: str | None = ""
        self.behind: list[Entry] = []
        """What stands where the way begins: it may replace what comes before."""

    def message(self, found: Message, entries: list[Entry]) -> list[Entry]:
        again, self.last = found.id == self.last, found.id
        if self.target:
            self.target = "" if found.id == self.target else self.target
            return []
        return [one for one in entries if not _is_blank(one)] if again else entries


def _at(file: IO[bytes], end: int | None) -> _Now:
    """What is said where the way begins."""
    near = islice(forwards(file, end), _NEAR) if end is not None else ()
    line = next((line for line in near if line.text is None or not is_touch(line.text)), None)
    found, entries = _found(line) if line is not None else (None, [])
    if isinstance(found, str):
        return _Now(target=found)
    if isinstance(found, Message):
        now = _Now()
        now.last, now.behind = found.id, entries
        return now
    said = found.messages if isinstance(found, Header) else None
    if not said or all_context(said):
        return _Now()
    return _Now(ended=True) if summary_at(said) is None else _Now(restored=False)


def _before(said: list[Message], target: str) -> list[Message]:
    """Where the message is not there, Gemini takes back everything."""
    return said[: next((at for at, one in enumerate(said) if one.id == target), 0)]


def _found(line: Line) -> FoundLine:
    if line.text is None:
        return None, [damaged(line.start, f"a line of over {LONGEST >> 20} MB")]
    if is_touch(line.text):
        return None, []
    try:
        found, name = held(line.text)
    except ERRORS:
        return None, [damaged(line.start, "a line that is not JSON")]
    return found, entries_of_line(found, name, line.start)
