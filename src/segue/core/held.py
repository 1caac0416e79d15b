"""What a native session embodies, and the one number that decides what is sent.

*p* is the length of the longest prefix of ``held`` that still stands in the view with equal revisions. The
*cut* is the last anchor within *p*. What is sent as text is the view after the cut, always: so the flag that
resumes and the choice of what to send come from the same value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from segue.core.model import Held, History, Message, Voice


class Cut(msgspec.Struct, frozen=True):
    """Where a native session parts from the view."""

    rows: int = 0
    """How many deliveries of ``held`` are kept."""
    anchor: str | None = None
    whole: bool = False
    """The cut is the session's end: nothing of it has to be given up."""
    kept: int = 0
    """How many messages the kept part embodies."""
    text: tuple[Message, ...] = ()
    """The view after the cut; the new message is its last."""
    corrections: tuple[Message, ...] = ()
    """Messages the kept part has second-hand in an older wording."""
    broken: Held | None = None
    """The first delivery that does not stand any more."""


class Embodied:
    """``held`` with the columns that make comparing it quick: made once when a conversation is loaded."""

    def __init__(self, rows: Sequence[Held]) -> None:
        self.rows = tuple(rows)
        self.plain = [row for row in self.rows if not row.correction]
        self.marks = [(row.message, row.revision) for row in self.plain]
        self.places = [at for at, row in enumerate(self.rows) if not row.correction]


class Seen:
    """A view with the same columns."""

    def __init__(self, view: Sequence[Message]) -> None:
        self.messages = list(view)
        self.marks = [(message.id, message.revision) for message in self.messages]
        self.ids = {message.id for message in self.messages}


def cut(held: Embodied, seen: Seen, history: History = "all", everything: Seen | None = None) -> Cut:
    """Where the session parts from the view, and what is left to be sent.

    With ``history = "own"`` a session may hold what the view leaves out: the voice's own words from before
    another one spoke. They stand as long as they stand in ``everything`` that is visible.
    """
    if history == "own" and everything is not None:
        stands, stale = _stands_among(held, everything)
    else:
        stands, stale = _stands(held, seen)
    last = next((at for at in range(stands - 1, -1, -1) if held.plain[at].anchor is not None), -1)
    kept, rows = last + 1, held.places[last] + 1 if last >= 0 else 0
    stale = [at for at in stale if at < kept]
    return Cut(
        rows=rows,
        anchor=held.plain[last].anchor if last >= 0 else None,
        whole=0 < rows == len(held.rows),
        kept=kept,
        text=_text(held, seen, kept, history),
        corrections=_corrections(
            held.rows[:rows], [at for at in stale if at < kept], held, everything or seen
        ),
        broken=held.plain[stands] if stands < len(held.plain) else None,
    )


def embody(
    kept: Sequence[Held],
    text: Sequence[Message],
    corrections: Iterable[Message],
    voice: Voice,
    *,
    answer: tuple[str, int] | None,
    anchor: str | None,
) -> tuple[Held, ...]:
    """What a session holds after a turn: what was kept, what was sent as text, and the answer.

    Without an answer (tools ran, then the turn was interrupted) the last message sent gets the anchor.
    """
    rows = [*kept, *(Held(each.id, each.revision, None, True, True) for each in corrections)]
    rows += [Held(each.id, each.revision, None, each.voice != voice) for each in text]
    if answer is not None:
        return (*rows, Held(*answer, anchor))
    return (*rows[:-1], msgspec.structs.replace(rows[-1], anchor=anchor))


def _stands(held: Embodied, seen: Seen) -> tuple[int, list[int]]:
    """How many of ``held`` are the beginning of the view, and which of these it has in another wording."""
    limit = min(len(held.marks), len(seen.marks))
    at = 0
    stale: list[int] = []
    while at < limit:
        at = _differ(held.marks, seen.marks, at, limit)
        if at == limit or held.marks[at][0] != seen.marks[at][0] or not held.plain[at].second_hand:
            break
        stale.append(at)
        at += 1
    return at, stale


def _stands_among(held: Embodied, everything: Seen) -> tuple[int, list[int]]:
    known = dict(everything.marks)
    stale: list[int] = []
    for at, (message, revision) in enumerate(held.marks):
        if known.get(message) == revision:
            continue
        if message not in known or not held.plain[at].second_hand:
            return at, stale
        stale.append(at)
    return len(held.marks), stale


def _differ(one: list[tuple[str, int]], other: list[tuple[str, int]], start: int, limit: int) -> int:
    """The first place from ``start`` on at which the two differ; by bisection, so that equality is quick."""
    if one[start:limit] == other[start:limit]:
        return limit
    low, high = start, limit
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low if one[low] != other[low] else high


def _text(held: Embodied, seen: Seen, kept: int, history: History) -> tuple[Message, ...]:
    if history == "all":
        return tuple(seen.messages[kept:])
    native = {message for message, _ in held.marks[:kept]}
    return tuple(message for message in seen.messages if message.id not in native)


def _corrections(rows: Sequence[Held], stale: list[int], held: Embodied, seen: Seen) -> tuple[Message, ...]:
    """Those second-hand messages whose present wording the kept part was not told yet."""
    told = {row.message: row.revision for row in rows if row.correction}
    if not stale and not told:
        return ()
    wanted = {held.plain[at].message for at in stale} | told.keys()
    heard = {message: revision for message, revision in held.marks if message in wanted} | told
    return tuple(m for m in seen.messages if m.id in wanted and heard[m.id] != m.revision)
