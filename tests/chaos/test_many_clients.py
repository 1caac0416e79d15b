"""Several clients at the same time, over HTTP, with conversations and flows, while the daemon is killed again
and again. What each of them saw is checked against the store and against what the agents did."""

from __future__ import annotations

import http.client
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from tests.chaos.flow_stage import ENDS, ROUNDS, FlowStage, Witness
from tests.chaos.scenes import Scene, until
from tests.history import History, Kept, KeptFlow, violations
from tests.integration.server.conftest import Answer, Daemon
from tests.integration.server.test_kills import Daemons
from tests.integration.server.test_runs import RUNS

T = TypeVar("T")
CLIENTS, CONVERSATIONS = 3, 2
MESSAGES, SOAK_MESSAGES = 3, 25
KILLS, SOAK_KILLS = 3, 20
PATIENCE_S = 180.0
ASKED = "go-on"
GONE = (OSError, http.client.HTTPException)


class Line:
    """The clients' way to the daemon, whichever it is now. A call that is cut off is made again."""

    def __init__(self, daemons: Daemons) -> None:
        self._daemons = daemons
        self.until = time.monotonic() + PATIENCE_S

    @property
    def now(self) -> Daemon:
        return self._daemons.now

    def ask(self, method: str, path: str, body: Any = None, key: str | None = None) -> Answer:
        """``key``: so that the call has an effect once, however often it is made."""
        while True:
            assert time.monotonic() < self.until, f"no answer to {method} {path}"
            try:
                if key is None:
                    return self.now.ask(method, path, body)
                return self.now.ask(method, path, body, idempotency_key=key)
            except GONE:
                time.sleep(0.05)  # it is dead, and the next one comes


@pytest.fixture
def stage(scene: Scene) -> FlowStage:
    return FlowStage(scene)


@pytest.fixture
def daemons(stage: FlowStage) -> Iterator[Daemons]:
    made = Daemons(stage.scene.segue)
    yield made
    made.finish()


class Client:
    """Somebody with a name, who notes what is asked and what is told."""

    def __init__(self, name: str, line: Line, history: History, dice: random.Random) -> None:
        self.name, self.line, self.history, self.dice = name, line, history, dice

    def talk(self, stage: FlowStage, messages: int) -> None:
        """Send messages to some conversations; some answers are waited for."""
        for n in range(messages):
            place, mark = f"talk-{self.dice.randrange(CONVERSATIONS)}", f"{self.name}-{n}"
            work = f"[[shell echo {mark} >> {stage.place}/effects]] [[slow 0.2 4]]"
            text = f"note {mark} {work} [[say answer-{mark}]]"
            body = {"message": text, "agent": "rehearsal", "cwd": str(stage.scene.segue.cwd)}
            self.history.note(self.name, "sent", place, mark)
            told = self.line.ask("POST", RUNS.format(place), body, mark)
            assert told.status == 202, told.body
            self.history.note(self.name, "acknowledged", place, mark, told.json["run"])
            if self.dice.random() < 0.5 and (answer := self._answer(told.json["run"])) is not None:
                self.history.note(self.name, "answered", place, mark, answer)

    def flow(self, path: str, body: dict[str, Any]) -> None:
        """Start a flow, and watch it to its end."""
        told = self.line.ask("POST", path, body)
        assert told.status in (200, 201, 202), told.body
        key = body["key"]
        self.history.note(self.name, "started", key)
        shown = self._until(lambda: self._flow(key), lambda shown: shown["end"] is not None)
        self.history.note(self.name, "ended", key, value=shown["end"])

    def reply(self, key: str, text: str) -> bool:
        """Answer what a flow asks. Whether the answer was taken."""
        path = f"/api/v1/flows/{key}"
        self._until(
            lambda: self.line.ask("GET", path).json,
            lambda shown: any(step["key"] == ASKED for step in shown.get("steps", ())),
        )
        told = self.line.ask("POST", f"{path}/answer", {"answer": text, "step": ASKED})
        assert told.status in (200, 409), told.body
        if told.status == 200:
            self.history.note(self.name, "step", key, ASKED, text)
        return told.status == 200

    def _answer(self, run: str) -> str | None:
        """The answer, once the run is over; None: it has failed."""
        shown = self._until(
            lambda: self.line.ask("GET", f"/api/v1/runs/{run}").json, lambda run: run["turn"] is not None
        )
        return str(shown["turn"]["text"]) if shown["state"] == "done" else None

    def _flow(self, key: str) -> Any:
        """As it is now. What is finished is noted: it stays so."""
        shown = self.line.ask("GET", f"/api/v1/flows/{key}").json
        for step, value in finished(shown).items():
            self.history.note(self.name, "step", key, step, value)
        return shown

    def _until(self, look: Callable[[], Any], holds: Callable[[Any], object]) -> Any:
        while not holds(found := look()):
            assert time.monotonic() < self.line.until, found
            time.sleep(0.1)
        return found


