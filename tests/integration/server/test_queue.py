"""The queue where things go wrong: cancelled while waiting, claimed and lost, driven by two, switched off."""

from __future__ import annotations

from typing import Any

from tests.database import database
from tests.integration.conftest import Program
from tests.integration.server.conftest import WAIT_S, Daemon, finish, start
from tests.integration.server.streams import Sent, Stream, settled, streams
from tests.integration.server.test_remote import wait_for_run
from tests.integration.server.test_runs import RUNS, finished, show, submit

__all__ = ["streams"]

FULL: dict[str, Any] = {"options": {"permission": "full"}}


def test_a_run_that_was_cancelled_while_it_waited_never_runs(daemon: Daemon) -> None:
    holder = daemon.segue.start("run", "k", "[[slow 3]]", "--agent", "rehearsal", "--no-daemon")
    wait_for_run(daemon, "k")
    run = submit(daemon, "k", "[[shell touch ran]]", **FULL)["run"]
    assert daemon.segue("cancel", run).code == 0
    holder.communicate(timeout=WAIT_S)
    after = submit(daemon, "k", "hi")["run"]
    assert finished(daemon, after)["state"] == "done"
    assert show(daemon, run)["state"] == "withdrawn"
    assert not (daemon.segue.cwd / "ran").exists()
    said = [each["text"] for each in daemon.ask("GET", "/api/v1/conversations/k/log").json if each["n"]]
    assert "[[shell touch ran]]" not in said


def test_a_run_that_was_claimed_and_lost_before_an_attempt_waits_again(segue: Program) -> None:
    run = segue("run", "k", "remember number 7", "--queue", "--agent", "rehearsal", "-q").stdout.strip()
    with database(segue.home / "segue.db") as file:
        file.execute("UPDATE turns SET state = 'running' WHERE id = ?", (run,))
    daemon = start(segue)
    try:
        assert finished(daemon, run)["turn"]["text"] == "Noted: 7."
    finally:
        finish(daemon.process)


def test_two_that_drive_one_queue_run_each_message_once(daemon: Daemon) -> None:
    first = finished(daemon, submit(daemon, "k", "remember number 1")["run"])
    submit(daemon, "k", "[[slow 2]]")
    retry = submit(daemon, "k", "", retry_of=first["message"], cut=True)["run"]
    beside = daemon.segue.start("queue", "run", "k")
    assert finished(daemon, retry)["state"] == "done"
    assert beside.wait(WAIT_S) == 0
    beside.communicate()
    texts = [each["text"] for each in daemon.ask("GET", "/api/v1/conversations/k/log").json if each["n"]]
    assert texts == ["remember number 1", "Noted: 1."]


def test_a_keyed_run_is_parked_at_a_limit_too(daemon: Daemon) -> None:
    run = submit(daemon, "k", "[[error 429 retry-after 600]]", "once")["run"]
    Stream(daemon, f"/api/v1/runs/{run}/events").wait(lambda got: _state(got) == "parked")
    assert submit(daemon, "k", "[[error 429 retry-after 600]]", "once")["run"] == run


def _state(got: list[Sent]) -> str | None:
    """The last state of the run."""
    states = [each.data["run"]["state"] for each in got if each.kind == "run"]
    return states[-1] if states else None


def test_an_idle_daemon_stays_while_something_waits(segue: Program) -> None:
    segue("run", "k", "hi", "--agent", "rehearsal", "-q", "--at", "+3s")
    daemon = start(segue, "--idle-exit", "1")
    try:
        assert daemon.process.wait(WAIT_S) == 0
    finally:
        finish(daemon.process)
    assert segue("last", "k").stdout == "Understood.\n"


def test_a_busy_conversation_is_forked_if_asked(daemon: Daemon) -> None:
    submit(daemon, "k", "[[slow 2]]")
    wait_for_run(daemon, "k")
    fork = submit(daemon, "k", "hi", fork=True)
    assert fork["conversation"] == "k~2"
    assert finished(daemon, fork["run"])["state"] == "done"


def test_numbers_out_of_range_are_refused(daemon: Daemon) -> None:
    body: dict[str, Any] = {"message": "hi", "agent": "rehearsal", "not_before": 10**20}
    assert daemon.ask("POST", RUNS.format("k"), body).status == 422
    run = submit(daemon, "k", "hi", not_before=2**50)["run"]
    assert daemon.ask("POST", f"/api/v1/queue/{run}/move", {"place": 10**30}).status == 422
    feed = Stream(daemon, "/api/v1/events").wait(bool)[0].data["feed"]
    assert (
        Stream(daemon, "/api/v1/events", after=f"{feed}:{'9' * 4000}").wait(bool)[0].data["status"] == "gap"
    )


def test_a_run_is_told_to_be_over_after_all_its_events(daemon: Daemon) -> None:
    run = submit(daemon, "k", "[[shell echo a]][[shell echo b]]", **FULL)["run"]
    finished(daemon, run)
    feed = Stream(daemon, "/api/v1/events").wait(bool)[0].data["feed"]
    got = Stream(daemon, "/api/v1/events", after=f"{feed}:0").wait(lambda got: settled(got, run))
    over = next(n for n, each in enumerate(got) if settled([each], run))
    assert all(each.kind != "event" for each in got[over:])
    assert sum(each.kind == "event" for each in got[:over]) > 4


def test_a_key_is_the_same_run_without_a_directory_too(daemon: Daemon) -> None:
    body = {"message": "hello", "agent": "rehearsal"}
    first = daemon.ask("POST", RUNS.format("n"), body, idempotency_key="m")
    assert first.status == 202
    finished(daemon, first.json["run"])
    again = daemon.ask("POST", RUNS.format("n"), body, idempotency_key="m")
    assert (again.status, again.json["run"]) == (202, first.json["run"])


def test_places_are_counted_from_one(daemon: Daemon) -> None:
    finished(daemon, submit(daemon, "k", "hi")["run"])
    later = [submit(daemon, "k", "hi", not_before=2**50) for _ in range(2)]
    assert [show(daemon, each["run"])["place"] for each in later] == [1, 2]
    watched = daemon.segue.start("run", "k", "[[slow 2 10]][[say good]]", "--agent", "rehearsal")
    wait_for_run(daemon, "k")
    assert daemon.segue("watch", "k").stdout == "good\n"
    watched.communicate(timeout=WAIT_S)
