"""What makes a history whole again, whichever version wrote it: every call has its result, right behind it.

The rules are the providers': an assistant's calls are followed by their results and by nothing else, no
result comes without its call, no answer is empty. Pure but for the pieces, which come one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from segue.agents.base import Mending
from segue.core.errors import Broken

INTERRUPTED = "The tool was interrupted; whether it did its work is not known."
TRIMMED = "[output left out: {} characters]"
NO_IMAGE = "[an image was left out: {} bytes]"
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

Done = Counter[str]


class Piece(Protocol):
    """One message, as its version writes it."""

    @property
    def place(self) -> int: ...

    @property
    def role(self) -> str: ...

    @property
    def opens(self) -> bool:
        """The user said it."""
        ...

    @property
    def silent(self) -> bool:
        """Neither words nor calls nor images are in it."""
        ...

    @property
    def calls(self) -> Sequence[tuple[str, str]]:
        """The id and the tool of each call."""
        ...

    @property
    def call(self) -> str:
        """Of a result: the call it answers."""
        ...

    def written(self, mending: Mending, done: Done) -> bytes:
        """The message, without what it shall be without."""
        ...

    def closing(self, call: str, tool: str) -> bytes:
        """A result for a call that has none."""
        ...


def mended(pieces: Iterable[Piece | None], mending: Mending, done: Done) -> Iterator[bytes]:
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


def told(done: Done) -> tuple[str, ...]:
    return tuple(
        one if done[what] == 1 else many.format(done[what])
        for what, (one, many) in _DONE.items()
        if done[what]
    )


def _kept(
    piece: Piece, waiting: dict[str, tuple[Piece, str]], mending: Mending, done: Done
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


def _closed(waiting: dict[str, tuple[Piece, str]], done: Done) -> Iterator[bytes]:
    for call, (piece, tool) in waiting.items():
        done["closed"] += 1
        yield piece.closing(call, tool)
    waiting.clear()


def _since(mending: Mending) -> int:
    place = (mending.since or "0").partition(".")[0]
    if not place.isdecimal():
        raise Broken(f"{mending.since} is no place in a session of Vibe")
    return int(place)
