"""All runs in one call; what a run shows of its message; and runs that continue a native session."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from tests.integration.server.conftest import Daemon, finish, start
from tests.integration.server.streams import Stream, settled, streams
from tests.integration.server.test_runs import finished, show, submit

__all__ = ["streams"]

RUNS = "/api/v1/runs"
NOTE = {"name": "note.txt", "data": "aGVsbG8="}
OTHER = "abcdef12-0000-4000-8000-000000000002"


def listed(daemon: Daemon, query: str = "") -> dict[str, dict[str, Any]]:
    answer = daemon.ask("GET", f"{RUNS}{query}")
    assert answer.status == 200, answer.body
    return {each["run"]: each for each in answer.json}


def hour() -> int:
    return int(time.time() * 1000) + 3_600_000


def until(daemon: Daemon, run: str, state: str) -> None:
    def is_there(got: list[Any]) -> bool:
        return bool(show(daemon, run)["state"] == state)

    Stream(daemon, f"{RUNS}/{run}/events").wait(is_there)


def test_everything_that_is_not_over_is_listed_in_one_call(daemon: Daemon) -> None:
    done = submit(daemon, "a", "remember number 1")["run"]
    finished(daemon, done)
    running = submit(daemon, "a", "[[hang]]")["run"]
    queued = submit(daemon, "a", "second")["run"]
    parked = submit(daemon, "b", "later", not_before=hour())["run"]
    asking = submit(daemon, "c", "[[ask Which? | a | b]][[result]]", answers=True)["run"]
    until(daemon, asking, "needs_you")
    until(daemon, running, "running")
    found = listed(daemon)
    assert {run: each["state"] for run, each in found.items()} == {
        running: "running",
        queued: "queued",
        parked: "parked",
        asking: "needs_you",
    }
    assert list(found) == sorted(found, key=lambda run: (found[run]["created"], run), reverse=True)
    assert found[asking]["questions"][0]["kind"] == "question"
    assert found[asking] == show(daemon, asking)
    assert set(listed(daemon, "?conversation=a")) == {running, queued}
    assert set(listed(daemon, "?state=done&state=parked")) == {done, parked}
    assert set(listed(daemon, "?state=needs_you")) == {asking}
    assert len(listed(daemon, "?limit=2")) == 2
    assert daemon.ask("GET", f"{RUNS}?state=lost").kind == "misuse"
    assert daemon.ask("GET", f"{RUNS}?conversation=nobody").kind == "not_found"


def test_a_question_of_a_run_that_has_ended_is_listed_with_what_is_not_over(daemon: Daemon) -> None:
    run = submit(daemon, "c", "[[ask Which? | a | b]][[result]]", answers=True)["run"]
    until(daemon, run, "needs_you")
    os.kill(daemon.process.pid, signal.SIGKILL)
    daemon.process.wait()
    later = start(daemon.segue)
    try:
        Stream(later, f"{RUNS}/{run}/events").wait_over()
        found = listed(later)[run]
        assert (found["state"], found["question"]["lapsed"]) == ("failed", True)
        assert listed(later, "?state=queued") == {}
    finally:
        finish(later.process)


def test_a_run_shows_its_message_and_its_options(daemon: Daemon) -> None:
    options = {"permission": "full", "timeout": 60.0, "allow_tools": ["shell"]}
    run = submit(daemon, "a", "in words", not_before=hour(), attachments=[NOTE], options=options)
    assert (run["text"], run["options"]) == ("in words", options)
    assert [each["name"] for each in run["attachments"]] == ["note.txt"]
    daemon.ask("PATCH", f"/api/v1/queue/{run['run']}", {"text": "in other words"})
    (waiting,) = daemon.ask("GET", "/api/v1/queue").json
    assert (waiting["text"], waiting["options"]) == ("in other words", options)
    assert waiting["attachments"] == run["attachments"]
    gone = daemon.ask("DELETE", f"/api/v1/queue/{run['run']}").json
    assert (gone["text"], gone["options"]) == ("in other words", None)
    assert submit(daemon, "a", "hi", not_before=hour(), options={"budget": "none"})["options"] == {
        "budget": "none"
    }


def foreign(daemon: Daemon) -> Path:
    """A session that Segue knows nothing of."""
    known = finished(daemon, submit(daemon, "first", "remember number 456")["run"])["turn"]["session_id"]
    (row,) = daemon.ask("GET", "/api/v1/sessions?everywhere=true").json
    copy = Path(row["path"]).with_name(f"{OTHER}.jsonl")
    copy.write_text(Path(row["path"]).read_text().replace(known, OTHER))
    return copy


def go_on(daemon: Daemon, session: str, message: str, **more: Any) -> dict[str, Any]:
    path = f"/api/v1/sessions/rehearsal/{session}/continue"
    answer = daemon.ask("POST", path, {"message": message, **more})
    assert answer.status == 202, answer.body
    run: dict[str, Any] = answer.json
    return run


def test_a_session_becomes_a_conversation_and_goes_on_there(daemon: Daemon) -> None:
    foreign(daemon)
    first = go_on(daemon, OTHER, "what number?", not_before=hour())
    second = go_on(daemon, OTHER, "what number again?")
    assert daemon.ask("POST", f"{RUNS}/{first['run']}/now").status == 200
    assert first["conversation"] == second["conversation"] == "rehearsal-abcdef12"
    for run in (first, second):
        turn = finished(daemon, run["run"])["turn"]
        assert (turn["mode"], turn["text"], turn["session_id"]) == ("resume", "456", OTHER)
    third = go_on(daemon, OTHER, "once more?")
    assert third["conversation"] == "rehearsal-abcdef12"
    assert finished(daemon, third["run"])["turn"]["mode"] == "resume"
    log = daemon.ask("GET", "/api/v1/conversations/rehearsal-abcdef12/log").json
    assert [each["text"] for each in log if each["from"] == "user"] == [
        "remember number 456",
        "what number?",
        "what number again?",
        "once more?",
    ]
    path = f"/api/v1/sessions/rehearsal/{OTHER}/continue"
    assert daemon.ask("POST", path, {"message": "hi", "key": "elsewhere"}).kind == "misuse"
    for body in ({}, {"message": ""}, {"message": "hi", "retry_of": "#1"}):
        assert daemon.ask("POST", path, body).kind == "misuse"
    with_path = {"message": "hi", "attachments": [{"path": "/etc/hostname"}]}
    assert daemon.ask("POST", path, with_path).kind == "forbidden"
    assert daemon.ask("POST", path.replace(OTHER, "0" * 12), {"message": "hi"}).kind == "not_found"


def test_a_session_is_continued_under_a_key_and_with_options(daemon: Daemon) -> None:
    foreign(daemon)
    run = go_on(daemon, OTHER, "what number?", key="mine", not_before=hour(), options={"permission": "read"})
    assert (run["conversation"], run["state"]) == ("mine", "parked")
    assert run["options"] == {"permission": "read"}
    assert daemon.ask("POST", f"{RUNS}/{run['run']}/now").status == 200
    assert finished(daemon, run["run"])["turn"]["text"] == "456"


def test_a_session_of_a_conversation_goes_on_in_it(daemon: Daemon) -> None:
    session = finished(daemon, submit(daemon, "first", "remember number 456")["run"])["turn"]["session_id"]
    run = go_on(daemon, session, "what number?")
    assert run["conversation"] == "first"
    everything = Stream(daemon, "/api/v1/events")
    everything.wait(lambda got: settled(got, run["run"]) or show(daemon, run["run"])["turn"] is not None)
    assert finished(daemon, run["run"])["turn"]["text"] == "456"
