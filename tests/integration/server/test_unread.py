"""What the user saw in a terminal is read; what went elsewhere is not."""

from __future__ import annotations

import pytest

from tests.integration.server.conftest import Daemon
from tests.integration.server.streams import streams
from tests.integration.server.test_runs import submit
from tests.integration.terminals import on_terminal

__all__ = ["streams"]


def unread(daemon: Daemon) -> dict[str, bool]:
    return {each["key"]: each["unread"] for each in daemon.ask("GET", "/api/v1/conversations").json}


@pytest.mark.parametrize("extra", [(), ("--no-daemon",)])
def test_an_answer_on_the_terminal_is_read(daemon: Daemon, extra: tuple[str, ...]) -> None:
    daemon.segue("run", "a/b", "hi", "--agent", "rehearsal", *extra)
    assert unread(daemon) == {"a/b": True}
    code, shown = on_terminal(daemon.segue, "run", "a/b", "remember number 4", *extra)
    assert (code, "Noted: 4." in shown) == (0, True)
    assert unread(daemon) == {"a/b": False}
    daemon.segue("run", "a/b", "what number?", *extra)
    assert unread(daemon) == {"a/b": True}


def test_what_was_watched_on_the_terminal_is_read(daemon: Daemon) -> None:
    run = submit(daemon, "k", "[[slow 3 30]][[say watched]]")["run"]
    code, shown = on_terminal(daemon.segue, "watch", run)
    assert (code, "watched" in shown) == (0, True)
    assert unread(daemon) == {"k": False}
