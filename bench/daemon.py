"""The daemon: what it adds to a turn, how fast it starts and answers, what it costs when idle, and its load.

How the load is made and what is measured there is in ``daemon_load.py``.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from tests import isolation
from tests.clis import CLIS, install
from tests.live.harness import clean_environment

from bench.daemon_load import LEAST_RATE, RATE, SEGUE, SUBSCRIBERS, Load, Served, carry, served
from bench.measure import Row, alternating, compile_bytecode, run
from bench.turn import AGENTS, PROMPT
from segue.agents import registry
from segue.core.request import ModelAddress
from segue.rehearsal.server import LoopbackModel
from segue.rehearsal.stage import stage

ROUNDS = 10
IDLE_S = 60
MESSAGES, PAGE = 10_000, 100
CONVERSATIONS, MESSAGES_EACH = 100, 20
MISSED = 10_000
THOUGHTS = 500
"""How many settled events one run has that makes many."""
AT_ONCE = 20
MOST = (40, 60, 80, 100)
"""The loads that are tried after the one with a goal, until one is not held."""


def measure() -> list[Row]:
    obstacle = isolation.enter()
    if obstacle:
        raise RuntimeError(f"no isolation: {obstacle}")
    compile_bytecode()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = clean_environment(folder)
        rows = [*_turn(folder / "turn"), *_start(folder, env), *_idle(folder, env)]
        rows += _reading(folder, env)
        rows += _load(folder, env)
    return rows


def _turn(folder: Path) -> list[Row]:
    """A resumed turn on the real Claude, from the shell through the daemon, beside the bare CLI: as a program
    calls it, and as somebody types it."""
    cli = CLIS["claude"]
    if reason := install(cli, cli.newest):
        raise RuntimeError(reason)
    place, work = folder / "stage", folder / "project"
    work.mkdir(parents=True)
    claude = [str(cli.program(cli.newest)), "-p", "--output-format", "stream-json", "--verbose"]
    with LoopbackModel() as model:
        address = ModelAddress(model.url, model.key)
        env = {**clean_environment(place), **stage(address, place, AGENTS, registry.variables()).env}
        env["PATH"] = f"{cli.program(cli.newest).parent}:{env['PATH']}"
        env.setdefault("SEGUE_HOME", str(place / "segue"))

        def bare(*more: str) -> bytes:
            return run([*claude, *more, PROMPT], env, work)

        def ours() -> bytes:
            return run([SEGUE, "run", "k", PROMPT, "--agent", "claude", "--json", "--quiet"], env, work)

        def plain() -> bytes:
            return run([SEGUE, "run", "k", PROMPT], env, work)

        with served(env, work) as daemon:
            ours()
            session = json.loads(bare().splitlines()[-1])["session_id"]
            *medians, alone = alternating(ROUNDS, ours, plain, lambda: bare("--resume", session))
            turns = daemon.ask("GET", "/api/v1/conversations/k/log")
    if [each["mode"] for each in turns[3::2]] != ["resume"] * 2 * (ROUNDS + 1):
        raise RuntimeError("a turn was not resumed")
    return [
        Row(
            f"{command} through the daemon, resumed / claude -p --resume",
            f"{median / alone:.2f} × ({median * 1000:.0f} ms / {alone * 1000:.0f} ms)",
            "≤ 1.15 ×",
            median <= 1.15 * alone,
        )
        for command, median in zip(("segue run --json --quiet", "segue run"), medians, strict=True)
    ]


def _start(folder: Path, env: Mapping[str, str]) -> list[Row]:
    """From starting the program to its first answer over HTTP: on a home that was used before, and on one
    with many conversations."""
    small, large = ({**env, "SEGUE_HOME": str(folder / name)} for name in ("start", "start-large"))
    with served(large, folder) as daemon:
        for n in range(CONVERSATIONS):
            export = {"schema": 1, "key": f"k{n}", "messages": _said(MESSAGES_EACH)}
            daemon.ask("POST", "/api/v1/conversations/import", {"export": export})
    return [
        _started("start to first answer", small, folder),
        _started(f"start to first answer, with {CONVERSATIONS} conversations", large, folder),
    ]


def _started(what: str, home: Mapping[str, str], folder: Path) -> Row:
    taken = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        with served(home, folder) as daemon:
            daemon.ask("GET", "/api/v1/conversations")
            taken.append(time.perf_counter() - began)
    median = statistics.median(taken[1:])
    seen = f"{median * 1000:.0f} ms (the very first one {taken[0] * 1000:.0f} ms)"
    return Row(what, seen, "< 400 ms", median < 0.400)


def _idle(folder: Path, env: Mapping[str, str]) -> list[Row]:
    """Two daemons side by side, each after a turn: one that nobody watches, and one with a subscriber."""
    homes = [{**env, "SEGUE_HOME": str(folder / f"idle-{n}")} for n in range(2)]
    with served(homes[0], folder) as alone, served(homes[1], folder) as watched:
        for daemon in (alone, watched):
            daemon.wait(daemon.submit("k", PROMPT, folder))
        with _subscribed(watched):
            before = [daemon.cpu_s() for daemon in (alone, watched)]
            time.sleep(IDLE_S)
            used = [daemon.cpu_s() - since for daemon, since in zip((alone, watched), before, strict=True)]
    names = ("CPU when idle, 60 s", "CPU when idle, with a subscriber to all events")
    shares = [seconds / IDLE_S for seconds in used]
    return [
        Row(name, f"{share:.2%}", "< 0.5 %", share < 0.005) for name, share in zip(names, shares, strict=True)
    ]


@contextmanager
def _subscribed(daemon: Served, after: str | None = None) -> Iterator[Iterator[dict[str, Any]]]:
    """The events of all conversations, as they come, each with its ``id`` if it has one."""
    connection = daemon.connection()
    named = {"last-event-id": after} if after is not None else {}
    connection.request("GET", "/api/v1/events", headers={**daemon.headers, **named})
    answer = connection.getresponse()

    def events() -> Iterator[dict[str, Any]]:
        id_ = ""
        for line in answer:
            if line.startswith(b"id: "):
                id_ = line[4:].decode().strip()
            elif line.startswith(b"data: "):
                yield {"id": id_, **msgspec.json.decode(line[6:])}

    try:
        yield events()
    finally:
        answer.close()
        connection.close()


def _reading(folder: Path, env: Mapping[str, str]) -> list[Row]:
    with served({**env, "SEGUE_HOME": str(folder / "reading")}, folder) as daemon:
        return [_missed(daemon, folder), _pages(daemon, folder)]


def _pages(daemon: Served, folder: Path) -> Row:
    """All pages of a long conversation, twice, over one connection. It was imported, then continued."""
    export = {"schema": 1, "key": "long", "messages": _said(MESSAGES - 2)}
    daemon.ask("POST", "/api/v1/conversations/import", {"export": export})
    daemon.wait(daemon.submit("long", PROMPT, folder))
    connection = daemon.connection()
    times: list[float] = []
    for _ in range(2):
        before, more = "", True
        while more:
            began = time.perf_counter()
            path = f"/api/v1/conversations/long/messages?limit={PAGE}{before}"
            connection.request("GET", path, headers=daemon.headers)
            page = msgspec.json.decode(connection.getresponse().read())
            times.append(time.perf_counter() - began)
            before, more = f"&before={page['first_id']}", page["has_more"]
    connection.close()
    if len(times) != 2 * MESSAGES // PAGE:
        raise RuntimeError(f"{len(times)} pages were read")
    p95 = sorted(times)[int(len(times) * 0.95)]
    seen = f"{p95 * 1000:.1f} ms (median {statistics.median(times) * 1000:.1f} ms)"
    return Row("a page of 100 messages out of 10,000 over HTTP, p95", seen, "< 20 ms", p95 < 0.020)


def _said(count: int) -> list[dict[str, str]]:
    """Messages for an import."""
    sides = ("user", "assistant")
    return [
        {"from": sides[n % 2], "text": f"message {n}: " + "some words " * 30, "agent": "rehearsal"}
        for n in range(count)
    ]


def _missed(daemon: Served, folder: Path) -> Row:
    """Everything that happened in runs with many events, read again from a point before them."""
    with _subscribed(daemon) as events:
        hello = next(events)
    after = f"{hello['feed']}:{hello['seq']}"
    message = "".join(f"[[think number {n}]]" for n in range(THOUGHTS)) + "[[say done]]"
    runs = [daemon.submit(f"m{n}", message, folder) for n in range(MISSED // THOUGHTS)]
    for each in runs:
        daemon.wait(each)
    with _subscribed(daemon) as events:
        newest = next(events)["seq"]
    began = time.perf_counter()
    count = 0
    with _subscribed(daemon, after) as events:
        if next(events)["status"] != "ok":
            raise RuntimeError("the missed events cannot be read any more")
        for event in events:
            count += 1
            if int(event["id"].rpartition(":")[2]) >= newest:
                break
    taken = time.perf_counter() - began
    if count < MISSED:
        raise RuntimeError(f"only {count} events came")
    seen = f"{taken * 1000:.0f} ms ({count:,} events)"
    return Row("reconnecting after 10,000 missed events", seen, "< 1 s", taken < 1)


def _load(folder: Path, env: Mapping[str, str]) -> list[Row]:
    load = carry(folder, env, AT_ONCE)
    best = load if load.held else None
    failed: Load | None = None
    for number in MOST if best is not None else ():
        tried = carry(folder, env, number)
        if not tried.held:
            failed = tried
            break
        best = tried
    what = f"{AT_ONCE} conversations, {RATE} events a second, {SUBSCRIBERS} subscribers each"
    order = "all, in order" if not load.problems else f"{len(load.problems)} × {load.problems[0]}"
    return [
        Row(f"{what}: events", order, "all, in order", not load.problems),
        Row(f"{what}: agent's write to subscriber, p99", _times(load), "< 100 ms", load.p99_s < 0.100),
        Row(
            f"{what}: the slowest agent",
            f"{load.slowest:.0f} a second",
            f"≥ {LEAST_RATE:.0f} a second",
            load.in_time,
        ),
        Row(f"{what}: memory", f"{load.memory / 1e6:.0f} MB", "< 200 MB", load.memory < 200e6),
        Row("the most conversations at once that it holds", _most(best, failed), "reported", True),
    ]


def _times(load: Load) -> str:
    p50, p99, worst = (f"{each * 1000:.0f} ms" for each in (load.p50_s, load.p99_s, load.worst_s))
    return f"{p99} (median {p50}, worst {worst}, {load.rate:.0f} a second, at least {load.slowest:.0f})"


def _most(best: Load | None, failed: Load | None) -> str:
    if best is None:
        return f"fewer than {AT_ONCE}"
    held = f"{best.conversations}: {_times(best)}, {best.memory / 1e6:.0f} MB"
    if failed is None:
        return f"{held}; more were not tried"
    why = failed.problems[0] if failed.problems else _times(failed)
    return f"{held}; {failed.conversations}: {why}"
