"""Commands that change something: the daemon does it, and everything printed is the same as without it."""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from anyio.from_thread import start_blocking_portal

from segue.app import conversation_changes
from segue.config.home import Home, this_host
from segue.store.leases import alone, lease_name
from segue.store.store import open_store
from segue.system import sockets
from tests.integration.conftest import Program, Result
from tests.integration.server.conftest import WAIT_S, Daemon, finish, start
from tests.integration.server.test_questions import ASK, asked
from tests.integration.server.test_runs import finished, submit

ROUTE = "POST /api/v1/local/changes 200"
NOT_UTF8 = b"\xff".decode("utf-8", "surrogateescape")
RUN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-hjkmnp-tv-z]{26}\b")
FIRST = ("run", "k", "remember number 1", "--agent", "rehearsal", "--quiet")


class Step(NamedTuple):
    args: tuple[str, ...]
    stdin: bytes | None = None


def step(*args: str, stdin: bytes | None = None) -> Step:
    return Step(args, stdin)


class Pair:
    """The same in two homes, whose paths are equally long: one without a daemon, and one with."""

    def __init__(self, alone: Program, daemon: Daemon) -> None:
        self.alone, self.daemon = alone, daemon
        for program in (alone, daemon.segue):
            ran = program(*FIRST, SEGUE_DAEMON="off")
            assert ran.code == 0, ran.stderr

    def __call__(self, *args: str, stdin: bytes | None = None) -> Result:
        """Run it in both, and compare."""
        here = self.alone(*args, stdin=stdin)
        there = self.daemon.segue(*args, stdin=stdin)
        assert self.printed(there) == self.printed(here), args
        return there

    def printed(self, result: Result) -> tuple[int, str, str]:
        """Without what differs from home to home and from run to run."""

        def known(text: str) -> str:
            for program in (self.alone, self.daemon.segue):
                text = text.replace(str(program.cwd.parent), "PLACE")
            text = re.sub(r"\buntil \d\d:\d\d", "until TIME", RUN.sub("RUN", text))
            return re.sub(r"\bprocess \d+", "process 0", text)

        return result.code, known(result.stdout), known(result.stderr)

    def held(self) -> str:
        """What is in the conversations of both, which is the same."""
        keys = [each["key"] for each in msgspec.json.decode(self.alone("ls", "--json").stdout)]
        return "\n".join(self("log", key).stdout for key in sorted(keys))

    def changes(self) -> int:
        """How many changes the daemon made; it is ended for that."""
        self.daemon.end()
        return self.daemon.log().count(ROUTE)


def program_at(place: Path, like: Program) -> Program:
    place.mkdir()
    (place / "project").mkdir()
    env = {**like.env, "HOME": str(place), "SEGUE_HOME": str(place / "segue-home")}
    return Program(place / "segue-home", place / "project", env)


@pytest.fixture
def pair(segue: Program, tmp_path: Path) -> Iterator[Pair]:
    daemon = start(program_at(tmp_path / "there", segue))
    yield Pair(program_at(tmp_path / "alone", segue), daemon)
    finish(daemon.process)


def exported(text: str) -> bytes:
    message = {"from": "user", "text": text, "agent": "rehearsal"}
    return msgspec.json.encode({"schema": 1, "key": "taken", "messages": [message]})


