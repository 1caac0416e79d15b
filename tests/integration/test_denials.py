"""Tools that were refused: told in every turn, and a failure where the caller wants that."""

from __future__ import annotations

import asyncio
import os

import pytest

from segue.app.segue import Segue
from segue.core.tools import DeniedTools
from tests.integration.conftest import Program
from tests.integration.talk import OTHER, Talk, rehearsing

CLAIMS = "[[write a.txt x]][[shell touch b]][[write c.txt x]][[say I wrote the file]]"
REFUSED = {"count": 3, "names": ["write", "shell"]}
WORDS = "3 tool calls were refused: write, shell"


def test_what_was_refused_is_counted_named_and_said(segue: Program) -> None:
    talk = rehearsing(segue)
    spoke = talk.run(CLAIMS)
    assert (spoke.text, spoke.turn["status"], spoke.turn["tools_run"]) == ("I wrote the file", "ok", 0)
    assert spoke.turn["tools_denied"] == REFUSED
    assert spoke.turn["notices"] == [f"{WORDS} (see --permission and --allow-tool)"]
    told = {"code": "notice.denied", "values": {"count": 3, "names": "write, shell"}}
    assert spoke.turn["notice_clauses"] == talk.log()[-1]["notice_clauses"] == [[told]]
    assert WORDS in spoke.ran.stderr
    nothing = talk.run("[[read a.txt]][[say done]]").turn
    assert (nothing["tools_denied"], nothing["notices"]) == ({"count": 0, "names": []}, [])


def test_a_refusal_fails_the_turn_where_that_is_wanted_and_the_answer_stays(segue: Program) -> None:
    talk = rehearsing(segue)
    failed = talk.run(CLAIMS, "--fail-on-denied", code=1)
    turn = failed.turn
    assert (turn["state"], turn["status"], turn["text"]) == ("failed", "failed", "I wrote the file")
    assert turn["failure"] == {
        "kind": "tool_denied",
        "reason": None,
        "message": WORDS,
        "retryable": False,
        "until": None,
    }
    assert (turn["tools_denied"], turn["next"]) == (REFUSED, f"segue retry t {turn['message']}")
    assert [attempt["outcome"] for attempt in turn["attempts"]] == ["ok"]
    assert "Allow it with --permission or --allow-tool, and retry with: segue retry t" in failed.ran.stderr
    said = talk.log()[-1]
    assert (said["from"], said["text"], said["state"]) == ("assistant", "I wrote the file", "failed")
    assert said["failure"]["kind"] == "tool_denied"


def test_after_such_a_failure_the_agent_goes_on_from_its_answer(segue: Program) -> None:
    talk = rehearsing(segue)
    talk.run("[[read no.txt]][[shell touch b]][[say I wrote the file]]", "--fail-on-denied", code=1)
    after = talk.run("go on")
    assert (after.mode, after.prompt) == ("resume", "go on"), "nothing was interrupted, nothing is missing"
    assert "I wrote the file" in after.native


def test_it_is_retried_with_more_permission(segue: Program) -> None:
    talk = rehearsing(segue)
    talk.run(CLAIMS, "--fail-on-denied", code=1)
    assert talk.retry("--fail-on-denied", code=1).turn["failure"]["kind"] == "tool_denied"
    again = talk.retry("--permission", "edit", "--fail-on-denied")
    assert (again.turn["status"], again.turn["tools_denied"]["count"]) == ("ok", 0)
    assert (segue.cwd / "a.txt").read_text() == "x"
    assert len(talk.log()) == 2


def test_without_a_refusal_it_changes_nothing(segue: Program) -> None:
    assert rehearsing(segue).run("[[say done]]", "--fail-on-denied").turn["failure"] is None


def test_another_failure_stays_what_it_is(segue: Program) -> None:
    spoke = rehearsing(segue).run("[[shell touch b]][[error 401]]", "--fail-on-denied", code=1)
    assert spoke.turn["failure"]["kind"] == "auth"
    assert spoke.turn["tools_denied"] == {"count": 1, "names": ["shell"]}


def test_of_a_declared_agent_it_is_unknown_and_the_option_is_refused(segue: Program) -> None:
    segue.config(f'{OTHER}\n[defaults]\nagent = "other"\n')
    talk = Talk(segue)
    assert talk.run("hi").turn["tools_denied"] is None
    refused = talk("run", "hi", "--fail-on-denied", code=2)
    assert "does not report refused tools; leave out --fail-on-denied" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_the_library_has_it_too(segue: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    segue.config('[defaults]\nagent = "rehearsal"\n')
    monkeypatch.chdir(segue.cwd)

    async def go() -> None:
        async with Segue(home=segue.home, env=segue.env) as door:
            turn = await door.run("t", CLAIMS, fail_on_denied=True)
            assert turn.failure is not None
            assert (turn.failure.kind, turn.tools_denied) == (
                "tool_denied",
                DeniedTools(3, ("write", "shell")),
            )
            again = await door.retry("t", permission="full", fail_on_denied=True)
            assert (again.failure, again.tools_denied) == (None, DeniedTools())

    assert os.getcwd() == str(segue.cwd)
    asyncio.run(go())
