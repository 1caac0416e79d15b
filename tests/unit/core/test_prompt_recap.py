"""A recap is bounded, keeps the newest and how it all began, and is never empty."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.conversing import CODEX, calm, carry, conversations, parts, said, texts, user

from segue.core.prompt import compose
from segue.core.prompt_messages import MessageText, ToolShown
from segue.core.request import Unit

BOUND = 24_000


def recapped(*earlier: MessageText, max_bytes: int = BOUND, quiet_at: bool = False) -> list[tuple[str, str]]:
    return parts(compose(carry("recap", "go on", *earlier, max_bytes=max_bytes, quiet_at=quiet_at)).prompt)


def rounds(count: int, size: int) -> list[MessageText]:
    return [
        spoken
        for number in range(count)
        for spoken in (user(f"question {number} " + "q" * size), said(f"answer {number} " + "a" * size))
    ]


def test_what_fits_is_all_there() -> None:
    dialogue = rounds(5, 100)
    assert [text for _, text in recapped(*dialogue)][1:] == [*(each.text for each in dialogue), "go on"]


def test_the_newest_are_whole_the_rest_is_counted_and_the_beginning_stands() -> None:
    dialogue = rounds(50, 1_500)
    _, opening, gap, *tail = recapped(*dialogue)
    assert opening == ("user, at the beginning", dialogue[0].text)
    whole = [text for _, text in tail[1:-1]]
    assert len(whole) >= 12
    assert whole == [each.text for each in dialogue[-len(whole) :]]
    assert "bytes left out ...]" in tail[0][1]
    assert gap == (f"{100 - len(whole) - 2} earlier messages left out", "")


def test_the_messages_in_it_are_counted() -> None:
    dialogue = rounds(50, 1_000)
    composed = compose(carry("recap", "go on", *dialogue))
    named = [name for name, _ in parts(composed.prompt)]
    assert composed.text_messages == len(named) - 2  # the header and the gap


def test_a_long_first_request_is_kept_by_its_beginning() -> None:
    dialogue = [user("Please " + "x" * 90_000), *rounds(30, 1_000)]
    name, text = recapped(*dialogue)[1]
    assert name == "user, at the beginning"
    assert text.startswith("Please xxx")
    assert text.endswith(" bytes left out ...]")
    assert 2_000 < len(text) <= BOUND // 10


def test_a_short_conversation_with_a_long_request_does_not_show_it_twice() -> None:
    found = recapped(user("Please " + "x" * 90_000), said("done"))
    assert [name for name, _ in found] == ["prior context", "user", "you", "user"]
    assert found[1][1].startswith("Please xxx")


def test_one_long_answer_does_not_displace_the_others() -> None:
    found = recapped(user("first"), said("short"), user("second"), said("y" * 200_000))
    assert [text for _, text in found[1:4]] == ["first", "short", "second"]
    assert len(found[4][1]) <= BOUND // 2


def test_tool_results_give_way_to_words() -> None:
    answer = said("w" * 900, CODEX, *(ToolShown("Bash", "t" * 900) for _ in range(3)))
    found = recapped(user("x"), answer, max_bytes=2_400)
    assert ("codex", "w" * 900) in found
    assert not any("used" in name for name, _ in found)


def test_one_message_left_out_is_said_in_the_singular() -> None:
    dialogue = [said("a" * 900), user("b" * 1_000), said("c" * 450)]
    assert "1 earlier message left out" in [name for name, _ in recapped(*dialogue, max_bytes=1_200)]


@calm
@given(
    quiet_at=st.booleans(),
    conversation=conversations(),
    long=st.lists(st.builds(lambda text, times: text * times, texts, st.integers(1, 60)), max_size=4),
    bound=st.integers(0, 6_000),
)
def test_it_is_bounded_and_never_empty(
    quiet_at: bool, conversation: list[MessageText], long: list[str], bound: int
) -> None:
    earlier = [*conversation, *map(user, long), said("the end")]
    prompt = compose(carry("recap", "go on", *earlier, max_bytes=bound, quiet_at=quiet_at)).prompt
    carried = prompt.removesuffix("\n\n--- user ---\ngo on")
    assert len(carried.encode()) <= max(bound, 1_000)
    found = parts(prompt)
    assert found[-1] == ("user", "go on")
    assert found[-2] == ("you", "the end")


@calm
@given(
    conversation=conversations(),
    new=texts.map(lambda text: text * 40),
    room=st.integers(1_000, 6_000),
    unit=st.sampled_from(["bytes", "characters"]),
)
def test_with_the_new_message_it_keeps_to_the_limit_of_a_prompt(
    conversation: list[MessageText], new: str, room: int, unit: Unit
) -> None:
    earlier = [*conversation, user("é🎵" * 4_000), said("the end")]
    alone = compose(carry("recap", new, said(""), max_bytes=0)).prompt
    limit = measured(alone, unit) + room
    made = compose(carry("recap", new, *earlier, max_bytes=BOUND, limit=limit, unit=unit))
    assert measured(made.prompt, unit) <= limit
    assert parts(made.prompt)[-2] == ("you", "the end")


def measured(text: str, unit: Unit) -> int:
    return len(text.encode()) if unit == "bytes" else len(text)


@calm
@given(text=st.text(alphabet="aé🎵", min_size=300, max_size=3_000), bound=st.integers(1_000, 3_000))
def test_no_character_is_cut(text: str, bound: int) -> None:
    found = recapped(user(text * 5), said(text * 5), max_bytes=bound)
    for _, shown in found[1:-1]:
        for piece in shown.split("\n"):
            assert piece.startswith("[... ") or piece in text * 5
