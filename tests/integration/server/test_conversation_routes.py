"""The routes to look through conversations, over HTTP, with real conversations of the rehearsal agent."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from tests.integration.server.conftest import Daemon
from tests.integration.server.streams import streams
from tests.integration.server.test_remote import wait_for_run
from tests.integration.server.test_runs import finished, submit

__all__ = ["streams"]

LIST = "/api/v1/conversations"
KEY = "team/numbers"
ONE = f"{LIST}/{quote(KEY, safe='')}"
NOTING = """
[agents.noting]
command = ["/bin/sh", "-c", "cat > /dev/null; echo Number 2."]
stdin = "prompt"
"""


@pytest.fixture
def talked(daemon: Daemon) -> Daemon:
    """A conversation of three turns; its key has a slash. And an agent that only says one thing."""
    daemon.segue.config(NOTING)
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


def test_a_search_for_an_agent_and_a_time(talked: Daemon) -> None:
    for words in ("hi", "hello"):
        talked.segue("run", "other", f"{words} number 2", "--agent", "noting")
    search = "/api/v1/search?text=number%202"
    found = talked.ask("GET", search).json
    assert {(hit["key"], hit["agent"]) for hit in found} == {(KEY, "rehearsal"), ("other", "noting")}
    by_agent = talked.ask("GET", f"{search}&agent=noting").json
    assert {hit["key"] for hit in by_agent} == {"other"}
    assert {hit["from"] for hit in by_agent} == {"user", "assistant"}
    titles = "/api/v1/search?text=numbers"
    assert [hit["key"] for hit in talked.ask("GET", f"{titles}&agent=rehearsal").json] == [KEY]
    assert talked.ask("GET", f"{titles}&agent=noting").json == []
    assert talked.ask("GET", f"{search}&since=1d").json == found
    for since in ("2999-01-01", "0min"):
        assert talked.ask("GET", f"{search}&since={since}").json == []
    assert talked.ask("GET", f"{search}&agent=nobody").kind == "misuse"
    assert talked.ask("GET", f"{search}&since=soon").kind == "misuse"


def test_conversations_are_listed_page_by_page(talked: Daemon) -> None:
    for n in range(4):
        assert talked.ask("POST", LIST, {"key": f"new-{n}"}).status == 201
    talked.segue("run", "new-2", "hi", "--agent", "rehearsal")
    every = talked.ask("GET", LIST).json
    assert [each["key"] for each in every] == ["new-2", "new-3", "new-1", "new-0", KEY]
    read: list[Any] = []
    while page := talked.ask("GET", f"{LIST}?limit=2&{before(read)}".rstrip("&")).json:
        read += page
    assert read == every
    assert talked.ask("GET", f"{LIST}?{before(every[:3])}").json == every[3:]
    talked.segue("run", every[1]["key"], "hi", "--agent", "rehearsal")  # it moves to the top
    assert talked.ask("GET", f"{LIST}?{before(every[:2])}").json == every[2:]
    talked.ask("DELETE", f"{LIST}/{every[1]['key']}")
    assert talked.ask("GET", f"{LIST}?{before(every[:2])}").json == every[2:]
    for wrong in ("limit=0", "before=x", "before=", f"before={'9' * 30}:x"):
        assert talked.ask("GET", f"{LIST}?{wrong}").kind == "misuse"


def before(read: list[Any]) -> str:
    """The parameter for what follows."""
    return f"before={read[-1]['last_used']}:{quote(read[-1]['key'], safe='')}" if read else ""


def test_sessions_are_listed_page_by_page(talked: Daemon) -> None:
    for n in range(2):
        talked.segue("run", f"new-{n}", "hi", "--agent", "rehearsal")
    base = "/api/v1/sessions?everywhere=true"
    every = talked.ask("GET", base).json
    first = talked.ask("GET", f"{base}&limit=2").json
    rest = talked.ask("GET", f"{base}&before={first[-1]['last_used']}:{first[-1]['id']}").json
    assert (len(every), first + rest) == (3, every)
    assert talked.ask("GET", f"{base}&before=yesterday").kind == "misuse"


def test_a_long_log_is_sent_in_pieces(talked: Daemon) -> None:
    talked.segue("run", KEY, "[[huge 2000000]]")
    answer = talked.ask("GET", f"{ONE}/log")
    assert (answer.headers.get("transfer-encoding"), len(answer.json)) == ("chunked", 8)
    assert len(answer.json[-1]["text"]) >= 2_000_000
    assert "content-length" in talked.ask("GET", f"{ONE}/lineage").headers


def test_agents_tell_the_models_that_were_used(talked: Daemon) -> None:
    talked.segue("run", KEY, "hi", "--model", "special")
    talked.segue("run", KEY, "hi", "--model", "none")
    (agent,) = [each for each in talked.ask("GET", "/api/v1/agents").json if each["agent"] == "rehearsal"]
    assert agent["models"] == ["rehearsal-1", "special"]
    told = msgspec.json.decode(talked.segue("agents", "--json").stdout)
    assert {each["agent"]: each["models"] for each in told}["rehearsal"] == agent["models"]


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


def test_accounts_tell_their_limits_and_what_pays(daemon: Daemon) -> None:
    home = daemon.segue.home.parent / "work"
    home.mkdir()
    (home / "login.json").write_text('{"account": "ann", "pays": "subscription"}')
    daemon.segue.config(
        f'[accounts.idle]\nagent = "rehearsal"\nhome = "{home}-not"\n'
        f'[accounts.lost]\nagent = "nobody"\n'
        f'[accounts.work]\nagent = "rehearsal"\nhome = "{home}"\n'
    )
    text = "[[limit 5h 0.82 3600]][[say hi]]"
    ran = finished(daemon, submit(daemon, "k", text, account="work")["run"])
    (limit,) = ran["turn"]["limits"]
    assert (limit["window"], limit["used"], ran["turn"]["pays"]) == ("5h", 0.82, "subscription")
    idle, lost, work = daemon.ask("GET", "/api/v1/accounts").json
    assert (idle["limits"], idle["pays"]) == (lost["limits"], lost["pays"]) == (None, "unknown")
    assert [(each["window"], each["used"], each["source"]) for each in work["limits"]] == [
        ("5h", 0.82, "stream")
    ]
    assert (work["limits"][0]["resets_at"], work["pays"]) == (limit["resets_at"], "subscription")
    plan = daemon.ask("GET", f"{LIST}/k/plan?text=hi").json
    assert (plan["limits"][0]["used"], plan["pays"]) == (0.82, "subscription")
    other = daemon.ask("GET", f"{LIST}/k/plan?text=hi&account=idle").json
    assert (other["limits"], other["pays"]) == (None, "unknown")


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
    for method, path, *body in (
        ("DELETE", ONE),
        ("POST", f"{ONE}/undo"),
        ("DELETE", f"{ONE}/messages/%235"),
        ("PATCH", f"{ONE}/messages/%235", {"text": "remember number 6"}),
        ("PATCH", f"{ONE}/messages/%235", {"text": "remember number 6", "cut": True}),
        ("PATCH", f"{ONE}/account", {"account": "none"}),
    ):
        began = time.monotonic()
        busy = talked.ask(method, path, *body)
        assert (busy.status, busy.kind) == (409, "conversation_busy")
        assert time.monotonic() - began < 1
    talked.ask("POST", f"/api/v1/runs/{run}/cancel")
    finished(talked, run)
    assert talked.ask("DELETE", ONE).status == 204  # although its process may still hold the conversation
