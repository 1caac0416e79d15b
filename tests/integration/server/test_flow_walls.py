"""The wall between accounts at the daemon: flows over HTTP, and answers to questions that have lapsed."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.integration.conftest import Program
from tests.integration.server.conftest import finish, start
from tests.integration.server.test_questions import ASK, asked
from tests.integration.server.test_runs import finished, submit

NEVER = '[carry]\nnever = [["a", "b"]]\n'


def accounts(segue: Program, rules: str = "") -> None:
    text = ""
    for name in ("a", "b"):
        text += f'[accounts.{name}]\nagent = "rehearsal"\nhome = "{home(segue, name)}"\n'
    segue.config(text + rules)


def home(segue: Program, name: str) -> Path:
    return segue.home.parent / f"home-{name}"


@pytest.mark.parametrize("rules", ["", NEVER], ids=["allowed", "never"])
def test_a_review_over_http_names_both_accounts_or_is_refused(segue: Program, rules: str) -> None:
    subprocess.run(["git", "init", "--quiet"], cwd=segue.cwd, env=segue.env, check=True)
    accounts(segue, rules)
    daemon = start(segue)
    try:
        body = {
            "task": "[[say xsecretx]]",
            "rounds": 1,
            "coder": {"agent": "rehearsal", "account": "a"},
            "reviewer": {"agent": "rehearsal", "account": "b"},
            "cwd": str(segue.cwd),
        }
        answer = daemon.ask_local("POST", "/api/v1/reviews", body)
        carried = daemon.ask("GET", "/api/v1/carries").json
    finally:
        finish(daemon.process)
    ways = sorted((row["from_account"], row["to_account"], row["mode"], row["asked_by"]) for row in carried)
    if not rules:
        assert answer.status < 300, answer.json
        assert ways == [("a", "b", "flow", "flow"), ("b", "a", "flow", "flow")]
        return
    assert (answer.status, answer.json["kind"]) == (422, "misuse")
    assert (
        "the coder and the reviewer: what was said under a is never carried over to b"
        in answer.json["detail"]
    )
    assert ways == []
    assert not home(segue, "a").exists()


def test_an_answer_to_a_lapsed_question_keeps_the_marks_of_what_was_asked(segue: Program) -> None:
    """The question may repeat what the other account said: so does the message that answers it."""
    accounts(segue)
    first = start(segue)
    finished(first, submit(first, "k", "remember number 7", account="a")["run"])
    assert segue("account", "switch", "k", "b", "--carry").code == 0
    run = submit(first, "k", f"{ASK}", answers=True)["run"]
    (question,) = asked(first, run)
    first.end(signal.SIGKILL)
    finish(first.process)
    second = start(segue)
    try:
        finished(second, run)
        path = f"/api/v1/runs/{run}/tool-result"
        given = second.ask("POST", path, {"tool_use_id": question["id"], "content": "blue"})
        done = finished(second, given.json["continued_by"])
    finally:
        finish(second.process)
    assert done["state"] == "done", done
    assert marks_of(segue, done["message"]) == ["+rehearsal/a", "rehearsal/b"]


def marks_of(segue: Program, message: str) -> list[str]:
    with sqlite3.connect(segue.home / "segue.db") as db:
        (facts,) = db.execute("SELECT facts FROM messages WHERE id = ?", [message]).fetchone()
    found: list[Any] = msgspec.json.decode(facts)
    return sorted(each.rpartition("/")[0] for each in found[4])
