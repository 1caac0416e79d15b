"""Budgets hold although many turns begin at once: each reserves what it is expected to cost before it
begins."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import msgspec
import psycopg
import pytest

from segue import Segue, Turn
from segue.system.processes import groups_of
from tests.database import database
from tests.integration.conftest import Program
from tests.integration.talk import OTHER, Talk
from tests.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]

PRICES = '[defaults]\nagent = "rehearsal"\n[prices."*"]\ninput = 1.0\noutput = 5.0\n'


def doing(command: str, size: int = 180) -> str:
    """A message whose turn runs this command. Those of one size cost the same."""
    return f"[[shell {command + ' #':.<{size}}]][[say done]]"


AT_WORK = doing("sleep 0.5")
"""Long enough that others begin meanwhile, if nothing keeps them from it."""
OPTIONS = ("--permission", "full")
SPENT = "SELECT COALESCE(SUM(cost_usd), 0) FROM turns"


@pytest.fixture(params=["sqlite", "postgres"])
def priced(request: pytest.FixtureRequest, segue: Program) -> Program:
    """The price of a turn is known from an earlier conversation."""
    if request.param == "postgres":
        segue.env["SEGUE_STORE_URL"] = request.getfixturevalue("postgres_url")
    segue.config(PRICES)
    Talk(segue, "known").run(AT_WORK, *OPTIONS)
    return segue


def rows(segue: Program, sql: str) -> list[tuple[object, ...]]:
    url = segue.env.get("SEGUE_STORE_URL")
    if url is None:
        with database(segue.home / "segue.db") as db:
            return db.execute(sql).fetchall()
    with closing(psycopg.connect(url, options="-c search_path=segue")) as connection:
        return connection.execute(sql.encode()).fetchall()


def spent(segue: Program) -> float:
    return float(str(rows(segue, SPENT)[0][0]))


def day_of(segue: Program, turns: float) -> float:
    """A day's budget of so many turns, beyond what was spent. Returns the price of one."""
    price = spent(segue) / int(str(rows(segue, "SELECT COUNT(*) FROM turns WHERE cost_usd > 0")[0][0]))
    segue.config(PRICES + f"[budgets]\nday = {spent(segue) + turns * price:.9f}\n")
    return price


def kinds(turns: list[Turn]) -> list[str]:
    return sorted(turn.failure.kind if turn.failure is not None else "done" for turn in turns)


async def _at_once(segue: Program, count: int) -> list[Turn]:
    async with Segue(home=segue.home, env=segue.env, cwd=segue.cwd) as door:
        started = (door.run(f"c{n}", AT_WORK, permission="full") for n in range(count))
        return list(await asyncio.gather(*started))


@pytest.mark.parametrize("count", [8, pytest.param(16, marks=pytest.mark.soak)])
def test_what_is_begun_at_once_stays_within_the_day(priced: Program, count: int) -> None:
    price, before = day_of(priced, 4.5), spent(priced)
    turns = asyncio.run(_at_once(priced, count))
    assert kinds(turns) == ["budget"] * (count - 4) + ["done"] * 4
    assert spent(priced) - before <= 4.5 * price
    assert rows(priced, "SELECT id FROM turns WHERE waits IS NOT NULL AND state = 'queued'") == []


@pytest.mark.parametrize("count", [6, pytest.param(12, marks=pytest.mark.soak)])
def test_commands_that_are_begun_at_once_stay_within_the_day(priced: Program, count: int) -> None:
    price, before = day_of(priced, 2.5), spent(priced)
    started = [priced.start("run", f"c{n}", AT_WORK, *OPTIONS, "--json") for n in range(count)]
    codes = sorted(process.wait(timeout=120) for process in started)
    for process in started:
        process.communicate()
    assert codes == [0, 0] + [1] * (count - 2)
    assert spent(priced) - before <= 2.5 * price


def test_without_a_known_price_one_begins_at_a_time(segue: Program) -> None:
    segue.config(PRICES + "[budgets]\nday = 100.0\n")
    turns = asyncio.run(_at_once(segue, 3))
    assert kinds(turns) == ["done"] * 3
    seen = sorted(rows(segue, "SELECT ended_ms, reserved_usd FROM turns"), key=str)
    assert [reserved is None for _, reserved in seen] == [True, False, False]
    begun = rows(segue, "SELECT MIN(started_ms) FROM attempts GROUP BY turn ORDER BY 1")
    ended = [row[0] for row in rows(segue, "SELECT ended_ms FROM turns ORDER BY ended_ms")]
    assert int(str(begun[1][0])) >= int(str(ended[0])), "the second began before the first had a price"


