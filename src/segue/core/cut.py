"""What a native session contains, and the one number that decides what is sent.

*p* is the length of the longest prefix of ``held`` that is still in the view with equal revisions. The
*cut* is the last anchor within *p*. What is sent as text is always the view after the cut, so the flag that
resumes and the choice of what to send come from the same value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import compress, count
from operator import ne

import msgspec

from segue.core.model import Held, History, Message, Voice

UNKNOWN_PLACE = "end of "
"""The prefix of an anchor if the agent's session format is not known: it can be resumed, but not cut."""


class Cut(msgspec.Struct, frozen=True):
    """Where a native session diverges from the view."""

    rows: int = 0
    """How many deliveries of ``held`` are kept."""
    anchor: str | None = None
    whole: bool = False
    """The cut is the session's end: all of the session is kept."""
    kept: int = 0
    """How many messages the kept part contains."""
    text: tuple[Message, ...] = ()
    """The view after the cut, ending with the new message. It is empty if the new message is the one that the
    kept part was interrupted in."""
    corrections: tuple[Message, ...] = ()
    """Messages that the kept part has second-hand in an older revision."""
    broken: Held | None = None
    """The first delivery that is no longer valid."""


class HeldIndex:
    """``held`` with columns for quick comparison: made once when a conversation is loaded."""

    def __init__(self, rows: Sequence[Held]) -> None:
        self.rows = tuple(rows)
        self.plain = [row for row in self.rows if not row.correction]
        self.ids = [row.message for row in self.plain]
        self.revisions = [row.revision for row in self.plain]
        self.places = [at for at, row in enumerate(self.rows) if not row.correction]
        self.corrections = [(at, row) for at, row in enumerate(self.rows) if row.correction]

    @cached_property
    def order(self) -> dict[str, int]:
        """The index of each message among the plain deliveries."""
        return {message: at for at, message in enumerate(self.ids)}


class ViewIndex:
    """A view with the same columns."""

    def __init__(self, view: Sequence[Message]) -> None:
        self.messages = list(view)
        self.ids = [message.id for message in self.messages]
        self.revisions = [message.revision for message in self.messages]

    @cached_property
    def known(self) -> dict[str, int]:
        """The revision of each message."""
        return dict(zip(self.ids, self.revisions, strict=True))

    @cached_property
    def by_id(self) -> dict[str, Message]:
        return dict(zip(self.ids, self.messages, strict=True))


def cut(
    held: HeldIndex, seen: ViewIndex, history: History = "all", everything: ViewIndex | None = None
) -> Cut:
    """Where the session diverges from the view, and what remains to be sent.

    With ``history = "own"`` a session may hold more than the view: the voice's own messages from before
    another voice spoke. They are valid as long as they are in ``everything`` that is visible.
    """
    if history == "own" and everything is not None:
        valid, stale = _valid_among(held, everything)
    else:
        valid, stale = _valid_prefix(held, seen)
    last = next((at for at in range(valid - 1, -1, -1) if held.plain[at].anchor is not None), -1)
    kept, rows = last + 1, held.places[last] + 1 if last >= 0 else 0
    return Cut(
        rows=rows,
        anchor=held.plain[last].anchor if last >= 0 else None,
        whole=0 < rows == len(held.rows),
        kept=kept,
        text=_text(held, seen, kept, history),
        corrections=_corrections(held, rows, [at for at in stale if at < kept], everything or seen),
        broken=held.plain[valid] if valid < len(held.plain) else None,
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
    corrected = [Held(each.id, each.revision, None, True, True) for each in corrections]
    sent = [Held(each.id, each.revision, None, each.voice != voice) for each in text]
    if answer is not None:
        return (*kept, *corrected, *sent, Held(*answer, anchor))
    if not sent:
        # Retried and interrupted a second time: the session now ends later in the same message.
        kept, sent = kept[:-1], [kept[-1]]
    return (*kept, *corrected, *sent[:-1], msgspec.structs.replace(sent[-1], anchor=anchor))


def _valid_prefix(held: HeldIndex, seen: ViewIndex) -> tuple[int, list[int]]:
    """How many of ``held`` are the beginning of the view, and which of these have an older revision."""
    limit = min(len(held.ids), len(seen.ids))
    if held.ids[:limit] != seen.ids[:limit]:
        limit = next(compress(count(), map(ne, held.ids, seen.ids)))
    return _compare_revisions(held, limit, seen.revisions[:limit])


def _valid_among(held: HeldIndex, everything: ViewIndex) -> tuple[int, list[int]]:
    now = list(map(everything.known.get, held.ids))
    limit = now.index(None) if None in now else len(now)
    return _compare_revisions(held, limit, now[:limit])


def _compare_revisions(held: HeldIndex, limit: int, now: Sequence[int | None]) -> tuple[int, list[int]]:
    """How many of the first ``limit`` have the revision ``now``; second-hand ones may have an older one."""
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
    """The second-hand messages whose current revision the kept part was not given yet."""
    corrected = {row.message: row.revision for at, row in held.corrections if at < rows}
    if not stale and not corrected:
        return ()
    given = {held.ids[at]: held.revisions[at] for at in stale} | corrected
    changed = [key for key, revision in given.items() if seen.known.get(key, revision) != revision]
    return tuple(seen.by_id[key] for key in changed)
