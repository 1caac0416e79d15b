"""The guards of a resume, as simple systems have them: resume, else everything as text. Both halves each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import Program
from tests.integration.talk import AGENT, OTHER, SEEDS, Talk, declared, rehearsing, replayed, resumed

ONE, TWO = "remember number 456", "[[say answer-two]]"
SAID = (ONE, "Noted: 456.", TWO)


@pytest.fixture
def talk(segue: Program) -> Talk:
    """Two turns have been taken."""
    talk = rehearsing(segue, SEEDS + OTHER)
    assert talk.run(ONE).mode == "fresh"
    assert talk.run(TWO).mode == "resume"
    return talk


def test_happy_path(talk: Talk) -> None:
    third = talk.run("what number?")
    resumed(third, *SAID)
    assert third.prompt == "what number?"
    assert third.text == "456"
    assert third.turn["sent"] == {"native_messages": 4, "text_messages": 1, "bytes": len("what number?")}


def test_agent_switch(talk: Talk) -> None:
    other = talk.run("what number?", "--agent", "other")
    replayed(other, *SAID)
    assert other.text == "456"
    assert "other has no session in this conversation yet" in other.failed()["pin"]


@pytest.mark.parametrize("retry", [False, True])
def test_force_fresh(talk: Talk, retry: bool) -> None:
    if retry:
        talk.run("what number?")
        again = talk.retry("--fresh-session")
    else:
        again = talk.run("what number?", "--fresh-session")
    replayed(again, *SAID)
    assert again.text == "456"
    assert again.failed()["fresh_session"] == "a new session was asked for"


def test_history_edit(talk: Talk) -> None:
    talk("edit", "#1", "remember number 789")
    after = talk.run("what number?")
    replayed(after, "remember number 789", "Noted: 456.", TWO)
    assert ONE not in after.prompt
    assert (after.text, after.failed()["history"]) == ("789", "#1 was edited")


def test_an_edit_of_what_another_agent_said_does_not_cost_the_session(talk: Talk) -> None:
    talk.run("[[say from-other]]", "--agent", "other")
    resumed(talk.run("[[say back]]", "--agent", "rehearsal"), *SAID)
    talk("edit", "#6", "from-other, edited")
    after = talk.run("[[recall from-other, edited]]")
    resumed(after, *SAID)
    assert after.text == "from-other, edited"
    assert "edited: this replaces what you had" in after.prompt


@pytest.mark.parametrize("command", ["truncate", "retry"])
def test_cross_agent_boundary(talk: Talk, command: str) -> None:
    talk.run("[[say from-other]]", "--agent", "other")
    talk.run("[[say said-after-other]]", "--agent", "rehearsal")
    if command == "truncate":
        talk("truncate", "#6")
    else:
        assert talk.retry("#5", "--cut").turn["agent"] == "other"
    after = talk.run("what number?", "--agent", "rehearsal")
    replayed(after, *SAID)
    assert "said-after-other" not in after.prompt
    assert after.text == "456"


def test_work_dir(talk: Talk, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    moved = talk.run("what number?", "--cwd", str(other))
    replayed(moved, *SAID)
    assert moved.text == "456"
    assert str(other) in moved.failed()["workdir"]


def program(path: Path) -> list[str]:
    """A program of its own that is the rehearsal agent."""
    path.write_text(f'#!/bin/sh\nexec {" ".join(AGENT)} "$@"\n')
    path.chmod(0o755)
    return [str(path)]


def test_same_runtime(segue: Program, tmp_path: Path) -> None:
    talk = rehearsing(segue, SEEDS + declared("cli", program(tmp_path / "cli")))
    talk.run(ONE, "--agent", "cli")
    resumed(talk.run(TWO), ONE)
    rehearsing(segue, SEEDS + declared("cli", program(tmp_path / "fork-of-cli")))
    after = talk.run("what number?")
    replayed(after, *SAID)
    assert after.text == "456"
    assert "fork-of-cli" in after.failed()["runtime"]
    resumed(talk.run("[[say go on]]"), "what number?")


def test_an_update_of_the_program_is_no_other_program(segue: Program, tmp_path: Path) -> None:
    talk = rehearsing(segue, SEEDS + declared("cli", program(tmp_path / "cli")))
    talk.run(ONE, "--agent", "cli")
    (tmp_path / "cli").write_text((tmp_path / "cli").read_text() + "# a newer one\n")
    resumed(talk.run("what number?"), ONE)


REFUSING = """#!/bin/sh
case "$*" in *--resume*)
    echo '{"type":"end","ok":false,"error":{"kind":"session_rejected","reason":"not_found","message":"gone"}}'
    exit 1;;
esac
exec AGENT "$@"
"""


def test_runtime_rejection_falls_back_once(segue: Program, tmp_path: Path) -> None:
    wrapper = tmp_path / "refusing"
    wrapper.write_text(REFUSING.replace("AGENT", " ".join(AGENT)))
    wrapper.chmod(0o755)
    talk = rehearsing(segue, f'{SEEDS}[agents.rehearsal]\ncommand = ["{wrapper}"]\n')
    talk.run(ONE)
    after = talk.run("what number?")
    replayed(after, ONE, "Noted: 456.")
    assert after.text == "456"
    assert [(each["mode"], each["outcome"]) for each in after.turn["attempts"]] == [
        ("resume", "session_rejected"),
        ("replay", "ok"),
    ]
    said = "Rehearsal refused the session (it is gone from disk); sent the conversation as text instead."
    assert after.turn["notices"][0] == said
    assert f"segue: {said}" in after.ran.stderr
    assert "resume → replay" in after.ran.stderr


def test_capability(segue: Program) -> None:
    talk = rehearsing(segue, SEEDS + declared("cli", AGENT, resumes=False))
    talk.run(ONE, "--agent", "cli")
    after = talk.run("what number?")
    replayed(after, ONE, "Noted: 456.")
    assert after.text == "456"
    assert "cannot resume a session" in after.failed()["capability"]
    replayed(talk.run("and now?"), ONE, "Noted: 456.", "what number?")


@pytest.mark.parametrize("harm", ["deleted", "damaged"])
def test_a_session_that_is_not_what_it_was(talk: Talk, harm: str) -> None:
    talk.segue.env["SEGUE_KEEP_ENABLED"] = "false"  # no copy of ours is used
    for file in talk.sessions.glob("*.jsonl"):
        file.unlink() if harm == "deleted" else file.write_bytes(b"nonsense\n" + file.read_bytes())
    after = talk.run("what number?")
    replayed(after, *SAID)
    assert after.text == "456"
    reason = "gone from disk" if harm == "deleted" else "it is damaged"
    assert any(reason in notice for notice in after.turn["notices"])
    assert "Your earlier session is lost" in after.prompt


def test_switched_off(talk: Talk) -> None:
    rehearsing(talk.segue, "[continuity]\nenabled = false\n")
    replayed(talk.run("what number?"), *SAID)
    replayed(talk.run("what number now?"), *SAID, "what number?")
