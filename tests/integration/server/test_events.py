"""The stream of changes: in order, without gaps or doubles, also after a break."""

from __future__ import annotations

import http.client
import time
from pathlib import Path

import psycopg

from tests.database import database
from tests.integration.conftest import Program
from tests.integration.server.conftest import Daemon, finish, start
from tests.integration.server.streams import Sent, Stream, recorded, said, settled, streams
from tests.integration.server.test_runs import finished, submit
from tests.integration.server.test_versions import other_version
from tests.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url", "streams"]


STORY = "It was a dark and stormy night, and nobody slept."


def number(event_id: str | None) -> int:
    assert event_id is not None
    return int(event_id.rpartition(":")[2])


def test_the_hello_says_where_the_feed_is_and_everything_comes_in_order(daemon: Daemon) -> None:
    stream = Stream(daemon, "/api/v1/events")
    (hello,) = stream.wait(bool)
    assert (hello.kind, hello.id, hello.data["status"]) == ("hello", None, "ok")
    run = submit(daemon, "k", "remember number 4 [[shell echo hi]]")["run"]
    got = stream.wait(lambda got: settled(got, run))
    ids = [number(each.id) for each in got if each.id is not None]
    assert ids == sorted(set(ids))
    assert all(each.id is None for each in got if each.kind in ("delta", "hello"))
    kinds = [event["type"] for event in recorded(got, run)]
    assert kinds[0] == "session"
    assert kinds.index("tool-call") < kinds.index("tool-result") < kinds.index("end")


def test_after_a_break_nothing_is_missing_and_nothing_comes_twice(daemon: Daemon) -> None:
    stream = Stream(daemon, "/api/v1/events")
    stream.wait(bool)
    first = submit(daemon, "k", "remember number 1")["run"]
    before = stream.wait(lambda got: settled(got, first))
    stream.close()
    last = next(each.id for each in reversed(before) if each.id is not None)
    second = finished(daemon, submit(daemon, "k", "remember number 2")["run"])["run"]
    again = Stream(daemon, "/api/v1/events", after=last)
    after = again.wait(lambda got: settled(got, second))
    assert after[0].data["status"] == "ok"
    assert all(number(each.id) > number(last) for each in after if each.id is not None)
    assert recorded(after, first) == []
    assert [event["type"] for event in recorded(after, second)][-1] == "end"


def test_an_id_of_another_feed_or_of_the_future_is_a_gap(daemon: Daemon) -> None:
    finished(daemon, submit(daemon, "k", "hi")["run"])
    hello = Stream(daemon, "/api/v1/events").wait(bool)[0].data
    for after in ("0:1", f"{hello['feed']}:{hello['seq'] + 1000}", "nonsense"):
        assert Stream(daemon, "/api/v1/events", after=after).wait(bool)[0].data["status"] == "gap"


def test_who_comes_in_the_middle_gets_the_text_so_far(daemon: Daemon) -> None:
    run = submit(daemon, "k", f"[[slow 3 30]][[say {STORY}]]")["run"]
    early = Stream(daemon, f"/api/v1/runs/{run}/events")
    early.wait(lambda got: sum(each.kind == "delta" for each in got) > 5)
    late = Stream(daemon, f"/api/v1/runs/{run}/events")
    assert said(late.wait_over(), run) == said(early.wait_over(), run) == STORY


def test_the_stream_of_a_run_ends_with_the_run(daemon: Daemon) -> None:
    run = submit(daemon, "k", "hi")["run"]
    got = Stream(daemon, f"/api/v1/runs/{run}/events").wait_over()
    assert got[-1].data["run"]["turn"]["text"] == "Understood."
    later = Stream(daemon, f"/api/v1/runs/{run}/events").wait_over()
    assert later[-1].data["run"]["state"] == "done"
    missing = daemon.ask("GET", "/api/v1/runs/nosuch/events")
    assert (missing.status, missing.kind) == (404, "not_found")


def test_the_stream_of_a_run_begins_with_what_happened_before(daemon: Daemon) -> None:
    run = submit(daemon, "k", f"[[shell echo hi]][[slow 2 30]][[say {STORY}]]")["run"]
    early = Stream(daemon, f"/api/v1/runs/{run}/events")
    early.wait(lambda got: sum(each.kind == "delta" for each in got) > 2)
    late = Stream(daemon, f"/api/v1/runs/{run}/events")
    (before, now) = (each.wait_over() for each in (early, late))
    assert recorded(now, run)[0]["type"] == "session"
    assert numbers(now) == numbers(before) == list(range(1, len(numbers(before)) + 1))
    assert len([each for each in now if settled([each], run)]) == 1
    last = next(each.id for each in now if each.kind == "event")
    rest = Stream(daemon, f"/api/v1/runs/{run}/events", after=last).wait_over()
    assert numbers(rest) == numbers(now)[1:]