def test_an_agent_whose_costs_are_never_known_waits_for_nobody(segue: Program) -> None:
    segue.config(OTHER + "[budgets]\nday = 1.0\n")
    talk = Talk(segue, "known")
    assert talk.run("hello", "--agent", "other").turn["cost_usd"] is None

    async def both() -> list[Turn]:
        async with Segue(home=segue.home, env=segue.env, cwd=segue.cwd) as door:
            started = (door.run(f"c{n}", "[[slow 1]][[say done]]", agent="other") for n in range(3))
            return list(await asyncio.gather(*started))

    assert kinds(asyncio.run(both())) == ["done"] * 3
    assert [row[0] for row in rows(segue, "SELECT reserved_usd FROM turns ORDER BY started_ms")][1:] == [
        0.0
    ] * 3


@contextmanager
def at_work(segue: Program, key: str) -> Iterator[subprocess.Popen[bytes]]:
    """A turn that works until the end of the block."""
    gate = segue.home.parent / f"gate-{key}"
    wait = f"until [ -e {gate} ]; do sleep 0.05; done"
    process = segue.start("run", key, doing(wait), *OPTIONS, "--events")
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield process
    finally:
        gate.touch()
        process.communicate(timeout=60)


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def waiting(segue: Program) -> list[tuple[object, ...]]:
    return rows(segue, "SELECT id FROM turns WHERE waits IS NOT NULL AND state = 'queued'")


def test_in_the_foreground_it_waits_as_long_as_it_may(priced: Program) -> None:
    day_of(priced, 1.5)
    with at_work(priced, "first"):
        ran = priced("run", "second", AT_WORK, *OPTIONS, "--wait", "1", "--json")
        assert (ran.code, ran.turn["failure"]["kind"], ran.turn["state"]) == (75, "session_busy", "withdrawn")
        assert "today's budget is reserved for turns that run" in ran.turn["failure"]["message"]
        assert "waiting: today's budget is reserved for turns that run" in ran.stderr
    planned = msgspec.json.decode(priced("why", "second", AT_WORK, "--json").stdout)
    assert next(each for each in planned["checks"] if each["check"] == "budget")["verdict"] == "fail"


def test_what_waits_begins_when_enough_is_given_back(priced: Program) -> None:
    """Turns are expected to cost what the last one did, which was dear. Then one of them is cheap."""
    before = spent(priced)
    Talk(priced, "dear").run(doing("true", 2000), *OPTIONS)
    price = spent(priced) - before
    priced.config(PRICES + f"[budgets]\nday = {spent(priced) + 2.2 * price:.9f}\n")
    with at_work(priced, "first"), at_work(priced, "second"):
        third = priced.start("run", "third", AT_WORK, *OPTIONS, "--json")
        wait_until(lambda: bool(waiting(priced)))
        planned = msgspec.json.decode(priced("why", "fourth", AT_WORK, "--json").stdout)
        check = next(each for each in planned["checks"] if each["check"] == "budget")
        assert "a turn now would wait until a running one has ended" in check["detail"]
        (priced.home.parent / "gate-first").touch()
        out, err = third.communicate(timeout=60)
        assert third.returncode == 0, err
    assert msgspec.json.decode(out.splitlines()[-1])["state"] == "done"


def test_a_budget_that_is_configured_while_a_run_waits_counts(priced: Program) -> None:
    with at_work(priced, "first"):
        second = priced.start("run", "first", "[[shell touch ran]]", *OPTIONS, "--json")
        wait_until(lambda: len(rows(priced, "SELECT id FROM turns WHERE state = 'queued'")) == 1)
        priced.config(PRICES + "[budgets]\nday = 0.000001\n")
    out, _ = second.communicate(timeout=60)
    assert msgspec.json.decode(out.splitlines()[-1])["failure"]["kind"] == "budget"
    assert not (priced.cwd / "ran").exists()


