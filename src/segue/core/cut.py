"""What a native session embodies, and the one number that decides what is sent.

*p* is the length of the longest prefix of ``held`` that still stands in the view with equal revisions. The
*cut* is the last anchor within *p*. What is sent as text is the view after the cut, always: so the flag that
resumes and the choice of what to send come from the same value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import compress, count
from operator import ne

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
    """The view after the cut. The new message is its last; nothing is left of it when the new message is the
    very one that the kept part was interrupted in."""
    corrections: tuple[Message, ...] = ()
    """Messages the kept part has second-hand in an older wording."""
    broken: Held | None = None
    """The first delivery that does not stand any more."""


class HeldIndex:
    """``held`` with the columns that make comparing it quick: made once when a conversation is loaded."""

    def __init__(self, rows: Sequence[Held]) -> None:
        self.rows = tuple(rows)
        self.plain = [row for row in self.rows if not row.correction]
        self.ids = [row.message for row in self.plain]
        self.revisions = [row.revision for row in self.plain]
        self.places = [at for at, row in enumerate(self.rows) if not row.correction]
        self.corrections = [(at, row) for at, row in enumerate(self.rows) if row.correction]

    @cached_property
    def order(self) -> dict[str, int]:
        """Which place each message has among the plain deliveries."""
        return {message: at for at, message in enumerate(self.ids)}


class ViewIndex:
    """A view with the same columns."""

    def __init__(self, view: Sequence[Message]) -> None:
        self.messages = list(view)
        self.ids = [message.id for message in self.messages]
        self.revisions = [message.revision for message in self.messages]

    @cached_property
    def known(self) -> dict[str, int]:
        """The revision each message has."""
        return dict(zip(self.ids, self.revisions, strict=True))

    @cached_property
    def by_id(self) -> dict[str, Message]:
        return dict(zip(self.ids, self.messages, strict=True))


def cut(
    held: HeldIndex, seen: ViewIndex, history: History = "all", everything: ViewIndex | None = None
) -> Cut:
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
    return Cut(
        rows=rows,
        anchor=held.plain[last].anchor if last >= 0 else None,
        whole=0 < rows == len(held.rows),
        kept=kept,
        text=_text(held, seen, kept, history),
        corrections=_corrections(held, rows, [at for at in stale if at < kept], everything or seen),
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

    Without an answer (tools ran, then the turn was interrupted) the last message heard gets the anchor.
    """
    told = [Held(each.id, each.revision, None, True, True) for each in corrections]
    heard = [Held(each.id, each.revision, None, each.voice != voice) for each in text]
    if answer is not None:
        return (*kept, *told, *heard, Held(*answer, anchor))
    if not heard:
        # Run again, and interrupted again: the session now ends later in the same message.
        kept, heard = kept[:-1], [kept[-1]]
    return (*kept, *told, *heard[:-1], msgspec.structs.replace(heard[-1], anchor=anchor))


def _stands(held: HeldIndex, seen: ViewIndex) -> tuple[int, list[int]]:
    """How many of ``held`` are the beginning of the view, and which of these it has in another wording."""
    limit = min(len(held.ids), len(seen.ids))
    if held.ids[:limit] != seen.ids[:limit]:
        limit = next(compress(count(), map(ne, held.ids, seen.ids)))
    return _worded(held, limit, seen.revisions[:limit])


def _stands_among(held: HeldIndex, everything: ViewIndex) -> tuple[int, list[int]]:
    now = list(map(everything.known.get, held.ids))
    limit = now.index(None) if None in now else len(now)
    return _worded(held, limit, now[:limit])


def _worded(held: HeldIndex, limit: int, now: Sequence[int | None]) -> tuple[int, list[int]]:
    """How many of the first ``limit`` stand as they read ``now``: second-hand ones may read differently."""
    stale: list[int] = []
    if held.revisions[:limit] == now:
        return limit, stale
    for at in compress(count(), map(ne, held.revisions, now)):
        if not held.plain[at].second_hand:
            return at, stale
        stale.append(at)
    return limit, stale


def _text(held: HeldIndex, seen: ViewIndex, kept: int, history: History) -> tuple[Message, ...]:
    if history == "all":
        return tuple(seen.messages[kept:])
    return tuple(each for each in seen.messages if held.order.get(each.id, kept) >= kept)


def _corrections(held: HeldIndex, rows: int, stale: list[int], seen: ViewIndex) -> tuple[Message, ...]:
    """Those second-hand messages whose present wording the kept part was not told yet."""
    told = {row.message: row.revision for at, row in held.corrections if at < rows}
    if not stale and not told:
        return ()
    heard = {held.ids[at]: held.revisions[at] for at in stale} | told
    changed = [key for key, revision in heard.items() if seen.known.get(key, revision) != revision]
    return tuple(seen.by_id[key] for key in changed)
