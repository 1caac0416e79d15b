"""A daemon that is stopped while a turn runs: the turn finishes, and stopping twice does no harm."""

from __future__ import annotations

import signal
from pathlib import Path

import msgspec
import pytest

from tests.integration.conftest import Program
from tests.integration.server.conftest import WAIT_S, Daemon, finish, start
from tests.integration.server.streams import Stream, streams
from tests.integration.server.test_remote import wait_for_run
from tests.integration.server.test_versions import other_version

__all__ = ["streams"]

pytestmark = pytest.mark.usefixtures("streams")
KEY = "k"


def begin(daemon: Daemon, message: str) -> Stream:
    """A turn that has said something, and goes on."""
    body = {"message": message, "agent": "rehearsal", "cwd": str(daemon.segue.cwd)}
    run = daemon.ask("POST", f"/api/v1/conversations/{KEY}/runs", body).json["run"]
    stream = Stream(daemon, f"/api/v1/runs/{run}/events")
    stream.wait(lambda got: any(each.kind == "delta" for each in got))
    return stream


def answer(daemon: Daemon) -> str:
    return daemon.segue("last", KEY).stdout.strip()


def test_a_running_turn_finishes_before_the_daemon_ends(daemon: Daemon) -> None:
    begin(daemon, "[[slow 2 20]][[say finished in time]]")
    stops = [daemon.segue.start("stop") for _ in range(2)]
    codes = [each.wait(WAIT_S) for each in (*stops, daemon.process)]
    for each in stops:
        finish(each)
    assert codes == [0, 0, 0]
    assert answer(daemon) == "finished in time"


def test_a_stream_of_everything_is_completed(daemon: Daemon) -> None:
    stream = Stream(daemon, "/api/v1/events")
    stream.wait(lambda got: got[0].kind == "hello" if got else False)
    assert daemon.end() == 0
    stream.wait_over()
    assert "error" not in daemon.log()


def test_a_turn_that_takes_too_long_goes_on_without_the_daemon(segue: Program, tmp_path: Path) -> None:
    hasty = other_version(
        segue, tmp_path / "hasty", {"server/daemon.py": ("DRAIN_S = 30.0", "DRAIN_S = 0.5")}
    )
    daemon = start(hasty)
    waiting = segue.start("run", KEY, "[[slow 6 60]][[say finished in time]]", "--agent", "rehearsal")
    try:
        wait_for_run(daemon, KEY)
        assert daemon.end() == 0
        log = daemon.log()
        out, errors = waiting.communicate(timeout=WAIT_S)
        assert (waiting.returncode, out) == (0, b"finished in time\n"), errors
        assert "closing 1 unfinished answer\n" in log
        assert log.endswith("stopped; unfinished turns go on without a daemon\n")
        assert "error" not in log
    finally:
        finish(daemon.process)
        finish(waiting)


def test_while_it_ends_it_says_so(daemon: Daemon) -> None:
    begin(daemon, "[[slow 12 30]][[say finished in time]]")
    late = daemon.segue("stop", "--timeout", "0")
    assert late.code == 75
    assert "still finishing" in late.stderr
    shown = daemon.segue("status")
    assert (shown.code, shown.stdout) == (1, "")
    assert "is ending" in shown.stderr
    assert msgspec.json.decode((daemon.home / "daemon.json").read_bytes())["stopping"] is True
    refused = daemon.segue("serve")
    assert refused.code == 75
    assert daemon.segue("stop").code == 0
    assert daemon.process.wait(WAIT_S) == 0
    assert answer(daemon) == "finished in time"


def test_a_second_signal_leaves_the_turn_to_the_next_one(daemon: Daemon) -> None:
    begin(daemon, "[[slow 5 50]][[say finished in time]]")
    late = daemon.segue("stop", "--timeout", "0.5")
    assert late.code == 75
    assert daemon.end(signal.SIGTERM) == 128 + signal.SIGTERM
    assert not (daemon.home / "daemon.json").exists()
    assert daemon.segue("run", KEY, "hello").code == 0
    log = msgspec.json.decode(daemon.segue("log", KEY, "--json").stdout)
    assert [each["status"] for each in log] == ["ok"] * 4
    assert log[1]["text"] == "finished in time"
