"""The routes for conversations and sessions, with real conversations of the rehearsal agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.integration.server.conftest import Daemon

LIST = "/api/v1/conversations"
KEY = "team/fix auth".replace(" ", "-")
ONE = f"{LIST}/{quote(KEY, safe='')}"


@pytest.fixture
def talked(daemon: Daemon) -> Daemon:
    """A conversation of two turns; its key has a slash."""
    for words in ("remember the number 456", "what number?"):
        ran = daemon.segue("run", KEY, words, "--agent", "rehearsal")
        assert ran.code == 0, ran.stderr
    return daemon


def test_a_key_with_a_line_break_is_answered_as_any_other(daemon: Daemon) -> None:
    answer = daemon.ask("GET", "/api/v1/conversations/a%0Ab/log")
    assert (answer.status, answer.kind) in ((404, "not_found"), (422, "misuse"))


def test_a_key_with_a_slash(talked: Daemon) -> None:
    (listed,) = talked.ask("GET", LIST).json
    assert (listed["key"], listed["messages"]) == (KEY, 4)
    log = talked.ask("GET", f"{ONE}/log").json
    assert [each["from"] for each in log] == ["user", "assistant"] * 2
    assert talked.ask("GET", f"{LIST}/{KEY}/log").kind == "not_found"


def test_the_plan_is_that_of_why(talked: Daemon) -> None:
    plan = talked.ask("GET", f"{ONE}/plan?text=hello").json
    assert (plan["conversation"], plan["mode"]) == (KEY, "resume")
    fresh = talked.ask("GET", f"{ONE}/plan?text=hello&fresh_session=true").json
    assert fresh["mode"] != "resume"
    retried = talked.ask("GET", f"{ONE}/plan?retry_of=%233").json
    assert (retried["mode"], retried["sends"]["native_messages"]) == ("branch", 2)
    assert talked.ask("GET", f"{ONE}/plan?retry_of=%231").kind == "misuse"
    assert talked.ask("GET", f"{ONE}/plan?retry_of=%231&cut=true").json["mode"] == "fresh"
    terms = "permission=full&allow_tools=read&allow_tools=write&deny_tools=shell&questions=on"
    told = talked.ask("GET", f"{ONE}/plan?{terms}").json["terms"]
    assert (told["permission"], told["allow_tools"]) == ("full", ["read", "write"])
    assert told["deny_tools"] == ["shell"]
    assert talked.ask("GET", f"{ONE}/plan?max_turns=3").json["terms"]["max_turns"] == 3
    assert "does not support --budget" in talked.ask("GET", f"{ONE}/plan?budget=0.5").json["detail"]
    assert talked.ask("GET", f"{ONE}/plan?budget=none&fork=true").json["terms"]["budget_usd"] is None
    assert talked.ask("GET", f"{ONE}/plan?budget=much").kind == "misuse"
    assert talked.ask("GET", f"{ONE}/plan?adopt=nothing-like-it").kind == "not_found"


def test_last(talked: Daemon) -> None:
    last = talked.ask("GET", f"{ONE}/last?wait=20").json
    assert "456" in last["text"]
    assert last["turn"]["text"] == last["text"]
    assert (last["message"], last["running"]) == (None, False)


def test_messages_are_changed_and_changed_back(talked: Daemon) -> None:
    message = talked.ask("GET", f"{ONE}/log").json[2]["id"]
    edited = talked.ask("PATCH", f"{ONE}/messages/{message}", {"text": "which number?", "cut": True})
    assert edited.json == {"dropped": 1}
    assert talked.ask("POST", f"{ONE}/undo").json == {"kind": "edit", "restored": 1}
    assert talked.ask("DELETE", f"{ONE}/messages/%233").json == {"dropped": 2}
    assert len(talked.ask("GET", f"{ONE}/log").json) == 2
    assert talked.ask("POST", f"{ONE}/undo").json["kind"] == "truncate"
    assert talked.ask("POST", f"{ONE}/undo").kind == "misuse"


def test_a_conversation_is_forked_carried_and_forgotten(talked: Daemon) -> None:
    forked = talked.ask("POST", f"{ONE}/fork", {"key": "other/one", "upto": "#2"})
    assert (forked.status, forked.json) == (201, {"key": "other/one"})
    assert talked.ask("POST", f"{ONE}/fork").status == 201
    export = talked.ask("GET", f"{ONE}/export")
    assert export.headers["content-type"] == "application/json"
    markdown = talked.ask("GET", f"{ONE}/export?form=markdown")
    assert markdown.headers["content-type"].startswith("text/markdown")
    assert "what number?" in markdown.body.decode()
    taken = talked.ask("POST", f"{LIST}/import", {"export": export.json, "key": "copy"})
    assert (taken.status, taken.json) == (201, {"key": "copy"})
    assert talked.ask("POST", f"{LIST}/import", {"export": export.json}).kind == "misuse"
    for key in ("copy", "other%2Fone"):
        gone = talked.ask("DELETE", f"{LIST}/{key}")
        assert (gone.status, gone.body) == (204, b"")
        assert talked.ask("GET", f"{LIST}/{key}/log").kind == "not_found"


PROBLEMS: list[tuple[str, str, Any, str]] = [
    ("GET", "/nowhere", None, "not_found"),
    ("PUT", LIST, None, "method_not_allowed"),
    ("GET", f"{LIST}/nobody/log", None, "not_found"),
    ("GET", f"{LIST}/bad%20key/log", None, "misuse"),
    ("GET", f"{LIST}/%ff/log", None, "not_found"),
    ("GET", f"{ONE}/plan?colour=red", None, "misuse"),
    ("GET", f"{ONE}/plan?text=a&text=b", None, "misuse"),
    ("GET", f"{ONE}/plan?text=%ff", None, "bad_request"),
    ("GET", f"{ONE}/plan?fresh_session=perhaps", None, "misuse"),
    ("GET", f"{ONE}/plan?agent=nobody", None, "misuse"),
    ("GET", f"{LIST}?anything=1", None, "misuse"),
    ("PATCH", f"{ONE}/messages/%2399", {"text": "x"}, "not_found"),
    ("PATCH", f"{ONE}/messages/1", {"text": ""}, "misuse"),
    ("PATCH", f"{ONE}/messages/1", {"text": "x", "colour": "red"}, "misuse"),
    ("PATCH", f"{ONE}/messages/1", {}, "misuse"),
    ("PATCH", f"{ONE}/messages/1", [], "misuse"),
    ("POST", f"{LIST}/import", {"export": {"nothing": 1}}, "misuse"),
    ("GET", "/api/v1/sessions/rehearsal/0000000000/events", None, "not_found"),
    ("GET", "/api/v1/sessions?limit=0", None, "misuse"),
    ("GET", "/api/v1/sessions/search", None, "misuse"),
    ("POST", "/api/v1/sessions/prune", {"days": -1}, "misuse"),
    ("DELETE", LIST, {"x": 1}, "method_not_allowed"),
    ("GET", LIST, {"x": 1}, "misuse"),
    ("GET", LIST, {"x": "x" * 100}, "too_large"),
]


def test_each_problem_has_its_kind(talked: Daemon) -> None:
    for method, path, body, kind in PROBLEMS:
        answer = talked.ask(method, path, body)
        assert answer.kind == kind, (method, path, answer.body)
        assert "Traceback" not in answer.body.decode()
    assert "GET" in talked.ask("PUT", LIST).headers["allow"]


def test_a_body_that_is_no_json(talked: Daemon) -> None:
    path = f"{ONE}/messages/1"
    assert talked.ask("PATCH", path, raw=b"{").kind == "bad_request"
    assert talked.ask("PATCH", path, raw=b'{"text": "\xff"}').kind in ("bad_request", "misuse")
    assert talked.ask("PATCH", path, raw=b"[" * 100_000).kind in ("bad_request", "misuse")
    assert (
        talked.ask("PATCH", path, raw=b'{"text": "x"}', content_type="text/plain").kind == "unsupported_media"
    )


def test_sessions_are_listed_and_read_by_pages(talked: Daemon) -> None:
    (listed,) = talked.ask("GET", "/api/v1/sessions?everywhere=true&agent=rehearsal").json
    events = f"/api/v1/sessions/rehearsal/{listed['id']}/events"
    newest = talked.ask("GET", f"{events}?anchor_to_latest=true&size=2").json
    assert list(newest) == ["firstId", "hasMore", "size", "events", "lastId", "hasNewer"]
    assert (newest["hasMore"], newest["hasNewer"]) == (True, False)
    before = talked.ask("GET", f"{events}?beforeId={quote(newest['firstId'])}").json
    assert before["events"]
    assert not {each["id"] for each in before["events"]} & {each["id"] for each in newest["events"]}
    gone = talked.ask("GET", f"{events}?beforeId=99999999.7&size=2")
    assert gone.kind == "gone"
    assert gone.json["page"] == newest
    for asked in ("beforeId=1.0&anchor_to_latest=true", "beforeId=1.0&afterId=1.0", "at=1.0&afterId=1.0"):
        assert talked.ask("GET", f"{events}?{asked}").kind == "misuse"


def test_a_session_is_read_around_an_event_and_on_from_there(talked: Daemon) -> None:
    (listed,) = talked.ask("GET", "/api/v1/sessions?everywhere=true&agent=rehearsal").json
    events = f"/api/v1/sessions/rehearsal/{listed['id']}/events"
    every = talked.ask("GET", events).json["events"]
    page = talked.ask("GET", f"{events}?at={every[2]['id']}&size=2").json
    assert page["events"][-1] == every[2]
    assert (page["lastId"], page["hasNewer"]) == (every[2]["id"], True)
    after = talked.ask("GET", f"{events}?afterId={page['lastId']}").json
    assert (after["events"], after["hasNewer"]) == (every[3:], False)
    talked.segue("run", KEY, "what number now?")
    new = talked.ask("GET", f"{events}?afterId={after['lastId']}").json
    assert "what number now?" in {each.get("text") for each in new["events"]}
    assert talked.ask("GET", f"{events}?afterId={new['lastId']}").json["events"] == []
    for asked in ("afterId=99999999.7", "at=nothing"):
        gone = talked.ask("GET", f"{events}?{asked}")
        assert (gone.kind, gone.json["page"]["events"][-1]) == ("gone", new["events"][-1])


def test_a_session_tells_what_a_resume_would_restore(talked: Daemon) -> None:
    (listed,) = talked.ask("GET", "/api/v1/sessions?everywhere=true&agent=rehearsal").json
    one = talked.ask("GET", f"/api/v1/sessions/rehearsal/{listed['id']}").json
    assert {name: one[name] for name in listed} == listed
    assert (one["counts"]["messages"], one["counts"]["whole"]) == (4, True)
    assert one["load"]["tokens"] == listed["context"]["used"]
    assert talked.ask("GET", "/api/v1/sessions/rehearsal/nothing-like-it").kind == "not_found"


def test_of_a_large_session_both_ends_are_counted(talked: Daemon) -> None:
    (listed,) = talked.ask("GET", "/api/v1/sessions?everywhere=true&agent=rehearsal").json
    path = Path(listed["path"])
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines) + lines[-1] * (3_000_000 // len(lines[-1])))
    one = talked.ask("GET", f"/api/v1/sessions/rehearsal/{listed['id']}").json
    assert one["size"] > 2_500_000
    assert one["counts"]["whole"] is False
    assert 4 < one["counts"]["messages"] < 600_000 // len(lines[-1])


def test_sessions_are_looked_after(talked: Daemon) -> None:
    (listed,) = talked.ask("GET", "/api/v1/sessions?everywhere=true").json
    one = f"/api/v1/sessions/rehearsal/{listed['id']}"
    assert talked.ask("GET", f"{one}/check").json["sound"] is True
    assert talked.ask("POST", f"{one}/repair", {}).json["agent"] == "rehearsal"
    assert talked.ask("GET", "/api/v1/sessions/search?q=456").json
    report = talked.ask("POST", "/api/v1/sessions/prune", {"days": 0}).json
    assert report["deleted"] is False
    assert isinstance(talked.ask("GET", "/api/v1/sessions/copies").json, list)


def test_agents_and_doctor(daemon: Daemon) -> None:
    assert "rehearsal" in {each["agent"] for each in daemon.ask("GET", "/api/v1/agents").json}
    assert {each["level"] for each in daemon.ask("GET", "/api/v1/doctor").json} <= {
        "ok",
        "note",
        "warn",
        "bad",
    }


def test_the_document_is_served(daemon: Daemon) -> None:
    told = daemon.ask("GET", "/api/openapi.json").json
    assert told["servers"] == [{"url": daemon.url}]
    assert f"{LIST}/{{key}}/log" in told["paths"]
    assert "/api/v1/local/turns" not in told["paths"]
    assert daemon.ask("HEAD", "/api/openapi.json").body == b""
