"""What was said in a session, as the messages of a conversation. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from segue.core.carried import own
from segue.core.transcript import Entry
from segue.sessions.tally import is_message


class Said(msgspec.Struct):
    """One message as the session tells it; an answer that came in pieces is one message."""

    sender: str
    text: str
    at_ms: int | None


def dialogue(entries: Iterable[Entry]) -> Iterator[Said]:
    """What the user said, and what the agent said until the user's next word."""
    answer: Said | None = None
    for entry in entries:
        if not is_message(entry):
            continue
        if entry.kind == "assistant" and answer is not None:
            answer.text += "\n\n" + entry.text
            continue
        if answer is not None:
            yield answer
            answer = None
        said = Said(entry.kind, entry.text, entry.at_ms)
        if entry.kind == "assistant":
            answer = said
        else:
            yield said
    if answer is not None:
        yield answer


def own_words(said: Said) -> str:
    """What was said; of a prompt that Segue composed only the user's part, for the rest was carried along."""
    words = own(said.text) if said.sender == "user" else None
    return words if words is not None and words.strip() else said.text


def in_force(entries: Sequence[Entry]) -> list[Entry]:
    """Without what was abandoned: where entries form a chain, only those that lead to the last message.

    A summary begins a chain of its own; what came before it was said all the same, and so was what came
    before a break.
    """
    chain = {entry.native: entry for entry in entries if entry.native and not entry.side}
    if not any(entry.parent for entry in chain.values()):
        return list(entries)
    places = {entry.native: at for at, entry in reversed(list(enumerate(entries)))}
    kept: set[str] = set()
    end: int | None = len(entries)
    while end is not None:
        leaf = next((entry for entry in reversed(entries[:end]) if _speaks(entry)), None)
        end = _follow(leaf, chain, places, kept) if leaf is not None else None
    return [entry for entry in entries if not entry.native or entry.side or entry.native in kept]


def _speaks(entry: Entry) -> bool:
    return bool(entry.native) and not entry.side and entry.kind in ("user", "assistant", "call", "result")


def _follow(leaf: Entry, chain: dict[str, Entry], places: dict[str, int], kept: set[str]) -> int | None:
    """From a message back to where its chain begins. The place before which to go on; None: nowhere."""
    at = leaf
    while True:
        if at.native in kept:
            return None
        kept.add(at.native)
        if at.parent is None:
            summed = at.kind == "boundary" or at.label == "compaction"
            return places[at.native] if summed else None
        if at.parent not in chain:
            return places[at.native]
        at = chain[at.parent]