def test_a_budget_that_is_raised_in_the_configuration_ends_the_wait(priced: Program) -> None:
    day_of(priced, 1.5)
    with at_work(priced, "first"):
        second = priced.start("run", "second", AT_WORK, *OPTIONS, "--json")
        wait_until(lambda: bool(waiting(priced)))
        priced.config(PRICES + "[budgets]\nday = 100.0\n")
        second.communicate(timeout=60)
        assert second.returncode == 0


@contextmanager
def daemon(segue: Program) -> Iterator[None]:
    process = segue.start("serve", "--port", "0")
    try:
        yield
    finally:
        process.terminate()
        process.communicate(timeout=60)


def queued(segue: Program, key: str, message: str, *options: str) -> str:
    ran = segue("run", key, message, *OPTIONS, *options, "--queue", "-q")
    assert ran.code == 0, ran.stderr
    return ran.stdout.strip()


def state_of(segue: Program, run: str) -> object:
    return rows(segue, f"SELECT state FROM turns WHERE id = '{run}'")[0][0]


def has_begun(segue: Program, run: str) -> bool:
    return state_of(segue, run) == "running"


def test_runs_that_change_places_while_they_wait_do_not_wait_for_each_other(priced: Program) -> None:
    """The first one of the line is the dearer one. The other one waited for the budget before it."""
    for role in "abc":
        Talk(priced, f"was-{role}").run(doing("true", 2000), *OPTIONS, "--role", role)
    (cheap,), (dear,) = rows(priced, "SELECT cost_usd FROM turns WHERE role IN ('', 'c') ORDER BY cost_usd")
    day = spent(priced) + 2 * float(str(dear)) + 0.5 * float(str(cheap))
    priced.config(PRICES + f"[budgets]\nday = {day:.9f}\n")
    with daemon(priced):
        gates = [priced.home.parent / f"gate-{role}" for role in "ab"]
        for role, gate in zip("ab", gates, strict=True):
            run = queued(
                priced, role, doing(f"until [ -e {gate} ]; do sleep 0.05; done", 400), "--role", role
            )
            wait_until(partial(has_begun, priced, run))
        later = queued(priced, "line", AT_WORK)
        wait_until(lambda: waiting(priced) == [(later,)])
        first = queued(priced, "line", AT_WORK, "--role", "c")
        assert priced("queue", "move", first, "1").code == 0
        gates[0].touch()
        wait_until(lambda: (first,) in waiting(priced))
        gates[1].touch()
        wait_until(lambda: state_of(priced, first) == "done")


def test_the_question_quotes_a_message_that_was_edited_while_it_waited(priced: Program) -> None:
    day_of(priced, 1.5)
    with daemon(priced):
        with at_work(priced, "first"):
            run = queued(priced, "second", "an old text")
            wait_until(lambda: bool(waiting(priced)))
            assert priced("queue", "edit", run, "a new text").code == 0
        asked = f"SELECT question FROM questions WHERE run = '{run}'"
        wait_until(lambda: bool(rows(priced, asked)))
        assert "What waits: a new text" in str(rows(priced, asked)[0][0])


def test_ctrl_c_ends_the_wait(priced: Program) -> None:
    day_of(priced, 1.5)
    with at_work(priced, "first"):
        second = priced.start("run", "second", AT_WORK, *OPTIONS, "--json")
        wait_until(lambda: bool(waiting(priced)))
        second.send_signal(signal.SIGINT)
        second.communicate(timeout=60)
        assert second.returncode == 130
        third = priced.start("run", "third", AT_WORK, *OPTIONS, "--json")
        wait_until(lambda: bool(waiting(priced)))
        (run,) = waiting(priced)[0]
        assert priced("cancel", str(run)).code == 0
        third.communicate(timeout=60)
        assert third.returncode == 130