SCRIPTS: dict[str, tuple[int, list[Step]]] = {
    "edit": (
        9,
        [
            step("edit", "k", "#1", "remember number 2"),
            step("edit", "k", "2", "Noted: 2.", "--cut"),
            step("edit", "k", "#1", "remember number 3", "--cut"),
            step("edit", "k", "#1", stdin=b"remember number 4\n"),
            step("edit", "k", "#99", "x"),
            step("edit", "k", "nonsense", "x"),
            step("edit", "nobody", "#1", "x"),
            step("edit", "bad key", "#1", "x"),
            step("edit", "k", "#1", "--", "--cut"),
            step("edit", "k", "#1", ""),
            step("edit", "k", "#1", stdin=b""),
            step("edit", "k", "#1", stdin=b"\xff"),
            step("edit", "k", "#1", NOT_UTF8),
            step("edit", NOT_UTF8, "#1", "x"),
            step("edit", "k", "#1", "x", "--json"),
            step("edit", "k"),
            step("edit", "k", "#1", "x", "--cut=yes"),
            step("edit", "--help"),
        ],
    ),
    "truncate and undo": (
        8,
        [
            step("undo", "k"),
            step("truncate", "k", "#2"),
            step("undo", "k"),
            step("truncate", "k", "#1"),
            step("truncate", "k", "#1"),
            step("undo", "k"),
            step("truncate", "nobody", "#1"),
            step("undo", "nobody"),
            step("undo"),
            step("undo", "k", "x"),
        ],
    ),
    "fork": (
        8,
        [
            step("fork", "k"),
            step("fork", "k", "other"),
            step("fork", "k", "other"),
            step("fork", "k", "third", "--at", "#1"),
            step("fork", "k", "fourth", "--at=#1"),
            step("fork", "k", "fifth", "--at", "#99"),
            step("fork", "nobody"),
            step("fork", "k", "bad key"),
            step("fork", "k", "--at"),
        ],
    ),
    "import": (
        4,
        [
            step("import", "-", stdin=b"{}"),
            step("import", "-", stdin=b"\xff\x00"),
            step("import", "-", "--key", "k", stdin=exported("hi")),
            step("import", "-", "--key", "bad key", stdin=exported("hi")),
            step("import", "no-such-file"),
            step("import", "."),
        ],
    ),
    "rm": (
        5,
        [
            step("fork", "k", "other"),
            step("rm", "k", "nobody"),
            step("rm", "nobody", "--yes"),
            step("rm", "bad key"),
            step("rm"),
            step("rm", "k", "k", "other", "-y"),
        ],
    ),
    "sessions": (
        4,
        [
            step("sessions", "restore", "nothing-like-it", "--json"),
            step("sessions", "repair", "nothing-like-it"),
            step("sessions", "restore", "k", "--json"),
            step("sessions", "prune", "--json"),
            step("sessions", "prune", "--yes"),
            step("sessions", "prune", "--yes", "--agent", "nobody", "--json"),
            step("sessions", "prune", "--days", "-1"),
        ],
    ),
    "runs": (
        5,
        [
            step("queue", "edit", "nobody", "x"),
            step("queue", "move", "nobody", "1"),
            step("queue", "rm", "nobody"),
            step("cancel", "nobody"),
            step("cancel", "k"),
            step("answer", "nobody", "x"),
        ],
    ),
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_output_and_what_comes_of_it_are_the_same(pair: Pair, script: str) -> None:
    expected, steps = SCRIPTS[script]
    for each in steps:
        pair(*each.args, stdin=each.stdin)
        pair.held()
    assert pair.changes() == expected


def test_an_export_is_taken_in(pair: Pair) -> None:
    given = pair.alone("export", "k", "--json").stdout.encode()
    for program in (pair.alone, pair.daemon.segue):
        (program.cwd / "export.json").write_bytes(given)
    assert pair("import", "export.json", "--key", "copy").stdout == "copy\n"
    assert pair("import", "export.json").code == 2
    assert pair("import", "-", "--key=again", stdin=given).stdout == "again\n"
    assert "remember number 1" in pair.held()
    assert pair.changes() == 3


def test_what_waits_is_changed(pair: Pair) -> None:
    runs = []
    for program in (pair.alone, pair.daemon.segue):
        told = [program("run", "k", f"later {n}", "--at", "+1h", "--json") for n in range(3)]
        assert [each.code for each in told] == [0] * 3, told
        runs.append([each.turn["run"] for each in told])
    for place, words in enumerate((("edit", "much later"), ("move", "1"), ("rm",))):
        name, *more = words
        here = pair.alone("queue", name, runs[0][place], *more)
        there = pair.daemon.segue("queue", name, runs[1][place], *more)
        assert pair.printed(there) == pair.printed(here)
        assert here.code == 0
    assert pair("queue").stdout.count("later") == 2
    assert pair("queue", "edit", "nobody", "").code == 2
    assert pair("cancel", "k").stderr.count("Cancelled") == 2
    assert pair("queue").stderr == "Nothing waits.\n"
    assert pair.changes() == 8


def test_sessions_are_restored_repaired_and_pruned(pair: Pair) -> None:
    def both(*args: str) -> Result:
        """``ID``: the session of each."""
        ran = [
            program(*(sessions[at] if arg == "ID" else arg for arg in args))
            for at, program in enumerate((pair.alone, pair.daemon.segue))
        ]
        here, there = ([code, *map(lines, said)] for code, *said in map(pair.printed, ran))
        assert there == here
        return ran[1]

    def lines(text: str) -> list[str]:
        """Sorted: sessions of the same time are listed by their ids."""
        return sorted(re.sub(r"\b[0-9a-f]{8}\b", "ID", text).splitlines())

    files = []
    for program in (pair.alone, pair.daemon.segue):
        files += list((program.cwd.parent / ".local/share/segue-rehearsal/sessions").glob("*.jsonl"))
    sessions = [file.stem for file in files]
    assert both("sessions", "repair", "ID").stderr.startswith("Nothing to repair")
    assert both("sessions", "repair", "ID", "--trim").code == 0
    assert both("sessions", "repair", "ID", "--since", "nothing", "--json").code == 2
    for file in files:
        file.unlink()
    assert both("sessions", "restore", "ID").stdout.startswith("Restored ")
    assert [file.exists() for file in files] == [True, True]
    assert both("rm", "k", "-y").code == 0
    other = "abcdef12-1111-4222-8333-444455556666"
    for file in files:
        file.with_name(f"{other}.jsonl").write_text(file.read_text().replace(file.stem, other))
    for file in (path for each in files for path in each.parent.glob("*.jsonl")):
        os.utime(file, (time.time() - 3_600,) * 2)
    prune = ("sessions", "prune", "--days", "0", "--all-sessions", "--yes")
    assert both(*prune).code == 2
    sessions = [program(*prune).stderr.split()[-1] for program in (pair.alone, pair.daemon.segue)]
    assert both(*prune, "--confirm", "ID").stdout.splitlines()[-1].startswith("3 sessions deleted")
    assert [file.exists() for file in files] == [False, False]
    assert pair.changes() == 6


def test_a_question_is_answered(daemon: Daemon) -> None:
    run = submit(daemon, "k", ASK, answers=True)["run"]
    asked(daemon, run)
    assert daemon.segue("answer", run, "--allow").code == 2
    given = daemon.segue("answer", run, "blue", "--json")
    assert (given.code, given.turn["run"]) == (0, run)
    assert finished(daemon, run)["state"] == "done"
    daemon.end()
    assert daemon.log().count(ROUTE) == 1


def test_a_broken_configuration_is_told_alike(pair: Pair) -> None:
    for program in (pair.alone, pair.daemon.segue):
        (program.cwd / "segue.toml").write_text('[accounts.x]\nagent = "claude"\n')
    mentioned = pair("edit", "k", "#1", "remember number 2")
    assert (mentioned.code, len(mentioned.stderr.splitlines())) == (0, 2)
    assert pair("cancel", "k").stderr.splitlines()[0] == mentioned.stderr.splitlines()[0]
    for program in (pair.alone, pair.daemon.segue):
        program.config("[defaults\n")
    assert pair("edit", "k", "#1", "remember number 3").code == 2
    assert pair("undo", "k", "--json").code == 2


@pytest.mark.parametrize("ran_by", ["itself", "the daemon"])
def test_a_busy_conversation_is_told_alike(pair: Pair, ran_by: str) -> None:
    programs = (pair.alone, pair.daemon.segue)
    more = ("--no-daemon",) if ran_by == "itself" else ()
    running = [program.start("run", "k", "[[hang]]", *more) for program in programs]
    for program in programs:
        until_running(program)
    for args in (("edit", "k", "#1", "x"), ("truncate", "k", "#1"), ("undo", "k"), ("rm", "k", "-y")):
        busy = pair(*args)
        assert (busy.code, "cannot be changed now" in busy.stderr) == (75, True), busy
    assert pair("fork", "k").stdout == "k~2\n"
    for process in running:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=WAIT_S)
    assert pair.changes() == 5


