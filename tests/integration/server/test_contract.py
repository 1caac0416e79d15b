"""The written contract of the API: every answer, event and problem, as a real daemon gives it.

The files are in ``tests/fixtures/api``; ``pytest --record`` writes them anew. What differs from run to run is
replaced: an id by ``id-1``, ``id-2``, … in the order in which a file names them, a time by 1700000000000, a
measured number by 1, a directory by ``/place``.
"""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from segue.core.events import AnyEvent
from segue.server.api import endpoints
from segue.server.endpoint import Found, Table
from segue.server.problems import KINDS
from tests.chaos.scenes import until
from tests.integration.conftest import Program
from tests.integration.server.conftest import Answer, Daemon, finish, start
from tests.integration.server.streams import Sent, Stream, settled, streams

__all__ = ["streams"]

FIXTURES = Path(__file__).parents[2] / "fixtures/api"
V1 = "/api/v1"
KEY = f"{V1}/conversations/team%2Fnumbers"
ASKING = f"{V1}/conversations/asking"
CONFIG = '''
[defaults]
agent = "rehearsal"

[accounts.work]
agent = "rehearsal"
env = { SOME_TOKEN = "s" }
pass_env = ["SOME_VARIABLE"]

[accounts.home]
agent = "claude"
home = "/nowhere/claude"

[agents.claude]
command = "{summing}"

[agents.noting]
command = ["/bin/sh", "-c", """cat > /dev/null; echo '{"note": "busy"}'; echo '{"text": "Done."}'"""]
stdin = "prompt"
output = "jsonl"
text = { path = "$.text" }
error = { path = "$.note" }
'''
"""An account, an agent that gives notice of something, and one that shortens its history."""
SUMMING = """#!/bin/sh
test "$1" = --version && exec echo "2.1.325 (Claude Code)"
read -r line
about='{"trigger": "auto", "pre_tokens": 9000}'
echo '{"type": "system", "subtype": "compact_boundary", "compact_metadata": '"$about"'}'
"""
SILENT = {"heard", "text-delta"}
"""Events that are not sent as such: one is never told, the other is a ``delta``."""
LOCAL = {
    "POST /api/v1/local/turns",
    "POST /api/v1/local/changes",
    "POST /api/v1/accounts",
    "DELETE /api/v1/accounts/{name}",
}
STREAMS = {"GET /api/v1/events", "GET /api/v1/runs/{run}/events", "GET /api/v1/flows/{flow}/events"}
ELSEWHERE = {*LOCAL, *STREAMS}
"""Routes without a file of their own: some are for the Unix socket only, the streams are the ``event-*``."""
NOTE = {"name": "note.json", "data": "eyJub3RlIjogMX0="}
"""An attachment. It is JSON, so that it can be written as the body of a file."""
NEVER = {"internal", "unavailable"}
"""Problems that a healthy daemon does not have."""

MOMENT = 1_700_000_000_000
MEASURED = {"duration_ms", "pid", "memory", "seq", "kept_size", "size_before", "bytes", "age"}
FIXED = {"version": "1.2.3", "agent_version": "1.2.3", "host": "host", "feed": "feed", "session": "0123abcd"}
"""Texts that differ from machine to machine or from run to run. A session that is no id is a short hash."""
ID = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|\b(?=[a-z]*[0-9])[0-9a-hjkmnp-tv-z]{26}\b|\bcall-[0-9a-f]{8}\b|^\d+\.\d+$|^[0-9a-f]{16}$"
)


