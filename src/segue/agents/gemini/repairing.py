"""A new session beside a broken one, with what can be saved of it, in the form that its versions resume.

Sessions of lines are streamed: the file is gone through once for what it amounts to, and once more for the
messages, a round at a time. One object is read whole, as Gemini does.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import dropwhile
from pathlib import Path
from typing import IO, Any

from segue.agents.base import Mended, Mending
from segue.agents.gemini import files, outline
from segue.agents.gemini.document import WHOLE_BYTES, salvaged
from segue.agents.gemini.forms import as_lines, as_object
from segue.agents.gemini.healing import healed, in_words, rounds
from segue.agents.gemini.message import Message, is_prompt, is_sent
from segue.agents.gemini.story import read
from segue.agents.reader import Stored
from segue.core.errors import Broken

_LATER = ("memoryScratchpad",)


def repair(stored: Stored, new_id: str, mending: Mending) -> Mended:
    if any(files.find(stored.home, new_id)):
        raise Broken(f"a session whose id begins with {new_id[:8]} is there already; take another id")
    now = datetime.now(UTC)
    name = f"session-{now:%Y-%m-%dT%H-%M}-{new_id[:8]}{stored.path.suffix}"
    stamp = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    marks = {"sessionId": new_id, "startTime": stamp, "lastUpdated": stamp}
    target, counted = stored.path.with_name(name), Counter[str]()
    try:
        (_lines if stored.appends else _object)(stored, target, marks, mending, counted)
    except (OSError, ValueError, RecursionError) as error:
        raise Broken(f"the session cannot be repaired: {error}") from error
    return Mended(session=new_id, path=target, done=in_words(counted))


def _lines(stored: Stored, target: Path, marks: Any, mending: Mending, counted: Counter[str]) -> None:
    with stored.path.open("rb") as file:
        found = outline.Outline().read(file)
        counted["damaged"] = found.damaged
        since = _since(file, mending)
        refs = _chosen(found.refs, since, counted)
        rest = _from_prompt(outline.messages(file, refs), since is not None, counted)
        with _writing(target) as new:
            new.write(_line(_header(found.header, stored) | marks))
            said = 0
            for message in _shaped(rest, mending, counted):
                said += is_sent(message)
                new.write(_line(message))
            _refuse_nothing(said)


def _shaped(messages: Iterable[Message], mending: Mending, counted: Counter[str]) -> Iterator[Message]:
    """A round at a time, each with the prompt behind it: what is missing between them is put there."""
    before: list[Message] = []
    for one in rounds(messages):
        now = healed(one, mending, counted)
        if before and now and is_prompt(now[0]):
            yield from as_lines([*before, now[0]])[:-1]
        else:
            yield from as_lines(before)
        before = now
    yield from as_lines(before)


def _object(stored: Stored, target: Path, marks: Any, mending: Mending, counted: Counter[str]) -> None:
    story = read(stored.path)
    if story is not None:
        header, messages = story.header, story.messages
    elif stored.path.stat().st_size > WHOLE_BYTES:
        raise Broken(f"the session is one object of over {WHOLE_BYTES >> 20} MB")
    else:
        header, messages = salvaged(stored.path.read_bytes())
        counted["damaged"] = 1
    if mending.since is not None:
        at = _number(mending.since)[0]
        counted["before"] = min(at, len(messages))
        messages = list(_from_prompt(messages[at:], True, counted))
    kept = as_object([one for group in rounds(messages) for one in healed(group, mending, counted)])
    _refuse_nothing(sum(map(is_sent, kept)))
    files.put(target, files.encoded(".json", _header(header, stored) | marks, [kept]))


def _header(known: dict[str, Any], stored: Stored) -> dict[str, Any]:
    """Without a project's hash, Gemini does not take a file for a session."""
    kept = {key: value for key, value in known.items() if key not in _LATER}
    return {"projectHash": stored.path.parents[1].name, "kind": "main"} | kept


# --- since -----------------------------------------------------------------------------------------


def _since(file: IO[bytes], mending: Mending) -> str | None:
    if mending.since is None:
        return None
    found = outline.message_at(file, *_number(mending.since))
    if found is None:
        raise Broken(f"there is no message at {mending.since}")
    return found


def _number(place: str) -> tuple[int, int]:
    start, _, n = place.partition(".")
    if not (start.isdigit() and n.isdigit()):
        raise Broken(f"{place} is no place in the session")
    return int(start), int(n)


def _chosen(refs: dict[str, outline.Ref], since: str | None, counted: Counter[str]) -> list[outline.Ref]:
    if since is None:
        return list(refs.values())
    if since not in refs:
        raise Broken("that message is no longer part of the session")
    at = list(refs).index(since)
    counted["before"] = at
    return list(refs.values())[at:]


def _from_prompt(messages: Iterable[Message], wanted: bool, counted: Counter[str]) -> Iterator[Message]:
    """From the first words of the user's on, where the beginning was left out."""

    def early(message: Message) -> bool:
        counted["before"] += not is_prompt(message)
        return not is_prompt(message)

    known = (one for one in messages if isinstance(one.get("id"), str))
    return dropwhile(early, known) if wanted else iter(known)


# --- writing ---------------------------------------------------------------------------------------


def _refuse_nothing(said: int) -> None:
    if not said:
        raise Broken("nothing was said in what could be read of the session")


def _line(record: dict[str, Any]) -> bytes:
    return files.encoded(".jsonl", record, [[]])


@contextmanager
def _writing(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears whole or not at all."""
    # Gemini deletes what is named like a session and cannot be read
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            yield file
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
