"""The routes to look through conversations, over HTTP, with real conversations of the rehearsal agent."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

import pytest

from tests.integration.server.conftest import Daemon
from tests.integration.server.streams import streams
from tests.integration.server.test_remote import wait_for_run
from tests.integration.server.test_runs import finished, submit

__all__ = ["streams"]

LIST = "/api/v1/conversations"
KEY = "team/numbers"
ONE = f"{LIST}/{quote(KEY, safe='')}"


@pytest.fixture
def talked(daemon: Daemon) -> Daemon:
    """A conversation of three turns; its key has a slash."""
    made = daemon.ask("POST", LIST, {"key": KEY, "agent": "rehearsal", "title": "Numbers"})
    assert (made.status, made.json["title"], made.json["messages"]) == (201, "Numbers", 0)
    for number in (1, 2, 3):
        ran = daemon.segue("run", KEY, f"remember number {number}")
        assert ran.code == 0, ran.stderr
    return daemon


def test_messages_come_page_by_page(talked: Daemon) -> None:
    log = talked.ask("GET", f"{ONE}/log").json
    page = talked.ask("GET", f"{ONE}/messages?limit=4").json
    assert (page["size"], page["has_more"], page["rewrites"]) == (6, True, 0)
    older = talked.ask("GET", f"{ONE}/messages?limit=4&before={page['first_id']}").json
    assert older["messages"] + page["messages"] == log
    assert not older["has_more"]
    cut = log[4]["id"]
    talked.ask("DELETE", f"{ONE}/messages/{cut}")
    assert talked.ask("GET", f"{ONE}/messages?before={cut}").kind == "not_found"
    assert talked.ask("GET", f"{ONE}/messages").json["rewrites"] == 1


def test_a_conversation_is_marked(talked: Daemon) -> None:
    shown = talked.ask("GET", ONE).json
    assert (shown["key"], shown["starred"], shown["unread"]) == (KEY, False, True)
    read = talked.ask("POST", f"{ONE}/read")
    assert (read.status, read.body) == (204, b"")
    changed = talked.ask("PATCH", ONE, {"title": "Other numbers", "starred": True}).json
    assert (changed["title"], changed["starred"], changed["unread"]) == ("Other numbers", True, False)
    assert [changed] == talked.ask("GET", LIST).json
    changed = talked.ask("PATCH", ONE, {"starred": False}).json
    assert (changed["title"], changed["starred"]) == ("Other numbers", False)


def test_versions_and_lineage(talked: Daemon) -> None:
    talked.ask("PATCH", f"{ONE}/messages/%235", {"text": "remember number 4"})
    assert talked.segue("retry", KEY, "#5").code == 0
    wordings = talked.ask("GET", f"{ONE}/messages/%235/siblings").json
    assert [each["text"] for each in wordings] == ["remember number 3", "remember number 4"]
    answers = talked.ask("GET", f"{ONE}/messages/%236/siblings").json
    assert [(each["text"], each["current"]) for each in answers] == [
        ("Noted: 3.", False),
        ("Noted: 4.", True),
    ]
    lineage = talked.ask("GET", f"{ONE}/lineage").json
    assert [each["run"] for each in lineage[2:]] == [each["run"] for each in answers]
    assert "retry" in [parent["kind"] for parent in lineage[3]["parents"]]


def test_search_and_usage(talked: Daemon) -> None:
    hits = talked.ask("GET", "/api/v1/search?text=NUMBER%202&limit=5").json
    assert [(hit["key"], hit["where"], hit["from"]) for hit in hits] == [(KEY, "message", "user")]
    assert [hit["where"] for hit in talked.ask("GET", "/api/v1/search?text=numbers").json] == ["title"]
    for by, name in (("agent", "rehearsal"), ("conversation", KEY)):
        found = talked.ask("GET", f"/api/v1/usage?by={by}&since=1d").json
        assert [(each["name"], each["turns"]) for each in found["sums"]] == [(name, 3)]
    assert talked.ask("GET", "/api/v1/usage").json["total"]["turns"] == 3


def test_settings_and_accounts_have_names_only(daemon: Daemon) -> None:
    daemon.segue.config(
        '[defaults]\nagent = "rehearsal"\n'
        '[accounts.work]\nagent = "rehearsal"\nenv = { SOME_TOKEN = "s3cret" }\n'
    )
    accounts = daemon.ask("GET", "/api/v1/accounts")
    assert [(each["name"], each["env"]) for each in accounts.json] == [("work", ["SOME_TOKEN"])]
    settings = daemon.ask("GET", "/api/v1/settings")
    assert (settings.json["store"], settings.json["defaults"]["agent"]) == ("sqlite", "rehearsal")
    assert b"s3cret" not in accounts.body + settings.body


PROBLEMS: list[tuple[str, str, Any, str]] = [
    ("GET", f"{LIST}/nobody", None, "not_found"),
    ("PATCH", f"{LIST}/nobody", {"starred": True}, "not_found"),
    ("POST", f"{LIST}/nobody/read", None, "not_found"),
    ("GET", f"{LIST}/nobody/messages", None, "not_found"),
    ("GET", f"{LIST}/nobody/messages/%231/siblings", None, "not_found"),
    ("GET", f"{LIST}/nobody/lineage", None, "not_found"),
    ("POST", LIST, {"key": "there"}, "misuse"),
    ("POST", LIST, {"key": "not a key"}, "misuse"),
    ("POST", LIST, {"key": "new", "agent": "nobody"}, "misuse"),
    ("POST", LIST, {"key": "new", "colour": "red"}, "misuse"),
    ("PATCH", f"{LIST}/there", {}, "misuse"),
    ("PATCH", f"{LIST}/there", {"title": "x" * 201}, "misuse"),
    ("GET", f"{LIST}/there/messages?limit=0", None, "misuse"),
    ("GET", f"{LIST}/there/messages?limit=1001", None, "misuse"),
    ("GET", f"{LIST}/there/messages?before=gone", None, "not_found"),
    ("GET", "/api/v1/search", None, "misuse"),
    ("GET", "/api/v1/search?text=%20", None, "misuse"),
    ("GET", "/api/v1/usage?by=colour", None, "misuse"),
    ("GET", "/api/v1/usage?since=soon", None, "misuse"),
]


def test_problems_have_their_kinds(daemon: Daemon) -> None:
    assert daemon.ask("POST", LIST, {"key": "there"}).status == 201
    for method, path, body, kind in PROBLEMS:
        assert (method, path, daemon.ask(method, path, body).kind) == (method, path, kind)


def test_an_empty_object_is_accepted_where_no_body_is_needed(talked: Daemon) -> None:
    assert talked.ask("POST", f"{ONE}/read", {}).status == 204
    assert talked.ask("POST", f"{ONE}/read", raw=b" {} \n").status == 204
    assert talked.ask("POST", f"{ONE}/read", {"x": 1}).kind == "misuse"
    assert talked.ask("POST", f"{ONE}/read", raw=b"x").kind == "bad_request"
    assert talked.ask("POST", f"{ONE}/read", {"x": "x" * 100}).kind == "too_large"


def test_a_message_can_become_as_long_as_one_that_is_sent(talked: Daemon) -> None:
    long = "word " * 500_000
    assert talked.ask("PATCH", f"{ONE}/messages/%235", {"text": long}).status == 200
    assert talked.ask("GET", f"{ONE}/log").json[4]["text"] == long


def test_a_busy_conversation_is_told_at_once(talked: Daemon) -> None:
    talked.ask("PATCH", f"{ONE}/messages/%235", {"text": "remember number 5"})
    run = submit(talked, quote(KEY, safe=""), "[[hang]]")["run"]
    wait_for_run(talked, quote(KEY, safe=""))
    for method, path in (("DELETE", ONE), ("POST", f"{ONE}/undo"), ("DELETE", f"{ONE}/messages/%235")):
        began = time.monotonic()
        assert talked.ask(method, path).kind == "conversation_busy"
        assert time.monotonic() - began < 1
    talked.ask("POST", f"/api/v1/runs/{run}/cancel")
    finished(talked, run)
    assert talked.ask("DELETE", ONE).status == 204  # although its process may still hold the conversation
