"""What a person sees at a terminal: driven through a real pseudo-terminal and a real screen emulation."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest

from segue.cli.render.output import Canvas
from tests.integration.conftest import SEGUE, Program
from tests.integration.terminals import Terminal, Wrapping, beside_our_own, left_on_screen, on_terminal


def test_text_streams_tools_are_lines_and_the_answer_stands_once(segue: Program) -> None:
    prompt = "[[shell echo hello]][[slow 1 5]][[say one two three four five]]"
    code, output = on_terminal(segue, "run", "t1", prompt, "--agent", "rehearsal", "--permission", "full")
    screen = left_on_screen(output)
    assert code == 0
    assert sum("one two three four five" in line for line in screen) == 1
    assert any("├ shell echo hello" in line for line in screen)
    assert screen[-1].startswith("── rehearsal · fresh")
    assert "● rehearsal · fresh · t1" in output, "the status line was alive, and knew the mode"
    assert not any("●" in line for line in screen), "and it is gone in the end"


def test_a_long_line_is_not_lost_at_the_edge(segue: Program) -> None:
    words = " ".join(f"word{n}" for n in range(60))
    code, output = on_terminal(
        segue, "run", "t1", f"[[slow 1 8]][[say {words}]]", "--agent", "rehearsal", columns=40
    )
    screen = left_on_screen(output)
    closing = next(at for at, line in enumerate(screen) if line.startswith("──"))
    shown = "".join(line.ljust(40) if len(line) == 39 else line for line in screen[:closing])
    assert code == 0
    assert shown.replace(" ", "") == words.replace(" ", "")


@pytest.mark.soak
def test_ctrl_c_says_what_it_does(segue: Program, tmp_path: Path) -> None:
    mark = tmp_path / "running"
    prompt = f"[[shell touch {mark}; sleep 30]]"
    code, output = on_terminal(
        segue, "run", "t1", prompt, "--agent", "rehearsal", "--permission", "full", keys=((mark, b"\x03"),)
    )
    assert code == 130
    screen = Wrapping(80).feed(output)
    assert screen[0].startswith("Cancelling… (press Ctrl-C again to kill it)"), (
        "the status line left no trace, nor did ^C"
    )
    assert "segue: cancelled; the turn has ended" in screen
    assert "       Nothing was lost: the message is kept as #1. " in "\n".join(screen)


EVIL = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m\x9b5A\x08\x08\x07bell\rback\x1bcreset\u202eturned"


def test_nothing_that_a_terminal_would_obey_reaches_it(segue: Program) -> None:
    prompt = f"[[shell echo {EVIL}; exit 3]][[slow 0.5 9]][[say one {EVIL} two]]"
    code, output = on_terminal(segue, "run", "t1", prompt, "--agent", "rehearsal", "--permission", "full")
    assert code == 0
    assert beside_our_own(output) == []
    assert any("├ shell echo" in line for line in left_on_screen(output))


def test_plain_lines_are_harmless_too(segue: Program) -> None:
    prompt = f"[[shell echo '{EVIL}' >&2; exit 3]][[say done]]"
    ran = segue("run", "t1", prompt, "--agent", "rehearsal", "--permission", "full")
    assert ran.stdout == "done\n"
    assert "├ shell echo" in ran.stderr
    assert "exit 3" in ran.stderr
    assert beside_our_own(ran.stderr) == []


@pytest.mark.parametrize("columns", [20, 8])
def test_a_narrow_terminal_shows_everything_once(segue: Program, columns: int) -> None:
    words = " ".join(f"word{n}" for n in range(12))
    prompt = f"[[shell sleep 1; echo a rather long command line]][[slow 1 9]][[say {words}]]"
    code, output = on_terminal(
        segue, "run", "t1", prompt, "--agent", "rehearsal", "--permission", "full", columns=columns
    )
    screen = Wrapping(columns).feed(output)
    assert code == 0
    everything = "".join(screen).replace(" ", "")
    assert everything.count(words.replace(" ", "")) == 1
    assert "●" not in everything, "the status line left no traces"
    assert everything.count("├") == 1


def test_a_terminal_that_changes_its_size_or_goes_away_does_no_harm(segue: Program, tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    crashes = tmp_path / "crashes"
    crashes.mkdir()
    process = subprocess.Popen(
        [
            *SEGUE,
            "run",
            "t1",
            "[[shell echo hello]][[slow 6 40]][[say one two three]]",
            "--agent",
            "rehearsal",
        ],
        cwd=segue.cwd,
        env={**segue.env, "TERM": "xterm", "TMPDIR": str(crashes)},
        stdin=subprocess.DEVNULL,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    os.close(follower)
    seen = b""
    for columns in (3, 200, 1, 40):
        fcntl.ioctl(leader, termios.TIOCSWINSZ, struct.pack("HHHH", 5, columns, 0, 0))
        seen += os.read(leader, 65536)
        time.sleep(0.3)
    os.close(leader)
    assert process.wait(timeout=30) == 0, "the turn goes on"
    assert list(crashes.iterdir()) == []
    assert "●".encode() in seen


def test_a_terminal_that_becomes_narrower_and_wider_shows_every_line_once(
    segue: Program, tmp_path: Path
) -> None:
    gate, said = tmp_path / "gate", " ".join(f"word{n}" for n in range(60))
    wait = f"while [ ! -e {gate} ]; do sleep 0.1; done"
    prompt = f"[[shell {wait}]][[slow 2 40]][[say {said}]]"
    options = ("--agent", "rehearsal", "--permission", "full")
    with Terminal(segue, "run", "t1", prompt, *options, columns=100) as terminal:
        terminal.until("├ shell while")
        for columns in (60, 33, 90, 20, 40, 100, 25):
            terminal.until("●", 2)
            terminal.resize(columns)
        gate.touch()
        terminal.until("word0")
        for columns in (30, 70, 22, 80):
            terminal.resize(columns)
            terminal.until("●", 2)
        while terminal.read():
            pass
        assert terminal.process.wait(timeout=10) == 0
    everything = "".join(terminal.screen.shown).replace(" ", "")
    assert everything.count("├shellwhile") == 1
    assert "●" not in everything, "the status line left no trace"
    assert everything.count(said.replace(" ", "")) == 1
    assert everything.count("──rehearsal·fresh") == 1


LONG, SHORT = "x" * 70, "status"


def sized(leader: int, columns: int) -> None:
    fcntl.ioctl(leader, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


def written(leader: int, last: str) -> str:
    """What was written to the terminal, up to these last words."""
    data = b""
    while last not in data.decode("utf-8", "ignore"):
        assert select.select([leader], [], [], 20)[0], f"{last} was not written"
        data += os.read(leader, 65_536)
    return data.decode()


@pytest.mark.parametrize(
    ("drawn", "columns"),
    [
        ([LONG, LONG, SHORT], 80),
        ([LONG, LONG, SHORT], 30),
        ([LONG, LONG, LONG], 35),
        ([LONG, SHORT, LONG], 9),
        ([LONG, SHORT], 200),
    ],
)
def test_what_is_drawn_is_erased_whatever_the_width_is_by_then(
    drawn: list[str], columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XTERM_VERSION", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    leader, follower = pty.openpty()
    screen = Wrapping(80)
    with os.fdopen(follower, "w") as out:
        canvas = Canvas(out)
        sized(leader, 80)
        canvas.write("before\n")
        canvas.draw(drawn)
        assert screen.feed(written(leader, drawn[-1])) == ["before", *drawn]
        sized(leader, columns)
        screen.resize(columns)
        canvas.draw(["drawn"])
        canvas.write("behind\n")
        canvas.flush()
        assert screen.feed(written(leader, "behind\r\n")) == ["before", "behind"]
    os.close(leader)


@pytest.mark.parametrize(("name", "value"), [("XTERM_VERSION", "XTerm(390)"), ("TERM", "rxvt-unicode")])
def test_a_terminal_that_cuts_lines_off_keeps_what_stands_above(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.setenv(name, value)
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as out:
        canvas = Canvas(out)
        sized(leader, 80)
        canvas.draw([LONG, SHORT])
        sized(leader, 30)
        canvas.write("behind\n")
        canvas.flush()
        assert written(leader, "behind\r\n").count("\x1b[A") == 1, "one row up to the line above"
    os.close(leader)
