"""What a queued run may do, and what it may cost, is fixed when it is queued."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.integration.conftest import Program
from tests.integration.server.test_lost_runs import execute
from tests.integration.server.test_parking import Limited
from tests.integration.talk import Talk, rehearsing

TOUCH = "[[shell touch made]][[say done]]"


def queue(segue: Program, *options: str) -> str:
    queued = segue("run", "t", TOUCH, "--queue", "-q", *options)
    assert queued.code == 0, queued.stderr
    return queued.stdout.strip()


def ran(talk: Talk) -> dict[str, Any]:
    (shown,) = msgspec.json.decode(talk.segue("queue", "run", "t", "--json").stdout)
    turn: dict[str, Any] = shown["turn"]
    return turn


@pytest.mark.parametrize(("before", "after"), [("read", "full"), ("full", "read")])
def test_a_permission_that_is_remembered_later_does_not_apply(
    segue: Program, before: str, after: str
) -> None:
    talk = rehearsing(segue)
    talk.run("hi", "--permission", before)
    queue(segue)
    talk.run("hi", "--permission", after)
    turn = ran(talk)
    assert turn["terms"]["permission"] == before
    assert "permission" in turn["terms"]["remembered"]
    assert (segue.cwd / "made").exists() == (before == "full")
    assert talk.run("hi").turn["terms"]["permission"] == after  # what is remembered stays as it was said last


def test_a_list_of_tools_that_is_remembered_later_does_not_apply(segue: Program) -> None:
    talk = rehearsing(segue)
    talk.run("hi", "--permission", "full", "--deny-tool", "shell")
    queue(segue)
    talk.run("hi", "--deny-tool", "none", "--allow-tool", "read")
    terms = ran(talk)["terms"]
    assert (terms["deny_tools"], terms["allow_tools"]) == (["shell"], [])
    assert not (segue.cwd / "made").exists()


def test_what_is_configured_later_does_not_apply(segue: Program) -> None:
    config = '[defaults]\nagent = "rehearsal"\n'
    segue.config(f'{config}permission = "read"\nmax_turns = 3\nquestions = "off"\n')
    queue(segue)
    segue.config(f'{config}permission = "full"\nmax_turns = 9\nquestions = "on"\nmodel = "other"\n')
    turn = ran(Talk(segue))
    terms = turn["terms"]
    assert (terms["permission"], terms["max_turns"], terms["questions"]) == ("read", 3, False)
    assert turn["model"] != "other"
    assert not (segue.cwd / "made").exists()


def test_what_is_said_with_the_run_itself_applies_and_is_remembered(segue: Program) -> None:
    talk = rehearsing(segue)
    talk.run("hi", "--permission", "read")
    queue(segue, "--permission", "full")
    assert ran(talk)["terms"]["permission"] == "full"
    assert (segue.cwd / "made").exists()
    assert talk.run("hi").turn["terms"]["permission"] == "full"


def test_a_run_that_an_earlier_version_has_queued_still_starts(segue: Program) -> None:
    talk = rehearsing(segue)
    talk.run("hi", "--permission", "read")
    run = queue(segue)
    request = msgspec.json.decode(execute(segue, "SELECT request FROM turns WHERE id = ?", run)[0][0])
    del request["ask"]["fixed"]
    execute(segue, "UPDATE turns SET request = ? WHERE id = ?", msgspec.json.encode(request).decode(), run)
    talk.run("hi", "--permission", "full")
    assert ran(talk)["terms"]["permission"] == "full"


def test_a_run_that_is_parked_keeps_what_it_may_do(segue: Program) -> None:
    limited = Limited(segue)
    limited.limit.unlink()
    limited.talk.run("hi", "--permission", "read")
    limited.limit.touch()
    waiting = segue.start("run", "t", TOUCH, "--park", "--json")
    run = limited.parked()["run"]
    limited.limit.unlink()
    limited.talk.run("hi", "--permission", "full", "--no-daemon")
    assert segue("answer", run, "go on").code == 0, "it asks, because somebody wrote since"
    limited.over()
    out, _ = waiting.communicate(timeout=60)
    assert msgspec.json.decode(out.splitlines()[-1])["terms"]["permission"] == "read"
    assert not (segue.cwd / "made").exists()
