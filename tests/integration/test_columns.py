"""Everything that is shown fits the terminal: nothing is wider, and what is cut says so."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from segue.cli.render.table import columns
from tests.integration.conftest import Program
from tests.integration.terminals import left_on_screen, on_terminal

WIDE = "日本語のとても長いタイトルです、これは八十桁に収まらない長さになりますように、もっと長く、もっと"
KEY = "a-conversation-with-a-rather-long-key/and-more"


@pytest.fixture
def told(segue: Program, tmp_path: Path) -> Program:
    """Some conversations, sessions that nobody needs any more, and agents that only have a version."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, version in {"claude": "2.1.325 (Claude Code)", "codex": "codex-cli 0.166.0"}.items():
        program = programs / name
        program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "{version}"\nexit 1\n')
        program.chmod(0o755)
    segue.env["PATH"] = f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    said = (
        (KEY, WIDE, "--role", "reviewer-of-the-changes"),
        ("k", "[[shell echo hello; exit 3]] " + "and so on, " * 20, "--permission", "full"),
        ("k", "[[say once more]]", "--fresh-session", "--deny-tool", "read"),
        ("failed", "[[error 500]]"),
    )
    for key, text, *options in said:
        segue("run", key, text, "--agent", "rehearsal", *options)
    an_hour_ago = time.time() - 3_600  # what was written just now may be running
    for file in tmp_path.rglob("*.jsonl"):
        os.utime(file, (an_hour_ago, an_hour_ago))
    return segue


COMMANDS = (
    "agents",
    "doctor",
    "ls",
    "log k",
    f"log {KEY}",
    "log failed",
    "why k",
    f"why {KEY} --agent codex --role another-reviewer-of-the-changes",
    "sessions ls",
    "sessions ls --all",
    "sessions prune --days 0",
    "sessions restore",
    "sessions search hello",
    "sessions check k",
)


def too_wide(lines: list[str], width: int) -> list[str]:
    """Lines that do not fit; but for a word that is longer than the terminal is wide."""
    return [
        line
        for line in lines
        if columns(line) > width and columns(max(line.split(), key=columns)) <= width - 24
    ]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_is_wider_than_the_terminal(told: Program, width: int) -> None:
    for command in COMMANDS:
        code, output = on_terminal(told, *command.split(), columns=width)
        lines = left_on_screen(output)
        assert code in (0, 1), output
        assert lines, command
        assert too_wide(lines, width) == [], command


def test_what_is_cut_says_so(told: Program) -> None:
    listed = left_on_screen(on_terminal(told, "ls")[1])
    assert KEY in listed, "a long key stays whole, on a line of its own"
    (row,) = [line for line in listed if "日本語" in line]
    assert row.endswith("…")
    for command in ("sessions ls", "sessions prune --days 0", "sessions search hello"):
        lines = left_on_screen(on_terminal(told, *command.split())[1])
        cut = [line for line in lines if "[[shell " in line or "日本" in line]
        assert cut, command
        assert all("…" in line for line in cut), command


def test_prune_has_columns(told: Program) -> None:
    head, *rows = left_on_screen(on_terminal(told, "sessions", "prune", "--days", "0")[1])
    assert head.split() == ["agent", "session", "size", "last", "used", "conversation", "title"]
    listed = [row for row in rows if row.startswith("rehearsal")]
    assert listed
    ends = {found.end() for row in listed if (found := re.search(r" (just now|\d+ min ago)", row))}
    assert ends == {head.index("used") + len("used")}
    assert f"{len(listed)} session" in rows[-2]


def test_one_is_not_many(told: Program) -> None:
    shown = "\n".join(left_on_screen(on_terminal(told, "sessions", "show", "k", columns=200)[1]))
    everything = shown + "\n".join(
        "\n".join(left_on_screen(on_terminal(told, *command.split(), columns=200)[1])) for command in COMMANDS
    )
    assert re.findall(r"(?<![\d,.#])1 (?!is|was|has)\w+s\b", everything) == []


def test_the_line_under_an_answer_is_broken_between_its_parts(told: Program) -> None:
    code, output = on_terminal(
        told, "run", "k", "hi", "--permission", "full", "--deny-tool", "write", columns=60
    )
    screen = left_on_screen(output)
    closing = next(at for at, line in enumerate(screen) if line.startswith("── rehearsal"))
    assert code == 0
    assert len(screen[closing:]) > 1
    assert all(columns(line) <= 60 for line in screen[closing:])
    assert all(line.startswith("   ") for line in screen[closing + 1 :])
    piped = told("run", "k", "hi").stderr.splitlines()
    assert piped[-1].startswith("── rehearsal"), "elsewhere it is one line"


HELPS = (
    *("", "run", "why", "log", "ls", "retry", "edit", "truncate", "undo", "last", "fork", "export", "import"),
    *("rm", "sessions", "agents", "doctor", "rehearse", "trust", "completion"),
    *(
        f"sessions {name}"
        for name in ("ls", "show", "search", "continue", "check", "repair", "restore", "prune")
    ),
)


def test_every_help_fits_80_columns(segue: Program) -> None:
    for command in HELPS:
        code, output = on_terminal(segue, *command.split(), "--help")
        assert code == 0
        assert [line for line in left_on_screen(output) if columns(line) > 80] == [], command
