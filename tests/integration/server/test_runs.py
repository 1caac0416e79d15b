"""Runs over HTTP: queued at once, in order, keyed, cancelled, parked; and the command line beside them."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any

import pytest

from tests.integration.server.conftest import WAIT_S, Daemon
from tests.integration.server.streams import Sent, Stream, said, settled, streams

RUNS = "/api/v1/conversations/{}/runs"
FIVE = "remember number 5 [[slow 1 10]][[say Noted it, 5]]"

__all__ = ["streams"]


def submit(
    daemon: Daemon, key: str, message: str, idempotency: str | None = None, **more: Any
) -> dict[str, Any]:
    body = {"message": message, "agent": "rehearsal", "cwd": str(daemon.segue.cwd), **more}
    if idempotency is None:
        answer = daemon.ask("POST", RUNS.format(key), body)
    else:
        answer = daemon.ask("POST", RUNS.format(key), body, idempotency_key=idempotency)
    assert answer.status == 202, answer.body
    run: dict[str, Any] = answer.json
    return run


def show(daemon: Daemon, run: str) -> dict[str, Any]:
    shown: dict[str, Any] = daemon.ask("GET", f"/api/v1/runs/{run}").json
    return shown


def finished(daemon: Daemon, run: str) -> dict[str, Any]:
    """The run, once it is settled."""
    Stream(daemon, f"/api/v1/runs/{run}/events").wait_over()
    return show(daemon, run)


def test_a_run_returns_at_once_and_is_answered_later(daemon: Daemon) -> None:
    run = submit(daemon, "k", "remember number 456 [[slow 1 10]][[say Noted it, 456]]")
    assert run["state"] in ("queued", "running")
    assert run["turn"] is None
    done = finished(daemon, run["run"])
    assert (done["state"], done["turn"]["text"], done["turn"]["mode"]) == ("done", "Noted it, 456", "fresh")
    again = finished(daemon, submit(daemon, "k", "what number?")["run"])
    assert (again["turn"]["mode"], again["turn"]["text"]) == ("resume", "456")


def test_what_comes_meanwhile_waits_in_order(daemon: Daemon) -> None:
    first = submit(daemon, "k", "remember number 1 [[slow 2]]")
    others = [submit(daemon, "k", f"remember number {n}") for n in (2, 3, 4)]
    waiting = daemon.ask("GET", "/api/v1/queue?conversation=k").json
    assert [each["run"] for each in waiting][-3:] == [each["run"] for each in others]
    third = others[2]["run"]
    moved = daemon.ask("POST", f"/api/v1/queue/{third}/move", {"place": 1}).json
    assert moved[0]["run"] == third
    edited = daemon.ask("PATCH", f"/api/v1/queue/{others[1]['run']}", {"text": "remember number 33"})
    assert edited.status == 200
    removed = daemon.ask("DELETE", f"/api/v1/queue/{others[0]['run']}").json
    assert removed["state"] == "withdrawn"
    for each in (first["run"], third, others[1]["run"]):
        assert finished(daemon, each)["state"] == "done"
    log = [each["text"] for each in daemon.ask("GET", "/api/v1/conversations/k/log").json if each["n"]]
    assert log[0::2] == ["remember number 1 [[slow 2]]", "remember number 4", "remember number 33"]
    gone = daemon.ask("DELETE", f"/api/v1/queue/{first['run']}")
    assert (gone.status, gone.kind) == (410, "gone")


def test_the_same_key_is_the_same_run_even_if_two_come_at_once(daemon: Daemon) -> None:
    made: list[str] = []
    threads = [
        threading.Thread(target=lambda: made.append(submit(daemon, "k", "hi", "once")["run"]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert len(made) == 4
    assert len(set(made)) == 1
    finished(daemon, made[0])
    assert submit(daemon, "k", "hi", "once")["run"] == made[0]
    body = {"message": "something else", "agent": "rehearsal", "cwd": str(daemon.segue.cwd)}
    other = daemon.ask("POST", RUNS.format("k"), body, idempotency_key="once")
    assert (other.status, other.kind) == (422, "misuse")


def test_what_cannot_be_run_is_refused_before_it_is_stored(daemon: Daemon) -> None:
    for body in ({"message": ""}, {"message": "x", "agent": "nobody"}, {"message": "x", "cwd": "/no/such"}):
        refused = daemon.ask("POST", RUNS.format("k"), {"agent": "rehearsal", **body})
        assert (refused.status, refused.kind) == (422, "misuse"), body
    unknown = daemon.ask("POST", RUNS.format("k"), {"message": "x", "colour": "red"})
    assert unknown.status == 422
    assert daemon.ask("GET", "/api/v1/conversations").json == []
    missing = daemon.ask("GET", "/api/v1/runs/nosuch")
    assert (missing.status, missing.kind) == (404, "not_found")


def test_a_run_is_cancelled_while_it_waits_and_while_it_runs(daemon: Daemon) -> None:
    first = submit(daemon, "k", "[[hang]]")["run"]
    second = submit(daemon, "k", "never")["run"]
    assert daemon.ask("POST", f"/api/v1/runs/{second}/cancel").json["state"] == "withdrawn"
    daemon.ask("POST", f"/api/v1/runs/{first}/cancel")
    assert finished(daemon, first)["state"] == "cancelled"
    over = daemon.ask("POST", f"/api/v1/runs/{first}/cancel")
    assert (over.status, over.kind) == (410, "gone")


def test_a_parked_run_wakes_at_its_time_or_now(daemon: Daemon) -> None:
    soon = submit(daemon, "k", "soon", not_before=int(time.time() * 1000) + 700)
    assert soon["state"] == "parked"
    assert finished(daemon, soon["run"])["state"] == "done"
    late = submit(daemon, "k", "late", not_before=int(time.time() * 1000) + 3_600_000)
    assert show(daemon, late["run"])["state"] == "parked"
    daemon.ask("POST", f"/api/v1/runs/{late['run']}/now")
    assert finished(daemon, late["run"])["state"] == "done"


def test_a_run_behind_another_one_cannot_be_started_now(daemon: Daemon) -> None:
    first, second = (submit(daemon, "k", text, not_before=2**50)["run"] for text in ("one", "two"))
    refused = daemon.ask("POST", f"/api/v1/runs/{second}/now")
    assert (refused.status, refused.kind) == (409, "conflict")
    assert refused.json["detail"].startswith(f"the run {first} comes before it")
    assert show(daemon, second)["state"] == "parked"
    daemon.ask("POST", f"/api/v1/queue/{second}/move", {"place": 1})
    assert daemon.ask("POST", f"/api/v1/runs/{second}/now").status == 200
    assert finished(daemon, second)["state"] == "done"
    assert show(daemon, first)["state"] == "parked"


def test_a_retry_runs_the_message_again(daemon: Daemon) -> None:
    failed = finished(daemon, submit(daemon, "k", "[[error 400]]")["run"])
    assert failed["state"] == "failed"
    again = submit(daemon, "k", "", retry_of=failed["message"])
    assert (again["retry_of"], again["message"]) == (failed["run"], failed["message"])


@pytest.mark.parametrize("option", ["--queue", "--at=+0s"])
def test_the_command_line_queues_and_the_daemon_runs_it(daemon: Daemon, option: str) -> None:
    daemon.segue("run", "k", "remember number 9", "--agent", "rehearsal", "-q")
    run = daemon.segue("run", "k", "what number?", option)
    assert (run.code, run.stderr) == (0, "")
    assert finished(daemon, run.stdout.strip())["turn"]["text"] == "9"


@pytest.mark.parametrize("how", ["the API", "segue run"])
def test_a_session_of_no_account_is_adopted_when_its_run_starts(daemon: Daemon, how: str) -> None:
    before = daemon.segue("run", "old", "remember number 8", "--agent", "rehearsal", "--json").turn
    session = before["session_id"]
    daemon.segue("rm", "old")
    if how == "the API":
        run = submit(daemon, "k", "what number?", adopt=session)["run"]
    else:
        run = daemon.segue("run", "k", "what number?", "--adopt", session, "--queue").stdout.strip()
    done = finished(daemon, run)
    assert (done["state"], done["mode"], done["turn"]["text"]) == ("done", "resume", "8"), done


def test_without_a_daemon_the_queue_says_so_and_can_be_run(segue: Any) -> None:
    queued = segue("run", "k", "remember number 9", "--queue", "--agent", "rehearsal")
    assert (queued.code, "segue queue run k" in queued.stderr) == (0, True)
    assert segue("queue", "k").stdout.split()[-1] == "9"
    assert segue("queue", "run", "k").code == 0
    assert segue("last", "k").stdout == "Noted: 9.\n"


def test_cancel_and_watch_reach_a_run_of_the_daemon(daemon: Daemon) -> None:
    run = submit(daemon, "k", "remember number 7 [[slow 2 20]][[say Noted it, 7]]")["run"]
    watched = daemon.segue("watch", "k")
    assert (watched.code, watched.stdout) == (0, "Noted it, 7\n")
    assert show(daemon, run)["state"] == "done"
    hanging = submit(daemon, "k", "[[hang]]")["run"]
    assert daemon.segue("cancel", "k").code == 0
    assert finished(daemon, hanging)["state"] == "cancelled"
    assert daemon.segue("cancel", "k").code == 1


def test_a_run_of_the_command_line_is_seen_live(daemon: Daemon) -> None:
    everything = Stream(daemon, "/api/v1/events")
    everything.wait(bool)
    for extra in ((), ("--no-daemon",)):
        ran = daemon.segue(
            "run",
            "k",
            "remember number 5 [[slow 1 10]][[say Noted it, 5]]",
            "--agent",
            "rehearsal",
            "--json",
            *extra,
        )
        run = ran.turn["run"]
        got = everything.wait(partial(_settled, run))
        assert said(got, run) == "Noted it, 5"
        assert sum(each.kind == "delta" and each.data["run"] == run for each in got) > 1


def _settled(run: str, got: list[Sent]) -> bool:
    return settled(got, run)


def test_a_foreground_run_waits_for_what_was_queued_before_it(daemon: Daemon) -> None:
    submit(daemon, "k", "remember number 1 [[slow 1]]")
    second = submit(daemon, "k", "remember number 2")["run"]
    ran = daemon.segue("run", "k", "what number?", "--agent", "rehearsal", "--json")
    assert ran.turn["text"] == "2"
    assert show(daemon, second)["state"] == "done"


def test_without_a_daemon_a_foreground_run_goes_ahead_and_says_what_waits(segue: Any) -> None:
    segue("run", "k", "remember number 1", "--agent", "rehearsal", "-q")
    segue("run", "k", "remember number 2", "--queue", "-q")
    ran = segue("run", "k", "what number?")
    assert (ran.code, ran.stdout) == (0, "1\n")
    assert "1 queued message of k waits for a daemon" in ran.stderr
    assert segue("queue", "k").stdout.split()[-1] == "2"


def test_at_a_limit_a_queued_run_is_parked_and_what_waits_behind_it_waits(daemon: Daemon) -> None:
    run = submit(daemon, "k", "[[error 429 retry-after 1]]")["run"]
    behind = submit(daemon, "k", "remember number 2")["run"]

    def until_of(parked: list[Sent]) -> set[int]:
        shown = [each.data["run"] for each in parked if each.kind == "run"]
        return {each["not_before"] for each in shown if each["state"] == "parked"}

    # The limit is not over when it wakes: it is parked again.
    Stream(daemon, f"/api/v1/runs/{run}/events").wait(lambda got: len(until_of(got)) > 1)
    assert show(daemon, behind)["state"] == "queued"
    assert daemon.ask("DELETE", f"/api/v1/queue/{run}").status in (200, 410)
    daemon.ask("POST", f"/api/v1/runs/{run}/cancel")
    assert finished(daemon, behind)["state"] == "done"


def test_a_retry_keeps_its_place_before_what_waits(daemon: Daemon) -> None:
    first = submit(daemon, "k", "[[error 503]]", options={"retries": 1})["run"]
    behind = submit(daemon, "k", "hello")["run"]
    assert finished(daemon, first)["state"] == "failed"
    assert finished(daemon, behind)["state"] == "done"
    log = daemon.ask("GET", "/api/v1/conversations/k/log").json
    assert [each["text"] for each in log if each["from"] == "user" and each["n"]] == [
        "[[error 503]]",
        "hello",
    ]


def test_parking_can_be_switched_off(segue: Any) -> None:
    segue.config('[limits]\non_limit = "fail"\n')
    segue("run", "k", "[[error 429 retry-after 60]]", "--queue", "--agent", "rehearsal", "-q")
    assert segue("queue", "run", "k").code == 75
    assert segue("queue", "k").stdout == ""