def finished(shown: dict[str, Any]) -> dict[str, str]:
    """The finished steps of a flow: the run of a turn, else the result."""
    done = [step for step in shown["steps"] if step["state"] == "done"]
    return {
        step["key"]: str(step["run"] if step["kind"] == "turn" else step["result"] or step["artefact"])
        for step in done
    }


def kept(line: Line, history: History) -> list[Kept]:
    """All messages of all conversations, as they are stored, each with its run. If the daemon is killed
    before the agent has its prompt, the run has failed, and its client is told so."""
    runs = {note.mark: note.value for note in history.notes if note.what == "acknowledged"}
    found = []
    for place in (f"talk-{n}" for n in range(CONVERSATIONS)):
        told = line.ask("GET", f"/api/v1/conversations/{place}/log")
        rows = told.json if told.status == 200 else []
        answers = {row["run"]: row["text"] for row in rows if row["from"] == "assistant"}
        for row in (row for row in rows if row["from"] == "user"):
            mark = row["text"].split()[1]
            run = line.ask("GET", f"/api/v1/runs/{runs[mark]}").json
            mine = run["run"] if run["message"] == row["id"] else ""
            failed = run["turn"]["failure"] if run["state"] != "done" else None
            assert failed is None or failed["kind"] == "killed", failed
            found.append(Kept(place, mark, mine, answers.get(mine), failed["kind"] if failed else ""))
    return found


def test_nothing_is_lost_and_nothing_happens_twice(
    stage: FlowStage, daemons: Daemons, seed: int, soak: bool
) -> None:
    history, line, dice = History(), Line(daemons), random.Random(f"{seed} daemon")
    if soak:
        line.until += 10 * PATIENCE_S
    clients = [
        Client(name, line, history, random.Random(f"{seed} {name}"))
        for name in ("ann", "bob", "cid", "dan", "eve", "fay")
    ]
    orders = flow_orders(stage)
    with Witness(stage.scene) as witness, ThreadPoolExecutor() as pool:
        working = [
            pool.submit(each.talk, stage, SOAK_MESSAGES if soak else MESSAGES) for each in clients[:CLIENTS]
        ]
        working += [
            pool.submit(each.flow, *order) for each, order in zip(clients[CLIENTS:], orders, strict=False)
        ]
        replies = [
            pool.submit(each.reply, "trial", text) for each, text in zip(clients, ("yes", "no"), strict=False)
        ]
        for _ in range(SOAK_KILLS if soak else KILLS):
            time.sleep(0.3 + dice.random() * 1.5)
            daemons.kill()
            daemons.restart()
        for each in working:
            each.result(PATIENCE_S)
        taken = [each.result(PATIENCE_S) for each in replies]
        for run in {note.value for note in history.notes if note.what == "acknowledged"}:
            clients[0]._answer(run)
    flows = []
    for _, body in orders:
        shown = line.ask("GET", f"/api/v1/flows/{body['key']}").json
        flows.append(KeptFlow(body["key"], shown["end"], finished(shown)))
    until(lambda: not stage.scene.agents(), "no agent is left")
    assert violations(history.notes, kept(line, history), witness.work(stage), flows) == []
    assert taken.count(True) <= 1, "the first answer counts"
    assert {each.flow: each.end for each in flows} == {
        "review": ENDS["review"][0],
        "escalate": ENDS["escalate"][0],
        "trial": "done",
    }


def flow_orders(stage: FlowStage) -> list[tuple[str, dict[str, Any]]]:
    """What is posted, and where: a review, an escalation, and a flow that asks."""
    role = {"agent": "rehearsal", "permission": "full"}
    review = {"task": "Build it\n\nAs told.", "coder": role, "reviewer": role, "rounds": ROUNDS}
    trees = {name: str(stage.tree(name)) for name in ("review", "escalate", "trial")}
    given = {"turns": 2, "agent": "rehearsal", "text": "go {n} [[say said {n}]]", "ask": True}
    return [
        ("/api/v1/reviews", {**review, "cwd": trees["review"], "key": "review"}),
        (
            "/api/v1/escalations",
            {"file": f"{trees['escalate']}/FLOW.toml", "cwd": trees["escalate"], "key": "escalate"},
        ),
        ("/api/v1/flows", {"kind": "trial", "input": given, "cwd": trees["trial"], "key": "trial"}),
    ]
