"""Commands that change something in their own process: the daemon's subscribers see it all the same."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.server.conftest import Daemon
from tests.integration.server.streams import Sent, Stream, streams
from tests.integration.server.test_runs import show, submit

__all__ = ["streams"]


@pytest.fixture
def seen(daemon: Daemon) -> Callable[..., list[Sent]]:
    """Runs a command and returns what a subscriber then hears of a conversation, once it hears this kind."""

    def run(*args: str, kind: str, of: str = "k", stdin: bytes | None = None) -> list[Sent]:
        since = Stream(daemon, "/api/v1/events")
        since.wait(bool)
        done = daemon.segue(*args, stdin=stdin, SEGUE_DAEMON="off")
        assert done.code == 0, done.stderr

        def heard(got: list[Sent]) -> list[Sent]:
            return [each for each in got if each.kind == kind and _key(each.data) == of]

        found = heard(since.wait(lambda got: bool(heard(got))))
        since.close()
        return found

    return run


def _key(data: Any) -> str | None:
    return data.get("conversation") if isinstance(data, dict) else None


def test_changes_of_a_conversation(daemon: Daemon, seen: Callable[..., list[Sent]]) -> None:
    seen("run", "k", "remember number 1", "--agent", "rehearsal", "--no-daemon", kind="run")
    seen("edit", "k", "#1", "remember number 2", kind="message")
    seen("undo", "k", kind="message")
    seen("edit", "k", "#1", "remember number 3", "--cut", kind="conversation")
    seen("undo", "k", kind="conversation")
    seen("truncate", "k", "#2", kind="conversation")
    seen("undo", "k", kind="conversation")
    seen("retry", "k", "--no-daemon", kind="run")
    seen("fork", "k", "k2", kind="conversation", of="k2")
    exported = daemon.segue("export", "k", "--json").stdout.encode()
    seen("import", "-", "--key", "k3", kind="conversation", of="k3", stdin=exported)
    seen("rm", "k2", "k3", "--yes", kind="removed", of="k3")
    daemon.end()
    assert "local/" not in daemon.log()


def test_changes_of_the_queue(daemon: Daemon, seen: Callable[..., list[Sent]]) -> None:
    late = int(time.time() * 1000) + 3_600_000
    run = submit(daemon, "k", "later", not_before=late)["run"]
    seen("run", "k", "and then", "--at", "+1h", kind="run")
    seen("queue", "move", run, "2", kind="run")
    assert show(daemon, run)["place"] == 2
    seen("queue", "edit", run, "much later", kind="message")
    (gone, *_) = seen("queue", "rm", run, kind="run")
    assert gone.data["run"]["state"] == "withdrawn"
    seen("cancel", "k", kind="run")


def test_an_adopted_session(daemon: Daemon, seen: Callable[..., list[Sent]]) -> None:
    first = daemon.segue("run", "old", "remember number 7", "--agent", "rehearsal", "--json").turn
    daemon.segue("rm", "old", "--yes")
    adopt = ("run", "k", "what number?", "--adopt", first["session_id"], "--no-daemon")
    seen(*adopt, kind="run")
    page = daemon.ask("GET", "/api/v1/conversations/k/log").json
    assert [each["text"] for each in page] == ["remember number 7", "Noted: 7.", "what number?", "7"]
