"""What the surroundings may not do: a project's file, a misspelt variable, a HOME that is not set."""

from __future__ import annotations

import os
import pwd
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.conftest import Program
from tests.integration.talk import rehearsing

PROJECT = '[defaults]\nmodel = "dear-1"\npermission = "full"\n[recap]\nmax_bytes = 9999999\n'


def test_what_a_projects_file_may_not_say_is_mentioned_and_its_model_too(segue: Program) -> None:
    talk = rehearsing(segue)
    (segue.cwd / "segue.toml").write_text(PROJECT)
    (segue.cwd / "below").mkdir()
    turn = talk.run("hi").turn
    said = [
        "segue.toml:3: [defaults] permission is ignored, because this directory is not trusted (segue trust)",
        "segue.toml:5: max_bytes = 9999999 is ignored, your limit is 24000",
    ]
    assert turn["model"] == "dear-1"
    assert turn["notices"] == [*said, "model dear-1 (from ./segue.toml)"]
    plain = segue("run", "u", "hi", "--cwd", "below").stderr.splitlines()
    assert plain[:2] == [f"segue: {each}" for each in said]
    assert plain[-1].startswith("── rehearsal · model dear-1 (from ../segue.toml) · ")
    own = segue("run", "t", "hi", "--model", "mine").stderr.splitlines()
    assert own[-1].startswith("── rehearsal · ")
    assert "segue.toml" not in own[-1]
    for command in (("ls",), ("why", "t"), ("sessions", "ls")):
        ran = segue(*command)
        assert (ran.code, ran.stderr.splitlines()) == (0, [f"segue: {each}" for each in said]), command
    began = segue("run", "v", "hi", "--cwd", "below", "--json").turn
    ran = segue("sessions", "continue", began["session_id"], "hi", "--cwd", "below")
    assert ran.stderr.count(said[0]) == 1, "not by the command and by its turn"
    elsewhere = replace(segue, cwd=segue.home.parent)
    ran = elsewhere("why", "t", "--cwd", str(segue.cwd))
    assert ran.stderr.splitlines() == [f"segue: {each}" for each in said], "that of the turn's directory"
    assert segue("trust").code == 0
    assert segue("ls").stderr == ""


def test_a_misspelt_variable_is_mentioned_once_and_does_no_harm(segue: Program) -> None:
    ran = segue("run", "t", "hi", "--agent", "rehearsal", SEGUE_MODEL="x", SEGUE_MARK="1")
    assert ran.code == 0
    assert ran.stderr.count("SEGUE_") == 2
    assert ran.stderr.startswith("segue: SEGUE_MODEL has no effect; did you mean SEGUE_DEFAULTS_MODEL?\n")


@pytest.mark.parametrize("home", [None, "", "."])
def test_without_a_home_nothing_is_written_into_the_project(segue: Program, home: str | None) -> None:
    env = {name: value for name, value in segue.env.items() if name != "HOME"}
    # The agent's home is ours to choose: this user's own shall not be written to by a test.
    elsewhere = {"XDG_DATA_HOME": str(segue.home.parent / "data")} | ({} if home is None else {"HOME": home})
    segue.env = {**env, **elsewhere}
    segue.config('[defaults]\nagent = "rehearsal"\npermission = "full"\n')
    ran = segue("run", "t", "[[shell echo $HOME]]", "--events")
    assert ran.code == 0, ran.stderr
    assert os.listdir(segue.cwd) == []
    assert pwd.getpwuid(os.getuid()).pw_dir in ran.stdout, "the agent has a home, too"
    assert (Path(segue.env["XDG_DATA_HOME"]) / "segue-rehearsal" / "sessions").is_dir()
