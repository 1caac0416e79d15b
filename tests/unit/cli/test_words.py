"""Figures, tool calls and failures in words."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from segue.cli.render import output, words
from segue.cli.render.output import harmless
from segue.core.turn import AttemptShown, FailureShown, Saved, Sent, Turn
from segue.core.usage import Context, Usage, count_in_words, tokens_in_words


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (None, "?"),
        (0, "0"),
        (999, "999"),
        (1_000, "1k"),
        (32_000, "32k"),
        (11_749, "11.7k"),
        (250_000, "250k"),
        (999_499, "999k"),
        (999_500, "1M"),
        (1_000_000, "1M"),
        (1_048_576, "1M"),
        (3_140_000, "3.1M"),
    ],
)
def test_tokens(count: int | None, shown: str) -> None:
    assert tokens_in_words(count) == shown


@pytest.mark.parametrize(
    ("usd", "estimated", "shown"),
    [
        (None, False, "cost unknown"),
        (0.0, False, "$0"),
        (0.0004, False, "< $0.001"),
        (0.0004, True, "< ~$0.001"),
        (0.0234, False, "$0.023"),
        (0.0234, True, "~$0.023"),
        (31.4159, False, "$31.42"),
        (1234.5, True, "~$1,234.50"),
    ],
)
def test_money(usd: float | None, estimated: bool, shown: str) -> None:
    assert words.money(usd, estimated) == shown


@pytest.mark.parametrize(
    ("name", "given", "shown"),
    [
        ("Read", {"file_path": "src/auth.py", "limit": 10}, "Read src/auth.py"),
        ("Bash", {"command": "pytest -q\n  tests", "description": "run"}, "Bash pytest -q tests"),
        ("shell", {"command": ["ls", "-l"]}, "shell ls -l"),
        ("Odd", {"zzz": 5}, "Odd 5"),
        ("Bare", None, "Bare"),
        ("Text", "plain", "Text plain"),
        ("Empty", {}, "Empty"),
    ],
)
def test_a_tool_call_is_one_line(name: str, given: Any, shown: str) -> None:
    assert words.tool(name, given) == shown


def test_a_long_tool_call_is_cut() -> None:
    assert words.tool("Bash", {"command": "x" * 500}, 80) == f"Bash {'x' * 74}…"
    assert words.tool("Bash", {"command": "日" * 500}, 80) == f"Bash {'日' * 37}…"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain äöü 日本 😀", "plain äöü 日本 😀"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[?1049h\x1b[2J\x1b[1;1Hhi", "hi"),
        ("\x1b]0;title\x07hi", "hi"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0\x1b\\hi", "hi"),
        ("\x9b31mred \x9d0;t\x9chi", "red hi"),
        ("\x1bchi \x1b(B\x1b7", "hi "),
        ("a\x08b\x07c\x00d\x7fe\x85f", "abcdef"),
        ("dos\r\nand mac\rend", "dos\nand mac\nend"),
        ("\x1b]0;never ended", "]0;never ended"),
        ("\x1b\x1b[0m[31mx", "[31mx"),
        ("half \x1b", "half "),
        ("right\u202eleft\u2066", "rightleft"),
        ("a\u200fb\u200ec\u061cd\u200be\ufefff\U000e0041", "abcdef"),
        ("one\u2028two", "one\ntwo"),
        ("👩\u200d💻 n\u200cm", "👩\u200d💻 n\u200cm"),
        (f"{output.BOLD}bold", "bold"),
    ],
)
def test_what_a_terminal_would_obey_is_taken_out(text: str, shown: str) -> None:
    assert harmless(text) == shown


def test_a_huge_output_costs_no_time() -> None:
    for text in ("\x1b]" * 100_000, "\x1b[" + "0" * 200_000, "\x1b" * 200_000):
        began = time.monotonic()
        assert "\x1b" not in harmless(text)
        assert words.tool("Bash", {"command": text}).isprintable()
        assert time.monotonic() - began < 1


def test_a_tool_call_fits_where_there_is_no_room() -> None:
    assert words.tool("Bash", {"command": "ls"}, 0) == "…"


def test_what_a_failing_cli_said_is_harmless() -> None:
    assert words.result(1, "\x1b[31mError:\x1b[0m\r\nno\x07") == "exit 1: Error: no"


@pytest.mark.parametrize(("number", "shown"), [(0, "0 turns"), (1, "1 turn"), (1_200, "1,200 turns")])
def test_counted(number: int, shown: str) -> None:
    assert count_in_words(number, "turn") == shown


def test_counted_with_a_plural_of_its_own() -> None:
    assert [count_in_words(n, "entry", "entries") for n in (1, 2)] == ["1 entry", "2 entries"]


def test_a_moment_has_its_day_where_that_is_not_today() -> None:
    noon = time.mktime((*time.localtime()[:3], 12, 0, 0, 0, 0, -1))
    assert words.moment(int(noon * 1000)) == "12:00"
    later = noon + 3 * 24 * 3600
    assert words.moment(int(later * 1000)) == time.strftime("%a %H:%M", time.localtime(later))
    assert words.moment(0).startswith(("1970-", "1969-"))
    assert words.moment(10**20) == "an unknown time"


def turn(**fields: Any) -> Turn:
    made: dict[str, Any] = {
        "run": "r",
        "conversation": "fix-auth",
        "agent": "claude",
        "account": None,
        "model": None,
        "mode": "resume",
        "resumed": True,
        "session_id": None,
        "sent": Sent(),
        "text": "",
        "status": "ok",
        "failure": None,
        "usage": Usage(100, 11_800, 1_000, 12),
        "cost_usd": 0.004,
        "cost_estimated": False,
        "context": Context(),
        "model_turns": 1,
        "tools_run": 0,
        "attempts": (AttemptShown("resume", None, "ok", Usage(), None),),
        "duration_ms": 900,
    }
    return Turn(**made | fields)


CUT_SHORT = FailureShown("cancelled", None, "", False)
TWICE = tuple(AttemptShown(mode, None, "ok", Usage(), None) for mode in ("resume", "replay"))


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({}, "claude · resume · 1.1k new, 11.8k from cache, 12 out · $0.004 · 0.9 s"),
        (
            {"saved": Saved(10, 0.021, "replay")},
            "claude · resume · 1.1k new, 11.8k from cache, 12 out · $0.004 · saved $0.021 · 0.9 s",
        ),
        (
            {"saved": Saved(10, -0.021, "replay"), "cost_estimated": True},
            "claude · resume · 1.1k new, 11.8k from cache, 12 out · ~$0.004"
            " · cost $0.021 more than sending it as text · 0.9 s",
        ),
        (
            {"resumed": False, "attempts": TWICE, "usage": Usage(9_800, None, None, 1_100)},
            "claude · resume → replay · 9.8k in, 1.1k out · $0.004 · 0.9 s",
        ),
        ({"usage": Usage(), "cost_usd": None}, "claude · resume · cost unknown · 0.9 s"),
        ({"usage": Usage(), "cost_usd": None, "failure": CUT_SHORT}, "claude · resume · 0.9 s"),
        ({"usage": Usage(), "cost_usd": None, "failure": CUT_SHORT, "attempts": ()}, "claude · 0.9 s"),
    ],
)
def test_the_line_under_an_answer(fields: dict[str, Any], line: str) -> None:
    assert words.summary(turn(**fields)) == "── " + line


@pytest.mark.parametrize(
    ("kind", "fields", "line"),
    [
        ("rate_limited", {"until": 1}, "kept as #9. Retry then with: segue retry fix-auth"),
        ("rate_limited", {}, "kept as #9. Retry with: segue retry fix-auth"),
        ("auth", {}, "kept as #9. Log in, then retry with: segue retry fix-auth"),
        ("untrusted", {}, "kept as #9. Once the directory is trusted, retry with: segue retry fix-auth"),
        ("timeout", {}, "kept as #9. Retry with: segue retry fix-auth"),
        (
            "tool_denied",
            {"tools_run": 1},
            "kept as #9. Allow it with --permission or --allow-tool, and retry with: segue retry fix-auth",
        ),
        (
            "timeout",
            {"tools_run": 1},
            "kept as #9. The agent knows what it did: continue with segue run fix-auth, or retry with:"
            " segue retry fix-auth",
        ),
        (
            "timeout",
            {"tools_run": None},
            "kept as #9. What the agent did is not known: check first, then continue with segue run fix-auth,"
            " or retry with: segue retry fix-auth",
        ),
        (
            "rate_limited",
            {"tools_run": None, "until": 1},
            "kept as #9. What the agent did is not known: check before you retry with: segue retry fix-auth",
        ),
    ],
)
def test_the_next_step(kind: Any, fields: dict[str, Any], line: str) -> None:
    failure = FailureShown(kind, None, "x", False, fields.get("until"))
    said = words.next_step(turn(failure=failure, tools_run=fields.get("tools_run", 0)), 9)
    assert said == f"Nothing was lost: the message is {line}"


def test_a_message_without_a_place_has_no_number() -> None:
    said = words.next_step(turn(failure=FailureShown("session_busy", None, "x", True)))
    assert said == "Nothing was lost: the message is kept. Retry with: segue retry fix-auth"


def test_json_is_the_same_for_a_reader_and_nothing_for_a_terminal() -> None:
    value = {"\x1b[2J": "\x9b5A\u202e\x7f\U000e0041 äöü 日本"}
    line = output.json_line(value).decode()
    assert msgspec.json.decode(line) == value
    assert line == output.harmless(line)
    assert "äöü 日本" in line