def test_the_stream_of_an_ended_run_has_all_its_events_and_its_end_once(daemon: Daemon) -> None:
    run = submit(daemon, "k", "[[shell echo hi]]")["run"]
    live = Stream(daemon, f"/api/v1/runs/{run}/events").wait_over()
    feed = live[0].data["feed"]
    for after in (None, f"{feed}:0"):
        got = Stream(daemon, f"/api/v1/runs/{run}/events", after=after).wait_over()
        assert numbers(got) == numbers(live)
        assert len([each for each in got if settled([each], run)]) == 1
        assert settled(got[-1:], run)
    with database(daemon.home / "segue.db") as store:  # as after ``[retention] days``
        store.execute("DELETE FROM feed")
    old = Stream(daemon, f"/api/v1/runs/{run}/events").wait_over()
    assert (numbers(old), settled(old[-1:], run)) == (numbers(live), True)
    assert all(each.id is None for each in old)


def numbers(got: list[Sent]) -> list[int]:
    """The numbers of the events of a run, in the order in which they came."""
    return [each.data["n"] for each in got if each.kind == "event"]


def test_a_quiet_stream_shows_every_15_seconds_that_it_is_alive(segue: Program, tmp_path: Path) -> None:
    quicker = {"server/events.py": ("HEARTBEAT_S = 15.0", "HEARTBEAT_S = 0.2")}
    daemon = start(other_version(segue, tmp_path / "quicker", quicker))
    try:
        late = int(time.time() * 1000) + 3_600_000
        run = submit(daemon, "k", "later", not_before=late)["run"]
        for path in ("/api/v1/events", f"/api/v1/runs/{run}/events"):
            connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=10)
            connection.request("GET", path, headers={"authorization": f"Bearer {daemon.token}"})
            answer = connection.getresponse()
            lines = iter(answer.readline, b"")
            next(line for line in lines if line == b"event: heartbeat\n")
            began = time.monotonic()
            beat = [b"data: {}\n", b"\n", b"event: heartbeat\n"]
            assert [next(lines) for _ in range(9)] == beat * 3, "without an id"
            assert time.monotonic() - began > 0.5
            connection.close()
    finally:
        finish(daemon.process)


def test_changes_and_removals_are_told(daemon: Daemon) -> None:
    finished(daemon, submit(daemon, "k", "remember number 1")["run"])
    stream = Stream(daemon, "/api/v1/events")
    stream.wait(bool)
    daemon.segue("edit", "k", "#1", "remember number 2")
    stream.wait(lambda got: any(each.kind == "message" for each in got))
    daemon.segue("rm", "k")
    stream.wait(lambda got: any(each.kind == "removed" and each.data["conversation"] == "k" for each in got))


def test_changes_of_other_processes_are_told_on_postgres_also_after_a_break(
    segue: Program, postgres_url: str
) -> None:
    segue.env["SEGUE_STORE_URL"] = postgres_url
    daemon = start(segue)
    try:
        stream = Stream(daemon, "/api/v1/events")
        stream.wait(bool)
        for key in ("before", "after"):
            segue("run", key, "remember number 1", "--agent", "rehearsal", "--no-daemon")
            got = stream.wait(lambda got, key=key: ended_in(got, key))  # type: ignore[misc]
            with psycopg.connect(postgres_url, autocommit=True) as admin:
                admin.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'segue'"
                )
        ids = [number(each.id) for each in got if each.id is not None]
        assert ids == sorted(set(ids))
        queued = segue("run", "queued", "hi", "--agent", "rehearsal", "--queue", "--no-daemon")
        assert queued.code == 0
        stream.wait(lambda got: ended_in(got, "queued"))
    finally:
        finish(daemon.process)


def ended_in(got: list[Sent], key: str) -> bool:
    """Whether a run of that conversation is reported as over."""
    shown = [each.data["run"] for each in got if each.kind == "run"]
    return any(run["conversation"] == key and run["turn"] is not None for run in shown)
