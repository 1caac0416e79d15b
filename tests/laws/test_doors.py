"""Every door has a row, every run says by which door it came, and nothing goes round the gate."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue import RunOrder, Segue
from segue.core.laws import STARTS_NO_AGENT, Door
from tests.integration.server.conftest import Daemon, finish, start
from tests.laws.doors import IMPOSSIBLE, LAWS, ROWS, settled
from tests.laws.stage import Stage

SOURCE = Path(__file__).parents[2] / "src" / "segue"
Staged = Callable[..., Stage]


# --- the table ---


def test_every_door_has_a_row() -> None:
    assert set(ROWS) == set(Door), "a new door needs a row in tests/laws/doors.py"


def test_what_is_impossible_has_a_reason() -> None:
    for (law, door), reason in IMPOSSIBLE.items():
        assert law in LAWS, law
        assert door in ROWS, door
        assert len(reason.split()) > 3, (law, door)


def test_every_law_is_tested_at_every_door_where_it_can_be_broken() -> None:
    """Each law's test takes its doors from one function."""
    tests = {file.stem.removeprefix("test_") for file in Path(__file__).parent.glob("test_*.py")}
    assert tests >= {law.replace(" ", "_") for law in LAWS}
    for law in LAWS:
        file = Path(__file__).parent / f"test_{law.replace(' ', '_')}.py"
        assert f'doors("{law}")' in file.read_text(), file.name


@pytest.mark.parametrize("door", [each for each in Door if each not in STARTS_NO_AGENT])
def test_a_run_says_by_which_door_it_came(staged: Staged, door: Door) -> None:
    stage = staged(new="b" if door in (Door.FAILOVER, Door.SUMMARY) else "a")
    if door is Door.FAILOVER:
        stage.config('[limits]\non_limit = "switch"\norder = "listed"\n')
    row = ROWS[door]

    async def work(library: Segue) -> list[str]:
        await row.before(stage, library, "k")
        before = stage.states(door.value)
        await row.through(stage, library, "k")
        return before

    before = stage.play_out(work)
    if door is Door.SUMMARY:  # its conversation is removed again
        sums = stage.rows("SELECT COUNT(*) FROM deleted_costs")
        assert sums == [(1,)]
        return
    came = stage.states(door.value)
    assert len(came) > len(before), f"no run says {door.value!r}"
    assert set(came) == {"done"}


@pytest.mark.parametrize("door", STARTS_NO_AGENT)
def test_a_door_that_starts_no_agent_starts_none(staged: Staged, door: Door) -> None:
    stage = staged()
    if door is Door.HAND_OFF:
        assert ("budget", door) in IMPOSSIBLE, "the tier that it is for has its own row"
        return
    row = ROWS[door]

    async def work(library: Segue) -> int:
        await row.before(stage, library, "k")
        count = len(stage.starts)
        await row.through(stage, library, "k")
        return count

    assert stage.play_out(work) == len(stage.starts)
    assert stage.states(door.value) == []


# --- the faces ---


def _segue(stage: Stage, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "segue", *words],
        cwd=stage.cwd,
        env=stage.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (words, done.stdout, done.stderr)


COMMANDS: list[tuple[Door, tuple[str, ...]]] = [
    (Door.RUN, ("run", "k", "hello")),
    (Door.RETRY, ("retry", "k")),
    (Door.ADOPT, ("run", "new", "hello", "--adopt", "rehearsal:{session}")),
    (Door.CONTINUE, ("sessions", "continue", "{session}", "hello", "--key", "new")),
]


@pytest.mark.parametrize(("door", "words"), COMMANDS, ids=lambda each: getattr(each, "value", None))
def test_a_command_names_its_door(staged: Staged, door: Door, words: tuple[str, ...]) -> None:
    stage = staged()
    session = stage.outside("a", "remember word outside")
    if door is Door.RETRY:
        _segue(stage, "run", "k", "hello", "--no-daemon")
    _segue(stage, *(each.format(session=session) for each in words), "--no-daemon")
    assert stage.states(door.value) == ["done"]


def test_the_command_that_queues_names_its_door(staged: Staged) -> None:
    stage = staged()
    _segue(stage, "run", "k", "hello", "--queue", "--no-daemon")
    _segue(stage, "queue", "run", "k")
    assert stage.states(Door.QUEUE.value) == ["done"]


