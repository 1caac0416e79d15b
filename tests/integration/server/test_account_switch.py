"""Switching accounts through a real daemon: what is refused, waits, survives a restart; and the rules."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from tests.integration.server.conftest import Daemon, finish, start

ONE = "/api/v1/conversations/talk"
NAMES = ("ann", "bob", "eve")
WAIT_S = 60


@pytest.fixture
def accounts(daemon: Daemon) -> Daemon:
    homes = [f'[accounts.{name}]\nagent = "rehearsal"\nhome = "{daemon.home / name}"' for name in NAMES]
    daemon.segue.config("\n".join(homes))
    said(daemon, "remember number 456", account="ann")
    assert said(daemon, "what number?")["text"] == "456"
    return daemon


def submit(daemon: Daemon, text: str, **order: Any) -> str:
    body = {"message": text, "agent": "rehearsal", "cwd": str(daemon.segue.cwd), **order}
    answer = daemon.ask("POST", f"{ONE}/runs", body)
    assert answer.status == 202, answer.body
    return str(answer.json["run"])


def waited(daemon: Daemon, run: str, *states: str) -> dict[str, Any]:
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        shown: dict[str, Any] = daemon.ask("GET", f"/api/v1/runs/{run}").json
        if shown["state"] in (states or ("done", "failed", "cancelled", "withdrawn")):
            return shown
        time.sleep(0.05)
    raise AssertionError(f"{run} is {shown['state']}")


def said(daemon: Daemon, text: str, **order: Any) -> dict[str, Any]:
    shown = waited(daemon, submit(daemon, text, **order))
    assert shown["state"] == "done", shown
    turn: dict[str, Any] = shown["turn"]
    return turn


def switch(daemon: Daemon, account: str, **body: Any) -> Any:
    return daemon.ask("PATCH", f"{ONE}/account", {"account": account, **body})


def test_the_default_carries_nothing(accounts: Daemon) -> None:
    done = switch(accounts, "bob")
    assert (done.status, done.json["carried"], done.json["hidden"]) == (200, None, 4)
    turn = said(accounts, "what number?")
    assert (turn["mode"], turn["account"], "456" in turn["text"]) == ("fresh", "bob", False)
    assert accounts.ask("GET", "/api/v1/carries").json == []
    assert accounts.ask("GET", ONE).json["account"] == "bob"


def test_a_carry_happens_once_also_after_a_restart(accounts: Daemon) -> None:
    done = switch(accounts, "bob", carry_context=True).json
    assert (done["carried"]["mode"], done["carried"]["turns"], done["hidden"]) == ("raw", 2, 0)
    assert said(accounts, "what number?")["mode"] == "recap"
    accounts.end()
    again = start(accounts.segue)
    try:
        turn = said(again, "what number?")
        assert (turn["mode"], turn["text"], turn["sent"]["text_messages"]) == ("resume", "456", 1)
        messages = again.ask("GET", f"{ONE}/messages").json["messages"]
        assert [each["kind"] for each in messages].count("carried") == 1
        (row,) = again.ask("GET", "/api/v1/carries?conversation=talk").json
        assert (row["from_account"], row["to_account"], row["asked_by"]) == ("ann", "bob", "api")
        assert again.ask("DELETE", ONE).status in (200, 204)
        (kept,) = again.ask("GET", "/api/v1/carries").json
        assert (kept, "456" in msgspec.json.encode(kept).decode()) == (row, False)
    finally:
        finish(again.process)


def test_the_same_is_not_carried_over_twice(accounts: Daemon) -> None:
    assert switch(accounts, "bob", carry_context=True).json["carried"]["mode"] == "raw"
    again = switch(accounts, "bob", carry_context=True).json["carried"]
    assert (again["mode"], "before" in again["why"]) == ("none", True)
    assert said(accounts, "what number?")["text"] == "456"
    switch(accounts, "ann")
    said(accounts, "remember number 789")
    assert switch(accounts, "bob", carry_context=True).json["carried"]["mode"] == "raw", "there is more now"
    turn = said(accounts, "what number?")
    assert (turn["mode"], turn["text"]) == ("resume", "789")


def test_a_block_is_not_edited_or_retried_but_can_be_dropped(accounts: Daemon) -> None:
    switch(accounts, "bob", carry_context=True)
    segue = accounts.segue
    edited = segue("edit", "talk", "#5", "something else")
    assert (edited.code, "carried over" in edited.stderr) == (2, True)
    assert "carried over" in segue("retry", "talk", "#5").stderr
    assert "carried to bob (rehearsal)" in segue("log", "talk").stdout
    assert segue("truncate", "talk", "#5").code == 0
    turn = said(accounts, "what number?")
    assert (turn["mode"], "456" in turn["text"]) == ("fresh", False)


def test_while_a_turn_runs_it_is_refused_or_cancels_the_turn(accounts: Daemon) -> None:
    run = submit(accounts, "[[slow 60 10]] [[say a b c]]")
    waited(accounts, run, "running")
    refused = switch(accounts, "bob")
    assert (refused.status, refused.kind) == (409, "conversation_busy")
    assert "--cancel cancels it first" in refused.json["detail"]
    done = switch(accounts, "bob", cancel=True)
    assert done.status == 200, done.body
    assert waited(accounts, run)["state"] == "cancelled"


@pytest.mark.parametrize(
    ("account", "rule"),
    [("nobody", ""), ("bob", '[carry]\nnever = [["ann", "bob"]]\n')],
    ids=["unknown", "rule"],
)
def test_what_is_refused_cancels_nothing(accounts: Daemon, account: str, rule: str) -> None:
    file = accounts.home / "config.toml"
    file.write_text(f"{file.read_text()}\n{rule}")
    run = submit(accounts, "[[slow 60 10]] [[say a b c]]")
    waited(accounts, run, "running")
    refused = switch(accounts, account, cancel=True, carry_context=True)
    assert (refused.status, refused.kind) == (422, "misuse")
    assert accounts.ask("GET", f"/api/v1/runs/{run}").json["state"] == "running"
    accounts.ask("POST", f"/api/v1/runs/{run}/cancel")
    waited(accounts, run, "cancelled")


@pytest.mark.parametrize(("queued", "account"), [("keep", "ann"), ("move", "bob")])
def test_runs_that_wait_keep_their_account_or_move(accounts: Daemon, queued: str, account: str) -> None:
    later = int((time.time() + 3600) * 1000)
    run = submit(accounts, "what number?", not_before=later)
    refused = switch(accounts, "bob")
    assert (refused.status, refused.kind) == (409, "conflict")
    assert '--queued keep or --queued move; in a request, "queued"' in refused.json["detail"]
    assert switch(accounts, "bob", queued=queued).status == 200
    assert accounts.ask("GET", f"/api/v1/runs/{run}").json["account"] == account
    assert accounts.ask("POST", f"/api/v1/runs/{run}/now").status == 200
    turn = waited(accounts, run)["turn"]
    assert (turn["account"], "456" in turn["text"]) == (account, account == "ann")


def test_a_rule_holds_whoever_asks(accounts: Daemon) -> None:
    file = accounts.home / "config.toml"
    file.write_text(f'{file.read_text()}\n[carry]\nnever = [["bob", "ann"]]\n')
    refused = switch(accounts, "bob", carry_context=True)
    assert (refused.status, refused.kind) == (422, "misuse")
    assert "never carried over" in refused.json["detail"]
    assert accounts.ask("GET", ONE).json["account"] == "ann", "nothing was changed"
    assert switch(accounts, "eve", carry_context=True).json["carried"]["mode"] == "raw"
    assert said(accounts, "what number?")["text"] == "456"
    refused = switch(accounts, "bob", carry_context=True)
    assert (refused.status, "ann" in refused.json["detail"]) == (422, True), "it has passed through eve"


def test_bad_input(accounts: Daemon) -> None:
    assert switch(accounts, "nobody").status == 422
    assert accounts.ask("PATCH", f"{ONE}/account", {"account": "bob", "carry_mode": "all"}).status in (
        400,
        422,
    )
    assert accounts.ask("PATCH", "/api/v1/conversations/none/account", {"account": "bob"}).status == 404
