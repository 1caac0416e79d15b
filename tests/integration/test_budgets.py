"""Budgets that pause and ask, on the command line and in the library."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import date
from typing import Any

import msgspec
import pytest

from segue import Answer, Segue
from segue.core.events import Permission, Question
from tests.database import database
from tests.integration.conftest import Program, Result
from tests.integration.talk import Talk
from tests.integration.terminals import Terminal, on_terminal

PRICES = '[defaults]\nagent = "rehearsal"\n[prices."*"]\ninput = 1.0\noutput = 5.0\n'
CONVERSATION = PRICES + "[budgets]\nconversation = {usd}\n"
TINY = 0.000001
"""The first turn is begun, because nothing is known about its price. Then it is spent."""


def capped(segue: Program, usd: float = TINY) -> Talk:
    segue.config(CONVERSATION.format(usd=f"{usd:.9f}"))
    return Talk(segue)


def listed(segue: Program) -> list[dict[str, Any]]:
    return list(msgspec.json.decode(segue("answer", "--json").stdout))


def budget_check(checks: list[dict[str, Any]]) -> dict[str, Any]:
    return next(each for each in checks if each["check"] == "budget")


def refused(ran: Result) -> dict[str, Any]:
    assert ran.code == 1, ran.stderr
    assert (ran.turn["state"], ran.turn["failure"]["kind"]) == ("withdrawn", "budget")
    assert (ran.turn["failure"]["retryable"], ran.turn["attempts"]) == (False, [])
    return ran.turn


def test_without_a_budget_nothing_is_checked(segue: Program) -> None:
    segue.config(PRICES)
    talk = Talk(segue)
    turn = talk.run("hello").turn
    assert "budget" not in [each["check"] for each in turn["why"]]
    assert "budget" not in [each["check"] for each in talk.why("hello")["checks"]]


def test_a_turn_within_its_budget_says_so(segue: Program) -> None:
    talk = capped(segue, 50)
    first = talk.run("hello").turn
    assert budget_check(first["why"])["detail"] == "conversation $0.00 of $50.00"
    planned = budget_check(talk.why("hello")["checks"])
    check = budget_check(talk.run("and again").turn["why"])
    assert (check["verdict"], check["bars"]) == ("pass", [])
    assert check["detail"].startswith("conversation $0.0")
    assert "; this turn about $0.0" in check["detail"]
    assert planned["verdict"] == "pass"
    assert "; this turn about $0.0" in planned["detail"]


def test_without_a_terminal_it_fails_and_names_the_command_that_goes_on(segue: Program) -> None:
    talk = capped(segue)
    first = talk.run("remember number 456").turn
    assert talk.why("hi")["mode"] == "resume"
    warned = budget_check(talk.why("hi")["checks"])
    assert (warned["verdict"], warned["bars"]) == ("fail", [])
    assert "would ask you first" in " ".join(segue("why", "t", "hi").stdout.split())
    ran = segue("run", "t", "what number?", "--json")
    turn = refused(ran)
    run = turn["run"]
    assert turn["failure"]["message"].startswith("the budget of this conversation is $0.000001: $0.0")
    assert turn["next"].startswith(f"segue answer {run} --budget ")
    assert turn["next"] in ran.stderr
    (shown,) = listed(segue)
    question = shown["question"]
    assert (shown["run"], question["kind"], question["lapsed"]) == (run, "budget", True)
    budget = question["budget"]
    assert (budget["scope"], budget["name"], budget["day"]) == ("conversation", "t", None)
    assert (budget["limit"], budget["spent"]) == (TINY, first["cost_usd"])
    assert (budget["predicted_from"], budget["message"]) == ("forecast", "what number?")
    assert budget["predicted"] > 0
    assert budget["spent_on"] == [{"name": "rehearsal", "turns": 1, "usd": first["cost_usd"]}]
    assert "Spent on: rehearsal" in segue("answer").stdout
    assert msgspec.json.decode(segue("ls", "--json").stdout)[0]["state"] == "needs_you"
    assert [row["text"] for row in talk.log()] == ["remember number 456", first["text"], "what number?"]
    small = segue("answer", run, "--budget", "0.000002")
    assert (small.code, "that is not enough" in small.stderr) == (2, True)
    answered = segue(*turn["next"].split()[1:])
    assert answered.code == 0, answered.stderr
    assert "segue queue run t" in answered.stderr
    assert segue("queue", "run", "t").code == 0
    again = talk.log()[-1]
    assert (again["run"], again["text"], again["mode"]) == (answered.stdout.strip(), "456", "resume")
    assert listed(segue) == []
    assert "no open question" in segue("answer", run, "--budget", "9").stderr


def test_what_was_asked_for_then_is_what_goes_on(segue: Program) -> None:
    talk = capped(segue)
    talk.run("hello")
    ran = segue("run", "t", "[[shell echo x > made]][[say over]]", "--permission", "full", "--json")
    segue(*refused(ran)["next"].split()[1:])
    assert segue("queue", "run", "t").code == 0
    assert (segue.cwd / "made").exists()


def test_the_same_text_again_is_the_retry(segue: Program) -> None:
    talk = capped(segue)
    talk.run("hello")
    for _ in range(2):
        run = refused(segue("run", "t", "what then?", "--json"))["run"]
        assert [each["run"] for each in listed(segue)] == [run], "only the last one is asked about"
    capped(segue, 50)
    done = talk.run("what then?").turn
    assert done["retry_of"] == run
    assert listed(segue) == []


def test_an_earlier_run_leads_to_the_question_that_is_open_now(segue: Program) -> None:
    talk = capped(segue)
    talk.run("hello")
    first = refused(segue("run", "t", "what then?", "--json"))
    second = refused(segue("run", "t", "something else", "--json"))
    assert [each["run"] for each in listed(segue)] == [second["run"]]
    ran = segue(*first["next"].split()[1:])
    assert (ran.code, second["next"] in ran.stderr) == (2, True), ran.stderr
    assert segue(*second["next"].split()[1:]).code == 0


def test_it_can_be_dropped(segue: Program) -> None:
    talk = capped(segue)
    talk.run("hello")
    run = refused(segue("run", "t", "never mind", "--json"))["run"]
    assert segue("answer", run).code == 2
    assert segue("answer", run, "--allow").code == 2
    assert segue("answer", run, "--deny").code == 0
    assert listed(segue) == []
    assert msgspec.json.decode(segue("ls", "--json").stdout)[0]["state"] == "idle"


def test_a_queued_run_waits_and_goes_on(segue: Program) -> None:
    talk = capped(segue)
    talk.run("remember number 7")
    run = segue("run", "t", "what number?", "--queue").stdout.strip()
    stopped = segue("queue", "run", "t")
    assert (stopped.code, f"the run {run} cannot start: the budget of" in stopped.stderr) == (2, True)
    (shown,) = listed(segue)
    assert (shown["run"], shown["state"], shown["question"]["lapsed"]) == (run, "needs_you", False)
    still = segue("answer", run)
    assert (still.code, "cannot start" in still.stderr) == (2, True)
    assert segue("answer", run, "--budget", "9").code == 0
    assert segue("queue", "run", "t").code == 0
    last = talk.log()[-1]
    assert (last["run"], last["text"]) == (run, "7")


def test_a_queued_run_goes_on_if_the_configuration_allows_more(segue: Program) -> None:
    talk = capped(segue)
    talk.run("remember number 7")
    run = segue("run", "t", "what number?", "--queue").stdout.strip()
    segue("queue", "run", "t")
    capped(segue, 50)
    assert segue("answer", run).code == 0
    assert talk.log()[-1]["text"] == "7"


def test_the_day_counts_all_conversations_and_starts_again(segue: Program) -> None:
    segue.config(PRICES)
    cost = Talk(segue, "one").run("hello").turn["cost_usd"]
    segue.config(PRICES + f"[budgets]\nday = {1.5 * cost:.9f}\n")
    ran = segue("run", "two", "hello", "--json")
    assert refused(ran)["failure"]["message"].startswith("today's budget is $0.0000")
    (shown,) = listed(segue)
    budget = shown["question"]["budget"]
    assert (budget["scope"], [each["name"] for each in budget["spent_on"]]) == ("day", ["one"])
    assert (budget["name"], budget["day"]) == (str(date.today()), str(date.today()))
    with database(segue.home / "segue.db") as db:
        db.execute("UPDATE turns SET ended_ms = ended_ms - 86400000 WHERE cost_usd IS NOT NULL")
    assert segue("run", "two", "hello", "--json").code == 0, "that was yesterday"


def test_an_account_has_a_budget_of_its_own(segue: Program) -> None:
    accounts = '[accounts.{}]\nagent = "rehearsal"\nhome = "{}"\n'
    homes = {name: segue.home / name for name in ("work", "private")}
    for home in homes.values():
        home.mkdir(parents=True)
    both = accounts.format("work", homes["work"]) + f"budget = {TINY:.9f}\n"
    segue.config(PRICES + both + accounts.format("private", homes["private"]))
    assert msgspec.json.decode(segue("account", "ls", "--json").stdout)[1]["budget"] == TINY
    assert "budget     < $0.001 a day" in segue("account", "show", "work").stdout
    assert segue("run", "one", "hello", "--account", "work").code == 0
    ran = segue("run", "two", "hello", "--account", "work", "--json")
    assert "today's budget of the account work is" in refused(ran)["failure"]["message"]
    assert segue(*ran.turn["next"].split()[1:]).code == 0
    assert segue("queue", "run", "two").code == 0
    assert segue("run", "two", "hello", "--account", "private").code == 0


def test_an_unknown_price_counts_as_the_last_known(segue: Program) -> None:
    talk = capped(segue, 50)
    cost = talk.run("hello").turn["cost_usd"]
    unpriced = f'[defaults]\nagent = "rehearsal"\n[budgets]\nconversation = {1.5 * cost:.9f}\n'
    segue.config(unpriced)
    turn = refused(segue("run", "t", "and now?", "--json"))
    assert "the price of this turn is not known (the last one cost $" in turn["failure"]["message"]


def test_one_after_the_other_is_asked_about(segue: Program) -> None:
    segue.config(PRICES + f"[budgets]\nconversation = {TINY:.9f}\nday = {TINY:.9f}\n")
    talk = Talk(segue)
    talk.run("hello")
    run = segue("run", "t", "more", "--queue").stdout.strip()
    for scope in ("conversation", "day"):
        segue("queue", "run", "t")
        (shown,) = listed(segue)
        assert (shown["run"], shown["question"]["budget"]["scope"]) == (run, scope)
        assert segue("answer", run, "--budget", "5").code == 0
    assert segue("queue", "run", "t").code == 0
    assert talk.log()[-1]["run"] == run


@pytest.mark.parametrize(
    ("typed", "code", "answers"),
    [(b"2\n", 0, 2), (b"$9\n", 0, 2), (b"\n", 1, 1), (b"1\n", 1, 1)],
    ids=["raise", "amount", "enter", "stop"],
)
def test_at_a_terminal_it_is_asked(segue: Program, typed: bytes, code: int, answers: int) -> None:
    talk = capped(segue)
    talk.run("hello")
    ended, shown = on_terminal(segue, "run", "t", "and more", keys=(("Enter chooses 1", typed),))
    assert ended == code, shown
    assert "The budget of this conversation is $0.000001" in shown.replace("\r\n", "")
    assert "What waits: and more" in shown.replace("\r\n", "")
    rows = talk.log()
    assert len([row for row in rows if row["from"] == "assistant"]) == answers
    assert listed(segue) == []
    if code:
        assert rows[-1]["failure"]["kind"] == "budget"


def test_ctrl_c_ends_the_question(segue: Program) -> None:
    talk = capped(segue)
    talk.run("hello")
    ended, shown = on_terminal(segue, "run", "t", "and more", keys=(("Enter chooses 1", b"\x03"),))
    assert (ended, listed(segue)) == (130, []), shown


def test_the_question_of_a_killed_terminal_can_still_be_answered(segue: Program) -> None:
    talk = capped(segue)
    talk.run("remember number 7")
    with Terminal(segue, "run", "t", "what number?") as terminal:
        terminal.until("Enter chooses 1")
        os.kill(terminal.process.pid, signal.SIGKILL)
        terminal.process.wait(60)
    (shown,) = listed(segue)
    assert (shown["question"]["lapsed"], shown["question"]["kind"]) == (True, "budget")
    new = segue("answer", shown["run"], "--budget", "5").stdout.strip()
    assert segue("queue", "run", "t").code == 0
    last = talk.log()[-1]
    assert (last["run"], last["text"], listed(segue)) == (new, "7", [])


async def _stop(event: Question | Permission) -> Answer:
    assert isinstance(event, Question)
    (question,) = event.questions
    return Answer(True, answers={question["question"]: question["options"][0]["label"]})


async def _raise(event: Question | Permission) -> Answer:
    assert isinstance(event, Question)
    (question,) = event.questions
    return Answer(True, answers={question["question"]: question["options"][1]["label"]})


async def _library(segue: Program) -> None:
    async with Segue(home=segue.home, env=segue.env, cwd=segue.cwd) as door:
        first = await door.run("k", "remember number 7")
        assert first.failure is None
        turn = await door.run("k", "what number?")
        assert turn.failure is not None
        assert (turn.failure.kind, turn.state) == ("budget", "withdrawn")
        stopped = await door.run("k", "what number?", answer=_stop)
        assert stopped.failure is not None
        assert stopped.failure.kind == "budget"
        raised = await door.run("k", "what number?", answer=_raise)
        assert (raised.failure, raised.text) == (None, "7")


def test_the_library_returns_a_turn_that_says_so(segue: Program) -> None:
    capped(segue)
    asyncio.run(_library(segue))


def test_a_budget_is_no_matter_of_a_project(segue: Program) -> None:
    segue.config(PRICES)
    (segue.cwd / "segue.toml").write_text(f"[budgets]\nconversation = {TINY:.9f}\n")
    ran = segue("run", "t", "hello")
    assert "[budgets] is ignored" in ran.stderr
    assert segue("run", "t", "again").code == 0


def test_a_running_turn_counts_for_others(segue: Program) -> None:
    """What it will cost is not spent yet, but it is not left either."""
    segue.config(PRICES)
    talk = Talk(segue, "one")
    talk.run("hello")
    predicted = next(r["usd"] for r in talk.why("x" * 200)["rungs"] if r["state"] == "chosen")
    spent = talk.log()[-1]["cost_usd"]
    segue.config(PRICES + f"[budgets]\nday = {spent + predicted:.9f}\n")
    assert budget_check(Talk(segue, "two").why("hello")["checks"])["verdict"] == "pass"
    with talk.busy():
        check = budget_check(Talk(segue, "two").why("hello")["checks"])
        assert check["verdict"] == "fail", check


@pytest.mark.parametrize("cost", ["-100", "1e308"])
def test_a_cost_that_cannot_be_one_neither_fills_a_budget_nor_ends_all_turns(
    segue: Program, cost: str
) -> None:
    program = segue.cwd / "agent.sh"
    said = f'{{"type": "end", "text": "hi", "cost": {cost}}}'
    program.write_text(f"#!/bin/sh\ncat >/dev/null\necho '{said}'\n")
    program.chmod(0o755)
    segue.config(
        f'[defaults]\nagent = "x"\n[budgets]\nday = 0.5\n[agents.x]\ncommand = ["{program}"]\n'
        'stdin = "prompt"\noutput = "jsonl"\ntext = { path = "$.text", when = { type = "end" } }\n'
        'done = { type = "end" }\n'
        '[agents.x.usage]\ncost_usd = "$.cost"\nwhen = { type = "end" }\n'
    )
    for key in ("a", "b", "c"):
        ran = segue("run", key, "hi", "--json")
        assert (ran.code, ran.turn["cost_usd"]) == (0, None), ran.stderr
