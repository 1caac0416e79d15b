"""What an agent may do: as said now, remembered for its voice, or configured; and what it cannot honour."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Program
from tests.integration.talk import AGENT, OTHER, Talk, rehearsing
from tests.integration.terminals import on_terminal

WRITE = "[[shell touch made]][[say done]]"


def made(talk: Talk) -> bool:
    """Whether the shell ran since it was last asked."""
    file = talk.segue.cwd / "made"
    there = file.exists()
    file.unlink(missing_ok=True)
    return there


def terms(turn: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = turn["terms"]
    return found


# --- names and defaults that an agent does not have --------------------------------------------------


@pytest.mark.parametrize("option", ["--allow-tool", "--deny-tool"])
def test_a_tool_that_the_agent_does_not_know_is_refused_with_its_list(segue: Program, option: str) -> None:
    talk = rehearsing(segue)
    ran = talk("run", "hi", option, "Bash", code=2)
    assert ran.stderr.count("\n") == 1
    assert f'has no tool "Bash" ({option}); did you mean shell? Its tools: ask_user, read' in ran.stderr
    assert talk("run", "hi", option, "shel", code=2).stderr.count("did you mean shell?") == 1
    assert segue("log", "t").code == 2, "nothing was said by that"


def test_a_default_that_the_agent_does_not_know_is_left_out_and_said(segue: Program) -> None:
    segue.config('[defaults]\nagent = "rehearsal"\ndeny_tools = ["Bash", "write"]\nbudget = 1.0\n')
    turn = Talk(segue).run("[[write a.txt x]][[say done]]", "--permission", "full").turn
    assert (turn["status"], terms(turn)["deny_tools"], terms(turn)["budget_usd"]) == ("ok", ["write"], None)
    assert not (segue.cwd / "a.txt").exists(), "what it knows is denied"
    assert any('has no tool "Bash", so it is not refused' in notice for notice in turn["notices"])
    assert any("[defaults] budget has no effect" in notice for notice in turn["notices"])
    plain = segue("run", "t", "hi")
    assert 'has no tool "Bash", so it is not refused in this turn' in plain.stderr
    assert 'has no tool "Bash"' in segue("why", "t").stdout, "and it is said before"


def test_defaults_that_a_declared_agent_cannot_honour_do_not_stop_it(segue: Program) -> None:
    segue.config(
        f'{OTHER}\n[defaults]\nagent = "other"\npermission = "full"\nallow_tools = ["x"]\nmax_turns = 3\n'
    )
    turn = Talk(segue).run("hi").turn
    assert (turn["status"], terms(turn)["permission"], terms(turn)["allow_tools"]) == ("ok", "default", [])
    told = "\n".join(turn["notices"])
    assert "the turn runs with default, which grants less" in told
    assert "allow_tools has no effect" in told
    assert "max_turns has no effect" in told


def test_a_default_permission_is_never_widened(segue: Program) -> None:
    segue.config(f'{OTHER}\n[defaults]\nagent = "other"\npermission = "read"\n')
    ran = Talk(segue)("run", "hi", code=2)
    assert (
        "does not support --permission read ([defaults] permission), nor anything that grants less"
        in ran.stderr
    )
    assert Talk(segue).run("hi", "--permission", "default").turn["status"] == "ok"


@pytest.mark.parametrize(
    "option", [("--budget", "1"), ("--max-turns", "2"), ("--permission", "edit"), ("--allow-tool", "x")]
)
def test_an_option_that_the_agent_cannot_do_is_refused(segue: Program, option: tuple[str, str]) -> None:
    segue.config(f'{OTHER}\n[defaults]\nagent = "other"\n')
    ran = Talk(segue)("run", "hi", *option, code=2)
    assert f"other does not support {option[0]}" in ran.stderr


# --- remembered per voice -----------------------------------------------------------------------------


def test_a_permission_is_remembered_shown_and_taken_back(segue: Program) -> None:
    talk = rehearsing(segue)
    first = talk.run(WRITE, "--permission", "edit").turn
    assert (made(talk), terms(first)["remembered"]) == (True, [])
    again = segue("run", "t", WRITE)
    assert made(talk)
    assert again.stderr.splitlines()[-1].startswith("── rehearsal · resume · edit, remembered · ")
    assert "may: edit, remembered" in segue("why", "t").stdout
    assert terms(talk.why()) | {"questions": None} == {
        "permission": "edit",
        "allow_tools": [],
        "deny_tools": [],
        "max_turns": None,
        "budget_usd": None,
        "questions": None,
        "remembered": ["permission"],
    }
    talk.run(WRITE, "--permission", "default")
    assert not made(talk)
    assert (terms(talk.run(WRITE).turn)["permission"], made(talk)) == ("default", False)


def test_each_voice_has_its_own(segue: Program) -> None:
    talk = rehearsing(segue)
    talk.run(WRITE, "--permission", "full", "--role", "coder")
    assert made(talk)
    talk.run(WRITE, "--role", "reviewer")
    assert not made(talk), "another role was told nothing"
    talk.run(WRITE, "--role", "coder")
    assert made(talk)
    talk.segue("run", "elsewhere", WRITE)
    assert not made(talk), "nor was another conversation"


def test_tool_lists_are_remembered_and_none_takes_them_back(segue: Program) -> None:
    talk = rehearsing(segue)
    talk.run("hi", "--permission", "full", "--deny-tool", "shell")
    turn = talk.run(WRITE).turn
    assert (made(talk), terms(turn)["remembered"]) == (False, ["permission", "deny_tools"])
    assert segue("run", "t", "hi").stderr.splitlines()[-1].count("full, without shell, remembered") == 1
    assert "use it alone" in talk("run", "hi", "--deny-tool", "none", "--deny-tool", "read", code=2).stderr
    talk.run(WRITE, "--deny-tool", "none")
    assert made(talk)
    assert terms(talk.run("hi").turn)["deny_tools"] == []


def test_what_was_said_goes_before_a_default_and_what_is_asked_only_in_thought_is_not_kept(
    segue: Program,
) -> None:
    segue.config('[defaults]\nagent = "rehearsal"\npermission = "full"\n')
    talk = Talk(segue)
    assert terms(talk.run("hi", "--permission", "read").turn)["permission"] == "read"
    assert terms(talk.why("--permission", "full"))["permission"] == "full"
    assert terms(talk.run("hi").turn)["permission"] == "read"


def test_a_fork_may_do_what_the_conversation_may(segue: Program) -> None:
    talk = rehearsing(segue)
    talk.run(WRITE, "--permission", "full")
    assert made(talk)
    assert segue("fork", "t", "other").code == 0
    Talk(segue, "other").run(WRITE)
    assert made(talk)


# --- questions ---------------------------------------------------------------------------------------

ASK = "[[ask Which colour? | red | blue]]"


def offered(turn: dict[str, Any]) -> bool | None:
    found: bool | None = terms(turn)["questions"]
    return found


def test_nobody_is_asked_where_nobody_can_answer(segue: Program) -> None:
    talk = rehearsing(segue)
    turn = talk.run(ASK).turn
    assert offered(turn) is False
    assert turn["text"] == "Which colour? (1) red (2) blue", "it could not ask, so it said what it would"


def test_a_session_keeps_what_it_began_with(segue: Program) -> None:
    talk = rehearsing(segue)
    assert offered(talk.run("hi", "--questions", "on").turn) is True
    kept = talk.run("hi", "--questions", "off")
    assert (kept.mode, offered(kept.turn)) == ("resume", True)
    assert kept.turn["notices"] == [
        "questions stay on in this session, as when it started;"
        " only a new session (--fresh-session) can change this"
    ]
    assert (
        "questions: on, as when its session started; --fresh-session can change it"
        in segue("why", "t").stdout
    )
    assert talk("edit", "#3", "hi again").code == 0
    assert (talk.why()["mode"], talk.why()["terms"]["questions"]) == ("branch", True)
    fresh = talk.run("hi", "--fresh-session").turn
    assert (fresh["mode"], offered(fresh)) == ("replay", False)


def test_the_configuration_can_say_it(segue: Program) -> None:
    segue.config('[defaults]\nagent = "rehearsal"\nquestions = "on"\n')
    assert offered(Talk(segue).run("hi").turn) is True


FORM = """\
? Which colour?
  1  red
  2  blue
  a number, or your own words; Enter chooses 1
