"""The guards of session resume on the real Claude, with the rungs resume, replay and fresh alone.

Each guard has two halves: the session is not resumed, *and* the whole transcript is sent. A turn that does
neither would lose the conversation without a word.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import clis
from tests.live.talk import Said, Talk, talking
from tests.live.test_switching import program, ready

MODES = '[continuity]\nmodes = ["resume", "replay", "fresh"]'
FIRST, SECOND = "u-one [[say a-one]]", "u-two [[say a-two]]"


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    newest = {agent: clis.CLIS[agent].newest for agent in ("claude", "codex")}
    for agent, version in newest.items():
        ready(agent, version)
    with talking(tmp_path, newest) as made:
        made.config(MODES)
        made.env["SEGUE_DEFAULTS_AGENT"] = "claude"
        yield made


def begun(talk: Talk) -> Said:
    talk.run(FIRST)
    return talk.run(SECOND)


def is_whole(turn: Said, *texts: str) -> None:
    """Not resumed, and all of it is there as text, once."""
    assert (turn.mode, turn.turn["resumed"], turn.turn["resumed_from"]) == ("replay", False, None)
    for text in texts:
        assert turn.sent.count(text) == 1, text


def test_the_happy_path_resumes_and_sends_the_new_message_alone(talk: Talk) -> None:
    begun(talk)
    turn = talk.run("u-three")
    assert turn.mode == "resume"
    assert turn.turn["sent"]["bytes"] == len("u-three")


def test_another_agent(talk: Talk) -> None:
    begun(talk)
    is_whole(talk.run("u-three", "--agent", "codex"), "u-one", "u-two", "u-three")


def test_a_fresh_session_is_wished(talk: Talk) -> None:
    begun(talk)
    is_whole(talk.run("u-three", "--fresh-session"), "u-one", "u-two", "u-three")


def test_a_message_is_run_again(talk: Talk) -> None:
    begun(talk)
    talk.run("u-three [[say a-three]]")
    turn = talk("retry", "t", "#3", "--cut", "--json")
    assert turn.code == 0
    is_whole(turn, "u-one", "u-two")
    assert "u-three" not in turn.sent


def test_the_history_was_edited(talk: Talk) -> None:
    begun(talk)
    assert talk("edit", "t", "#1", "u-uno").code == 0
    turn = talk.run("u-three")
    is_whole(turn, "u-uno", "u-two", "u-three")
    assert "u-one" not in turn.sent


def test_what_only_another_agent_said_was_edited(talk: Talk) -> None:
    talk.run(FIRST)
    talk.run(SECOND, "--agent", "codex")
    assert talk("edit", "t", "#4", "other words").code == 0
    turn = talk.run("u-three", "--agent", "claude")
    assert turn.mode == "resume"


def test_the_other_agents_boundary_turn_was_dropped(talk: Talk) -> None:
    talk.run(FIRST, "--agent", "codex")
    talk.run(SECOND, "--agent", "claude")
    assert talk("truncate", "t", "#2").code == 0
    turn = talk.run("u-three", "--agent", "claude")
    is_whole(turn, "u-one", "u-three")
    assert "u-two" not in turn.sent


def test_another_directory(talk: Talk, tmp_path: Path) -> None:
    begun(talk)
    other = tmp_path / "other"
    other.mkdir()
    assert talk("run", "t", "u-three", cwd=other).code == 2
    turn = talk.run("u-three", "--cwd", str(other))
    is_whole(turn, "u-one", "u-two", "u-three")
    assert str(other) in turn.failed()["workdir"]


def test_the_same_directory_by_another_name(talk: Talk, tmp_path: Path) -> None:
    begun(talk)
    link = tmp_path / "link"
    link.symlink_to(talk.cwd)
    assert talk.run("u-three", "--cwd", str(link)).mode == "resume"


def test_another_runtime(talk: Talk, tmp_path: Path) -> None:
    begun(talk)
    other = tmp_path / "other-claude"
    other.symlink_to(clis.CLIS["claude"].program(clis.CLIS["claude"].newest))
    talk.config(f'[agents.claude]\ncommand = ["{other}"]')
    turn = talk.run("u-three")
    is_whole(turn, "u-one", "u-two", "u-three")
    assert "runtime" in turn.failed()


def test_a_rejected_resume_is_tried_again_with_everything(talk: Talk) -> None:
    begun(talk)
    program(
        talk,
        "claude",
        'case "$*" in *--resume=*) set -- -p --resume=00000000-0000-4000-8000-000000000000'
        " --output-format=stream-json --input-format=stream-json --verbose ;; esac\n"
        'exec "$REAL" "$@"',
    )
    turn = talk.run("u-three")
    is_whole(turn, "u-one", "u-two", "u-three")
    assert [attempt["mode"] for attempt in turn.turn["attempts"]] == ["resume", "replay"]
    assert turn.turn["attempts"][0]["outcome"] == "session_rejected"
    assert "refused the session" in turn.stderr


def test_a_program_without_resume(talk: Talk) -> None:
    program(
        talk,
        "claude",
        'case "$*" in *--help*) "$REAL" "$@" | grep -v -e --resume; exit ;; esac\nexec "$REAL" "$@"',
    )
    begun(talk)
    is_whole(talk.run("u-three"), "u-one", "u-two", "u-three")
