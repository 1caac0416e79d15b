"""On every real CLI: a refused write is counted and named, and fails the turn where that is wanted."""

from __future__ import annotations

import pytest

from tests.live.talk import QUICK, Talk

WRITES = {
    "claude": ('[[tool Write {"file_path":"f.txt","content":"x"}]]', "Write"),
    "codex": ("[[shell echo x > f.txt]]", "shell"),
    "gemini": ('[[tool write_file {"file_path":"f.txt","content":"x"}]]', "write_file"),
    "vibe": ("[[write f.txt x]]", "file_system.write_file"),
}


@pytest.mark.parametrize("talk", QUICK, indirect=True)
@pytest.mark.parametrize("posture", ["default", "read"])
def test_a_claim_to_have_written_does_not_hide_that_it_was_refused(talk: Talk, posture: str) -> None:
    write, name = WRITES[talk.env["SEGUE_DEFAULTS_AGENT"]]
    said = talk(
        "run", "t", f"{write}[[say I wrote the file]]", "--json", "--fail-on-denied", "--permission", posture
    )
    turn = said.turn
    assert not (talk.cwd / "f.txt").exists()
    assert (said.code, turn["text"]) == (1, "I wrote the file")
    assert turn["failure"]["kind"] == "tool_denied"
    assert turn["tools_denied"] == {"count": 1, "names": [name]}
    assert f"1 tool call was refused: {name}" in said.stderr
