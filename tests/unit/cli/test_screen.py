"""How text is laid out on a terminal, and what is drawn where one goes away."""

from __future__ import annotations

import io
import re
import time

import pytest

from segue.cli.render import words
from segue.cli.render.screen import Lines, Live, plain_line, show_notice
from segue.cli.render.table import columns, cut, wrap_rows
from segue.core import events as ev


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("", 4, [""]),
        ("abc", 4, ["abc"]),
        ("abcd", 4, ["abcd", ""]),
        ("abcdefghi", 4, ["abcd", "efgh", "i"]),
        ("äbcdé", 4, ["äbcd", "é"]),
        ("äbcd", 4, ["äbcd", ""]),
        ("日本語", 4, ["日本", "語"]),
        ("a日本語", 4, ["a日", "本語", ""]),
        ("e\u0301" * 5, 4, ["e\u0301" * 4, "e\u0301"]),
    ],
)
def test_rows(text: str, width: int, lines: list[str]) -> None:
    assert list(wrap_rows(text, width)) == lines
    assert all(columns(line) <= width for line in lines)


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [("abc", 2, "ab"), ("日本語", 5, "日本"), ("äöü", 3, "äöü"), ("äöü", 9, "äöü"), ("", 3, "")],
)
def test_cut(text: str, width: int, shown: str) -> None:
    assert cut(text, width) == shown


@pytest.mark.parametrize("text", ["é" * 60_000, "日" * 60_000, "\u0301" * 60_000, "x" * 5_000_000])
def test_a_very_long_line_does_not_block(text: str) -> None:
    began = time.monotonic()
    assert "".join(wrap_rows(text, 80)) == text
    cut(text, 50_000)
    assert time.monotonic() - began < 1


def test_the_status_line_says_until_when_a_run_is_parked() -> None:
    out = io.StringIO()
    live = Live(out, "agent · key", answer_here=False)
    show_notice(live, "agent · key", "parked until 15:20: a usage limit was reached")
    assert "segue: parked until 15:20: a usage limit was reached\n" in out.getvalue()
    live.tick()
    assert "● agent · key · parked until 15:20  " in out.getvalue()


EVIL = "\x1b]0;owned\x07\x1b[2Jx\x9b5A\x08\r\x07"


@pytest.mark.parametrize(
    "event",
    [
        ev.ToolCall("1", f"Bash{EVIL}", {"command": EVIL}),
        ev.ToolCall("1", "Bash", [EVIL]),
        ev.ToolResult("1", ok=False, output=EVIL, exit_code=1),
        ev.Retry(1, 3, 10, EVIL),
        ev.Notice(EVIL),
        ev.Permission("1", f"Bash{EVIL}", {"command": EVIL}),
    ],
)
def test_a_line_is_one_line_and_harmless(event: ev.Event) -> None:
    assert plain_line(event).isprintable()


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (ev.Retry(1, 5, 4_000, "rate_limit"), "it waits 4 s, then tries again (1 of 5): rate_limit"),
        (ev.Retry(None, None, 90_000), "it waits 90 s, then tries again"),
        (ev.Retry(2, 5, None, "Reconnecting"), "it waits, then tries again (2 of 5): Reconnecting"),
        (ev.Retry(1, 1, 551, "x"), "it waits 1 s, then tries again (1 of 1): x"),
    ],
)
def test_an_agent_that_waits_says_so(event: ev.Retry, line: str) -> None:
    assert plain_line(event) == f"  │ {line}"


@pytest.mark.parametrize(
    ("seconds", "waits", "shown"),
    [
        (0, False, ""),
        (9.9, False, ""),
        (12, False, "silent for 12 s"),
        (0.4, True, "waits 0 s"),
        (61, True, "waits 61 s"),
    ],
)
def test_a_status_line_tells_waiting_from_silence(seconds: float, waits: bool, shown: str) -> None:
    assert words.quiet(seconds, waits) == shown


def test_the_live_screen_shows_that_the_agent_waits_until_it_speaks_again() -> None:
    out = io.StringIO()
    live = Live(out, "codex · t", answer_here=False)
    live.event(ev.Retry(1, 5, None, "429"))
    live.tick()
    assert re.search(r"waits \d+ s · \d\d:\d\d", out.getvalue())
    drawn = len(out.getvalue())
    live.event(ev.Notice("on"))
    live.tick()
    assert "waits" not in out.getvalue()[drawn:]


def test_lines_go_on_when_nobody_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr("sys.stderr", Gone())
    Lines().event(ev.Notice("hello"))
