"""Checks what several clients of Segue saw against what is stored, and against what the agents did.

    history = History()
    history.note("ann", "sent", "t", "m1")            # before the call
    history.note("ann", "acknowledged", "t", "m1", run)
    history.note("ann", "answered", "t", "m1", "answer-m1")
    assert violations(history.notes, kept, work) == []

A *mark* is a word that occurs in one message only, so it can be found again wherever the message went. The
check is pure: what it compares was read by others, from outside.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Literal

import msgspec

What = Literal["sent", "acknowledged", "answered", "started", "step", "ended"]


class Note(msgspec.Struct, frozen=True):
    """What a client did or was told, in the order in which it happened to this client.

    ``sent``: it asks for a message to be run. ``acknowledged``: the message is stored, and ``value`` is its
    run. ``answered``: ``value`` is the answer. Of flows, ``started``: it is stored; ``step``: the step
    ``mark`` was shown as finished, with ``value`` as its run or result; ``ended``: ``value`` is how.
    """

    client: str
    what: What
    place: str
    """The conversation or the flow."""
    mark: str = ""
    value: str = ""


class Kept(msgspec.Struct, frozen=True):
    """A message as it is stored, in the order of its conversation."""

    conversation: str
    mark: str
    run: str
    answer: str | None
    """None: it has no answer."""
    failure: str = ""
    """Why it has none, as the client is told."""


class KeptFlow(msgspec.Struct, frozen=True):
    """A flow as it is stored. ``steps``: the finished ones, each with its run or result."""

    flow: str
    end: str | None
    steps: dict[str, str] = {}


class Spell(msgspec.Struct, frozen=True):
    """An agent's process that lived from one look to another one, and could write to a native session."""

    session: str
    pid: int
    first: int
    last: int


class Work(msgspec.Struct, frozen=True):
    """What the agents did, by their own logs. ``answers`` and ``effects``: the marks, as often as each was
    answered and as often as a tool ran for it."""

    answers: Sequence[str] = ()
    effects: Sequence[str] = ()
    spells: Sequence[Spell] = ()


class History:
    """The notes of all clients. They can be taken in several threads."""

    def __init__(self) -> None:
        self._lock, self._notes = threading.Lock(), list[Note]()

    def note(self, client: str, what: What, place: str, mark: str = "", value: str = "") -> None:
        with self._lock:
            self._notes.append(Note(client, what, place, mark, value))

    @property
    def notes(self) -> list[Note]:
        with self._lock:
            return list(self._notes)


def violations(
    notes: Sequence[Note], kept: Sequence[Kept], work: Work, flows: Sequence[KeptFlow] = ()
) -> list[str]:
    """Everything that must not be, in words. Call it when all is over."""
    return [
        *_messages(notes, kept),
        *_order(notes, kept),
        *_flows(notes, flows),
        *_work(notes, kept, work),
        *_writers(work.spells),
    ]


def _messages(notes: Sequence[Note], kept: Sequence[Kept]) -> Iterator[str]:
    """What was acknowledged is kept, each message once, with the answer that was told."""
    stored: dict[tuple[str, str], list[Kept]] = defaultdict(list)
    for each in kept:
        stored[each.conversation, each.mark].append(each)
    for (place, mark), found in stored.items():
        if len(found) > 1:
            yield f"{mark} is stored {len(found)} times in {place}"
    sent = {(each.place, each.mark) for each in notes if each.what == "sent"}
    for place, mark in stored.keys() - sent:
        yield f"{mark} is stored in {place}, and nobody sent it"
    for note in notes:
        found = stored[note.place, note.mark]
        if note.what == "acknowledged":
            if not found:
                yield f"{note.mark} was acknowledged to {note.client}, and is not stored"
            elif note.value not in {each.run for each in found}:
                yield f"{note.mark} was acknowledged as the run {note.value}, and is stored as {found[0].run}"
            elif all(each.answer is None and not each.failure for each in found):
                yield f"{note.mark} was acknowledged to {note.client}, and was never answered"
        if note.what == "answered" and note.value not in {each.answer for each in found}:
            answers = [each.answer for each in found]
            yield f"{note.client} was told {note.value!r} for {note.mark}, and stored is {answers}"


def _order(notes: Sequence[Note], kept: Sequence[Kept]) -> Iterator[str]:
    """What a client sent after the acknowledgement of another message comes after that message."""
    places = {(each.conversation, each.mark): n for n, each in enumerate(kept)}
    acknowledged: dict[tuple[str, str], list[str]] = defaultdict(list)
    for note in notes:
        before = acknowledged[note.client, note.place]
        if note.what == "acknowledged":
            before.append(note.mark)
        mine = places.get((note.place, note.mark))
        if note.what == "sent" and mine is not None:
            for each in before:
                if each != note.mark and places.get((note.place, each), -1) > mine:
                    yield f"{note.client} sent {note.mark} after {each}, and it comes before it"


def _flows(notes: Sequence[Note], flows: Sequence[KeptFlow]) -> Iterator[str]:
    """A flow that was started is kept, and what was shown as finished stays as it was."""
    stored = {each.flow: each for each in flows}
    for note in notes:
        if note.what not in ("started", "step", "ended"):
            continue
        found = stored.get(note.place)
        if found is None:
            yield f"the flow {note.place} was known to {note.client}, and is not stored"
        elif note.what == "started" and found.end is None:
            yield f"the flow {note.place} has no end"
        elif note.what == "step" and found.steps.get(note.mark) != note.value:
            now = found.steps.get(note.mark)
            yield f"the step {note.mark} of {note.place} was finished as {note.value}, and is now {now}"
        elif note.what == "ended" and found.end != note.value:
            yield f"{note.client} was told that {note.place} ended as {note.value}, stored is {found.end}"


def _work(notes: Sequence[Note], kept: Sequence[Kept], work: Work) -> Iterator[str]:
    """The agents answered each message once, and did its work once."""
    answered, done = Counter(work.answers), Counter(work.effects)
    for mark, times in answered.items():
        if times > 1:
            yield f"the agents answered {mark} {times} times"
    for mark, times in done.items():
        if times > 1:
            yield f"the work for {mark} was done {times} times"
    for each in kept:
        if each.failure and answered[each.mark]:
            yield f"{each.mark} failed ({each.failure}), and an agent answered it"
    told = {each.mark for each in notes if each.what == "answered"}
    told |= {each.mark for each in kept if each.answer is not None}
    for mark in sorted(told):
        if not answered[mark]:
            yield f"{mark} has an answer, and no agent gave one"


def _writers(spells: Iterable[Spell]) -> Iterator[str]:
    """One writer per native session at any time."""
    by_session: dict[str, list[Spell]] = defaultdict(list)
    for each in spells:
        by_session[each.session].append(each)
    for session, all_ in by_session.items():
        for one, other in combinations(all_, 2):
            if one.pid != other.pid and max(one.first, other.first) <= min(one.last, other.last):
                yield f"the processes {one.pid} and {other.pid} wrote to the session {session} at once"
