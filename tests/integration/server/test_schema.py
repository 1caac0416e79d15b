"""Every route with generated requests: what the OpenAPI document promises is what the daemon does.

Left out are the streams, which do not end (``/events``, ``/runs/{run}/events``), and two checks.
``positive_data_acceptance``: what fits the types may still be refused, such as the key of a conversation that
is there already. ``ignored_auth``: it sends wrong tokens until it is answered with 429; ``test_security.py``
asserts what happens without a token.
"""

from __future__ import annotations

import os
import time
import urllib.request
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import one_of
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS

from tests.integration.conftest import Program
from tests.integration.server.conftest import WAIT_S

SEED = 20_261_117
EXAMPLES = 50
"""How many requests a route gets."""
STREAMS = ("/api/v1/events", "/api/v1/runs/{run}/events", "/api/v1/flows/{flow}/events")
LEFT_OUT = ("positive_data_acceptance", "ignored_auth")
KEY, NOTE = "known", b"a note"
WAITING = {
    ("patch", "/api/v1/queue/{run}"),
    ("post", "/api/v1/queue/{run}/move"),
    ("delete", "/api/v1/queue/{run}"),
    ("post", "/api/v1/runs/{run}/now"),
}
"""What can be done with a run that waits."""
RUNNING = {("post", "/api/v1/runs/{run}/cancel")}
"""What can be done with a run that runs."""


class Served(NamedTuple):
    url: str
    token: str
    run: str
    session: str
    flow: str
    artefact: str

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        told = urllib.request.Request(
            f"{self.url}/api/v1{path}",
            None if body is None else msgspec.json.encode(body),
            {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(told, timeout=WAIT_S) as answer:
            return msgspec.json.decode(answer.read())

    def waiting(self) -> str:
        """A new run that waits."""
        later = {"message": "later", "not_before": int(time.time() * 1000) + 3_600_000}
        return str(self.ask("POST", "/conversations/waiting/runs", later)["run"])

    def flowed(self) -> dict[str, str]:
        """A flow that is done, and something that it keeps."""
        flow = self.ask("POST", "/flows", {"kind": "trial", "input": {"turns": 1}})["flow"]
        until = time.monotonic() + WAIT_S
        while (now := self.ask("GET", f"/flows/{flow}"))["state"] != "done":
            assert time.monotonic() < until
            time.sleep(0.05)
        return {"flow": flow, "artefact": now["artefacts"][0]["hash"]}

    def running(self) -> str:
        """A new run that does not end by itself."""
        run = str(self.ask("POST", "/conversations/running/runs", {"message": "[[hang]]"})["run"])
        until = time.monotonic() + WAIT_S
        while self.ask("GET", f"/runs/{run}")["state"] != "running":
            assert time.monotonic() < until
            time.sleep(0.05)
        return run


@pytest.fixture
def talked(segue: Program) -> Iterator[Served]:
    """A daemon with one conversation, and without any agent of this machine."""
    segue.env["PATH"] = os.defpath
    segue.config('[defaults]\nagent = "rehearsal"\n[accounts.work]\nagent = "rehearsal"\n')
    (segue.cwd / "note.txt").write_bytes(NOTE)
    turn = segue("run", KEY, "remember number 456", "--attach", "note.txt", "--json").turn
    assert segue("serve", "--background").code == 0  # its log is a file: there are thousands of lines
    told = msgspec.json.decode((segue.home / "daemon.json").read_bytes())
    token = (segue.home / "token").read_text().strip()
    served = Served(told["url"], token, turn["run"], turn["session_id"], "", "")
    yield served._replace(**served.flowed())
    assert segue("stop").code == 0


def test_generated_requests_find_nothing(talked: Served) -> None:
    headers = {"Authorization": f"Bearer {talked.token}"}
    schema: Any = schemathesis.openapi.from_url(f"{talked.url}/api/openapi.json", headers=headers)
    excluded = [check for check in CHECKS.get_all() if check.__name__ in LEFT_OUT]
    known = {"key": KEY, "message": "#1", "run": talked.run, "agent": "rehearsal", "id": talked.session}
    known |= {"flow": talked.flow, "hash": talked.artefact, "comparison": "none"}
    known |= {"name": "work", "attachment": sha256(NOTE).hexdigest(), "n": "1"}

    done: set[tuple[str, str]] = set()

    def try_out(case: Any) -> None:
        route = case.operation.method, case.operation.path
        if case.meta.generation.mode == GenerationMode.POSITIVE:
            if route in WAITING | RUNNING:
                run = talked.waiting() if route in WAITING else talked.running()
                case.path_parameters["run"] = run
            elif case.operation.method != "delete":
                for name in case.path_parameters or ():
                    case.path_parameters[name] = known[name]
        answer = case.call_and_validate(headers=headers, timeout=WAIT_S, excluded_checks=excluded)
        if answer.status_code < 300:
            done.add(route)

    found: list[str] = []
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path not in STREAMS:
            try:
                _examples(try_out, operation)()
            except (Exception, BaseExceptionGroup) as error:
                found.append(f"{operation.method} {operation.path}: {error}")
    assert not found, "\n\n".join(found)
    assert done >= WAITING | RUNNING, "nothing was tried out with a run that waits, or runs"


def _examples(try_out: Callable[[Any], None], operation: Any) -> Callable[[], None]:
    """Requests that fit the types, and some that do not, where there is something to get wrong."""
    strategies = [operation.as_strategy(generation_mode=GenerationMode.POSITIVE)]
    if len(operation.query) or len(operation.body):
        strategies.append(operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))
    options = settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    made: Callable[[], None] = seed(SEED)(options(given(case=one_of(strategies))(try_out)))
    return made