def test_the_commands_of_flows_name_their_doors(staged: Staged) -> None:
    from tests.laws.doors import REVIEW, write_escalation

    stage = staged()
    stage.play(*REVIEW)
    tree = stage.tree("k")
    (tree / "TASK.md").write_text("Build it\n")
    (tree / "segue.toml").touch()
    write_escalation(stage, "k")
    roles = ("--coder", "rehearsal", "--reviewer", "rehearsal", "--rounds", "1", "--cwd", str(tree))
    _segue(stage, "trust", str(tree))
    _segue(stage, "review", str(tree / "TASK.md"), *roles)
    _segue(stage, "review", str(tree / "TASK.md"), *roles, "--compare")
    _segue(stage, "escalate", str(tree / "FLOW.toml"), "--cwd", str(tree))
    for door, runs in ((Door.REVIEW, 2), (Door.COMPARE, 4), (Door.ESCALATE, 2)):
        assert stage.states(door.value) == ["done"] * runs, door


LIBRARY: list[tuple[Door, Callable[[Segue, str], Any]]] = [
    (Door.RUN, lambda library, _: library.run("k", "hello")),
    (Door.CONTINUE, lambda library, session: library.sessions.continue_(session, "hello", key="new")),
    (Door.ADOPT, lambda library, session: library.run("new", "hello", adopt=f"rehearsal:{session}")),
]


@pytest.mark.parametrize(("door", "call"), LIBRARY, ids=lambda each: getattr(each, "value", None))
def test_a_call_of_the_library_names_its_door(
    staged: Staged, door: Door, call: Callable[[Segue, str], Any]
) -> None:
    """The other doors of the library are those of the matrix itself."""
    stage = staged()
    session = stage.outside("a", "remember word outside")

    async def work(library: Segue) -> None:
        await call(library, session)

    stage.play_out(work)
    assert stage.states(door.value) == ["done"]


@pytest.fixture
def daemon(staged: Staged) -> Iterator[tuple[Stage, Daemon]]:
    from tests.integration.conftest import Program

    stage = staged()
    running = start(Program(stage.home, stage.cwd, stage.env))
    yield stage, running
    finish(running.process)


def test_a_request_names_its_door(daemon: tuple[Stage, Daemon]) -> None:
    """The page speaks to the daemon by the same requests."""
    stage, running = daemon
    session = stage.outside("a", "remember word outside")
    first = running.ask("POST", "/api/v1/conversations/k/runs", {"message": "hello"}).json["run"]
    _ended(running, first)
    again = {"retry_of": first}
    continued = f"/api/v1/sessions/rehearsal/{session}/continue"
    runs = {
        Door.QUEUE: first,
        Door.RETRY: running.ask("POST", "/api/v1/conversations/k/runs", again).json["run"],
        Door.CONTINUE: running.ask("POST", continued, {"message": "hello"}).json["run"],
    }
    for door, run in runs.items():
        _ended(running, run)
        assert stage.rows("SELECT door FROM turns WHERE id = ?", run) == [(door.value,)]


def _ended(running: Daemon, run: str) -> None:
    import time

    until = time.monotonic() + 60
    while running.ask("GET", f"/api/v1/runs/{run}").json["state"] in ("queued", "running"):
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_run_through_the_daemon_names_its_door(daemon: tuple[Stage, Daemon]) -> None:
    stage, _ = daemon
    session = stage.outside("a", "remember word outside")
    _segue(stage, "run", "k", "hello")
    _segue(stage, "retry", "k")
    _segue(stage, "sessions", "continue", session, "hello", "--key", "new")
    rows = stage.rows("SELECT door, told FROM turns ORDER BY id")
    assert {msgspec.json.decode(told)["transport"] for _, told in rows} == {"daemon"}
    doors = [(door,) for door, _ in rows]
    assert doors == [(each.value,) for each in (Door.RUN, Door.RETRY, Door.CONTINUE)]


def test_a_queued_order_names_its_door(staged: Staged) -> None:
    stage = staged()

    async def work(library: Segue) -> None:
        await settled(library, (await library.runs.submit("k", RunOrder(message="hello"))).run)

    stage.play_out(work)
    assert stage.states(Door.QUEUE.value) == ["done"]


