"""The sentences of a repair: what is said of a repaired copy, and what stands in it for what was left out."""

from __future__ import annotations

from collections import Counter

INTERRUPTED = "[This call was interrupted before it returned a result. Look before repeating it.]"
OUTPUT_LEFT_OUT = "[The output of this tool call, {} bytes, was left out.]"
IMAGE_LEFT_OUT = "[An image of {} bytes was left out.]"

Repairs = Counter[str]
"""How often each of these was done."""

_DONE = {
    "damaged": ("{} damaged record was left out", "{} damaged records were left out"),
    "closed": ("{} call without a result was closed", "{} calls without a result were closed"),
    "orphans": ("{} result without a call was left out", "{} results without a call were left out"),
    "empty": ("{} empty answer was left out", "{} empty answers were left out"),
    "images": ("{} image was replaced by a line of text", "{} images were replaced by a line of text"),
    "outputs": ("the output of {} tool call was left out", "the output of {} tool calls was left out"),
    "before": ("{} earlier message was left out", "{} earlier messages were left out"),
}


def in_words(repairs: Repairs) -> tuple[str, ...]:
    return tuple(
        words[repairs[what] != 1].format(repairs[what]) for what, words in _DONE.items() if repairs[what]
    )