> """


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ((b"2\n",), "blue"),
        ((b"\n",), "red"),
        ((b"a darker blue\n",), "a darker blue"),
        ((b"7\n", b"2\n"), "blue"),
        ((b"\x04",), "Refused: nobody can answer now."),
    ],
)
def test_at_a_terminal_a_question_is_a_form(segue: Program, typed: tuple[bytes, ...], answer: str) -> None:
    talk = rehearsing(segue)
    keys = tuple(("> ", each) for each in typed)
    code, output = on_terminal(segue, "run", "t", f"{ASK}[[result]]", keys=keys)
    assert code == 0
    assert FORM in output.replace("\r", "")
    assert "{" not in output
    (said,) = [row["text"] for row in talk.log() if row["from"] == "assistant"]
    assert said.startswith(answer)
    assert talk.why()["terms"]["questions"] is True, "the session keeps it, also where nobody can answer"


def test_what_was_typed_before_a_question_does_not_answer_it(segue: Program, tmp_path: Path) -> None:
    """Enter takes the first option: not by a key that was pressed before anybody could see it."""
    talk = rehearsing(segue)
    began, go = tmp_path / "began", tmp_path / "go"
    wait = f"[[shell touch {began}; until [ -e {go} ]; do sleep 0.05; done]]"
    keys = ((began, b"\n"), ("> ", b"2\n"))
    with subprocess.Popen(["sh", "-c", f"until [ -e {began} ]; do sleep 0.1; done; sleep 1; touch {go}"]):
        on_terminal(segue, "run", "t", f"{wait}{ASK}[[result]]", "--permission", "full", keys=keys)
    assert [row["text"] for row in talk.log() if row["from"] == "assistant"] == ["blue"]


@pytest.mark.parametrize(("options", "asks"), [((), False), (("--questions", "on"), True)])
def test_a_session_that_was_begun_elsewhere_is_settled_by_the_turn_that_takes_it_in(
    segue: Program, options: tuple[str, ...], asks: bool
) -> None:
    talk = rehearsing(segue)
    subprocess.run([*AGENT], input=b"hello", cwd=segue.cwd, env=segue.env, check=True, capture_output=True)
    (session,) = talk.sessions.glob("*.jsonl")
    turn = talk.run("hi", "--adopt", session.stem, *options).turn
    assert (turn["mode"], offered(turn)) == ("resume", asks)
    assert offered(talk.run("hi").turn) is asks
