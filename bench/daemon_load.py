"""The daemon under load: many conversations at once, each followed by two subscribers.

The agents are pinned to one core, the daemon and its subscribers to the other. Each agent writes the time at
which it writes a fragment into that fragment. So the measured time is the whole way: from the agent's write,
over its stream file, the daemon and a TCP connection, to the subscriber's read.
"""

from __future__ import annotations

import http.client
import os
import re
import selectors
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

SEGUE = str(Path(sys.executable).with_name("segue"))
SUBSCRIBERS = 2
SECONDS = 10
RATE = 50
"""How many fragments a second each agent writes."""
LEAST_RATE = 0.95 * RATE
PIECES = SECONDS * RATE
PATIENCE_S, START_S = 60, 40
WIDTH = 20
AGENT = f"""
import os, sys, time
from segue.rehearsal.agent import __main__ as agent
place, plain = sys.argv.pop(1), agent._emit
def emit(record):
    if record["type"] == "session":
        open(f"{{place}}/{{os.getpid()}}", "x").close()
        while not os.path.exists(f"{{place}}/go"):
            time.sleep(0.05)
    if record["type"] == "delta":
        record["text"] = f"{{time.monotonic_ns():0{WIDTH}}}"
    plain(record)
agent._emit = emit
sys.exit(agent.main())
"""
"""The rehearsal agent. It begins when all have started. Each fragment is the time at which it is written."""


@dataclass
class Served:
    """A running daemon."""

    home: Path
    process: subprocess.Popen[bytes]
    port: int

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {(self.home / 'token').read_text().strip()}"}

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """One request; the answer, decoded."""
        data = None if body is None else msgspec.json.encode(body)
        headers = {**self.headers, "content-type": "application/json"}
        connection = self.connection()
        try:
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            told = answer.read()
        finally:
            connection.close()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {told.decode()[:300]}")
        return msgspec.json.decode(told) if told else None

    def submit(self, key: str, message: str, cwd: Path) -> str:
        """Queue a run; its id."""
        body = {"message": message, "agent": "rehearsal", "cwd": str(cwd)}
        return str(self.ask("POST", f"/api/v1/conversations/{key}/runs", body)["run"])

    def wait(self, run: str) -> None:
        """Until the run is settled."""
        connection = self.connection()
        connection.request("GET", f"/api/v1/runs/{run}/events", headers=self.headers)
        connection.getresponse().read()
        connection.close()

    def peak_bytes(self) -> int:
        """The most memory it ever had."""
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self.process.pid}/status").read_text())
        assert found is not None
        return int(found[1]) * 1024

    def cpu_s(self) -> float:
        """The CPU time it has used, all threads."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def served(env: Mapping[str, str], cwd: Path) -> Iterator[Served]:
    """A daemon in the foreground, ended at the end. ``env`` names its home."""
    process = subprocess.Popen(
        [SEGUE, "serve"],
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        said = process.stdout.readline().decode()
        listening = re.search(r"http://127\.0\.0\.1:(\d+)", said)
        if listening is None:
            raise RuntimeError(f"the daemon did not start: {said}")
        yield Served(Path(env["SEGUE_HOME"]), process, int(listening[1]))
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


@contextmanager
def pinned(core: int) -> Iterator[None]:
    """This process, and what it starts, on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@dataclass
class Subscriber:
    """One connection to the events of a run. What arrives is kept as it is, and read at the end."""

    run: str
    socket: socket.socket
    chunks: list[tuple[int, bytes]] = field(default_factory=list)


@dataclass(frozen=True)
class Received:
    """What one subscriber got. ``problem``: what was missing, doubled or out of order; empty: nothing."""

    delays_s: list[float]
    rate: float
    since: int
    """The number of the last change before it subscribed."""
    settled: list[int]
    problem: str


@dataclass(frozen=True)
class Load:
    """How one load was carried."""

    conversations: int
    p50_s: float
    p99_s: float
    worst_s: float
    rate: float
    """How many fragments a second an agent wrote, in the median."""
    slowest: float
    """The same of the slowest one."""
    memory: int
    problems: list[str]

    @property
    def held(self) -> bool:
        return not self.problems and self.p99_s < 0.100 and self.memory < 200e6 and self.in_time

    @property
    def in_time(self) -> bool:
        """Whether every agent could write as fast as it should: otherwise the load was smaller than said."""
        return self.slowest >= LEAST_RATE


def carry(folder: Path, env: Mapping[str, str], conversations: int) -> Load:
    """Run that many conversations at once, and follow them to their end."""
    agents, daemons = min(os.sched_getaffinity(0)), max(os.sched_getaffinity(0))
    if agents == daemons:
        raise RuntimeError("this measurement needs two cores")
    home, ready = folder / f"load-{conversations}", folder / f"ready-{conversations}"
    _configure(home, ready, agents)
    with pinned(daemons), served({**env, "SEGUE_HOME": str(home)}, folder) as daemon:
        message = f"[[slow {SECONDS} {PIECES}]][[say {'x' * PIECES}]]"
        runs = [daemon.submit(f"k{n}", message, folder) for n in range(conversations)]
        subscribers = [_subscribe(daemon, run) for run in runs for _ in range(SUBSCRIBERS)]
        starter = threading.Thread(target=_start_all, args=(ready, conversations))
        starter.start()
        _collect(subscribers)
        starter.join()
        memory = daemon.peak_bytes()
    return _summary(conversations, [received(each) for each in subscribers], memory)


