"""Prompt caches: what is read, written and new under each provider's rule, and when it is gone."""

import pytest

from segue.rehearsal.cache import LIFE, LONG_LIFE, Cache
from segue.rehearsal.types import Prompt, Protocol, Usage
from segue.rehearsal.wire import responses
from tests.unit.rehearsal.asks import ask


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def serve(
    cache: Cache, prompt: Prompt, protocol: Protocol = "anthropic", model: str = "m"
) -> tuple[Usage, int]:
    served = cache.serve(ask(protocol=protocol, prompt=prompt, model=model))
    return served.usage, served.new_bytes


A, B, C = b"a" * 400, b"b" * 40, b"c" * 4


def test_anthropic_writes_at_marks_and_serves_the_longest_marked_prefix() -> None:
    cache = Cache(Clock())
    assert serve(cache, Prompt((A, B), {0: LIFE})) == (Usage(input=10, cache_write=100), 440)
    assert serve(cache, Prompt((A, B), {0: LIFE, 1: LIFE})) == (Usage(cache_read=100, cache_write=10), 40)
    assert serve(cache, Prompt((A, B, C), {2: LIFE})) == (Usage(cache_read=110, cache_write=1), 4)
    assert serve(cache, Prompt((A, C, B), {2: LIFE})) == (Usage(cache_read=100, cache_write=11), 44)


def test_anthropic_without_marks_neither_reads_nor_writes() -> None:
    cache = Cache(Clock())
    serve(cache, Prompt((A,), {0: LIFE}))
    assert serve(cache, Prompt((A, B))) == (Usage(input=110), 440)


def test_anthropic_a_block_that_grew_is_new_from_its_start() -> None:
    cache = Cache(Clock())
    serve(cache, Prompt((A, B), {1: LIFE}))
    assert serve(cache, Prompt((A, B + C), {1: LIFE})) == (Usage(cache_write=111), 444)


def test_anthropic_counters_add_up_whatever_the_rounding() -> None:
    cache = Cache(Clock())
    pieces = (b"x" * 5, b"y" * 6, b"z" * 7)
    for marks in ({0: LIFE}, {1: LIFE}, {0: LIFE, 2: LIFE}):
        usage, _ = serve(cache, Prompt(pieces, marks))
        assert usage.all_input == 5


@pytest.mark.parametrize(
    ("life", "after", "read"), [(LIFE, 299, 100), (LIFE, 301, 0), (LONG_LIFE, 3599, 100)]
)
def test_anthropic_entries_live_as_long_as_their_mark_says(life: float, after: float, read: int) -> None:
    clock = Clock()
    cache = Cache(clock)
    serve(cache, Prompt((A,), {0: life}))
    clock.now = after
    assert serve(cache, Prompt((A,), {0: life}))[0].cache_read == read


@pytest.mark.parametrize("protocol", ["anthropic", "responses", "gemini", "chat"])
def test_use_refreshes_and_models_do_not_share(protocol: Protocol) -> None:
    clock = Clock()
    cache = Cache(clock)
    prompt = Prompt((A * 20,), {0: LIFE})
    serve(cache, prompt, protocol)
    for clock.now in (200.0, 400.0, 600.0):
        assert serve(cache, prompt, protocol)[0].cache_read > 0
    assert serve(cache, prompt, protocol, model="other")[0].cache_read == 0
    clock.now = 901.0
    assert serve(cache, prompt, protocol)[0].cache_read == 0


OPENAI = [(4095, 0), (4096, 1024), (4607, 1024), (4608, 1152), (10_000, 2432)]


@pytest.mark.parametrize(("shared", "cached"), OPENAI)
def test_openai_serves_prefixes_from_1024_tokens_in_steps_of_128(shared: int, cached: int) -> None:
    cache = Cache(Clock())
    serve(cache, Prompt((b"a" * shared + b"x" * 4000,)), "responses")
    usage, new = serve(cache, Prompt((b"a" * shared, b"y" * 400)), "responses")
    assert usage.cache_read == cached
    assert usage.all_input == -(-(shared + 400) // 4)
    assert new == shared + 400 - cached * 4


def test_neither_a_cache_key_nor_an_items_id_is_part_of_the_prompt() -> None:
    def prompt(key: str, text: str) -> Prompt:
        item = {"type": "message", "id": key, "role": "user", "content": text}
        return responses.decode({"prompt_cache_key": key, "input": [item]}).prompt

    assert prompt("one", "hi") == prompt("two", "hi")
    assert prompt("one", "hi") != prompt("one", "ho")


def test_gemini_serves_any_identical_prefix() -> None:
    cache = Cache(Clock())
    serve(cache, Prompt((A, B)), "gemini")
    assert serve(cache, Prompt((A, B, C)), "gemini") == (Usage(input=1, cache_read=110), 4)
    assert serve(cache, Prompt((A, C)), "gemini") == (Usage(input=1, cache_read=100), 4)


def test_clearing_forgets_everything() -> None:
    cache = Cache(Clock())
    serve(cache, Prompt((A,), {0: LIFE}))
    cache.clear()
    assert serve(cache, Prompt((A,), {0: LIFE}))[0].cache_read == 0
