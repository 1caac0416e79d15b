"""A daemon that is killed loses nothing: the next one adopts what ran, and continues every queue."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.integration.conftest import Program
from tests.integration.server.conftest import WAIT_S, Daemon, finish, start
from tests.integration.server.streams import Sent, Stream, recorded, settled, shown, streams
from tests.integration.server.test_remote import wait_for_run
from tests.integration.server.test_runs import finished, show, submit

__all__ = ["streams"]

STORY = "Once upon a time there was a daemon that was killed in the middle of a turn."
SLOW = f"[[slow 4 40]][[say {STORY}]]"


class Daemons:
    """Daemons of one home, one after the other."""

    def __init__(self, segue: Program) -> None:
        self._segue, self._all = segue, [start(segue)]

    @property
    def now(self) -> Daemon:
        return self._all[-1]

    def kill(self) -> None:
        self.now.end(signal.SIGKILL)

    def restart(self) -> Daemon:
        self._all.append(start(self._segue))
        return self.now

    def finish(self) -> None:
        for each in self._all:
            finish(each.process)


@pytest.fixture
def daemons(segue: Program) -> Iterator[Daemons]:
    made = Daemons(segue)
    yield made
    made.finish()


def last_id(got: list[Sent]) -> str | None:
    return next((each.id for each in reversed(got) if each.id is not None), None)


def test_a_turn_that_ran_is_adopted_and_every_subscriber_gets_the_same_events(daemons: Daemons) -> None:
    watching = [Stream(daemons.now, "/api/v1/events") for _ in range(3)]
    for stream in watching:
        stream.wait(bool)
    run = submit(daemons.now, "k", SLOW)["run"]
    before = [stream.wait(lambda got: sum(e.kind == "delta" for e in got) > 3) for stream in watching]
    daemons.kill()
    for stream in watching:
        stream.close()
    again = daemons.restart()
    watching = [Stream(again, "/api/v1/events", after=last_id(got)) for got in before]
    after = [stream.wait(lambda got: settled(got, run)) for stream in watching]
    assert all(got[0].data["status"] == "ok" for got in after)
    events = [recorded([*old, *new], run) for old, new in zip(before, after, strict=True)]
    assert events[0] == events[1] == events[2]
    assert [event["type"] for event in events[0]][-1] == "end"
    done = show(again, run)
    assert (done["state"], done["turn"]["text"]) == ("done", STORY)
    assert [shown([*old, *new], run) for old, new in zip(before, after, strict=True)] == [STORY] * 3
    assert [shown(new, run) for new in after] == [STORY] * 3, "also without what was seen before"


def test_a_queue_of_five_survives(daemons: Daemons) -> None:
    first = submit(daemons.now, "k", SLOW)["run"]
    runs = [submit(daemons.now, "k", f"remember number {n}")["run"] for n in range(5)]
    wait_for_run(daemons.now, "k")
    daemons.kill()
    again = daemons.restart()
    for run in (first, *runs):
        assert finished(again, run)["state"] == "done"
    texts = [each["text"] for each in again.ask("GET", "/api/v1/conversations/k/log").json if each["n"]]
    assert texts[2::2] == [f"remember number {n}" for n in range(5)]


def test_a_parked_run_wakes_once_after_its_time_has_passed(daemons: Daemons) -> None:
    run = submit(daemons.now, "k", "wake up", not_before=int(time.time() * 1000) + 500)["run"]
    daemons.kill()
    time.sleep(0.6)  # its time passes while no daemon runs
    again = daemons.restart()
    assert finished(again, run)["state"] == "done"
    assert (
        sum(each["text"] == "wake up" for each in again.ask("GET", "/api/v1/conversations/k/log").json) == 1
    )


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_client_whose_daemon_is_killed_ends_as_if_nothing_had_happened(
    daemons: Daemons, segue: Program, comes_back: bool
) -> None:
    client = segue.start("run", "k", SLOW, "--agent", "rehearsal", "--json")
    wait_for_run(daemons.now, "k")
    daemons.kill()
    if comes_back:
        daemons.restart()
    out, errors = client.communicate(timeout=WAIT_S * 2)
    assert client.returncode == 0, errors.decode()
    turn: dict[str, Any] = msgspec.json.decode(out.splitlines()[-1])
    assert (turn["state"], turn["text"]) == ("done", STORY)
    log = segue("log", "k", "--json").stdout
    assert len(msgspec.json.decode(log)) == 2


def test_it_ends_on_request_when_the_turn_has_finished(daemons: Daemons) -> None:
    run = submit(daemons.now, "k", "[[slow 2 10]][[say good night]]")["run"]
    wait_for_run(daemons.now, "k")
    assert daemons.now.end() == 0
    assert show(daemons.restart(), run)["turn"]["text"] == "good night"


def test_the_secrets_of_a_run_are_kept_from_others_and_only_until_it_is_settled(
    daemons: Daemons, segue: Program
) -> None:
    secret = "hush-hush-0123456789"
    client = segue.start("run", "k", SLOW, "--agent", "rehearsal", GITHUB_TOKEN=secret)
    wait_for_run(daemons.now, "k")
    (file,) = (segue.home / "runs").glob("*/secrets.json")
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert secret in file.read_text()
    client.communicate(timeout=WAIT_S)
    assert not file.exists()
    kept = [each for each in segue.home.rglob("*") if each.is_file() and secret.encode() in each.read_bytes()]
    assert kept == []


def test_who_adopts_a_run_does_not_store_the_secrets_it_was_started_with(
    daemons: Daemons, segue: Program
) -> None:
    text = "[[shell echo $GITHUB_TOKEN]][[slow 3 20]][[result]]"
    args = ("run", "k", text, "--agent", "rehearsal", "--permission", "full")
    client = segue.start(*args, GITHUB_TOKEN="hush-hush-0123456789")
    run = wait_for_run(daemons.now, "k")
    Stream(daemons.now, "/api/v1/events").wait(lambda got: any(each.kind == "delta" for each in got))
    daemons.kill()
    client.kill()
    client.communicate()
    again = daemons.restart()
    assert finished(again, run)["state"] == "done"
    again.end()
    left = [path for path in segue.home.rglob("*") if path.is_file() and path.parent.name != "rehearsal"]
    assert not [path for path in left if b"hush-hush" in path.read_bytes()]