# --- nothing goes round the gate ---


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for file in sorted(SOURCE.rglob("*.py")):
        yield file.relative_to(SOURCE).as_posix(), ast.parse(file.read_text())


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _name(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _imports(tree: ast.Module, module: str, name: str) -> set[str]:
    """The names under which a module has this function of another one; empty: it does not import it."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == module:
            found |= {each.asname or each.name for each in node.names if each.name == name}
        if isinstance(node, ast.ImportFrom) and node.module == module.rpartition(".")[0]:
            tail = module.rpartition(".")[2]
            found |= {f"{each.asname or each.name}.{name}" for each in node.names if each.name == tail}
    return found


def _function(path: str, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef:
    tree = ast.parse((SOURCE / path).read_text())
    (found,) = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
    )
    return found


def _takes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, str]:
    """Its parameters, each with its type."""
    given = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    return {each.arg: ast.unparse(each.annotation) if each.annotation else "" for each in given}


def test_only_the_gate_makes_an_admission() -> None:
    makers = {path for path, tree in _modules() for call in _calls(tree) if _name(call) == "Admission"}
    assert makers == {"turns/gate.py"}
    gate = ast.parse((SOURCE / "turns/gate.py").read_text())
    assert sum(_name(call) == "Admission" for call in _calls(gate)) == 1
    changed = {
        path
        for path, tree in _modules()
        for call in _calls(tree)
        if _name(call) == "replace" and call.args and "admission" in ast.unparse(call.args[0]).split(".")[-1:]
    }
    assert changed == set(), "an admission is not changed afterwards"


@pytest.mark.parametrize(
    ("path", "name"),
    [("turns/attempts.py", "compose"), ("turns/attempts.py", "launch")],
)
def test_composing_and_launching_take_an_admission(path: str, name: str) -> None:
    assert "Admission" in _takes(_function(path, name)).values()


@pytest.mark.parametrize(("path", "name"), [("turns/composer.py", "Composer"), ("turns/plan.py", "Planner")])
def test_composers_take_an_admission(path: str, name: str) -> None:
    tree = ast.parse((SOURCE / path).read_text())
    (made,) = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name)
    (init,) = (each for each in made.body if isinstance(each, ast.FunctionDef) and each.name == "__init__")
    assert "Admission" in _takes(init).values()


def test_only_two_places_run_an_attempt() -> None:
    """A turn, and a rehearsal of a session against the loopback model, which gets a fixed text."""
    callers = {path for path, tree in _modules() if _imports(tree, "segue.runner.attempt", "attempt")}
    assert callers == {"turns/attempts.py", "sessions/resume_rehearsal.py"}
    starters = {path for path, tree in _modules() if _imports(tree, "segue.runner.launch", "launch")}
    assert starters == {"runner/attempt.py"}


# --- what is said about it ---

GUARANTEES = Path(__file__).parents[2] / "docs" / "guarantees.md"


def test_each_test_that_the_guarantees_name_exists() -> None:
    text = " ".join(GUARANTEES.read_text().split())
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
    assert len(named) > len(LAWS)
    for path, name in named:
        file = GUARANTEES.parents[1] / path
        assert file.exists(), path
        assert re.search(rf"^(async )?def {name}\(", file.read_text(), re.M), f"{path}::{name}"


def test_each_law_stands_in_the_guarantees() -> None:
    """With the name of its own test, and with what it does not promise."""
    laws, _, limits = GUARANTEES.read_text().partition("## What is not guaranteed")
    for law in LAWS:
        name = "never twice" if law == "never lost" else law
        assert f"**{name.capitalize()}" in laws, law
        assert f"tests/laws/test_{law.replace(' ', '_')}.py::" in laws, law
        assert f"**{name.capitalize()}**" in limits, law


STARTERS = {
    "agents/probe.py": "probing",
    "runner/inquiry.py": "asking for limits",
    "sessions/resume_rehearsal.py": "rehearsing against the loopback model",
}
"""What starts an agent without a user's words. Prewarming is not built."""


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("agents/probe.py", "probe"),
        ("runner/inquiry.py", "inquire"),
        ("sessions/resume_rehearsal.py", "rehearse"),
    ],
)
def test_what_starts_an_agent_beside_the_gate_takes_no_text(path: str, name: str) -> None:
    """Nobody can send words with it: no prompt, message, text or order is among what it takes."""
    assert path in STARTERS
    takes = _takes(_function(path, name))
    assert not {"text", "prompt", "message", "ask", "request", "words"} & set(takes), takes
    assert not [kind for kind in takes.values() if "Request" in kind or "Order" in kind], takes


OTHER_PROGRAMS = {
    "app/doctor.py": "looks whether a program starts",
    "cli/daemon_start.py": "a daemon of Segue",
    "cli/rehearse.py": "the command of a rehearsal, against the loopback model",
    "flows/commands.py": "a check, which the user or a trusted file names",
    "sessions/brief_workers.py": "a helper of Segue that reads sessions",
    "system/git.py": "git",
    "system/pipes.py": "a helper of Segue that keeps a pipe open",
    "system/processes.py": "ps",
}
"""Programs that are no agents."""
STARTS = ("Popen", "open_process", "run_process", "create_subprocess_exec", "execvp", "execve")


def test_nothing_else_starts_a_program() -> None:
    known = {"runner/launch.py", "runner/child.py", *STARTERS, *OTHER_PROGRAMS}
    found = {
        path
        for path, tree in _modules()
        if not path.startswith(("rehearsal/", "testing/"))
        for call in _calls(tree)
        if _name(call) in STARTS or ast.unparse(call.func) == "subprocess.run"
    }
    assert found <= known, found - known
