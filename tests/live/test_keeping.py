"""Sessions of the real CLIs come back from our copies: what was deleted, and what another host has."""

from __future__ import annotations

import shutil

import pytest

from tests.live.talk import MOST, NEWEST, QUICK, Said, Talk

FIRST, THIRD = "remember number 456, said first", "what number?"


def delete(talk: Talk, session: str) -> int:
    """Everything that bears the session's id, and nothing else; how much that was."""
    roots = (talk.home(talk.env["SEGUE_DEFAULTS_AGENT"]), talk.place / "segue" / "runners")
    found = [path for root in roots for path in sorted(root.rglob(f"*{session[:8]}*"))]
    for path in found:
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    return len(found)


def went_on(turn: Said, first: Said) -> None:
    """By its own session, with nothing of the conversation as text."""
    assert turn.mode == "resume", turn.failed()
    assert "456" in turn.text
    assert turn.sent.count(FIRST) == 1
    assert turn.turn["sent"] == {"native_messages": 4, "text_messages": 1, "bytes": len(THIRD)}
    assert len(turn.turn["attempts"]) == 1
    assert turn.new_bytes < first.new_bytes / 2


@pytest.mark.parametrize("talk", MOST, indirect=True)
def test_a_deleted_session_is_restored_and_resumed(talk: Talk) -> None:
    first = talk.run(FIRST)
    session = str(talk.run("[[say the-second-answer]]").turn["session_id"])
    assert delete(talk, session)
    third = talk.run(THIRD)
    went_on(third, first)
    (notice,) = third.turn["notices"]
    assert notice.endswith("'s session was gone from disk; restored from Segue's copy")
    assert notice in third.stderr
    fourth = talk.run("and now?")
    assert (fourth.mode, fourth.turn["notices"]) == ("resume", [])
    assert fourth.sent.count(FIRST) == 1


@pytest.mark.parametrize("talk", QUICK, indirect=True)
def test_another_host_goes_on_with_the_session(talk: Talk) -> None:
    """The same home as it was before anything was said stands for the home on another machine."""
    agent = talk.env["SEGUE_DEFAULTS_AGENT"]
    home, other = talk.home(agent), talk.place / "other"
    shutil.copytree(home, other)
    first = talk.run(FIRST, SEGUE_STORE_HOST="alpha")
    talk.run("[[say the-second-answer]]", SEGUE_STORE_HOST="alpha")
    home.rename(talk.place / "alpha")
    other.rename(home)
    (talk.place / "segue" / "host").unlink()  # by this a machine is known, not by its name
    third = talk.run(THIRD, SEGUE_STORE_HOST="beta")
    went_on(third, first)
    (notice,) = third.turn["notices"]
    assert notice.endswith("'s session was on alpha; restored here from Segue's copy")
    fourth = talk.run("and now?", SEGUE_STORE_HOST="beta")
    assert (fourth.mode, fourth.turn["notices"]) == ("resume", [])


@pytest.mark.parametrize("talk", NEWEST[:1], indirect=True)
def test_what_was_done_with_tools_comes_back_too(talk: Talk) -> None:
    talk.run("remember number 456 [[shell echo tool-was-here]]", "--permission", "full")
    session = str(talk.run("hello").turn["session_id"])
    assert delete(talk, session)
    third = talk.run(THIRD)
    assert third.mode == "resume"
    assert "tool-was-here" in third.sent