@pytest.mark.parametrize("by_daemon", [False, True])
def test_a_change_while_a_turn_runs_is_refused_at_once(pair: Pair, by_daemon: bool) -> None:
    """It does not wait for the end of the turn, and then drop what was answered."""
    program = pair.daemon.segue if by_daemon else pair.alone
    gate = program.cwd / "gate"
    held = f"[[shell until [ -e {gate} ]; do sleep 0.1; done]][[say paid]]"
    running = program.start("run", "k", held, "--permission", "full")
    until_running(program)

    def taken(*args: str) -> float:
        began = time.monotonic()
        assert program(*args, SEGUE_DAEMON="" if by_daemon else "off").code == (75 if args[0] != "log" else 0)
        return time.monotonic() - began

    for args in (
        ("edit", "k", "#1", "x"),
        ("edit", "k", "#1", "x", "--cut"),
        ("truncate", "k", "#1"),
        ("undo", "k"),
        ("rm", "k", "-y"),
        ("account", "switch", "k", "none"),
    ):
        longer = (taken(*args) - taken("log", "k") for _ in range(5))
        assert any(each < conversation_changes.WAIT_S / 2 for each in longer), args
    gate.touch()
    running.communicate(timeout=WAIT_S)
    assert program("last", "k").stdout == "paid\n"
    assert program("truncate", "k", "#3").code == 0, "when it is over"


