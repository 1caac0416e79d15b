"""``segue why``: what the next turn would do, without doing anything."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.database import database
from tests.integration.conftest import Program
from tests.integration.talk import OTHER, Talk, rehearsing

PRICES = '[prices."rehearsal-*"]\ninput = 1000.0\noutput = 5000.0\ncache_read = 100.0\ncache_write = 1250.0\n'
CHECKS = (
    "blank enabled capability fresh_session pin history end workdir runtime model tools account host ttl"
    " outcome poisoned retired pressure file size fits limits busy"
).split()
RUNGS = ["resume", "branch", "graft", "replay", "recap", "fresh"]


@pytest.fixture
def talk(segue: Program) -> Talk:
    """Two turns have been taken."""
    talk = rehearsing(segue, OTHER + PRICES)
    talk.run("remember number 1")
    talk.run("remember number 2")
    return talk


def rung(found: dict[str, Any], mode: str) -> dict[str, Any]:
    one: dict[str, Any] = next(each for each in found["rungs"] if each["mode"] == mode)
    return one


def test_a_conversation_that_is_not_there_yet_begins_fresh(segue: Program) -> None:
    talk = rehearsing(segue)
    found = talk.why("hello")
    assert (found["mode"], found["session_id"], found["session_cwd"]) == ("fresh", None, None)
    assert found["sends"] | {"tokens": 1} == {
        "native_messages": 0,
        "text_messages": 1,
        "bytes": 5,
        "tokens": 1,
        "corrections": 0,
    }
    assert rung(found, "replay")["state"] == "impossible"
    said = talk("why", "hello").stdout
    assert "next turn: fresh" in said
    assert "▸ fresh   ✓ a new session, with the new message only" in said
    assert msgspec.json.decode(segue("ls", "--json").stdout) == [], "and it still is not there"


def test_the_object(talk: Talk) -> None:
    found = talk.why("what numbers?")
    assert set(found) == {
        *("schema", "conversation", "agent", "account", "model", "role", "mode", "sends", "rungs", "checks"),
        *(
            "epoch",
            "cwd",
            "session_id",
            "session_cwd",
            "context_window",
            "terms",
            "notices",
            "notice_clauses",
            "limits",
            "pays",
        ),
        *("recovery", "first", "refused", "given"),
    }
    assert (found["schema"], found["conversation"], found["agent"]) == (1, "t", "rehearsal")
    assert [each["mode"] for each in found["rungs"]] == RUNGS
    assert [each["check"] for each in found["checks"]] == CHECKS
    assert all(set(each) == {"check", "verdict", "bars", "detail", "clauses"} for each in found["checks"])
    assert [each["mode"] for each in found["rungs"] if each["state"] == "chosen"] == [found["mode"]]


def test_it_says_what_run_then_does(talk: Talk) -> None:
    foreseen = talk.why("what numbers?")
    turn = talk.run("what numbers?").turn
    assert foreseen["mode"] == turn["mode"] == "resume"
    assert foreseen["sends"]["native_messages"] == turn["sent"]["native_messages"] == 4
    assert foreseen["sends"]["text_messages"] == turn["sent"]["text_messages"] == 1
    assert foreseen["sends"]["bytes"] == turn["sent"]["bytes"]
    for name in ("verdict", "bars", "detail"):
        assert [each[name] for each in foreseen["checks"]] == [each[name] for each in turn["why"]]
    assert foreseen["rungs"] == turn["rungs"]


CHANGES: dict[str, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    "an edit": (("edit", "#3", "remember number 3"), (), "branch"),
    "an edit of the first": (("edit", "#1", "remember number 3"), (), "replay"),
    "a truncation": (("truncate", "#3"), (), "branch"),
    "another agent": ((), ("--agent", "other"), "replay"),
    "another role": ((), ("--role", "reviewer"), "replay"),
    "a fresh session": ((), ("--fresh-session",), "replay"),
    "nothing carried": ((), ("--blank",), "fresh"),
    "not saved": ((), ("--no-save",), "replay"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_it_foresees_what_a_change_makes_of_the_next_turn(talk: Talk, change: str) -> None:
    command, options, mode = CHANGES[change]
    if command:
        talk(*command)
    foreseen = talk.why("what numbers?", *options)
    turn = talk.run("what numbers?", *options).turn
    assert foreseen["mode"] == turn["mode"] == mode
    assert [(each["mode"], each["state"]) for each in foreseen["rungs"]] == [
        (each["mode"], each["state"]) for each in turn["rungs"]
    ]
    assert foreseen["sends"]["native_messages"] == turn["sent"]["native_messages"]
    assert foreseen["sends"]["text_messages"] == turn["sent"]["text_messages"]
    failed = [each for each in foreseen["checks"] if each["verdict"] == "fail"]
    assert all(each["detail"] for each in failed)


RETRIES: dict[str, tuple[tuple[str, ...], str]] = {
    "the last": (("#3",), "branch"),
    "the first, with what follows": (("#1", "--cut"), "fresh"),
    "by another agent": (("#3", "--agent", "other"), "replay"),
    "in a fresh session": (("#3", "--fresh-session"), "replay"),
}


@pytest.mark.parametrize("retry", RETRIES)
def test_it_foresees_what_a_retry_does(talk: Talk, retry: str) -> None:
    (message, *options), mode = RETRIES[retry]
    before = everything(talk.segue.home)
    foreseen = msgspec.json.decode(talk("why", "--retry", message, *options, "--json").stdout)
    assert everything(talk.segue.home) == before
    turn = msgspec.json.decode(talk("retry", message, *options, "--json").stdout)
    assert foreseen["mode"] == turn["mode"] == mode
    assert foreseen["sends"]["native_messages"] == turn["sent"]["native_messages"]
    assert foreseen["sends"]["text_messages"] == turn["sent"]["text_messages"]
    for name in ("check", "verdict", "bars", "detail"):
        assert [each[name] for each in foreseen["checks"]] == [each[name] for each in turn["why"]]


def test_a_retry_that_is_refused_is_not_planned(talk: Talk) -> None:
    assert "would be dropped" in talk("why", "--retry", "#1", code=2).stderr
    assert "leave out the text" in talk("why", "some text", "--retry", "#3", code=2).stderr


def test_it_foresees_what_an_adopted_session_is_good_for(talk: Talk) -> None:
    (known,) = talk.sessions.glob("*.jsonl")
    other = "abcdef12-0000-4000-8000-000000000003"
    known.with_name(f"{other}.jsonl").write_text(known.read_text().replace(known.stem, other))
    before = everything(talk.segue.home)
    planned = talk.segue("why", "mine", "what number?", "--adopt", other, "--json")
    foreseen = msgspec.json.decode(planned.stdout)
    assert everything(talk.segue.home) == before
    turn = talk.segue("run", "mine", "what number?", "--adopt", other, "--json").turn
    assert foreseen["mode"] == turn["mode"] == "resume"
    assert foreseen["session_id"] == turn["session_id"] == other
    assert foreseen["sends"]["native_messages"] == turn["sent"]["native_messages"] == 4


def test_it_foresees_what_a_fork_does_while_a_turn_runs(talk: Talk) -> None:
    running = talk.segue.start("run", "t", "[[slow 20]][[say so]]")
    try:
        until = time.monotonic() + 30
        while "another turn is running" not in talk("why").stdout and time.monotonic() < until:
            time.sleep(0.1)
        foreseen = talk.why("what numbers?", "--fork")
        assert len(msgspec.json.decode(talk.segue("ls", "--json").stdout)) == 1
        turn = talk.run("what numbers?", "--fork").turn
    finally:
        os.killpg(running.pid, signal.SIGINT)
        running.communicate(timeout=30)
    assert foreseen["conversation"] == turn["conversation"] == "t~2"
    assert foreseen["mode"] == turn["mode"] == "branch"
    assert foreseen["sends"]["native_messages"] == turn["sent"]["native_messages"] == 4
    assert foreseen["checks"][CHECKS.index("busy")]["verdict"] == "pass"
    for name in ("check", "verdict", "bars", "detail"):
        assert [each[name] for each in foreseen["checks"]] == [each[name] for each in turn["why"]]


def everything(home: Path) -> list[str]:
    with database(home / "segue.db") as db:
        return list(db.iterdump())


def test_it_changes_nothing(talk: Talk) -> None:
    before, runs = everything(talk.segue.home), sorted((talk.segue.home / "runs").iterdir())
    sessions = {file: file.read_bytes() for file in talk.sessions.iterdir()}
    for options in ((), ("--blank",), ("--agent", "other"), ("--fork", "--wait", "3", "--timeout", "9")):
        talk("why", "what numbers?", *options)
    assert everything(talk.segue.home) == before
    assert sorted((talk.segue.home / "runs").iterdir()) == runs
    assert {file: file.read_bytes() for file in talk.sessions.iterdir()} == sessions


def test_costs_are_foreseen_where_a_price_is_known(talk: Talk) -> None:
    found = talk.why("what numbers?")
    costs = {each["mode"]: each["usd"] for each in found["rungs"]}
    assert costs["graft"] is None
    assert all(costs[mode] > 0 for mode in ("resume", "branch", "replay", "recap", "fresh"))
    assert costs["resume"] < costs["replay"]
    turn = talk.run("what numbers?").turn
    spent = turn["usage"]["input"] + turn["usage"]["cache_write"]
    assert abs(rung(found, "resume")["new_tokens"] - spent) < 20
    assert "~$" in talk("why", "what numbers?").stdout.splitlines()[0]


def test_without_a_price_there_are_tokens_and_no_money(segue: Program) -> None:
    talk = rehearsing(segue)
    talk.run("remember number 1")
    found = talk.why("what number?")
    assert {each["usd"] for each in found["rungs"]} == {None}
    assert rung(found, "replay")["new_tokens"] > rung(found, "resume")["new_tokens"]
    assert "$" not in talk("why", "what number?").stdout


def test_a_barred_rung_says_what_it_would_have_been(talk: Talk, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    here, there = talk.segue.cwd, tmp_path / "other"
    said = talk("why", "--cwd", str(there)).stdout.replace(str(tmp_path), "HOME")
    lines = said.splitlines()
    assert lines[0].startswith("t · rehearsal · next turn: replay")
    assert "sends 4 earlier messages" in lines[0]
    resume = next(line for line in lines if line.startswith("  resume"))
    assert "✗ the session belongs to ~/project, this is ~/other" in resume
    assert "would have been ~$" in resume
    assert any(line.startswith("  branch  ✗ the same") for line in lines)
    assert "  ✗ workdir: the session belongs to ~/project, this is ~/other" in lines
    assert "    → run it in ~/project (--cwd) to keep the session" in lines
    found = talk.why("--cwd", str(there))
    assert (found["cwd"], found["session_cwd"]) == (str(there), str(here))


def test_every_check_that_fails_says_what_differs_and_what_to_do(talk: Talk) -> None:
    talk("edit", "#1", "remember number 3")
    for options in ((), ("--blank",), ("--fresh-session",), ("--agent", "other"), ("--no-save",)):
        lines = talk("why", *options).stdout.splitlines()
        failed = [at for at, line in enumerate(lines) if line.startswith("  ✗ ") and ":" in line]
        assert failed
        for at in failed:
            assert lines[at].partition(": ")[2]
            assert lines[at + 1].startswith("    → "), lines[at]


def test_while_a_turn_runs_it_says_so_and_does_not_blame_the_session(talk: Talk) -> None:
    with talk.busy():
        found = talk.why("and now?")
    verdicts = {each["check"]: (each["verdict"], each["detail"]) for each in found["checks"]}
    assert verdicts["busy"][0] == "fail"
    assert "another turn is running" in verdicts["busy"][1]
    assert verdicts["end"][0] == "skip"
    assert found["mode"] == "resume"


def test_a_turn_that_outlived_its_segue_is_seen(talk: Talk, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    wait = f"[[shell until [ -e {gate} ]; do sleep 0.1; done]]"
    process = talk.segue.start("run", "t", wait, "--permission", "full", "--events")
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    process.wait()
    try:
        busy = talk.why()["checks"][-1]
    finally:
        gate.touch()
        process.communicate(timeout=30)
    assert (busy["check"], busy["verdict"]) == ("busy", "fail")
    assert "a turn whose Segue was killed still runs" in busy["detail"]


def test_a_correction_is_counted(talk: Talk) -> None:
    talk.run("[[say from-other]]", "--agent", "other")
    talk.run("hi", "--agent", "rehearsal")
    talk("edit", "#6", "from-other, edited")
    assert talk.why()["sends"]["corrections"] == 1
    assert "sends the new message and 1 correction" in talk("why").stdout
