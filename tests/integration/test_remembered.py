"""What a conversation remembers: the second turn needs only the key."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.integration.conftest import Program
from tests.integration.talk import OTHER, Talk, rehearsing, replayed, resumed

ACCOUNTS = """
[accounts.work]
agent = "rehearsal"
home = "{home}/work"
[accounts.private]
agent = "rehearsal"
home = "{home}/private"
"""


def test_the_second_turn_needs_only_the_key(segue: Program, tmp_path: Path) -> None:
    segue.config(ACCOUNTS.format(home=tmp_path))
    talk = Talk(segue)
    who = ("--account", "work", "--model", "special-1", "--role", "coder")
    first = talk.run("remember number 1", "--agent", "rehearsal", *who).turn
    second = talk.run("what number?").turn
    for field in ("agent", "account", "model", "role"):
        assert first[field] == second[field], field
    assert (second["account"], second["model"], second["role"]) == ("work", "special-1", "coder")
    assert (second["mode"], second["text"]) == ("resume", "1")


def test_each_agent_keeps_its_own_model(segue: Program) -> None:
    talk = rehearsing(segue, OTHER)
    talk.run("hi", "--model", "model-of-rehearsal")
    talk.run("hi", "--agent", "other", "--model", "model-of-other")
    back = talk.run("hi", "--agent", "rehearsal")
    assert back.turn["model"] == "model-of-rehearsal"
    assert talk.run("hi", "--agent", "other").turn["model"] == "model-of-other"
    assert talk.run("hi").turn["agent"] == "other"


def test_an_agent_that_never_ran_here_is_not_given_anothers_model(segue: Program) -> None:
    talk = rehearsing(segue, OTHER)
    talk.run("hi", "--model", "model-of-rehearsal")
    assert talk.run("hi", "--agent", "other").turn["model"] != "model-of-rehearsal"


def test_each_role_keeps_its_own_model(segue: Program) -> None:
    talk = rehearsing(segue)
    talk.run("hi", "--role", "coder", "--model", "big")
    assert talk.run("hi", "--role", "reviewer").turn["model"] == "big", "better than nothing"
    talk.run("hi", "--model", "small")
    assert talk.run("hi", "--role", "coder").turn["model"] == "big"
    assert talk.run("hi", "--role", "reviewer").turn["model"] == "small"


def test_an_agent_comes_back_in_its_own_role_with_what_it_had_in_it(segue: Program, tmp_path: Path) -> None:
    segue.config(f"{ACCOUNTS.format(home=tmp_path)}{OTHER}")
    talk = Talk(segue)
    mine = ("--agent", "rehearsal", "--account", "work", "--model", "mine", "--permission", "edit")
    talk.run("remember number 1", *mine, "--allow-tool", "shell")
    reviewed = talk.run("hi", "--agent", "other", "--role", "reviewer")
    assert reviewed.turn["role"] == "reviewer"
    back = talk.run("what number?", "--agent", "rehearsal")
    turn = back.turn
    assert (turn["role"], turn["account"], turn["model"]) == (None, "work", "mine")
    assert (turn["terms"]["permission"], turn["terms"]["allow_tools"]) == ("edit", ["shell"])
    assert (back.mode, back.text) == ("resume", "1")
    assert talk.run("hi", "--agent", "other").turn["role"] == "reviewer", "its own last role"
    assert talk.run("hi").turn["role"] == "reviewer", "the same agent goes on"


def test_an_account_names_its_agent_and_so_its_role(segue: Program, tmp_path: Path) -> None:
    segue.config(f"{ACCOUNTS.format(home=tmp_path)}{OTHER}")
    talk = Talk(segue)
    talk.run("remember number 1", "--account", "work", "--role", "coder", "--model", "mine")
    talk.run("hi", "--agent", "other", "--role", "reviewer")
    back = talk.run("what number?", "--account", "work").turn
    assert (back["role"], back["model"], back["text"]) == ("coder", "mine", "1")
    talk.run("hi", "--agent", "other", "--role", "reviewer")
    assert talk.run("hi", "--account", "private").turn["role"] == "coder"


def test_an_agent_that_never_ran_here_has_no_role(segue: Program) -> None:
    talk = rehearsing(segue, OTHER)
    talk.run("hi", "--role", "reviewer")
    assert talk.run("hi", "--agent", "other").turn["role"] is None


def test_the_closing_line_names_the_role(segue: Program) -> None:
    talk = rehearsing(segue, OTHER)
    talk.run("hi", "--role", "reviewer")
    assert segue("run", "t", "hi").stderr.splitlines()[-1].startswith("── rehearsal as reviewer · resume · ")
    assert segue("run", "t", "hi", "--role", "none").stderr.splitlines()[-1].startswith("── rehearsal · ")


def test_none_takes_back_what_is_remembered(segue: Program, tmp_path: Path) -> None:
    segue.config(ACCOUNTS.format(home=tmp_path))
    talk = Talk(segue)
    talk.run("hi", "--account", "work", "--model", "special", "--role", "coder")
    turn = talk.run("hi", "--role", "none", "--model", "none", "--account", "none").turn
    assert (turn["role"], turn["account"], turn["model"]) == (None, None, "rehearsal-1")
    turn = talk.run("hi").turn
    assert (turn["role"], turn["account"], turn["model"]) == (None, None, "rehearsal-1")


def test_that_there_was_no_account_is_remembered(segue: Program, tmp_path: Path) -> None:
    talk = rehearsing(segue)
    talk.run("remember number 1")
    talk.run("remember number 2", "--role", "coder")
    later = 'agent = "rehearsal"\naccount = "work"\n'
    segue.config(f"{ACCOUNTS.format(home=tmp_path)}[defaults]\n{later}")
    again = talk.run("what number?", "--role", "none")
    resumed(again, "remember number 1")
    assert again.turn["account"] is None
    assert talk.run("what number?", "--role", "coder").turn["account"] is None
    assert talk.retry().turn["account"] is None
    assert Talk(segue, "new").run("hi").turn["account"] == "work"
    assert talk.run("hi", "--account", "work").turn["account"] == "work"
    assert talk.run("what number?", "--account", "none").turn["account"] is None
    assert Talk(segue, "newer").run("hi", "--account", "none").turn["account"] is None


def test_an_account_is_a_wall_and_going_back_resumes(segue: Program, tmp_path: Path) -> None:
    segue.config(ACCOUNTS.format(home=tmp_path))
    talk = Talk(segue)
    talk.run("remember number 1", "--account", "work")
    across = talk.run("what number?", "--account", "private")
    assert (across.mode, across.text) == ("fresh", "I do not know any number.")
    assert "said under another account" in across.ran.stderr
    back = talk.run("what number?", "--account", "work")
    assert (back.mode, back.text, back.turn["sent"]["text_messages"]) == ("resume", "1", 1)


def test_another_directory_must_be_said(segue: Program, tmp_path: Path) -> None:
    talk, other = rehearsing(segue), tmp_path / "other"
    other.mkdir()
    talk.run("remember number 1")
    elsewhere = Talk(Program(segue.home, other, segue.env))
    ran = elsewhere.segue("run", "t", "what number?")
    assert (ran.code, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert str(segue.cwd) in ran.stderr
    assert str(other) in ran.stderr
    assert talk.texts() == ["remember number 1", "Noted: 1."], "nothing was said by that"
    moved = elsewhere.run("what number?", "--cwd", ".")
    replayed(moved, "remember number 1")
    assert "workdir" in moved.failed()
    assert elsewhere.run("what number now?").mode == "resume", "it lives there now"
    assert talk("why", code=2).stderr.count(str(other)) == 1


def test_a_symlink_to_the_directory_is_the_directory(segue: Program, tmp_path: Path) -> None:
    talk, link = rehearsing(segue), tmp_path / "link"
    link.symlink_to(segue.cwd)
    talk.run("remember number 1")
    by_link = Talk(Program(segue.home, link, {**segue.env, "PWD": str(link)}))
    resumed(by_link.run("what number?"), "remember number 1")
    resumed(talk.run("what number now?", "--cwd", os.path.relpath(link, segue.cwd)), "remember number 1")


def test_a_first_turn_that_was_killed_is_remembered_too(segue: Program) -> None:
    segue.config(OTHER)
    process = segue.start("run", "t", "[[slow 5]][[say never]]", "--agent", "other", "--events")
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    process.communicate(timeout=20)
    assert Talk(segue).why()["agent"] == "other"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--account", "wrok"), 'there is no account "wrok" in config.toml (known: work, private)'),
        (("--agent", "claud"), "did you mean claude?"),
        (("--agent", "other", "--account", "work"), "other"),
    ],
)
def test_a_wrong_name_is_one_line(segue: Program, tmp_path: Path, args: tuple[str, ...], says: str) -> None:
    segue.config(ACCOUNTS.format(home=tmp_path))
    ran = segue("run", "t", "hi", *args)
    assert (ran.code, ran.stderr.count("\n")) == (2, 1)
    assert says in ran.stderr