class Normal:
    """Replaces what differs from run to run, in one file."""

    def __init__(self, daemon: Daemon, feed: str) -> None:
        self._ids: dict[str, str] = {}
        self._texts = {
            str(daemon.home.parent): "/place",
            daemon.url: "http://127.0.0.1:1",
            f"{feed}:": "feed:",
        }

    def __call__(self, value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            return {self(key): self(each, key) for key, each in value.items()}
        if isinstance(value, list):
            return [self(each, name) for each in value]
        if isinstance(value, str):
            return self._text(value, name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value
        if value > 1e12:
            return MOMENT
        return 1 if name in MEASURED or (name == "size" and value > 500) else value

    def _text(self, text: str, name: str) -> str:
        if name in FIXED and not ID.fullmatch(text):
            return FIXED[name]
        for changing, fixed in self._texts.items():
            text = text.replace(changing, fixed)
        text = re.sub(r"feed:\d+", "feed:1", text)
        text = re.sub(r"code=[\w-]+", "code=secret", text)
        text = re.sub(r"=\d+\.\d+\b", "=1.0", text)
        text = re.sub(r"\b\d+(\.\d+)? KB", "1.0 KB", text)
        text = re.sub(r"process \d+ on [\w.-]+", "process 1 on host", text)
        return ID.sub(lambda found: self._ids.setdefault(found[0], f"id-{len(self._ids) + 1}"), text)


@dataclass
class Scene:
    """Plays the scenario, and keeps what was answered by the name of its file."""

    daemon: Daemon
    everything: Stream
    files: dict[str, Any] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)

    def keep(self, name: str, value: Any) -> None:
        assert name not in self.files, name
        self.files[name] = Normal(self.daemon, self.everything.got[0].data["feed"])(value)

    def ask(
        self,
        name: str,
        method: str,
        path: str,
        body: Any = None,
        only: tuple[str, str] | None = None,
        without: tuple[str, ...] = (),
        **more: Any,
    ) -> Any:
        """One request that becomes a file; the answer's body. ``only``: the items that all machines have.
        ``without``: fields that have changed already, or not yet."""
        answer = self.daemon.ask(method, path, body, **more)
        found = Table(endpoints()).find(method, path.partition("?")[0])
        if isinstance(found, Found) and answer.status < 400:
            self.asked.add(f"{method} {found.endpoint.path}")
        shown = _told(answer)
        if only is not None:
            shown = [each for each in shown if each[only[0]] == only[1]]
        if without:
            shown = {name: value for name, value in shown.items() if name not in without}
        told = {"request": f"{method} {path}", "status": answer.status, "body": shown}
        if body is not None:
            told["sent"] = body
        self.keep(name, told)
        return shown

    def run(self, message: str, key: str = KEY, **more: Any) -> str:
        """Queue a run that becomes no file; its id."""
        body = {"message": message, "agent": "rehearsal", "cwd": str(self.daemon.segue.cwd), **more}
        answer = self.daemon.ask("POST", f"{key}/runs", body)
        assert answer.status == 202, answer.body
        return str(answer.json["run"])

    def until(self, run: str, state: str) -> None:
        """Wait until the feed has shown the run in that state."""
        self.everything.wait(lambda got: any(_state(each, run) == state for each in got))

    def event(self, name: str, run: str | None, kind: str, type_: str | None = None) -> None:
        """The first event of that kind, as a file."""
        for each in self.everything.got:
            named = each.data.get("run")
            of = named["run"] if isinstance(named, dict) else named
            inner = each.data["event"]["type"] if each.kind == "event" else None
            if each.kind == kind and inner == type_ and run in (None, of):
                self.keep(name, {"event": each.kind, "id": each.id, "data": each.data})
                return
        raise AssertionError(f"no {kind} {type_} came")


def _told(answer: Answer) -> Any:
    return msgspec.json.decode(answer.body) if answer.body else None


def _state(sent: Sent, run: str) -> str | None:
    shown = sent.data.get("run") if sent.kind == "run" else None
    return shown["state"] if shown is not None and shown["run"] == run else None


def play(scene: Scene) -> None:
    """The whole scenario, in an order in which each step has what it needs."""
    scene.keep("event-hello", vars_of(scene.everything.got[0]))
    scene.ask("health", "GET", f"{V1}/health")
    created = {"key": "team/numbers", "agent": "rehearsal", "title": "Numbers"}
    scene.ask("conversation-created", "POST", f"{V1}/conversations", created)
    parts = (_first_turn, _states, _question, _texts, _reading, _changes, _sessions, _setup)
    for part in (*parts, _flows, _oddities, _problems, _lapsed):
        part(scene)


def vars_of(sent: Sent) -> dict[str, Any]:
    return {"event": sent.kind, "id": sent.id, "data": sent.data}


def _first_turn(scene: Scene) -> None:
    message = "remember number 4 [[think about it]][[shell echo hi]][[say Noted: 4.]]"
    run = scene.run(message, options={"permission": "full"}, attachments=[NOTE])
    scene.everything.wait(lambda got: settled(got, run))
    for type_ in ("session", "thinking", "tool-call", "tool-result", "usage", "text", "end"):
        scene.event(f"event-{type_}", run, "event", type_)
    scene.event("event-delta", run, "delta")
    scene.event("event-conversation", None, "conversation")
    scene.ask("run-done", "GET", f"{V1}/runs/{run}")
    scene.ask("run-event", "GET", f"{V1}/runs/{run}/events/1")
    last = next(each for each in reversed(scene.everything.got) if _state(each, run) == "done")
    scene.keep("event-run", vars_of(last))


def _states(scene: Scene) -> None:
    failed = scene.run("[[error 400]]")
    scene.until(failed, "failed")
    scene.ask("run-failed", "GET", f"{V1}/runs/{failed}")
    hanging = scene.run("[[hang]]")
    scene.everything.wait(lambda got: any(_has_session(each, hanging) for each in got))
    scene.ask("run-running", "GET", f"{V1}/runs/{hanging}")
    scene.ask("problem-conversation-busy", "PATCH", f"{KEY}/messages/%231", {"text": "too early"})
    order = {"message": "second", "agent": "rehearsal", "cwd": str(scene.daemon.segue.cwd)}
    second = scene.ask("run-submitted", "POST", f"{KEY}/runs", order)["run"]
    third = scene.run("third")
    scene.ask("queue", "GET", f"{V1}/queue?conversation=team%2Fnumbers")
    scene.ask("runs", "GET", f"{V1}/runs?conversation=team%2Fnumbers")
    scene.ask("queue-moved", "POST", f"{V1}/queue/{third}/move", {"place": 1})
    scene.ask("queue-edited", "PATCH", f"{V1}/queue/{third}", {"text": "third, in other words"})
    scene.ask("queue-removed", "DELETE", f"{V1}/queue/{second}")
    scene.daemon.ask("DELETE", f"{V1}/queue/{third}")
    parked = scene.run("later", not_before=int(time.time() * 1000) + 3_600_000)
    scene.ask("run-parked", "GET", f"{V1}/runs/{parked}")
    scene.ask("conversation-waiting", "GET", KEY)
    scene.ask("run-woken", "POST", f"{V1}/runs/{parked}/now")  # it still waits for the other one
    scene.ask("run-cancelling", "POST", f"{V1}/runs/{hanging}/cancel")
    scene.until(hanging, "cancelled")
    scene.ask("run-cancelled", "GET", f"{V1}/runs/{hanging}")
    scene.ask("problem-gone", "POST", f"{V1}/runs/{hanging}/cancel")
    scene.everything.wait(lambda got: settled(got, parked))


def _has_session(sent: Sent, run: str) -> bool:
    return sent.kind == "event" and sent.data["run"] == run and sent.data["event"]["type"] == "session"


def _question(scene: Scene) -> None:
    """In a conversation of its own: whether an agent may ask is decided when its session begins."""
    run = scene.run("[[ask Which colour? | red | blue]][[slow 2 1]][[say Blue.]]", ASKING, answers=True)
    scene.until(run, "needs_you")
    shown = scene.ask("run-needs-you", "GET", f"{V1}/runs/{run}")
    scene.ask("conversation-asking", "GET", ASKING)
    answer = {"tool_use_id": shown["question"]["id"], "answers": {"Which colour?": "blue"}}
    wrong = {"tool_use_id": "nothing", "content": "blue"}
    scene.ask("problem-not-asked", "POST", f"{V1}/runs/{run}/tool-result", wrong)
    scene.ask("run-answered", "POST", f"{V1}/runs/{run}/tool-result", answer)
    scene.ask("problem-conflict", "POST", f"{V1}/runs/{run}/tool-result", answer)
    scene.everything.wait(lambda got: settled(got, run))
    scene.event("event-question", run, "event", "question")
    _permission(scene)
    _variables(scene)
    _budget(scene)


def _permission(scene: Scene) -> None:
    run = scene.run("[[shell true]][[say Done.]]", ASKING, answers=True)
    scene.until(run, "needs_you")
    shown = scene.ask("run-needs-permission", "GET", f"{V1}/runs/{run}")
    answer = {"tool_use_id": shown["question"]["id"], "always": True}
    assert scene.daemon.ask("POST", f"{V1}/runs/{run}/tool-result", answer).status == 200
    scene.everything.wait(lambda got: settled(got, run))
    scene.event("event-permission", run, "event", "permission")
    scene.ask("tool-disallowed", "DELETE", f"{ASKING}/allowed-tools/shell")


def _variables(scene: Scene) -> None:
    """A run that was queued where a variable is set that the daemon does not have."""
    segue = scene.daemon.segue
    segue.env["SOME_VARIABLE"] = "x"
    ran = segue("run", "variables", "hi", "--account", "work", "--queue")
    del segue.env["SOME_VARIABLE"]
    run = ran.stdout.strip()
    scene.until(run, "needs_you")
    scene.ask("run-needs-variables", "GET", f"{V1}/runs/{run}")
    scene.daemon.ask("DELETE", f"{V1}/queue/{run}")


def _budget(scene: Scene) -> None:
    """A conversation whose budget is spent."""
    file, path = scene.daemon.home / "config.toml", f"{V1}/conversations/budget"
    first = scene.run("Read all of this before you answer. " * 4, path)
    Stream(scene.daemon, f"{V1}/runs/{first}/events").wait_over()
    known = file.read_text()
    file.write_text(known + "\n[budgets]\nconversation = 0.000001\n")
    run = scene.run("and again", path)
    scene.until(run, "needs_you")
    scene.ask("run-needs-budget", "GET", f"{V1}/runs/{run}")
    file.write_text(known)
    scene.daemon.ask("DELETE", f"{V1}/queue/{run}")


def _lapsed(scene: Scene) -> None:
    """The daemon is killed while a question is open."""
    run = scene.run("[[ask Which colour? | red | blue]]", f"{V1}/conversations/lapsed", answers=True)
    scene.until(run, "needs_you")
    scene.daemon.end(signal.SIGKILL)
    finish(scene.daemon.process)
    scene.daemon = start(scene.daemon.segue)
    Stream(scene.daemon, f"{V1}/runs/{run}/events").wait_over()
    scene.ask("run-lapsed", "GET", f"{V1}/runs/{run}")


def _oddities(scene: Scene) -> None:
    """Events that most runs do not have, each in a conversation of its own."""
    for type_, message, agent in (
        ("retry", "[[error 503 times 1]]", "rehearsal"),
        ("unknown", "[[malformed]]", "rehearsal"),
        ("notice", "hi", "noting"),
        ("compacted", "hi", "claude"),
        ("limit", "[[limit 5h 0.82 90000]][[say hi]]", "rehearsal"),
    ):
        run = scene.run(message, f"{V1}/conversations/{type_}", agent=agent)
        scene.everything.wait(lambda got, run=run: settled(got, run))  # type: ignore[misc]
        scene.event(f"event-{type_}", run, "event", type_)


def _texts(scene: Scene) -> None:
    """Somebody comes while the agent speaks; somebody else has been away for too long."""
    run = scene.run("[[slow 4 2]][[say Once upon a time]]")
    path = f"{V1}/runs/{run}/events"
    Stream(scene.daemon, path).wait(lambda got: any(each.kind == "delta" for each in got))
    late = Stream(scene.daemon, path).wait(bool)[0]
    scene.keep("event-hello-running", vars_of(late))
    scene.everything.wait(lambda got: settled(got, run))
    gap = Stream(scene.daemon, f"{V1}/events", after="0:1").wait(bool)[0]
    scene.keep("event-hello-gap", vars_of(gap))


def _reading(scene: Scene) -> None:
    scene.ask("conversations", "GET", f"{V1}/conversations")
    scene.ask("conversation", "GET", KEY)
    scene.ask("conversation-changed", "PATCH", KEY, {"title": "Some numbers", "starred": True})
    scene.ask("conversation-read", "POST", f"{KEY}/read")
    first = scene.ask("messages", "GET", f"{KEY}/messages?limit=2")["first_id"]
    scene.ask("messages-around", "GET", f"{KEY}/messages?at={first}&limit=2&events=true")
    scene.ask("messages-after", "GET", f"{KEY}/messages?after={first}&limit=1")
    scene.ask("conversation-sessions", "GET", f"{KEY}/sessions")
    scene.ask("log", "GET", f"{KEY}/log")
    scene.ask("plan", "GET", f"{KEY}/plan")
    scene.ask("last", "GET", f"{KEY}/last")
    scene.ask("lineage", "GET", f"{KEY}/lineage")
    file = scene.daemon.ask("GET", f"{KEY}/log").json[0]["attachments"][0]["id"]
    scene.ask("attachment", "GET", f"{KEY}/attachments/{file}")
    scene.ask("siblings", "GET", f"{KEY}/messages/%231/siblings")
    scene.ask("search", "GET", f"{V1}/search?text=number%204")
    scene.ask("usage", "GET", f"{V1}/usage?by=agent&split=mode")
    scene.ask("usage-unpaid", "GET", f"{V1}/usage/unpaid")
    exported = scene.ask("export", "GET", f"{KEY}/export?form=json")
    scene.ask("imported", "POST", f"{V1}/conversations/import", {"export": exported, "key": "copy"})


def _changes(scene: Scene) -> None:
    seen = len(scene.everything.got)
    scene.ask("message-edited", "PATCH", f"{KEY}/messages/%231", {"text": "remember number 5"})
    scene.everything.wait(lambda got: any(each.kind == "message" for each in got[seen:]))
    told = next(each for each in scene.everything.got[seen:] if each.kind == "message")
    scene.keep("event-message", vars_of(told))
    scene.ask("undone", "POST", f"{KEY}/undo")
    scene.ask("forked", "POST", f"{KEY}/fork", {"key": "fork"})
    scene.ask("lineage-children", "GET", f"{KEY}/lineage")
    scene.ask("messages-dropped", "DELETE", f"{V1}/conversations/fork/messages/%231")
    scene.ask("conversation-removed", "DELETE", f"{V1}/conversations/fork")
    scene.everything.wait(lambda got: any(each.kind == "removed" for each in got))
    scene.event("event-removed", None, "removed")


def _sessions(scene: Scene) -> None:
    base = f"{V1}/sessions"
    listed = scene.ask("sessions", "GET", f"{base}?everywhere=true")
    one = f"{base}/rehearsal/{listed[-1]['id']}"
    scene.ask("session", "GET", one)
    later = {"message": "go on", "key": "continued", "not_before": int(time.time() * 1000) + 3_600_000}
    continued = scene.ask("session-continued", "POST", f"{one}/continue", later)
    scene.daemon.ask("DELETE", f"{V1}/queue/{continued['run']}")
    newest = scene.ask("session-events", "GET", f"{one}/events?anchor_to_latest=true&size=2")
    scene.ask("session-events-at", "GET", f"{one}/events?at={newest['firstId']}&size=1")
    scene.ask("session-events-after", "GET", f"{one}/events?afterId={newest['firstId']}&size=1")
    scene.ask("session-check", "GET", f"{one}/check")
    scene.ask("session-repaired", "POST", f"{one}/repair", {})
    scene.ask("session-gone", "GET", f"{one}/events?beforeId=nothing")
    scene.ask("sessions-found", "GET", f"{base}/search?q=number")
    copy = scene.ask("sessions-copies", "GET", f"{base}/copies")[0]
    Path(copy["path"]).unlink()
    scene.ask("session-restored", "POST", f"{base}/rehearsal/{copy['id']}/restore")
    scene.ask("sessions-pruned", "POST", f"{base}/prune", {})


def _setup(scene: Scene) -> None:
    scene.ask("status", "GET", f"{V1}/status")
    scene.ask("login-link", "POST", f"{V1}/login-links")
    scene.ask("settings", "GET", f"{V1}/settings")
    scene.ask("accounts", "GET", f"{V1}/accounts")
    scene.ask("account", "GET", f"{V1}/accounts/work")
    scene.ask("account-limits", "POST", f"{V1}/accounts/work/limits")
    scene.ask("account-login", "GET", f"{V1}/accounts/home/login")
    scene.ask("account-default", "POST", f"{V1}/accounts/work/default", {"remove": False})
    scene.ask("account-not-default", "POST", f"{V1}/accounts/work/default", {"remove": True})
    bound = {"account": "work", "directory": str(scene.daemon.home)}
    scene.ask("account-bound", "PUT", f"{V1}/bindings", bound)
    moving = f"{V1}/conversations/moving"
    scene.until(scene.run("remember number 7", moving), "done")
    scene.ask("account-switched", "PATCH", f"{moving}/account", {"account": "work"})
    carrying = {"account": "work", "carry_context": True, "carry_mode": "raw"}
    scene.ask("account-carried", "PATCH", f"{moving}/account", carrying)
    scene.ask("carries", "GET", f"{V1}/carries")
    scene.ask("agents", "GET", f"{V1}/agents", only=("agent", "rehearsal"))
    scene.ask("doctor", "GET", f"{V1}/doctor", only=("check", "home"))


def _flows(scene: Scene) -> None:
    base, given = f"{V1}/flows", {"turns": 2, "text": "[[say answer {n}]]", "ask": True}
    order = {"kind": "trial", "input": given, "key": "numbers", "cwd": str(scene.daemon.segue.cwd)}

    def wait(state: str) -> Any:
        return until(lambda: (now := scene.daemon.ask("GET", one).json)["state"] == state and now, state)

    one = f"{base}/{scene.daemon.ask('POST', base, order).json['flow']}"
    wait("needs_you")
    scene.ask("flow-started", "POST", base, order)
    scene.ask("flows", "GET", base)
    scene.ask("flows-brief", "GET", f"{base}?brief=true")
    scene.ask("flow", "GET", one)
    scene.ask("flow-report", "GET", f"{one}/report")
    scene.event("event-flow", None, "flow")
    scene.ask("flow-paused", "POST", f"{one}/pause")
    scene.ask("flow-answered", "POST", f"{one}/answer", {"answer": "yes"})
    names = "state held steps next rounds end ended usage cost_usd result artefacts"
    moving = tuple(names.split())
    scene.ask("flow-resumed", "POST", f"{one}/resume", {}, without=moving)
    (artefact,) = wait("done")["artefacts"]
    scene.ask("flow-done", "GET", one)
    scene.ask("artefact", "GET", f"{V1}/artefacts/{artefact['hash']}")
    scene.ask("chain", "GET", f"{V1}/chains/numbers")
    scene.ask("flow-step-retried", "POST", f"{one}/retry-step", {"step": "turn-2"}, without=moving)
    wait("done")
    order |= {"key": "others"}
    one = f"{base}/{scene.daemon.ask('POST', base, order).json['flow']}"
    wait("needs_you")
    scene.ask("flow-cancelled", "POST", f"{one}/cancel")
    file = scene.daemon.segue.cwd / "FLOW.toml"
    file.write_text('name = "shop"\n[[tier]]\nname = "on call"\nhuman = true\n')
    order = {"file": str(file), "key": "cycle 42", "cwd": str(file.parent)}
    one = f"{base}/{scene.daemon.ask('POST', f'{V1}/escalations', order).json['flow']}"
    wait("needs_you")
    scene.ask("escalation", "POST", f"{V1}/escalations", order)
    _review(scene, moving)


def _review(scene: Scene, moving: tuple[str, ...]) -> None:
    tree = scene.daemon.home.parent / "tree"
    subprocess.run(["git", "init", "--quiet", str(tree)], check=True)
    role = {"agent": "rehearsal"}
    told = {"task": "[[say fine]]", "coder": role, "reviewer": role, "rounds": 1, "checks": ["true"]}
    order = {**told, "cwd": str(tree), "key": "reviewed", "label": "a review"}
    started = scene.ask("review-started", "POST", f"{V1}/reviews", order, without=moving)
    one = f"{V1}/flows/{started['flow']}"
    until(lambda: scene.daemon.ask("GET", one).json["state"] == "failed", "no verdict")
    scene.ask("review-failed", "GET", one)
    order = {**told, "cwd": str(tree), "key": "twice"}
    compared = scene.daemon.ask("POST", f"{V1}/comparisons", order).json
    both = f"{V1}/comparisons/{compared['comparison']}"

    def ended() -> bool:
        return all(each["state"] == "failed" for each in scene.daemon.ask("GET", both).json["reviews"])

    until(ended, "no verdicts")
    scene.ask("comparison-started", "POST", f"{V1}/comparisons", order)
    scene.ask("comparison", "GET", both)


def _problems(scene: Scene) -> None:
    scene.ask("problem-not-found", "GET", f"{V1}/conversations/nobody")
    scene.ask("problem-misuse", "POST", f"{V1}/conversations", {"key": "not a key"})
    scene.ask("problem-bad-request", "POST", f"{V1}/conversations", raw=b"{")
    scene.ask("problem-unauthorized", "GET", f"{V1}/conversations", token=False)
    scene.ask("problem-forbidden", "GET", f"{V1}/conversations", Host="example.com")
    scene.ask("problem-method-not-allowed", "PUT", f"{V1}/conversations")
    scene.ask("problem-too-large", "POST", f"{V1}/conversations", raw=b"{}", content_length="2000000")
    scene.ask("problem-unsupported-media", "POST", f"{V1}/conversations", raw=b"{}", content_type="text/xml")
    for _ in range(10):
        scene.daemon.ask("GET", f"{V1}/conversations", token=False)
    scene.ask("problem-rate-limited", "GET", f"{V1}/conversations", token=False)


@pytest.fixture
def scene(segue: Program) -> Iterator[Scene]:
    program = segue.home.parent / "summing"
    program.write_text(SUMMING)
    program.chmod(0o755)
    segue.config(CONFIG.replace("{summing}", str(program)))
    daemon = start(segue)
    everything = Stream(daemon, f"{V1}/events")
    everything.wait(bool)
    scene = Scene(daemon, everything)
    yield scene
    finish(scene.daemon.process)


def test_the_daemon_answers_as_written(scene: Scene, request: pytest.FixtureRequest) -> None:
    play(scene)
    texts = {name: _pretty(value) for name, value in scene.files.items()}
    if request.config.getoption("--record"):
        FIXTURES.mkdir(exist_ok=True)
        for old in FIXTURES.glob("*.json"):
            old.unlink()
        for name, text in texts.items():
            (FIXTURES / f"{name}.json").write_text(text)
    written = {path.stem: path.read_text() for path in FIXTURES.glob("*.json")}
    assert sorted(texts) == sorted(written)
    assert [name for name, text in texts.items() if text != written[name]] == []
    routes = {f"{each.method} {each.path}" for each in endpoints() if each.path.startswith(V1)}
    assert routes - scene.asked == ELSEWHERE
    told = {each["data"]["event"]["type"] for each in scene.files.values() if each.get("event") == "event"}
    assert {kind.__struct_config__.tag for kind in get_args(AnyEvent)} - told == SILENT
    kinds = {each["body"]["kind"] for name, each in scene.files.items() if name.startswith("problem")}
    assert set(KINDS) - kinds == NEVER


def _pretty(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"
