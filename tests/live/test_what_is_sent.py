"""What a turn really sends that no prompt cache could serve: the price of each way to carry the past."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.clis import CLIS
from tests.live.harness import Bench, Ran, live

SIZE = 2_000
WORDS = "some words that make the message two kilobytes long, as a question with a bit of code would be; "
CODEX_NEWEST, CODEX_OLDER = CLIS["codex"].versions


def message(number: int) -> str:
    """Two kilobytes, each time other ones."""
    return (f"message {number}: " + WORDS * 25)[:SIZE]


def new_bytes(ran: Ran) -> int:
    """What no cache had of the requests of the conversation itself."""
    assert ran.outcome.failure is None
    return sum(request.new_bytes for request in ran.requests if not request.side)


def resumed(bench: Bench) -> list[int]:
    """New bytes of each further turn of one native session of five."""
    session = bench.attempt(message(0)).outcome.session_id
    return [new_bytes(bench.resume(session, message(number))) for number in range(1, 5)]


def resumed_with_the_same_instructions(bench: Bench) -> list[int]:
    """The same, without the turns before which the CLI wrote its own instructions in another way.

    Gemini gathers its subagents and skills while it starts, and now and then the list comes out
    different for one turn. What follows the list is then new to any cache, whoever resumes the session.
    """
    first = bench.attempt(message(0))
    turns = [first, *(bench.resume(first.outcome.session_id, message(number)) for number in range(1, 5))]
    costs = [
        new_bytes(turn) for before, turn in pairwise(turns) if instructions(before) == instructions(turn)
    ]
    assert len(costs) >= 2, "the CLI's own instructions changed too often to measure anything"
    return costs


def instructions(ran: Ran) -> tuple[Any, Any]:
    body = next(request.body for request in ran.requests if not request.side)
    assert body is not None
    return body["systemInstruction"], body["tools"]


def transcript(number: int, head: str = "") -> str:
    """All that was said as text, growing at its end only."""
    said = "".join(
        f"--- new message ---\n{message(past)}\nassistant: Understood.\n" for past in range(number)
    )
    return f"{head}{said}--- new message ---\n{message(number)}"


def told(bench: Bench, head: str = "") -> list[Ran]:
    """Three turns, each a fresh session that is told all that went before; ``head`` may name the turn."""
    return [bench.attempt(transcript(number, head.format(number))) for number in (3, 4, 5)]


def words(ran: Ran) -> str:
    """All text of the request, in its order."""

    def texts(value: Any) -> str:
        if isinstance(value, list):
            return "".join(map(texts, value))
        return texts(value.get("content") or value.get("text")) if isinstance(value, dict) else str(value)

    assert ran.requests[-1].body is not None
    return texts(ran.requests[-1].body["input"])


def after_the_common_part(before: Ran, after: Ran) -> int:
    """How much text of the later request follows what both begin with."""
    old, new = words(before), words(after)
    alike = next((n for n, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), len(old))
    return len(new) - alike


def is_flat(costs: list[int]) -> bool:
    return max(costs) - min(costs) < SIZE / 4


# --- its own session, resumed ----------------------------------------------------------------------


@live("claude", CLIS["claude"].newest)
def test_claude_sends_the_new_message_and_no_more(bench: Bench) -> None:
    costs = resumed(bench)
    assert is_flat(costs), costs
    assert SIZE <= max(costs) < 2 * SIZE, costs


@pytest.mark.fact
@live("claude", CLIS["claude"].older)
def test_an_older_claude_sends_the_last_turn_and_its_skills_again(bench: Bench) -> None:
    costs = resumed(bench)
    assert is_flat(costs), costs
    assert 2 * SIZE < min(costs) < max(costs) < 4 * SIZE, costs


@live("codex", CODEX_NEWEST)
def test_codex_sends_the_new_message_and_no_more(bench: Bench) -> None:
    costs = resumed(bench)
    assert is_flat(costs), costs
    assert SIZE <= max(costs) < 2 * SIZE, costs


@pytest.mark.fact
@live("codex", CODEX_OLDER)
def test_an_older_codex_adds_its_instructions_on_every_resume(bench: Bench) -> None:
    costs = resumed(bench)
    assert is_flat(costs), costs
    assert 2 * SIZE < min(costs) < max(costs) < 4 * SIZE, costs


@live("gemini")
def test_gemini_sends_the_new_message_and_no_more(bench: Bench) -> None:
    costs = resumed_with_the_same_instructions(bench)
    assert is_flat(costs), costs
    assert SIZE <= max(costs) < 2 * SIZE, costs


# --- the past as text in the prompt ----------------------------------------------------------------


@pytest.mark.fact
@live("claude")
def test_a_transcript_is_new_to_claude_each_time(bench: Bench) -> None:
    """The block that holds it has grown, and the cache serves whole blocks only."""
    _, fourth, fifth = map(new_bytes, told(bench))
    assert fourth > 4 * SIZE
    assert fifth - fourth >= SIZE


@pytest.mark.fact
@live("codex")
def test_a_transcript_is_cheap_on_codex_though_under_a_new_cache_key(bench: Bench) -> None:
    """By the rule of an identical prefix; the key, which only steers, is another each time."""
    third, fourth, fifth = told(bench)
    for before, after in ((third, fourth), (fourth, fifth)):
        assert SIZE <= after_the_common_part(before, after) < 1.5 * SIZE
        assert new_bytes(after) < 2 * SIZE
    keys = {(ran.requests[-1].body or {})["prompt_cache_key"] for ran in (third, fourth, fifth)}
    assert len(keys) == 3


@pytest.mark.fact
@live("codex")
def test_a_transcript_with_another_beginning_repeats_nothing_on_codex(bench: Bench) -> None:
    third, fourth, _ = told(bench, "This is turn {}.\n")
    assert after_the_common_part(third, fourth) > 4 * SIZE


@pytest.mark.soak
@live("gemini")
def test_a_transcript_is_cheap_on_gemini_until_its_beginning_changes(bench: Bench) -> None:
    _, fourth, fifth = map(new_bytes, told(bench))
    assert SIZE <= max(fourth, fifth) < 1.5 * SIZE
    changed = new_bytes(bench.attempt(transcript(6, "This is turn 6.\n")))
    assert changed > 6 * SIZE
