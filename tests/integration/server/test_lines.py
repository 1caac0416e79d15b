"""The line of a conversation: first come, first served; held up by a failure if wanted; run by hand."""

from __future__ import annotations

import subprocess
from typing import Any

import msgspec

from tests.database import database
from tests.integration.conftest import Program
from tests.integration.server.conftest import WAIT_S, Daemon, finish, start
from tests.integration.server.streams import Stream, said, settled, streams
from tests.integration.server.test_parking import Limited, until
from tests.integration.server.test_runs import finished, show, submit
from tests.integration.talk import rehearsing

__all__ = ["streams"]

HOLD = '[queue]\non_failure = "hold"\n'


def waiting(segue: Program) -> int:
    """How many runs have been accepted and wait."""
    with database(f"file:{segue.home / 'segue.db'}?mode=ro", uri=True, timeout=WAIT_S) as file:
        (count,) = file.execute("SELECT COUNT(*) FROM turns WHERE state = 'queued'").fetchone()
    return int(count)


def test_runs_begin_in_the_order_in_which_they_came(segue: Program) -> None:
    talk = rehearsing(segue)
    daemon = start(segue)
    processes: list[subprocess.Popen[bytes]] = []
    try:
        with talk.busy():
            for n, how in enumerate(
                ["--no-daemon", "--queue", "--quiet", "--no-daemon", "--quiet", "--no-daemon"]
            ):
                processes.append(segue.start("run", "t", f"remember number {n}", how))
                until(lambda n=n: waiting(segue) == n + 1)  # type: ignore[misc]
        for process in processes:
            process.communicate(timeout=WAIT_S)
        until(lambda: waiting(segue) == 0)
        finished(daemon, submit(daemon, "t", "what numbers?")["run"])
    finally:
        finish(daemon.process)
    texts = [text for text in talk.texts() if text.startswith("remember")]
    assert texts == [f"remember number {n}" for n in range(6)]


def test_a_line_that_is_run_by_hand_tells_what_came_of_it(segue: Program) -> None:
    rehearsing(segue)
    runs = [
        segue("run", "t", text, "--queue", "-q").stdout.strip()
        for text in ("remember number 7", "[[error 400]]", "what number?")
    ]
    ran = segue("queue", "run", "t")
    lines = ran.stdout.splitlines()
    assert [line.split("  ")[:4] for line in lines] == [
        [runs[0], "t", "rehearsal", "done"],
        [runs[1], "t", "rehearsal", "failed"],
        [runs[2], "t", "rehearsal", "done"],
    ]
    assert (lines[0].split("  ")[-1], lines[2].split("  ")[-1]) == ("Noted: 7.", "7")
    assert ran.code == 1
    segue("run", "t", "what number?", "--queue", "-q")
    again = segue("queue", "run", "t", "--json")
    (shown,) = msgspec.json.decode(again.stdout)
    assert (again.code, shown["state"], shown["turn"]["text"]) == (0, "done", "7")
    assert segue("queue", "run", "t", "--json").stdout == "[]\n"


def held(daemon: Daemon) -> list[Any]:
    return [each["held_by"] for each in daemon.ask("GET", "/api/v1/queue").json]


def test_a_failure_holds_up_the_line_until_the_user_lets_it_go_on(segue: Program) -> None:
    talk = rehearsing(segue, HOLD)
    failed, second, third = (
        segue("run", "t", text, "--queue", "-q").stdout.strip()
        for text in ("[[error 400]]", "[[error 400]][[say no]]", "remember number 3")
    )
    ran = segue("queue", "run", "t")
    assert (ran.code, len(ran.stdout.splitlines())) == (1, 1)
    assert f"2 runs wait because {failed} failed; go on with: segue queue run t" in ran.stderr
    assert f"queued (held up: {failed} failed)" in segue("queue", "t").stdout
    daemon = start(segue)
    try:
        assert talk.run("what number?").text == "I do not know any number."  # it does not wait for them
        assert held(daemon) == [failed, failed]
        assert daemon.ask("POST", f"/api/v1/runs/{second}/now").status == 200
        assert finished(daemon, second)["state"] == "failed"
        assert held(daemon) == [second]
        assert daemon.ask("POST", f"/api/v1/runs/{third}/now").status == 200
        assert finished(daemon, third)["turn"]["text"] == "Noted: 3."
    finally:
        finish(daemon.process)


def test_a_line_goes_on_when_the_retry_of_what_failed_succeeds(segue: Program) -> None:
    limited = Limited(segue, HOLD, how="[[error 400]]")
    segue("run", "t", "remember number 7", "--queue", "-q")
    behind = segue("run", "t", "what number?", "--queue", "-q").stdout.strip()
    daemon = start(segue)
    try:
        until(lambda: show(daemon, behind)["held_by"] is not None)
        limited.limit.unlink()
        assert limited.talk.retry().text == "Noted: 7."
        assert finished(daemon, behind)["turn"]["text"] == "7"
    finally:
        finish(daemon.process)


def test_what_a_retry_says_is_told_under_its_own_id(segue: Program) -> None:
    limited = Limited(segue, how="[[error 429 retry-after 1]]")
    daemon = start(segue)
    try:
        everything = Stream(daemon, "/api/v1/events")
        text = "[[slow 1 5]][[say one two three]]"
        client = segue.start("run", "t", text, "--retries", "9", "--json")
        until(lambda: limited.calls > 0)
        limited.limit.unlink()
        out, _ = client.communicate(timeout=WAIT_S)
        turn = msgspec.json.decode(out.splitlines()[-1])
        got = everything.wait(lambda got: settled(got, turn["run"]))
    finally:
        finish(daemon.process)
    assert turn["earlier"]
    assert said(got, turn["run"]) == turn["text"]
    assert {said(got, run) for run in turn["earlier"]} == {""}
