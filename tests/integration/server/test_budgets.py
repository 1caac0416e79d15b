"""Budgets that pause and ask, with a daemon: runs over HTTP wait for the user, and go on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.conftest import Program
from tests.integration.server.conftest import Daemon, finish, start
from tests.integration.server.test_questions import answer, listed, state_of, until
from tests.integration.server.test_runs import finished, show, submit
from tests.integration.terminals import on_terminal
from tests.integration.test_budgets import CONVERSATION, PRICES, TINY


@pytest.fixture
def daemon(segue: Program) -> Iterator[Daemon]:
    segue.config(CONVERSATION.format(usd=f"{TINY:.9f}"))
    started = start(segue)
    yield started
    finish(started.process)


def waiting(daemon: Daemon, run: str) -> dict[str, Any]:
    """The run, once it waits for the user."""
    found: dict[str, Any] = until(lambda: (now := show(daemon, run))["state"] == "needs_you" and now)
    return found


def paused(daemon: Daemon, text: str = "what number?") -> dict[str, Any]:
    """A run whose conversation has spent its budget."""
    first = finished(daemon, submit(daemon, "k", "remember number 7")["run"])
    assert first["state"] == "done"
    return waiting(daemon, submit(daemon, "k", text)["run"])


def test_a_run_waits_before_it_begins_and_goes_on_when_the_budget_is_raised(daemon: Daemon) -> None:
    shown = paused(daemon)
    run, question = shown["run"], shown["question"]
    assert (question["kind"], question["lapsed"], shown["mode"], shown["turn"]) == (
        "budget",
        False,
        None,
        None,
    )
    assert question["budget"]["message"] == "what number?"
    assert question["budget"]["spent_on"][0]["turns"] == 1
    assert daemon.ask("GET", "/api/v1/status").json["runs"] == {"needs_you": 1}
    (listed_run,) = daemon.ask("GET", "/api/v1/runs?state=needs_you").json
    assert (listed_run["run"], state_of(daemon, "k")) == (run, "needs_you")
    assert "budget" in str(daemon.ask("GET", "/api/v1/conversations/k").json["asks"])
    behind = submit(daemon, "k", "and behind it")["run"]
    for wrong in ({"budget": TINY}, {"content": "yes"}, {"allow": True}, {"always": True}, {}):
        assert answer(daemon, run, question["id"], **wrong) == 422, wrong
    assert show(daemon, behind)["state"] == "queued"
    assert answer(daemon, run, question["id"], budget=50) == 200
    done = finished(daemon, run)
    assert (done["state"], done["turn"]["text"], done["turn"]["mode"]) == ("done", "7", "resume")
    assert done["questions"] == []
    assert "of $50.00" in next(each["detail"] for each in done["turn"]["why"] if each["check"] == "budget")
    assert answer(daemon, run, question["id"], budget=60) == 410
    assert finished(daemon, behind)["state"] == "done", "the budget holds for what follows"


def test_the_command_line_raises_it_too(daemon: Daemon) -> None:
    run = paused(daemon)["run"]
    told = daemon.segue("answer", run, "--budget", "5")
    assert (told.code, told.stdout, told.stderr) == (0, "", "")
    assert finished(daemon, run)["turn"]["text"] == "7"


def test_it_can_be_stopped_and_the_line_goes_on(daemon: Daemon) -> None:
    shown = paused(daemon)
    run, question = shown["run"], shown["question"]
    behind = submit(daemon, "k", "behind")["run"]
    assert answer(daemon, run, question["id"], allow=False) == 200
    ended = finished(daemon, run)
    assert (ended["state"], ended["turn"]["failure"]["kind"]) == ("withdrawn", "budget")
    assert "you stopped it" in ended["turn"]["failure"]["message"]
    assert waiting(daemon, behind)["question"]["budget"]["message"] == "behind"
    assert daemon.ask("POST", f"/api/v1/runs/{behind}/cancel").status == 200
    assert state_of(daemon, "k") == "idle"


def test_it_waits_for_the_next_daemon_too(daemon: Daemon) -> None:
    run = paused(daemon)["run"]
    daemon.end(signal.SIGKILL)
    finish(daemon.process)
    second = start(daemon.segue)
    try:
        question = waiting(second, run)["question"]
        assert answer(second, run, question["id"], content="$5") == 200
        assert finished(second, run)["turn"]["text"] == "7"
    finally:
        finish(second.process)


def test_all_that_wait_for_the_day_go_on_when_it_is_raised(segue: Program) -> None:
    segue.config(PRICES + f"[budgets]\nday = {TINY:.9f}\n")
    daemon = start(segue)
    try:
        assert finished(daemon, submit(daemon, "one", "remember number 7")["run"])["state"] == "done"
        runs = [waiting(daemon, submit(daemon, key, "what number?")["run"]) for key in ("one", "two")]
        assert [each["question"]["budget"]["scope"] for each in runs] == ["day", "day"]
        assert answer(daemon, runs[0]["run"], runs[0]["question"]["id"], budget=50) == 200
        assert [finished(daemon, each["run"])["state"] for each in runs] == ["done", "done"]
        assert answer(daemon, runs[1]["run"], runs[1]["question"]["id"], budget=50) == 410
    finally:
        finish(daemon.process)


def test_now_looks_again(daemon: Daemon) -> None:
    shown = paused(daemon)
    run, question = shown["run"], shown["question"]
    assert daemon.ask("POST", f"/api/v1/runs/{run}/now").status == 200
    again = until(lambda: (now := show(daemon, run)["question"]) and now["id"] != question["id"] and now)
    assert answer(daemon, run, question["id"], budget=5) == 410
    assert again["kind"] == "budget"
    daemon.segue.config(CONVERSATION.format(usd=50))
    assert daemon.ask("POST", f"/api/v1/runs/{run}/now").status == 200
    assert finished(daemon, run)["state"] == "done"


@pytest.mark.parametrize(
    ("typed", "code"), [(b"2\n", 0), (b"$9\n", 0), (b"\n", 1)], ids=["raise", "amount", "stop"]
)
def test_a_terminal_is_asked_by_the_daemon(daemon: Daemon, typed: bytes, code: int) -> None:
    finished(daemon, submit(daemon, "k", "remember number 7")["run"])
    keys = (("Enter chooses 1", typed),)
    ended, shown = on_terminal(daemon.segue, "run", "k", "what number?", keys=keys)
    assert ended == code, shown
    until(lambda: listed(daemon.segue) == [])


def test_a_terminal_that_is_asked_can_be_answered_elsewhere(daemon: Daemon) -> None:
    from tests.integration.terminals import Terminal

    finished(daemon, submit(daemon, "k", "remember number 7")["run"])
    with Terminal(daemon.segue, "run", "k", "what number?", "--no-daemon") as terminal:
        (shown,) = until(lambda: listed(daemon.segue))
        assert (shown["state"], shown["question"]["kind"]) == ("needs_you", "budget")
        assert state_of(daemon, "k") == "needs_you"
        assert answer(daemon, shown["run"], shown["question"]["id"], budget=50) == 200
        while terminal.read():
            pass
        assert terminal.process.wait(60) == 0
    assert daemon.segue("last", "k").stdout == "7\n"


def test_without_a_terminal_the_answer_runs_the_message_after_all(daemon: Daemon) -> None:
    finished(daemon, submit(daemon, "k", "remember number 7")["run"])
    ran = daemon.segue("run", "k", "what number?", "--json")
    assert (ran.code, ran.turn["failure"]["kind"]) == (1, "budget")
    run = ran.turn["run"]
    shown = show(daemon, run)
    assert (shown["state"], shown["question"]["lapsed"], state_of(daemon, "k")) == (
        "withdrawn",
        True,
        "needs_you",
    )
    path = f"/api/v1/runs/{run}/tool-result"
    given = daemon.ask("POST", path, {"tool_use_id": shown["question"]["id"], "budget": 5})
    assert given.status == 200
    done = finished(daemon, given.json["continued_by"])
    assert (done["turn"]["text"], done["retry_of"]) == ("7", run)
    assert answer(daemon, run, shown["question"]["id"], budget=6) == 409
    assert state_of(daemon, "k") == "idle"


def test_a_budget_is_not_for_other_questions(daemon: Daemon) -> None:
    run = submit(daemon, "k", "[[ask Which? | a | b]][[result]]", answers=True)["run"]
    question = until(lambda: show(daemon, run)["question"])
    assert answer(daemon, run, question["id"], budget=5) == 422
    assert daemon.segue("answer", run, "--budget", "5").code == 2
    assert answer(daemon, run, question["id"], content="a") == 200
    assert finished(daemon, run)["state"] == "done"
