"""The words of a repair: what is reported about a repaired copy, and the placeholders in it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from segue.agents.base import RepairedCopy
from segue.core.verdicts import say

INTERRUPTED = "[This call was interrupted before it returned a result. Look before repeating it.]"
OUTPUT_LEFT_OUT = "[The output of this tool call, {} bytes, was left out.]"
IMAGE_LEFT_OUT = "[An image of {} bytes was left out.]"

Repairs = Counter[str]
"""How often each action of ``DONE`` was taken."""

DONE = {
    "damaged": ("{} damaged record was left out", "{} damaged records were left out"),
    "duplicates": ("{} duplicate record was left out", "{} duplicate records were left out"),
    "linked": (
        "{} broken link between records was repaired",
        "{} broken links between records were repaired",
    ),
    "stamped": ("{} record without a time was given one", "{} records without a time were given one"),
    "closed": ("{} call without a result was closed", "{} calls without a result were closed"),
    "orphans": ("{} result without a call was left out", "{} results without a call were left out"),
    "empty": ("{} empty answer was left out", "{} empty answers were left out"),
    "images": ("{} image was replaced by a line of text", "{} images were replaced by a line of text"),
    "outputs": ("the output of {} tool call was left out", "the output of {} tool calls was left out"),
    "before": ("{} earlier message was left out", "{} earlier messages were left out"),
    "records_before": ("{} earlier record was left out", "{} earlier records were left out"),
    "head": ("the first record was rewritten",) * 2,
    "joined": ("the history that it continues was copied into it",) * 2,
}
"""Each action in the singular and in the plural, in the order in which they are reported."""


def repaired_copy(session: str, path: Path, repairs: Repairs) -> RepairedCopy:
    """The copy, with one sentence for each action."""
    done = [
        say(words[count != 1].format(count), f"repair.{what}", count=count)
        for what, words in DONE.items()
        if (count := repairs[what])
    ]
    return RepairedCopy(
        session=session,
        path=path,
        done=tuple(each.text for each in done),
        done_clauses=tuple(each.clauses for each in done),
    )
