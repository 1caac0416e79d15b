"""A real daemon with the real CLIs, and its HTTP API."""

from __future__ import annotations

import http.client
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from tests.live.talk import SEGUE, Talk

WAIT_S = 90.0


@dataclass
class Api:
    """The daemon's API."""

    talk: Talk
    port: int
    token: str
    process: subprocess.Popen[bytes]

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
        order = {"cwd": str(self.talk.cwd), **more}
        turn: dict[str, Any] = self.finished(self.submit(message, key, **order))["turn"]
        assert turn["status"] == "ok", turn
        return turn


@contextmanager
def serving(talk: Talk) -> Iterator[Api]:
    """A daemon in the talk's home. It is ended at the end. It logs to a file: nobody would read a pipe."""
    with (talk.place / "serve.log").open("wb") as log:
        process = subprocess.Popen(
            [*SEGUE, "serve"],
            cwd=talk.cwd,
            env=talk.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    try:
        assert process.stdout is not None
        first = process.stdout.readline().decode()
        assert first.startswith("Listening on"), first
        token = (talk.place / "segue" / "token").read_text().strip()
        yield Api(talk, int(first.split()[2].rpartition(":")[2]), token, process)
    finally:
        process.terminate()
        try:
            process.communicate(timeout=60)
        finally:
            process.kill()