def test_what_a_killed_process_had_reserved_is_spent(priced: Program) -> None:
    """Its agent is gone, too, and what it cost is not known any more. Who waits settles it."""
    day_of(priced, 2.9)
    first = priced.start("run", "first", "[[hang]]", "--events")
    assert first.stdout is not None
    first.stdout.readline()
    with at_work(priced, "second"):
        third = priced.start("run", "third", AT_WORK, *OPTIONS, "--json")
        wait_until(lambda: bool(waiting(priced)))
        ((run, directory, reserved),) = rows(
            priced,
            "SELECT t.id, a.run_dir, t.reserved_usd FROM turns AS t JOIN attempts AS a ON a.turn = t.id"
            " JOIN conversations AS c ON c.id = t.conversation WHERE c.key = 'first'",
        )
        os.killpg(first.pid, signal.SIGKILL)
        first.communicate()
        for group in groups_of(Path(str(directory))):
            os.killpg(group, signal.SIGKILL)
        wait_until(lambda: not rows(priced, f"SELECT id FROM turns WHERE id = '{run}' AND state = 'running'"))
        assert third.poll() is None, "nothing was given back"
    out, _ = third.communicate(timeout=60)
    killed = rows(priced, f"SELECT state, cost_usd, cost_estimated FROM turns WHERE id = '{run}'")
    assert [(state, usd, bool(estimated)) for state, usd, estimated in killed] == [("failed", reserved, True)]
    ended = msgspec.json.decode(out.splitlines()[-1])
    assert ended["failure"]["kind"] == "budget"


def test_removing_a_conversation_frees_no_budget(priced: Program) -> None:
    day_of(priced, 0.0)
    assert priced("run", "second", AT_WORK, *OPTIONS).code == 1
    assert priced("rm", "known").code == 0
    assert priced("run", "second", AT_WORK, *OPTIONS).code == 1
    usage = (
        msgspec.json.decode(priced("usage", "--json").stdout) if priced("usage", "--help").code == 0 else {}
    )
    assert usage == {} or "known" in str(usage) or usage


@pytest.mark.parametrize("count", [5, pytest.param(10, marks=pytest.mark.soak)])
def test_scheduled_for_one_time_they_stay_within_the_day(priced: Program, count: int) -> None:
    price, before = day_of(priced, 2.5), spent(priced)
    for n in range(count):
        added = priced("run", f"c{n}", AT_WORK, *OPTIONS, "--at", "+1s")
        assert added.code == 0, added.stderr
    daemon = priced.start("serve", "--port", "0")
    try:
        wait_until(lambda: len(rows(priced, "SELECT id FROM turns WHERE state = 'done'")) >= 3)
        wait_until(lambda: len(rows(priced, "SELECT id FROM questions WHERE state = 'open'")) >= count - 2)
    finally:
        daemon.terminate()
        daemon.communicate(timeout=60)
    assert spent(priced) - before <= 2.5 * price
    doors = rows(priced, "SELECT door FROM turns WHERE state = 'done' AND door <> 'run'")
    assert len(doors) == 2
    assert set(doors) <= {("scheduled",), ("queue run",)}, "its time may have come before it was stored"


def test_a_hundred_conversations_at_once_are_all_told(priced: Program) -> None:
    """Nothing is left of the day."""
    day_of(priced, 0.0)
    assert kinds(asyncio.run(_at_once(priced, 100))) == ["budget"] * 100


def test_a_budget_of_nothing_is_no_limit(segue: Program) -> None:
    segue.config(PRICES + "[budgets]\nday = 0\nconversation = 0\n")
    assert kinds(asyncio.run(_at_once(segue, 3))) == ["done"] * 3


@pytest.mark.soak
def test_a_hundred_conversations_at_once_all_get_their_turn(priced: Program) -> None:
    day_of(priced, 120)
    assert kinds(asyncio.run(_at_once(priced, 100))) == ["done"] * 100


def test_with_a_rule_against_every_carry_nothing_hangs(segue: Program) -> None:
    """Each conversation stays under its account, and the limit of time of one ends that one alone."""
    accounts = "".join(
        f'[accounts.{name}]\nagent = "rehearsal"\nhome = "{segue.home.parent / name}"\n'
        'carry_in = "never"\ncarry_out = "never"\n'
        for name in ("a", "b", "c")
    )
    segue.config(PRICES + accounts + "[budgets]\nday = 0\n")

    async def all_at_once() -> list[Turn]:
        async with Segue(home=segue.home, env=segue.env, cwd=segue.cwd) as door:
            started = [door.run(f"c{n}", AT_WORK, permission="full", account="abc"[n % 3]) for n in range(12)]
            late = door.run("late", "[[hang]]", account="a", timeout=1.0)
            return list(await asyncio.gather(*started, late))

    assert kinds(asyncio.run(all_at_once())) == ["done"] * 12 + ["timeout"]
    refused = segue("account", "switch", "c0", "b", "--carry")
    assert (refused.code, "never carried over to b" in refused.stderr) == (2, True)
