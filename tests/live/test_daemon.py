"""The daemon with the real CLIs: runs over HTTP, questions, and both halves of continuity on the wire."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from tests.clis import CLIS
from tests.live.talk import Talk

CLAUDE = [("claude", CLIS["claude"].newest)]
WAIT_S = 90.0


@dataclass
class Api:
    """The daemon's API."""

    talk: Talk
    port: int
    token: str

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        try:
            data = msgspec.json.encode(body) if body is not None else None
            headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            return answer.status, msgspec.json.decode(answer.read() or b"null")
        finally:
            connection.close()

    def submit(self, message: str, key: str = "t", **more: Any) -> str:
        status, run = self.ask("POST", f"/api/v1/conversations/{key}/runs", {"message": message, **more})
        assert status == 202, run
        return str(run["run"])

    def until(self, run: str, ready: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The run, once it is as expected."""
        until = time.monotonic() + WAIT_S
        while True:
            _, shown = self.ask("GET", f"/api/v1/runs/{run}")
            if ready(shown):
                found: dict[str, Any] = shown
                return found
            assert time.monotonic() < until, shown
            time.sleep(0.05)

    def finished(self, run: str) -> dict[str, Any]:
        return self.until(run, lambda shown: shown["turn"] is not None)

    def run(self, message: str, key: str = "t", **more: Any) -> dict[str, Any]:
        """The turn, which must go well."""
        turn: dict[str, Any] = self.finished(self.submit(message, key, cwd=str(self.talk.cwd), **more))[
            "turn"
        ]
        assert turn["status"] == "ok", turn
        return turn


@pytest.fixture
def api(talk: Talk) -> Iterator[Api]:
    process = talk.start("serve")
    try:
        assert process.stdout is not None
        first = process.stdout.readline().decode()
        assert first.startswith("Listening on"), first
        token = (talk.place / "segue" / "token").read_text().strip()
        yield Api(talk, int(first.split()[2].rpartition(":")[2]), token)
    finally:
        process.terminate()
        try:
            process.communicate(timeout=60)
        finally:
            process.kill()


def answer(api: Api, run: str, question: str, **given: Any) -> int:
    status, _ = api.ask("POST", f"/api/v1/runs/{run}/tool-result", {"tool_use_id": question, **given})
    return status


@pytest.mark.parametrize("talk", CLAUDE, indirect=True, ids=lambda each: each[0])
def test_a_question_is_answered_exactly_once_on_a_fresh_and_on_a_resumed_turn(api: Api) -> None:
    for mode in ("fresh", "resume"):
        ask = "[[ask Which colour? | red | blue]][[result]]"
        run = api.submit(ask, cwd=str(api.talk.cwd), answers=True)
        waiting = api.until(run, lambda shown: shown["state"] == "needs_you")
        question = waiting["question"]
        assert question["questions"][0]["question"] == "Which colour?"
        assert api.ask("GET", "/api/v1/conversations")[1][0]["state"] == "needs_you"
        assert answer(api, run, "nothing-like-it", content="red") == 404
        given = {"answers": {"Which colour?": "blue"}}
        assert answer(api, run, question["tool_use_id"] or question["id"], **given) == 200
        assert answer(api, run, question["id"], **given) in (409, 410)
        done = api.finished(run)
        assert (done["turn"]["mode"], done["state"], done["question"]) == (mode, "done", None)
        assert "blue" in done["turn"]["text"]
        assert answer(api, run, question["id"], **given) == 410


@pytest.mark.parametrize("talk", CLAUDE, indirect=True, ids=lambda each: each[0])
def test_a_permission_is_asked_for_and_granted_or_refused(api: Api) -> None:
    for allow, expected in ((True, "written"), (False, "")):
        file = api.talk.cwd / f"made-{allow}"
        run = api.submit(
            f"[[shell echo written > {file.name}]][[say over]]", cwd=str(api.talk.cwd), answers=True
        )
        waiting = api.until(run, lambda shown: shown["state"] == "needs_you")
        assert waiting["question"]["kind"] == "permission"
        assert answer(api, run, waiting["question"]["id"], allow=allow) == 200
        assert api.finished(run)["state"] == "done"
        assert (file.read_text().strip() if file.exists() else "") == expected


@pytest.mark.parametrize("talk", CLAUDE, indirect=True, ids=lambda each: each[0])
def test_a_resumed_turn_sends_only_what_is_new_and_a_fresh_session_sends_everything(api: Api) -> None:
    model = api.talk.model
    api.run("remember number 4711", agent="claude")
    before = len(model.requests)
    assert api.run("what number?")["text"] == "4711"
    resumed = [request for request in model.requests[before:] if not request.side]
    before = len(model.requests)
    fresh = api.run("what number?", fresh_session=True)
    replayed = [request for request in model.requests[before:] if not request.side]
    assert (fresh["mode"], fresh["resumed"], fresh["text"]) == ("replay", False, "4711")
    assert msgspec.json.encode(replayed[-1].body).decode().count("remember number 4711") == 1
    assert msgspec.json.encode(resumed[-1].body).decode().count("remember number 4711") == 1
    assert sum(each.new_bytes for each in resumed) < sum(each.new_bytes for each in replayed)
