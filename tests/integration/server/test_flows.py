"""Flows in the daemon: started over HTTP, watched by everybody, and continued by the next daemon."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from segue.store.flow_records import FlowRow
from segue.store.store import open_store
from tests.chaos.scenes import until
from tests.integration.conftest import Program
from tests.integration.server.conftest import Daemon
from tests.integration.server.streams import Stream, streams
from tests.integration.server.test_kills import Daemons

__all__ = ["streams"]
V1 = "/api/v1/flows"
GATED = "[[shell echo {n} >> effects; while [ ! -e gate ]; do sleep 0.05; done]] [[say answer-{n}]]"


@pytest.fixture
def daemons(segue: Program) -> Iterator[Daemons]:
    segue.env["SEGUE_DEFAULTS_PERMISSION"] = "full"
    made = Daemons(segue)
    yield made
    made.finish()


def begin(daemon: Daemon, **given: Any) -> str:
    body = {"kind": "trial", "input": given, "cwd": str(daemon.segue.cwd)}
    answer = daemon.ask("POST", V1, body)
    assert answer.status == 202, answer.body
    return str(answer.json["flow"])


def shown(daemon: Daemon, flow: str) -> Any:
    answer = daemon.ask("GET", f"{V1}/{flow}")
    assert answer.status == 200, answer.body
    return answer.json


def reached(daemon: Daemon, flow: str, state: str, more: Callable[[Any], bool] = lambda now: True) -> Any:
    def holds() -> Any:
        now = shown(daemon, flow)
        return now if now["state"] == state and more(now) else None

    return until(holds, f"{flow} is {state}", pause_s=0.1)


def effects(segue: Program) -> list[str]:
    file = segue.cwd / "effects"
    return file.read_text().split() if file.exists() else []


def test_a_flow_is_started_watched_and_reported(daemons: Daemons) -> None:
    everything = Stream(daemons.now, "/api/v1/events")
    everything.wait(bool)
    flow = begin(daemons.now, turns=2, text="[[say answer-{n}]]")
    own = Stream(daemons.now, f"{V1}/{flow}/events")
    got = own.wait_over()
    assert {each.kind for each in got} == {"flow"}
    assert got[-1].data["state"] == "done"
    assert got[-1].data["result"] == ["answer-1", "answer-2"]
    told = everything.wait(lambda got: any(each.kind == "flow" for each in got))
    assert {each.data["flow"] for each in told if each.kind == "flow"} == {flow}
    report = daemons.now.ask("GET", f"{V1}/{flow}/report").json
    assert (report["flow"], report["kind"], report["end"], report["rounds"]) == (flow, "trial", "done", 2)
    assert [(each["key"], each["role"], each["agent"], each["mode"]) for each in report["steps"]] == [
        ("turn-1", "trial", "rehearsal", "fresh"),
        ("turn-2", "trial", "rehearsal", "resume"),
    ]
    assert [each["model"] for each in got[-1].data["steps"]] == ["rehearsal-1", "rehearsal-1"]
    assert report["cost_usd"] == pytest.approx(sum(each["cost_usd"] for each in report["steps"]))
    assert daemons.now.ask("GET", V1).json == []
    assert [each["flow"] for each in daemons.now.ask("GET", f"{V1}?every=true").json] == [flow]


def test_a_brief_list_has_what_goes_on_and_nothing_long(daemons: Daemons) -> None:
    flow = begin(daemons.now, turns=2, text="[[say answer-{n}]]" + "x" * 5000, ask=True)
    whole = reached(daemons.now, flow, "needs_you")
    (brief,) = daemons.now.ask("GET", f"{V1}?brief=true").json
    assert [each["key"] for each in whole["steps"]] == ["turn-1", "go-on"]
    assert [each["key"] for each in brief["steps"]] == ["go-on"]
    assert brief["input"] == {"text": whole["input"]["text"][:200]}
    same = ("flow", "kind", "state", "needs", "questions", "rounds", "cost_usd", "usage", "created")
    assert {name: brief[name] for name in same} == {name: whole[name] for name in same}


def test_a_killed_daemon_is_followed_by_one_that_goes_on(daemons: Daemons, segue: Program) -> None:
    flow = begin(daemons.now, turns=2, text=GATED)
    until(lambda: effects(segue) == ["1"], "its first turn works")
    daemons.kill()
    (segue.cwd / "gate").touch()
    daemons.restart()
    ended = reached(daemons.now, flow, "done")
    assert ended["result"] == ["answer-1", "answer-2"]
    assert effects(segue) == ["1", "2"]
    assert [each["tries"] for each in ended["steps"]] == [1, 1]


def test_a_question_survives_the_daemon_and_the_answer_continues_it(daemons: Daemons, segue: Program) -> None:
    flow = begin(daemons.now, turns=2, text="[[say answer-{n}]]", ask=True)
    waiting = reached(daemons.now, flow, "needs_you")
    assert (waiting["needs"], waiting["held"]) == ("question", False)
    daemons.kill()
    daemons.restart()
    assert segue("answer").stdout.startswith(f"{flow}  trial  1 of 2 turns are done. Go on? (yes / no)")
    refused = daemons.now.ask("POST", f"{V1}/{flow}/answer", {"answer": "perhaps"})
    assert refused.status == 422
    answered = segue("answer", flow, "yes")
    assert (answered.code, answered.stderr) == (0, ""), "the daemon goes on"
    assert reached(daemons.now, flow, "done")["result"] == ["answer-1", "answer-2"]
    again = daemons.now.ask("POST", f"{V1}/{flow}/answer", {"answer": "no", "step": "go-on"})
    assert again.status in (409, 410)


def test_paused_resumed_and_cancelled_from_the_command_line(daemons: Daemons, segue: Program) -> None:
    flow = begin(daemons.now, turns=3, text=GATED)
    until(lambda: effects(segue) == ["1"], "its first turn works")
    asked = segue("flow", "pause", flow)
    assert f"{flow} was asked to pause" in asked.stderr
    (segue.cwd / "gate").touch()
    paused = reached(daemons.now, flow, "paused")
    assert [each["state"] for each in paused["steps"]] == ["done"]
    (segue.cwd / "gate").unlink()
    resumed = segue.start("flow", "resume", flow, "--json")
    until(lambda: effects(segue) == ["1", "2"], "its second turn works")
    assert shown(daemons.now, flow)["held"]
    assert segue("flow", "cancel", flow).code == 0
    assert reached(daemons.now, flow, "cancelled")["end"] == "cancelled"
    out, _ = resumed.communicate(timeout=60)
    told = msgspec.json.decode(out.splitlines()[-1])
    assert (resumed.returncode, told["state"], told["end"]) == (130, "cancelled", "cancelled")
    runs = daemons.now.ask("GET", "/api/v1/runs").json
    assert runs == [], "the turn is over, too"
    gone = daemons.now.ask("POST", f"{V1}/{flow}/resume", {})
    assert gone.status == 410


def test_a_step_is_retried(daemons: Daemons, segue: Program) -> None:
    (segue.cwd / "gate").touch()
    flow = begin(daemons.now, turns=2, text=GATED)
    reached(daemons.now, flow, "done")
    answer = daemons.now.ask("POST", f"{V1}/{flow}/retry-step", {"step": "turn-2"})
    assert answer.status == 200, answer.body
    ended = reached(daemons.now, flow, "done", lambda now: now["steps"][1]["tries"] == 2)
    assert effects(segue) == ["1", "2", "2"]
    assert [each["tries"] for each in ended["steps"]] == [1, 2]
    assert len(ended["steps"][1]["runs"]) == 2
    unknown = daemons.now.ask("POST", f"{V1}/{flow}/retry-step", {"step": "turn-9"})
    assert unknown.status == 404


def test_the_daemon_loads_no_code_of_others_and_no_other_version(daemons: Daemons, segue: Program) -> None:
    trap = segue.cwd / "trap.py"
    trap.write_text("open('sprung', 'w')\n")
    source = {"file": str(trap), "function": "trap", "module": "trap"}
    host = os.uname().nodename
    rows = [
        FlowRow(
            id="theirs",
            kind="trial",
            version=1,
            source=msgspec.json.encode(source).decode(),
            cwd=str(segue.cwd),
            host=host,
            created_ms=1,
        ),
        FlowRow(id="older", kind="trial", version=99, cwd=str(segue.cwd), host=host, created_ms=2),
    ]
    with open_store(None, segue.home / "segue.db") as store:
        for row in rows:
            store.flows.add(row)
    older = reached(daemons.now, "older", "needs_you")
    assert older["needs"] == "version"
    assert "segue flow resume older --from STEP" in older["failure"]
    theirs = shown(daemons.now, "theirs")
    assert (theirs["state"], theirs["held"], theirs["next"]) == (
        "running",
        False,
        "segue flow resume theirs",
    )
    assert not (segue.cwd / "sprung").exists()
    refused = daemons.now.ask("POST", V1, {"kind": "trap:trap"})
    assert refused.status == 404


def test_an_unknown_flow_is_not_found(daemons: Daemons) -> None:
    for method, path in (("GET", f"{V1}/nothing"), ("GET", f"{V1}/nothing/events")):
        assert daemons.now.ask(method, path).status == 404
    assert daemons.now.ask("POST", V1, {"kind": "trial", "input": {"n": 1}}).status == 422
    assert daemons.now.ask("GET", "/api/v1/artefacts/abc").status == 404
