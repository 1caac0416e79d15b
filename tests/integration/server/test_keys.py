"""The same key again is the same run, also if the request could not be run any more, and after a restart."""

from __future__ import annotations

import shutil
from typing import Any

from tests.integration.server.conftest import Answer
from tests.integration.server.streams import streams
from tests.integration.server.test_kills import Daemons, daemons
from tests.integration.server.test_runs import RUNS, finished, submit

__all__ = ["daemons", "streams"]


def order(daemons: Daemons, key: str | None, **body: Any) -> Answer:
    if key is None:
        return daemons.now.ask("POST", RUNS.format("k"), body)
    return daemons.now.ask("POST", RUNS.format("k"), body, idempotency_key=key)


def test_a_retry_after_which_something_else_was_said(daemons: Daemons) -> None:
    failed = finished(daemons.now, submit(daemons.now, "k", "[[error 400]]")["run"])
    retry = {"retry_of": failed["message"]}
    first = order(daemons, "again", **retry).json
    finished(daemons.now, first["run"])
    finished(daemons.now, submit(daemons.now, "k", "something else")["run"])
    assert order(daemons, None, **retry).kind == "misuse"
    for _ in range(2):
        again = order(daemons, "again", **retry)
        assert (again.status, again.json["run"]) == (202, first["run"]), again.body
        assert order(daemons, "again", **retry, cut=True).kind == "misuse"
        daemons.kill()
        daemons.restart()


def test_a_directory_that_was_deleted(daemons: Daemons) -> None:
    folder = daemons.now.segue.cwd / "deleted"
    folder.mkdir()
    first = submit(daemons.now, "k", "hi", "once", cwd=str(folder))
    finished(daemons.now, first["run"])
    shutil.rmtree(folder)
    body = {"message": "hi", "agent": "rehearsal", "cwd": str(folder)}
    assert order(daemons, "another", **body).kind == "misuse"
    for _ in range(2):
        again = order(daemons, "once", **body)
        assert (again.status, again.json["run"], again.json["state"]) == (202, first["run"], "done"), again
        assert order(daemons, "once", **{**body, "message": "ho"}).kind == "misuse"
        daemons.kill()
        daemons.restart()


def test_the_keys_of_a_deleted_conversation_are_free_again(daemons: Daemons) -> None:
    first = submit(daemons.now, "k", "hi", "once")
    finished(daemons.now, first["run"])
    assert daemons.now.ask("DELETE", "/api/v1/conversations/k").status == 204
    assert submit(daemons.now, "k", "ho", "once")["run"] != first["run"]
