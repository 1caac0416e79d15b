"""Several agents in one conversation, and programs that change under it: real CLIs, looked at on the wire."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import clis
from tests.live.conftest import OBSTACLE
from tests.live.talk import Talk, talking, update

CLAUDE, CODEX = clis.CLIS["claude"], clis.CLIS["codex"]


def ready(agent: str, version: str) -> None:
    if OBSTACLE:
        pytest.skip(f"no isolation: {OBSTACLE}")
    reason = clis.install(clis.CLIS[agent], version)
    if reason:
        pytest.skip(f"{agent} {version}: {reason}")


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Talk]:
    ready("claude", CLAUDE.newest)
    ready("codex", CODEX.newest)
    with talking(tmp_path, {"claude": CLAUDE.newest, "codex": CODEX.newest}) as talk:
        yield talk


def program(talk: Talk, agent: str, script: str) -> None:
    """Put a script in the place of the agent's program; ``$REAL`` in it is the program itself."""
    link = Path(talk.env["PATH"].split(os.pathsep)[0]) / agent
    real = os.readlink(link)
    link.unlink()
    link.write_text(f'#!/bin/sh\nREAL="{real}"\n{script}\n')
    link.chmod(link.stat().st_mode | stat.S_IXUSR)


def three(talk: Talk) -> None:
    """Claude, then Codex, then Claude again."""
    talk.run("u-one [[say a-one]]", "--agent", "claude")
    talk.run("u-two [[say a-two]]", "--agent", "codex")
    talk.run("u-three [[say a-three]]", "--agent", "claude")


def test_claude_codex_claude(both: Talk) -> None:
    first = both.run("u-one [[say a-one]]", "--agent", "claude")
    second = both.run("u-two [[say a-two]]", "--agent", "codex")
    third = both.run("u-three [[say a-three]]", "--agent", "claude")
    assert (first.mode, second.mode, third.mode) == ("fresh", "replay", "resume")
    assert second.turn["sent"]["text_messages"] == 3
    assert (third.turn["sent"]["native_messages"], third.turn["sent"]["text_messages"]) == (2, 3)
    for said in ("u-one", "u-two", "u-three"):
        assert third.sent.count(said) == 1
    assert third.sent.count("a-two") == 2  # in the user's message to Codex, and as Codex's answer
    assert both.run("what else?", "--agent", "codex").mode == "resume"


def test_editing_what_the_other_said_is_told_once_and_costs_no_session(both: Talk) -> None:
    three(both)
    assert both("edit", "t", "#4", "the other said this instead").code == 0
    told = both.run("go on", "--agent", "claude")
    assert told.mode == "resume", told.failed()
    assert told.sent.count("the other said this instead") == 1
    again = both.run("and on")
    assert (again.mode, again.turn["sent"]["bytes"]) == ("resume", len("and on"))
    assert again.sent.count("the other said this instead") == 1


def test_dropping_what_the_other_said_branches_before_it(both: Talk) -> None:
    three(both)
    assert both("truncate", "t", "#4").code == 0
    turn = both.run("go on", "--agent", "claude")
    assert turn.mode == "branch", turn.failed()
    assert "a-three" not in turn.sent
    assert "u-three" not in turn.sent
    assert [turn.sent.count(text) for text in ("u-one", "u-two", "go on")] == [1, 1, 1]


def test_editing_the_first_message_replays_where_it_was_native_and_corrects_elsewhere(both: Talk) -> None:
    three(both)
    assert both("edit", "t", "#1", "u-uno").code == 0
    codex = both.run("go on", "--agent", "codex")
    assert codex.mode == "resume", codex.failed()
    assert codex.sent.count("u-uno") == 1
    claude = both.run("you too", "--agent", "claude")
    assert claude.mode == "replay", claude.failed()
    assert "u-one" not in claude.sent
    assert claude.sent.count("u-uno") == 1


@pytest.mark.parametrize(
    ("agent", "before", "after", "mode"),
    [
        ("claude", CLAUDE.older, CLAUDE.newest, "resume"),
        ("claude", CLAUDE.newest, CLAUDE.older, "resume"),
        ("codex", CODEX.older, CODEX.newest, "resume"),
        ("codex", CODEX.newest, CODEX.older, "resume"),
        *(
            pytest.param(agent, before, after, mode, marks=pytest.mark.soak)
            for agent, before, after, mode in (
                ("gemini", clis.CLIS["gemini"].older, clis.CLIS["gemini"].newest, "resume"),
                ("gemini", clis.CLIS["gemini"].newest, clis.CLIS["gemini"].older, "replay"),
                ("vibe", clis.CLIS["vibe"].older, clis.CLIS["vibe"].newest, "resume"),
            )
        ),
    ],
)
def test_an_update_between_two_turns(agent: str, before: str, after: str, mode: str, tmp_path: Path) -> None:
    """The program is the same, only its version is another: the session is kept wherever that works."""
    ready(agent, before)
    ready(agent, after)
    with talking(tmp_path, {agent: before}) as talk:
        talk.run("remember number 456 [[say noted-456]]", "--agent", agent)
        update(talk, agent, after)
        turn = talk.run("what number?")
        assert turn.mode == mode, turn.failed()
        assert "456" in turn.text
        assert turn.sent.count("remember number 456") == 1


def test_another_program_of_the_same_agent_does_not_get_the_session(both: Talk, tmp_path: Path) -> None:
    both.run("remember number 456", "--agent", "claude")
    real = os.readlink(Path(both.env["PATH"].split(os.pathsep)[0]) / "claude")
    other = tmp_path / "openclaude"
    version = 'if [ "$1" = --version ]; then echo "2.1.325 (OpenClaude)"; exit; fi'
    other.write_text(f'#!/bin/sh\n{version}\nexec "{real}" "$@"\n')
    other.chmod(0o755)
    both.config(f'[agents.claude]\ncommand = ["{other}"]')
    turn = both.run("what number?")
    assert turn.mode == "replay"
    assert "runtime" in turn.failed()
    assert "456" in turn.text


def test_a_program_that_hides_resume_gets_the_transcript_each_time(both: Talk) -> None:
    program(
        both,
        "claude",
        'case "$*" in *--help*) "$REAL" "$@" | grep -v -e --resume; exit ;; esac\nexec "$REAL" "$@"',
    )
    both.run("remember number 456", "--agent", "claude")
    for _ in range(2):
        turn = both.run("what number?")
        assert turn.mode == "replay"
        assert "capability" in turn.failed()
        assert "456" in turn.text


def test_a_branch_that_was_not_taken_is_noticed_and_not_kept(both: Talk) -> None:
    """Another version may ignore the hidden flag without a word: it goes on from the session's end."""
    both.run("alpha-one [[say answer-one]]", "--agent", "claude")
    both.run("beta-two [[say answer-two]]")
    program(
        both,
        "claude",
        'for word; do shift; case "$word" in --resume-session-at=*) ;; *) set -- "$@" "$word" ;; esac; done\n'
        'exec "$REAL" "$@"',
    )
    assert both("truncate", "t", "#3").code == 0
    turn = both.run("go on")
    assert turn.mode == "branch"
    assert "beta-two" in turn.sent
    assert "did not continue from the place" in turn.stderr
    after = both.run("and on")
    assert after.mode == "replay", after.failed()
    assert "capability" in after.failed()
    assert "beta-two" not in after.sent
