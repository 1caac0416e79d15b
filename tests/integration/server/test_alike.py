"""``segue run`` with any options: through the daemon and without it, everything that is printed is the same.

Only ids, times and the way to the agent differ. The queue is not compared, because only a daemon runs it, and
questions are off.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from segue.cli.turn_options import NO_DAEMON, QUEUEING, RUN, Option
from tests.integration.conftest import Program, Result
from tests.integration.server.conftest import Daemon, finish, start

EXAMPLES, MANY = 12, 150
"""How many conversations are compared, and with ``--soak``."""
CONFIG = '[defaults]\nagent = "rehearsal"\nquestions = "off"\n[limits]\non_limit = "fail"\n'
MESSAGES = (
    *(
        "remember number 456",
        "what number?",
        "hello",
        "[[shell echo hi]][[result]]",
        "[[think hm]][[say ok]]",
    ),
    *("[[error 503 times 1]]", "[[error 400]]", "[[error 429]]", "[[empty]]", "[[malformed]]", "[[drop]]"),
    *("[[write a.txt text]][[say written]]", "[[context-full]]", ""),
)
VALUES = {
    "agent": ("rehearsal",),
    "account": ("none",),
    "model": ("rehearsal-1", "another", "none"),
    "role": ("reviewer", "none"),
    "cwd": ("sub",),
    "allow_tools": ("shell", "none"),
    "deny_tools": ("shell", "write", "none"),
    "max_turns": ("1", "5"),
    "budget": ("none",),
    "system_prompt_file": ("prompt.md",),
    "retries": ("0", "1"),
    "wait": ("0", "30"),
    "timeout": ("60",),
    "park": ("1", "5m"),
    "attach": ("prompt.md",),
}
"""Values for each option that takes one. A time limit is long: nothing may depend on it."""
WRONG = {
    "agent": "nobody",
    "account": "nobody",
    "adopt": "00000000-0000-4000-8000-000000000000",
    "cwd": "no/such/place",
    "allow_tools": "nothing",
    "max_turns": "0",
    "budget": "1",
    "system_prompt_file": "no-such-file",
    "timeout": "never",
    "attach": "no-such-file",
}
FIXED = {NO_DAEMON.key, *(option.key for option in QUEUEING), "questions"}
OPTIONS = [option for option in RUN if option.key not in FIXED]


class Call(NamedTuple):
    message: str
    options: tuple[str, ...]
    stdin: bytes | None


@st.composite
def calls(draw: st.DrawFn) -> Call:
    words: list[str] = []
    for option in draw(st.lists(st.sampled_from(OPTIONS), max_size=8, unique_by=lambda each: each.key)):
        words += _given(draw, option)
    if _rarely(draw):
        words += ["--", draw(st.sampled_from(["--resume=x", "--weird"]))]
    stdin = draw(st.sampled_from([None, None, None, b"remember number 7\n"]))
    return Call(draw(st.sampled_from(MESSAGES)), tuple(words), stdin)


def _given(draw: st.DrawFn, option: Option) -> list[str]:
    if option.kind == "flag":
        return [option.flag]
    if option.key in WRONG and _rarely(draw):
        return [f"{option.flag}={WRONG[option.key]}"]
    values = option.choices or VALUES.get(option.key)
    return [f"{option.flag}={draw(st.sampled_from(values))}"] if values else []


def _rarely(draw: st.DrawFn) -> bool:
    return draw(st.integers(0, 15)) == 15


def printed(result: Result, key: str) -> tuple[int, str, str]:
    """The exit code and what was printed, without what differs from run to run."""
    ids: dict[str, str] = {}

    def known(text: str) -> str:
        text = re.sub(rf"\b{key}\b", "KEY", text)
        text = re.sub(
            r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-hjkmnp-tv-z]{26}\b|\bcall-[0-9a-f]{8}\b",
            lambda found: ids.setdefault(found[0], f"ID-{len(ids)}"),
            text,
        )
        text = re.sub(r'"(duration_ms|until)":\d+', r'"\1":0', text)
        text = re.sub(r'"transport":"\w+"', '"transport":""', text)
        return re.sub(r"\b[\d.]+ (s|min)\b", r"0 \1", text)

    return result.code, known(result.stdout), known(result.stderr)


@pytest.fixture
def alike(segue: Program) -> Iterator[Daemon]:
    segue.config(CONFIG)
    (segue.cwd / "sub").mkdir()
    (segue.cwd / "prompt.md").write_text("Be brief.")
    daemon = start(segue)
    yield daemon
    finish(daemon.process)


def compare(daemon: Daemon) -> Callable[[list[Call]], None]:
    numbers = itertools.count(1)

    def check(conversation: list[Call]) -> None:
        n = next(numbers)
        for call in conversation:
            words = (call.message, *call.options)
            here = daemon.segue("run", f"here{n}", *words, stdin=call.stdin, SEGUE_DAEMON="off")
            there = daemon.segue("run", f"there{n}", *words, stdin=call.stdin)
            assert printed(there, f"there{n}") == printed(here, f"here{n}"), words

    return check


def test_everything_printed_is_the_same(alike: Daemon, soak: bool) -> None:
    chosen = settings(
        max_examples=MANY if soak else EXAMPLES,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink) if soak else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    chosen(given(st.lists(calls(), min_size=1, max_size=2))(compare(alike)))()
    alike.end()
    assert "local/turns" in alike.log()


def test_every_option_is_among_those_compared() -> None:
    for option in OPTIONS:
        assert option.kind == "flag" or option.choices or option.key in {*VALUES, *WRONG}
