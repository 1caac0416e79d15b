"""A session's entries as lines on a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

import msgspec

from segue.cli.render import words
from segue.cli.render.output import BOLD, DIM, PLAIN, coloured, harmless, prose_width, width_of
from segue.cli.render.table import fitted, joined, wrapped
from segue.core.transcript import Entry
from segue.core.usage import count_in_words, tokens_in_words

if TYPE_CHECKING:
    from segue import Load, SessionShown, Tally

HIDDEN = ("state", "unknown", "thinking")
"""Shown with ``--full`` only."""
TEXT_LINES, OUTPUT_LINES = 40, 3
TELLING = (
    *("git snapshot", "project instructions", "file history", "task", "worktree"),
    *("title", "tag", "agent name", "title by the model", "summary"),
)
"""The labels that are named in what a resume restores; others are only counted."""


class Ink(msgspec.Struct, frozen=True):
    width: int
    prose: int
    """The width for sentences."""
    colour: bool

    def dim(self, text: str) -> str:
        return f"{DIM}{text}{PLAIN}" if self.colour else text

    def bold(self, text: str) -> str:
        return f"{BOLD}{text}{PLAIN}" if self.colour else text


def ink(out: TextIO) -> Ink:
    return Ink(width_of(out), prose_width(out), coloured(out))


def is_shown(entry: Entry) -> bool:
    """Whether it is shown without ``--full``: the dialogue and the tool calls, not the CLI's own notes."""
    if entry.kind == "boundary":
        return True
    return entry.kind not in HIDDEN and not (entry.inserted or entry.again)


def heading(session: SessionShown, ink: Ink) -> Iterator[str]:
    title = words.one_line(session.title or "untitled")
    yield ink.bold(fitted(f"{session.agent} · {title}", ink.width))
    facts = (
        session.id,
        session.cwd or "",
        f"on {session.branch}" if session.branch else "",
        session.model or "",
        words.size(session.size),
        f"conversation {session.conversation}" if session.conversation else "",
    )
    for line in joined([words.one_line(fact) for fact in facts if fact], ink.prose, 2):
        yield ink.dim(line)
    if session.trouble:
        yield f"! {words.one_line(session.trouble)}; see segue sessions check {session.id[:8]}"


def entry_lines(entry: Entry, ink: Ink, full: bool, *, marked: bool = False) -> Iterator[str]:
    """One entry: a line with who and when, then the text. Side chains have a bar at the left."""
    edge = "│ " if entry.side else "▸ " if marked else "  "
    for n, line in enumerate(_lines(entry, ink, full)):
        yield (edge if n or not marked else "▸ ") + line


def _lines(entry: Entry, ink: Ink, full: bool) -> Iterator[str]:
    at = f"  {words.moment(entry.at_ms)}" if entry.at_ms is not None else ""
    images = f" [{count_in_words(len(entry.images), 'image')}]" if entry.images else ""
    match entry.kind:
        case "user" | "assistant":
            who = "you" if entry.kind == "user" else "agent"
            note = " (inserted by the CLI)" if entry.inserted else ""
            yield ink.bold(who) + ink.dim(f"{note}{at}  {entry.id}") + images
            yield from _text(entry.text, full)
        case "call":
            yield ink.dim("├ ") + words.tool(entry.tool, entry.input, max(ink.width - 6, 30))
        case "result":
            yield from _output(entry, ink, full)
        case "boundary":
            yield ink.dim(f"──── compacted here: what came before is a summary from now on{at} ────")
            if full:
                yield from _text(entry.text, full)
        case "damaged":
            yield f"! {words.one_line(entry.text)}"
        case "thinking":
            yield ink.dim(f"thinking{at}")
            yield from (ink.dim(line) for line in _text(entry.text, full))
        case _:
            text = fitted(words.one_line(entry.text), max(ink.width - 30, 20))
            yield ink.dim(f"· {entry.label or entry.kind}{': ' + text if text else ''}")


def _text(text: str, full: bool) -> Iterator[str]:
    lines = harmless(text).splitlines()
    shown = lines if full else lines[:TEXT_LINES]
    yield from (f"  {line}" for line in shown)
    if len(lines) > len(shown):
        yield f"  … {count_in_words(len(lines) - len(shown), 'line')} more (--full)"


def _output(entry: Entry, ink: Ink, full: bool) -> Iterator[str]:
    lines = [line for line in harmless(entry.text).splitlines() if line.strip()]
    shown = lines if full else lines[:OUTPUT_LINES] if entry.failed else lines[:1]
    more = len(lines) - len(shown)
    for n, line in enumerate(shown):
        mark = ("✗ " if entry.failed else "└ ") if n == 0 else "  "
        cut = line if full else fitted(line, max(ink.width - 20, 20))
        yield ink.dim(mark + cut + (f"  … {more} more" if more and n == len(shown) - 1 else ""))


def _dimmed(text: str, ink: Ink) -> Iterator[str]:
    yield from (ink.dim(line) for line in wrapped(text, ink.prose, 2))


def _labels(counts: dict[str, int]) -> list[str]:
    """The labels in ``TELLING`` with their counts, and the number of all others."""
    named = [f"{label} ({counts[label]})" for label in TELLING if label in counts]
    rest = sum(count for label, count in counts.items() if label not in TELLING)
    return [*named, f"{count_in_words(rest, 'note')} of the agent's own"] if rest else named


def ending(session: SessionShown, counts: Tally, load: Load, ink: Ink) -> Iterator[str]:
    """What a resume would restore and what not, and how full the context window would be."""
    yield ""
    scope = "" if counts.whole else " (counted at its beginning and end only: the session is large)"
    back = [count_in_words(counts.messages, "message"), count_in_words(counts.calls, "tool call")]
    back += _labels(counts.restored)
    left = [*_labels(counts.left), "the state of the screen and of running tasks"]
    yield from _dimmed(f"a resume restores: {', '.join(back)}{scope}", ink)
    yield from _dimmed(f"it does not restore: {', '.join(left)}", ink)
    if counts.side:
        side = count_in_words(counts.side, "entry", "entries")
        yield from _dimmed(f"not part of the dialogue: {side} of side chains", ink)
    if load.tokens is not None:
        yield from _dimmed(_loads(load, load.tokens), ink)
    if session.expires is not None:
        day = time.strftime("%Y-%m-%d", time.localtime(session.expires / 1000))
        yield ink.dim(f"{session.agent} deletes it on {day} unless it is used before then")


def _loads(load: Load, tokens: int) -> str:
    room = f" of {tokens_in_words(load.window)} ({load.share:.0%})" if load.share is not None else ""
    plus = f", plus {tokens_in_words(load.reserved)} kept free for the answer"
    then = "; the agent would compact at once" if load.compacts else ""
    return f"it would load about {tokens_in_words(tokens)} tokens{room}{plus}{then}"