def _configure(home: Path, ready: Path, core: int) -> None:
    """A home whose rehearsal agent writes times, on that core, once ``ready`` has the file ``go``."""
    home.mkdir(mode=0o700)
    ready.mkdir()
    script = home / "agent.py"
    script.write_text(AGENT)
    command = ["taskset", "-c", str(core), sys.executable, "-P", str(script), str(ready)]
    (home / "config.toml").write_text(
        f"[agents.rehearsal]\ncommand = {msgspec.json.encode(command).decode()}\n"
    )


def _start_all(ready: Path, count: int) -> None:
    """Let the agents begin when all of them have started, or after a while in any case."""
    until = time.monotonic() + START_S
    while len(os.listdir(ready)) < count and time.monotonic() < until:
        time.sleep(0.05)
    (ready / "go").touch()


def _summary(conversations: int, all_received: list[Received], memory: int) -> Load:
    delays = sorted(delay for each in all_received for delay in each.delays_s) or [float("inf")]
    problems = [each.problem for each in all_received if each.problem]
    pairs = zip(all_received[::SUBSCRIBERS], all_received[1::SUBSCRIBERS], strict=True)
    problems += ["two subscribers got different events" for one, other in pairs if not _alike(one, other)]
    return Load(
        conversations,
        delays[len(delays) // 2],
        delays[int(len(delays) * 0.99)],
        delays[-1],
        statistics.median(each.rate for each in all_received),
        min(each.rate for each in all_received),
        memory,
        problems,
    )


def _alike(one: Received, other: Received) -> bool:
    """Whether both got the same since both were there."""
    since = max(one.since, other.since)
    return [n for n in one.settled if n > since] == [n for n in other.settled if n > since]


def _subscribe(daemon: Served, run: str) -> Subscriber:
    """HTTP/1.0: what comes is not cut into chunks, and the connection ends with the stream."""
    made = socket.create_connection(("127.0.0.1", daemon.port), PATIENCE_S)
    named = {"host": f"127.0.0.1:{daemon.port}", **daemon.headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    made.sendall(f"GET /api/v1/runs/{run}/events HTTP/1.0\r\n{lines}\r\n".encode())
    return Subscriber(run, made)


def _collect(subscribers: list[Subscriber]) -> None:
    """Read from all until all have ended, with the time of each read."""
    with selectors.DefaultSelector() as selector:
        for each in subscribers:
            selector.register(each.socket, selectors.EVENT_READ, each)
        until = time.monotonic() + START_S + SECONDS * 2
        while selector.get_map() and time.monotonic() < until:
            for key, _ in selector.select(1):
                data = key.data.socket.recv(1 << 16)
                key.data.chunks.append((time.monotonic_ns(), data))
                if not data:
                    selector.unregister(key.data.socket)
    for each in subscribers:
        each.socket.close()


def received(subscriber: Subscriber) -> Received:
    """Read what arrived: the way of each fragment, and whether all came, once and in order."""
    written: list[int] = []
    delays: list[float] = []
    settled: list[int] = []
    since, length, problem, over = 0, 0, "", False
    for at, fields in _events(subscriber):
        kind, data = fields["event"], msgspec.json.decode(fields["data"])
        if kind == "hello":
            since = data["seq"]
            problem = problem or ("a gap" if data["status"] == "gap" else "")
        for each in data["running"] if kind == "hello" else [data] if kind == "delta" else []:
            if each["offset"] != length:
                problem = problem or f"a fragment at {each['offset']} after {length} characters"
            length = each["offset"] + len(each["text"])
        if kind == "delta":
            written.append(int(data["text"]))
            delays.append((at - written[-1]) / 1e9)
        elif kind != "hello":
            settled.append(int(fields["id"].rpartition(":")[2]))
            over = kind == "run" and data["run"]["turn"] is not None
    if length != PIECES * WIDTH:
        problem = problem or f"{length // WIDTH} of {PIECES} fragments came"
    if settled != sorted(set(settled)) or not over:
        problem = problem or "the settled events came twice, in the wrong order or not all"
    seconds = (written[-1] - written[0]) / 1e9 if len(written) > 1 else float("inf")
    return Received(delays, (len(written) - 1) / seconds, since, settled, problem)


def _events(subscriber: Subscriber) -> Iterator[tuple[int, dict[str, str]]]:
    """The fields of each event, with the time at which its end was read."""
    held, began = b"", False
    for at, chunk in subscriber.chunks:
        held += chunk
        if not began and b"\r\n\r\n" in held:
            held, began = held.partition(b"\r\n\r\n")[2], True
        *whole, held = held.split(b"\n\n") if began else (held,)
        for each in whole:
            if not each.startswith(b":"):
                yield at, dict(line.split(": ", 1) for line in each.decode().splitlines())
