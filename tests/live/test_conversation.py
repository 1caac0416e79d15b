"""Conversations on the real CLIs: what the next turn remembers, and what it was sent for that."""

from __future__ import annotations

import pytest

from tests.live.talk import EVERY, MOST, Talk


@pytest.mark.parametrize("talk", EVERY, indirect=True)
def test_three_turns_recall_the_first_and_send_no_transcript(talk: Talk) -> None:
    first = talk.run("remember number 456, said first")
    second = talk.run("[[say the-second-answer]]")
    third = talk.run("what number?")
    assert (first.mode, second.mode, third.mode) == ("fresh", "resume", "resume")
    assert "456" in third.text
    assert third.sent.count("remember number 456, said first") == 1
    assert third.turn["sent"] == {"native_messages": 4, "text_messages": 1, "bytes": len("what number?")}
    assert third.turn["failure"] is None
    assert third.new_bytes < first.new_bytes / 2


@pytest.mark.parametrize("talk", MOST, indirect=True)
def test_an_edited_message_is_gone_and_the_rest_is_there_once(talk: Talk) -> None:
    talk.run("alpha-one [[say answer-one]]")
    talk.run("beta-two [[say answer-two]]")
    talk.run("gamma-three [[say answer-three]]")
    assert talk("edit", "t", "#3", "delta-two").code == 0
    turn = talk.run("what now?")
    assert turn.mode == "branch", turn.failed()
    assert "beta-two" not in turn.sent
    wanted = [
        "alpha-one",
        "answer-one",
        "delta-two",
        "answer-two",
        "gamma-three",
        "answer-three",
        "what now?",
    ]
    counts = [turn.sent.count(text) for text in wanted]
    # the words of a directive stand in the user's message and in the answer
    assert counts == [1, 2, 1, 1, 1, 2, 1]
    again = talk.run("and then?")
    assert again.mode == "resume"
    assert again.sent.count("delta-two") == 1


@pytest.mark.parametrize("talk", MOST, indirect=True)
def test_a_deleted_session_is_noticed_and_the_turn_still_recalls(talk: Talk) -> None:
    agent = talk.env["SEGUE_DEFAULTS_AGENT"]
    talk.env["SEGUE_KEEP_ENABLED"] = "false"  # our copies have tests of their own
    talk.run("remember number 456")
    session = str(talk.run("hello").turn["session_id"])
    for root in (talk.home(agent), talk.place / "segue" / "runners"):
        for file in [*root.rglob(f"*{session[:8]}*")]:
            if file.is_dir():
                import shutil

                shutil.rmtree(file)
            else:
                file.unlink(missing_ok=True)
    turn = talk.run("what number?")
    assert turn.mode == "replay"
    assert "456" in turn.text
    assert "gone from disk" in turn.failed()["file"]
    assert "gone from disk" in turn.stderr
