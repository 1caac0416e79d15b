"""Prompt caches with each provider's own rules, so that usage matches what was sent.

Tokens are bytes / 4, rounded up. An entry lives five minutes after its last use.

- Anthropic writes an entry at each block that carries `cache_control` and serves the longest such prefix that
  a later request repeats. Read, written and plain input are disjoint.
- OpenAI serves any identical prefix of at least 1,024 tokens, in steps of 128. (A `prompt_cache_key` routes a
  request to the machine that may have it; here it always does. Ids of items are not part of the prefix.)
- Gemini serves any identical prefix.
"""

import hashlib
import time
from collections.abc import Callable

from msgspec import Struct

from segue.rehearsal.types import Ask, Prompt, Usage

LIFE = 300.0
LONG_LIFE = 3600.0
_KEPT = 256


class Served(Struct, frozen=True):
    """The input side of a request's usage, and how many bytes of it the cache did not have."""

    usage: Usage
    new_bytes: int


class Cache:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._marks: dict[tuple[str, bytes], float] = {}
        self._prompts: dict[tuple[str, bytes], float] = {}

    def clear(self) -> None:
        self._marks.clear()
        self._prompts.clear()

    def serve(self, ask: Ask) -> Served:
        """Account for one request and remember what it leaves in the cache."""
        if ask.protocol == "anthropic":
            return self._marked(ask.model, ask.prompt)
        least, step = (1, 1) if ask.protocol == "gemini" else (1024, 128)
        return self._prefix(f"{ask.protocol} {ask.model}", ask.prompt, least, step)

    def _marked(self, model: str, prompt: Prompt) -> Served:
        now = self._clock()
        last = max(prompt.marks, default=-1)
        size = read = written = 0
        digest = hashlib.sha256()
        for index, segment in enumerate(prompt.segments[: last + 1]):
            digest.update(len(segment).to_bytes(8, "big") + segment)
            size += len(segment)
            entry = (model, digest.digest())
            if self._marks.get(entry, 0.0) > now:
                read = size
            if index in prompt.marks:
                written = size
                self._marks[entry] = now + prompt.marks[index]
        usage = Usage(
            input=tokens(prompt.size) - tokens(written),
            cache_read=tokens(read),
            cache_write=tokens(written) - tokens(read),
            long_write=last >= 0 and prompt.marks[last] > LIFE,
        )
        return Served(usage, prompt.size - read)

    def _prefix(self, model: str, prompt: Prompt, least: int, step: int) -> Served:
        now = self._clock()
        sent = b"".join(prompt.segments)
        self._prompts = {entry: until for entry, until in self._prompts.items() if until > now}
        alike = [held for name, held in self._prompts if name == model]
        common = max((_common(held, sent) for held in alike), default=0)
        cached = common // 4 // step * step if common // 4 >= least else 0
        if common == len(sent) and step == 1:
            cached = tokens(common)
        for held in alike:
            if sent.startswith(held):
                del self._prompts[model, held]
        self._prompts[model, sent] = now + LIFE
        while len(self._prompts) > _KEPT:
            del self._prompts[next(iter(self._prompts))]
        usage = Usage(input=tokens(len(sent)) - cached, cache_read=cached)
        return Served(usage, max(0, len(sent) - cached * 4))


def tokens(size: int) -> int:
    return -(-size // 4)


def _common(one: bytes, other: bytes) -> int:
    """Length of the common prefix, by bisection: comparing slices is fast even for megabytes."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
