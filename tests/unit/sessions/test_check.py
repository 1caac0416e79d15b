"""What a check finds in a session, and what it says of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from segue.core.transcript import Brief, Entry
from segue.sessions.check import DAY_MS, Finding, Seen, check
from segue.sessions.counts import Load
from segue.sessions.session_facts import Facts

NOW = 1_000 * DAY_MS
SOUND = Facts(
    id="abcdefgh-1234",
    name="abcdefgh",
    agent="claude",
    label="Claude",
    brief=Brief(cwd="/here", version="2.1.200"),
    size=1_000,
    max_bytes=50 << 20,
    directory_there=True,
    anywhere=True,
    load=Load(tokens=10_000, reserved=8_000, window=200_000, compacts=False),
    expires_ms=NOW + 20 * DAY_MS,
    kept=False,
    end="e1",
    left_at="e1",
    conversation="fix-auth",
    tried=("2.1.50", "2.1.325"),
    now_ms=NOW,
)


def entry(kind: Any, n: int = 0, **more: Any) -> Entry:
    return Entry(id=f"{n}.0", kind=kind, **{"text": "words", **more})


def found(entries: list[Entry], **facts: Any) -> dict[str, Finding]:
    """What is not in order, by the name of the check."""
    verdicts = check(msgspec.structs.replace(SOUND, **facts), Seen().look(entries))
    assert [each.check for each in verdicts] == NAMES
    for each in verdicts:
        quoted = each.means == SOUND.brief.trouble or each.means == "it is empty"
        assert bool(each.means_clauses) == bool(each.means and not quoted)
        assert bool(each.do_clauses) == bool(each.do)
    return {each.check: each for each in verdicts if each.level != "ok"}


NAMES = [
    *("parsable", "chain", "tool calls", "empty answers", "images", "directory", "size", "context"),
    *("expiry", "grown", "version"),
]
TALK = [
    entry("user", 0, native="a"),
    entry("call", 1, native="b", parent="a", call="c1"),
    entry("result", 2, native="c", parent="b", call="c1"),
    entry("assistant", 3, native="d", parent="c"),
]


def test_a_sound_session_has_nothing_to_say() -> None:
    assert found(TALK) == {}


@pytest.mark.parametrize(
    ("entries", "name", "words"),
    [
        ([entry("damaged", 7)], "parsable", "1 record cannot be read"),
        (
            [*TALK, entry("user", 9, native="x", parent="gone")],
            "chain",
            "some versions ignore everything before it",
        ),
        ([*TALK, entry("call", 9, call="c2")], "tool calls", "1 tool call without a result"),
        ([*TALK, entry("result", 9, call="c3")], "tool calls", "1 result without a call"),
        ([*TALK, entry("assistant", 9, text=" ")], "empty answers", "1 answer without content"),
        ([*TALK, entry("user", 9, images=(6 << 20,))], "images", "every request is refused"),
    ],
)
def test_what_stands_in_it_may_be_broken(entries: list[Entry], name: str, words: str) -> None:
    only = found(entries)
    assert set(only) == {name}
    assert only[name].level == "error"
    assert words in only[name].means
    assert "segue sessions repair abcdefgh" in only[name].do
    assert only[name].where == (entries[-1].id,)


def test_an_answer_of_calls_or_images_alone_is_not_empty_and_side_chains_have_their_own_beginning() -> None:
    side = entry("user", 8, native="s", parent="elsewhere", side=True)
    assert found([*TALK, entry("assistant", 9, text="", images=(10,)), side]) == {}


@pytest.mark.parametrize(
    ("facts", "name", "level", "words"),
    [
        ({"directory_there": False}, "directory", "warning", "/here, where it was started, no longer exists"),
        ({"directory_there": False, "anywhere": False}, "directory", "error", "resumes it only there"),
        ({"size": 71 << 20}, "size", "error", "71 MB, over the limit of 50 MB"),
        ({"load": Load(tokens=192_000, reserved=8_000, window=200_000, compacts=True)}, *(
            "context", "warning", "96% of the window would be full; Claude compacts at once")),
        ({"expires_ms": NOW + DAY_MS}, "expiry", "warning", "deletes it in 1 day"),
        ({"end": "e9"}, "grown", "warning", "it was continued outside of fix-auth"),
        ({"brief": Brief(cwd="/here", version="3.0.0")}, "version", "warning", "written by Claude 3.0.0"),
        ({"brief": Brief(cwd="/here", trouble="it is empty")}, "parsable", "error", "it is empty"),
    ],
)  # fmt: skip
def test_what_is_known_of_it_may_stand_in_the_way(
    facts: dict[str, Any], name: str, level: str, words: str
) -> None:
    only = found(TALK, **facts)
    assert set(only) == {name}
    assert only[name].level == level
    assert words in only[name].means
    assert only[name].do


def test_a_copy_of_ours_takes_the_fear_out_of_the_clean_up() -> None:
    assert found(TALK, expires_ms=NOW + DAY_MS, kept=True) == {}


def test_the_way_out_of_a_session_that_is_too_big_is_said() -> None:
    do = found(TALK, size=71 << 20)["size"].do
    assert "--trim" in do
    assert "--since" in do
    assert "recap" in do
