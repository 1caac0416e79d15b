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


def test_pages_around_a_message_and_after_it(talked: Daemon) -> None:
    log = talked.ask("GET", f"{ONE}/log").json
    ids = [each["id"] for each in log]
    page = talked.ask("GET", f"{ONE}/messages?limit=3&at={ids[2]}").json
    assert ([each["n"] for each in page["messages"]], page["events"]) == ([2, 3, 4], None)
    assert (page["last_id"], page["has_more"], page["has_newer"]) == (ids[3], True, True)
    assert talked.ask("GET", f"{ONE}/messages?limit=3&at=%233").json == page
    newer = talked.ask("GET", f"{ONE}/messages?after={page['last_id']}").json
    assert (newer["messages"], newer["has_newer"]) == (log[4:], False)
    assert talked.ask("GET", f"{ONE}/messages?at={ids[2]}&after={ids[2]}").kind == "misuse"
    assert talked.ask("GET", f"{ONE}/messages?at=nothing").kind == "not_found"


def test_events_come_with_their_messages(talked: Daemon) -> None:
    ran = talked.segue("run", KEY, "[[shell echo hi]][[say Done.]]", "--permission", "full", "--json").turn
    page = talked.ask("GET", f"{ONE}/messages?limit=2&events=true").json
    told = page["events"][ran["run"]]
    assert (list(page["events"]), page["events_left_out"]) == ([ran["run"]], {})
    kinds = [each["event"]["type"] for each in told]
    assert {"session", "tool-call", "tool-result", "end"} <= set(kinds)
    assert "usage" not in kinds
    numbers = [each["n"] for each in told]
    assert numbers == sorted(numbers)
    path = f"/api/v1/runs/{ran['run']}/events"
    assert talked.ask("GET", f"{path}/{numbers[0]}").json == told[0]
    for wrong in ("9999", "x", "-1"):
        assert talked.ask("GET", f"{path}/{wrong}").kind == "not_found"


def test_what_a_conversation_has_in_the_list(talked: Daemon) -> None:
    (shown,) = talked.ask("GET", LIST).json
    assert (shown["asks"], shown["until"], shown["failure"], shown["queued"]) == (None, None, None, 0)
    assert shown["context"]["used"] > 0
    assert talked.segue("run", KEY, "[[error 400]]").code == 1
    (failed,) = talked.ask("GET", LIST).json
    assert (failed["failure"]["kind"], failed["context"]) == ("model_error", shown["context"])
    assert failed == talked.ask("GET", ONE).json


def test_the_sessions_of_a_conversation(talked: Daemon) -> None:
    (session,) = talked.ask("GET", f"{ONE}/sessions").json
    (listed,) = talked.ask("GET", "/api/v1/sessions?everywhere=true").json
    for name in ("agent", "path", "size", "cwd", "expires", "command"):
        assert session[name] == listed[name]
    assert (session["session"], session["role"], session["command"]) == (listed["id"], None, None)
    assert session["context"]["used"] > 0
    assert session["path"].startswith(session["home"])


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
    turns = lineage["turns"]
    assert [each["run"] for each in turns[2:]] == [each["run"] for each in answers]
    assert "retry" in [parent["kind"] for parent in turns[3]["parents"]]
    assert [(each["n"], each["stands"]) for each in turns] == [(1, True), (3, True), (5, False), (5, True)]
    assert [each["retry_of"] for each in turns] == [None, None, None, turns[2]["run"]]
    assert lineage["children"] == []
    fork = talked.ask("POST", f"{ONE}/fork", {"upto": "#4"}).json["key"]
    (child,) = talked.ask("GET", f"{ONE}/lineage").json["children"]
    assert child == {"kind": "fork", "run": None, "conversation": fork, "parent": turns[1]["run"]}
    log = talked.ask("GET", f"{ONE}/log").json
    assert [each["versions"] for each in log] == [1, 1, 1, 1, 2, 2]


def test_search_and_usage(talked: Daemon) -> None:
    hits = talked.ask("GET", "/api/v1/search?text=NUMBER%202&limit=5").json
    assert [(hit["key"], hit["where"], hit["from"]) for hit in hits] == [(KEY, "message", "user")]
    assert [hit["where"] for hit in talked.ask("GET", "/api/v1/search?text=numbers").json] == ["title"]
    for by, name in (("agent", "rehearsal"), ("conversation", KEY)):
        found = talked.ask("GET", f"/api/v1/usage?by={by}&since=1d").json
        assert [(each["name"], each["turns"]) for each in found["sums"]] == [(name, 3)]
    assert talked.ask("GET", "/api/v1/usage").json["total"]["turns"] == 3
    split = talked.ask("GET", "/api/v1/usage?by=version&split=mode").json
    (version,) = split["sums"]
    assert (version["name"].split()[0], version["resumed"], split["split"]) == ("rehearsal", 2, "mode")
    assert len(version["name"].split()) == 2
    assert {each["name"]: each["turns"] for each in version["parts"]} == {"fresh": 1, "resume": 2}
    assert talked.ask("GET", "/api/v1/usage?by=mode&split=mode").kind == "misuse"
    assert isinstance(talked.ask("GET", "/api/v1/usage/unpaid?since=1d&limit=5").json, list)


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