def until_running(program: Program) -> None:
    for _ in range(600):
        log = msgspec.json.decode(program("log", "k", "--json").stdout)
        if log[-1]["state"] == "running":
            return
        time.sleep(0.05)
    raise AssertionError("it never began")


@pytest.mark.parametrize(
    "args",
    [
        ("edit", "k", "#1", "remember number 2"),
        ("truncate", "k", "#2"),
        ("undo", "k"),
        ("fork", "k", "other"),
        ("rm", "k", "-y"),
    ],
)
def test_the_command_loads_neither_the_store_nor_much_else(daemon: Daemon, args: tuple[str, ...]) -> None:
    daemon.segue(*FIRST)
    daemon.segue("edit", "k", "#1", "remember number 0")
    done = daemon.segue(*args, PYTHONPROFILEIMPORTTIME="1")
    lines = done.stderr.splitlines()
    loaded = [line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")]
    assert done.code == 0, done.stderr
    assert "segue.client" in loaded
    assert not {"sqlite3", "_sqlite3", "asyncio", "msgspec", "click", "pathlib", "segue.app"} & set(loaded)
    assert len([name for name in loaded if name.split(".")[0] == "segue"]) <= 25
    daemon.end()
    assert daemon.log().count(ROUTE) == 2


def other_protocol(daemon: Daemon) -> dict[str, str]:
    file = daemon.home / "daemon.json"
    file.write_text(file.read_text().replace('"protocol":1', '"protocol":99'))
    return {}


def killed(daemon: Daemon) -> dict[str, str]:
    daemon.end(signal.SIGKILL)
    return {}


def turned_off(daemon: Daemon) -> dict[str, str]:
    return {"SEGUE_DAEMON": "off"}


@pytest.mark.parametrize(
    ("away", "notice"), [(other_protocol, "another protocol"), (killed, ""), (turned_off, "")]
)
def test_without_a_daemon_that_can_be_used_the_command_does_it(
    daemon: Daemon, away: Callable[[Daemon], dict[str, str]], notice: str
) -> None:
    daemon.segue(*FIRST)
    env = away(daemon)
    edited = daemon.segue("edit", "k", "#1", "remember number 2", more=env)
    assert (edited.code, edited.stdout) == (0, "")
    lines = edited.stderr.splitlines()
    assert lines[-1].startswith("Changed #1.")
    assert [notice in line for line in lines[:-1]] == ([True] if notice else [])
    assert all(line.endswith("; running this without it") for line in lines[:-1])
    assert "remember number 2" in daemon.segue("log", "k", more=env).stdout
    queued = daemon.segue("run", "k", "later", "--at", "+1h", more=env)
    assert (queued.code, notice in queued.stderr) == (0, True)
    assert daemon.segue("cancel", "k", more=env).code == 0
    if daemon.process.poll() is None:
        daemon.end()
    assert ROUTE not in daemon.log()


def test_a_daemon_of_another_store_is_not_used(daemon: Daemon) -> None:
    ran = daemon.segue("undo", "k", SEGUE_STORE_URL="postgresql://nobody@127.0.0.1:9/none")
    assert ran.stderr.splitlines()[0] == "segue: the daemon uses another store; running this without it"
    assert ran.code == 75


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\nconnection: close\r\n\r\n"


class Impostor:
    """A daemon that answers every call with these bytes, and hangs up."""

    def __init__(self, daemon: Daemon, answer: bytes, reads: bool = True) -> None:
        told: dict[str, Any] = msgspec.json.decode((daemon.home / "daemon.json").read_bytes())
        daemon.end(signal.SIGKILL)
        (daemon.home / "daemon.sock").unlink()
        self._listening = sockets.listen(daemon.home / "daemon.sock")
        self._listening.setblocking(True)
        (daemon.home / "daemon.json").write_bytes(msgspec.json.encode({**told, "pid": os.getpid()}))
        self._answer, self._reads, self.calls = answer, reads, 0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connected, _ = self._listening.accept()
            except OSError:
                return
            with connected:
                self.calls += 1
                if self._reads:
                    _read_request(connected)
                    connected.sendall(self._answer)

    def end(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(WAIT_S)


def _read_request(connected: socket.socket) -> None:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connected.recv(65_536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(re.findall(rb"(?i)content-length: (\d+)", head)[0])
    while len(body) < length:
        body += connected.recv(65_536)


@pytest.mark.parametrize(
    ("answer", "reads"),
    [
        (b"", False),
        (b"", True),
        (HEAD, True),
        (HEAD + b'{"frame":"be', True),
        (b"HTTP/1.1 404 Not Found\r\n\r\n{}", True),
    ],
)
def test_a_daemon_that_dies_before_it_begins_is_done_without(
    daemon: Daemon, answer: bytes, reads: bool
) -> None:
    daemon.segue(*FIRST)
    dying = Impostor(daemon, answer, reads)
    try:
        edited = daemon.segue("edit", "k", "#1", "remember number 2")
        assert (edited.code, edited.stderr.startswith("Changed #1.")) == (0, True), edited
        assert dying.calls == 1
    finally:
        dying.end()
    assert "remember number 2" in daemon.segue("log", "k").stdout


def test_a_daemon_that_dies_in_the_middle_is_told_and_nothing_is_done_twice(daemon: Daemon) -> None:
    daemon.segue(*FIRST)
    dying = Impostor(daemon, HEAD + b'{"frame":"begun"}\n')
    try:
        edited = daemon.segue("edit", "k", "#1", "remember number 2")
        assert (edited.code, edited.stdout) == (75, "")
        (line,) = edited.stderr.splitlines()
        assert line.startswith("segue: the daemon ended before it answered")
        told = daemon.segue("sessions", "restore", "k", "--json")
        assert (told.code, msgspec.json.decode(told.stdout)["error"]["code"]) == (75, "daemon_unavailable")
    finally:
        dying.end()
    assert "remember number 2" not in daemon.segue("log", "k").stdout


def test_a_daemon_that_is_stopped_does_nothing_later(daemon: Daemon) -> None:
    daemon.segue(*FIRST)
    os.kill(daemon.process.pid, signal.SIGSTOP)
    edited = daemon.segue("edit", "k", "#1", "remember number 2")
    os.kill(daemon.process.pid, signal.SIGCONT)
    told = f"segue: the daemon (pid {daemon.process.pid}) does not answer; try again after segue stop, or do"
    assert (edited.code, edited.stdout, edited.stderr) == (
        75,
        "",
        f"{told} without it: SEGUE_DAEMON=off\n",
    )
    assert daemon.ask("GET", "/api/v1/health").status == 200
    time.sleep(0.5)
    assert "remember number 2" not in daemon.segue("log", "k").stdout


@contextmanager
def held(daemon: Daemon) -> Iterator[None]:
    """A process still holds the conversation ``k``, although no turn of it runs."""
    home = Home(daemon.segue.home)
    with open_store(None, home.root / "segue.db") as store, start_blocking_portal() as portal:
        conversation = store.conversation("k")
        assert conversation is not None
        name = lease_name(conversation.id)
        lease = alone(store, name, host=this_host(None, home), locks=home.locks)
        with portal.wrap_async_context_manager(lease):
            yield


def test_ctrl_c_ends_a_change_that_waits(daemon: Daemon) -> None:
    daemon.segue(*FIRST)
    with held(daemon):
        edit = daemon.segue.start("edit", "k", "#1", "remember number 2")
        time.sleep(1)
        edit.send_signal(signal.SIGINT)
        out, err = edit.communicate(timeout=WAIT_S)
        assert (edit.returncode, out, err) == (130, b"", b"segue: cancelled\n")
    time.sleep(2.5)  # longer than a change waits
    assert "remember number 2" not in daemon.segue("log", "k").stdout


def test_a_command_that_is_killed_ends_a_change_that_waits(daemon: Daemon) -> None:
    daemon.segue(*FIRST)
    with held(daemon):
        edit = daemon.segue.start("edit", "k", "#1", "remember number 2")
        time.sleep(1)
        edit.kill()
        edit.communicate(timeout=WAIT_S)
    time.sleep(2.5)
    assert "remember number 2" not in daemon.segue("log", "k").stdout
