"""At a limit another account takes the message of a run in the daemon."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.conftest import Program
from tests.integration.server.conftest import Daemon, finish, start
from tests.integration.server.streams import streams
from tests.integration.server.test_runs import finished, submit
from tests.integration.test_failover import SOON_OVER, Accounts

__all__ = ["streams"]


@pytest.fixture
def accounts(segue: Program) -> Accounts:
    made = Accounts(segue)
    made.write(carry='rule = "allow"')
    return made


@pytest.fixture
def daemon(accounts: Accounts) -> Iterator[Daemon]:
    started = start(accounts.segue)
    yield started
    finish(started.process)


def last_turn(daemon: Daemon, text: str) -> dict[str, Any]:
    """The turn that answered a message."""
    log = daemon.ask("GET", "/api/v1/conversations/k/log").json
    (at,) = [at for at, each in enumerate(log) if each["from"] == "user" and each["text"] == text]
    turn: dict[str, Any] = finished(daemon, log[at + 1]["run"])["turn"]
    return turn


def test_a_queued_run_is_taken_over_before_those_behind_it(accounts: Accounts, daemon: Daemon) -> None:
    assert finished(daemon, submit(daemon, "k", "remember number 456")["run"])["state"] == "done"
    accounts.limit("a")
    run = submit(daemon, "k", "please go on: what number?")
    behind = submit(daemon, "k", "what number?")
    assert finished(daemon, behind["run"])["state"] == "done"
    turn = last_turn(daemon, "please go on: what number?")
    assert (turn["account"], turn["text"], turn["retry_of"]) == ("b", "456", run["run"])
    log = daemon.ask("GET", "/api/v1/conversations/k/log").json
    said = [each["text"] for each in log if each["from"] == "user" and each["n"] and each["kind"] == "said"]
    assert said == ["remember number 456", "please go on: what number?", "what number?"]


def test_a_queued_run_is_parked_if_no_account_is_left(accounts: Accounts, daemon: Daemon) -> None:
    accounts.write(c='carry_in = "never"')
    accounts.limit("a")
    accounts.limit("b", do=SOON_OVER)
    run = submit(daemon, "k", "please go on")
    behind = submit(daemon, "k", "hello", account="c")
    assert finished(daemon, behind["run"])["state"] == "done"
    turn = last_turn(daemon, "please go on")
    assert (turn["account"], turn["state"], turn["retry_of"]) == ("b", "done", run["run"])
    log = daemon.ask("GET", "/api/v1/conversations/k/log").json
    assert [each["text"] for each in log if each["from"] == "user" and each["n"]] == ["please go on", "hello"]


def test_a_client_that_waits_hears_of_it(accounts: Accounts, daemon: Daemon) -> None:
    accounts.limit("a")
    spoke = accounts.talk.run("please go on")
    assert (spoke.turn["account"], spoke.turn["transport"]) == ("b", "daemon")
    assert "b answers instead" in spoke.ran.stderr
