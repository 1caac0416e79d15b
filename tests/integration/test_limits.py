"""Usage limits and what pays, through the command line and the API, with the rehearsal agent."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from tests.integration.conftest import Program
from tests.integration.talk import Talk, rehearsing


@pytest.fixture
def talk(segue: Program) -> Talk:
    return rehearsing(segue)


def check_of(checks: list[dict[str, Any]]) -> dict[str, Any]:
    return next(each for each in checks if each["check"] == "limits")


def log_in(talk: Talk, **fields: str) -> None:
    home = talk.sessions.parent
    home.mkdir(parents=True, exist_ok=True)
    (home / "login.json").write_bytes(msgspec.json.encode(fields))


def test_a_turn_tells_what_is_used(talk: Talk) -> None:
    before = time.time() * 1000
    turn = talk.run("[[limit 5h 0.82 3600]][[limit 7d 0.31 200000]][[say hi]]").turn
    five, week = turn["limits"]
    assert (five["window"], five["used"], five["source"], five["age"]) == ("5h", 0.82, "stream", 0)
    assert -1000 < five["resets_at"] - before - 3_600_000 < 30_000  # it is told in whole seconds
    assert (week["window"], week["used"]) == ("7d", 0.31)
    again = talk.run("hello").turn
    assert [(each["window"], each["used"]) for each in again["limits"]] == [("5h", 0.82), ("7d", 0.31)]
    assert check_of(again["why"])["verdict"] == "pass"
    assert check_of(again["why"])["detail"] == "5h limit 82% used, 7d limit 31% used"


def test_nothing_is_told_where_nothing_is_known(talk: Talk) -> None:
    turn = talk.run("hello").turn
    assert (turn["limits"], turn["pays"]) == (None, "unknown")
    assert check_of(talk.why("hello")["checks"])["verdict"] == "skip"


def test_why_warns_and_rules_nothing_out(talk: Talk) -> None:
    talk.run("[[limit 5h 0.93 7500]][[say hi]]")
    found = talk.why("hello")
    check = check_of(found["checks"])
    assert (found["mode"], check["verdict"], check["bars"]) == ("resume", "fail", [])
    assert check["detail"].startswith("5h limit 93% used, resets in 2 h ")
    (limit,) = found["limits"]
    assert (limit["window"], limit["used"]) == ("5h", 0.93)
    assert "5h limit 93% used" in talk("why", "hello").stdout


def test_a_refusal_is_a_limit_until_its_reset(talk: Talk) -> None:
    turn = talk.run("[[error 429 retry-after 3]]", "--retries", "0", code=75).turn
    (limit,) = turn["limits"]
    assert (limit["window"], limit["used"], limit["source"]) == ("unknown", 1.0, "failure")
    assert limit["resets_at"] == turn["failure"]["until"]
    assert check_of(talk.why("hello")["checks"])["detail"].startswith("usage limit used up, resets in ")
    time.sleep(max(0.0, limit["resets_at"] / 1000 - time.time()) + 0.1)
    found = talk.why("hello")
    assert (found["limits"], check_of(found["checks"])["verdict"]) == (None, "skip")


def test_a_refused_window_is_named(talk: Talk) -> None:
    turn = talk.run("[[limit 5h 1 60]][[error 429 retry-after 60]]", "--retries", "0", code=75).turn
    assert [(each["window"], each["used"]) for each in turn["limits"]] == [("5h", 1.0)]


def test_each_login_has_its_own_limits(talk: Talk) -> None:
    log_in(talk, account="ann")
    talk.run("[[limit 5h 0.95 3600]][[say hi]]")
    log_in(talk, account="bob")
    assert talk.run("hello").turn["limits"] is None
    log_in(talk, account="ann")
    assert [each["used"] for each in talk.run("hello").turn["limits"]] == [0.95]


def test_a_change_of_what_pays_is_told(talk: Talk) -> None:
    log_in(talk, account="ann", pays="subscription")
    first = talk.run("hello")
    assert (first.turn["pays"], first.turn["notices"]) == ("subscription", [])
    log_in(talk, account="ann", pays="api_key")
    words = "now paid by an API key, before by a subscription"
    found = talk.why("hello")
    check = check_of(found["checks"])
    assert (found["pays"], check["verdict"], check["bars"], check["detail"]) == ("api_key", "fail", [], words)
    second = talk.run("hello again")
    assert (second.mode, second.turn["pays"]) == ("resume", "api_key")
    assert second.turn["notices"] == [words]
    assert talk.run("and again").turn["notices"] == []


def test_what_the_agent_says_counts_more(talk: Talk) -> None:
    log_in(talk, account="ann", pays="subscription")
    talk.run("hello")
    talk.segue.env["REHEARSAL_PAYS"] = "cloud"
    turn = talk.run("hello again").turn
    assert turn["pays"] == "cloud"
    assert turn["notices"] == ["now paid by a cloud account, before by a subscription"]


def test_the_event_is_told(talk: Talk) -> None:
    said = talk("run", "[[limit 5h 0.5 60]][[say hi]]", "--events").stdout
    events = [msgspec.json.decode(line) for line in said.splitlines()]
    (event,) = [each for each in events if each.get("type") == "limit"]
    assert (event["window"], event["used"]) == ("5h", 0.5)
