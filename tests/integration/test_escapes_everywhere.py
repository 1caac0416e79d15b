"""Escapes wherever they can be put, every command on a real terminal: nothing is obeyed, whoever wrote it.

The names of directories and files, the environment, both configurations, what a declared agent prints, the
sessions of the agents, the rows of a store that others may write to, and the caller's own arguments.
"""

from __future__ import annotations

import os
import re
import sqlite3
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.cli.commands import COMMANDS
from segue.cli.sessions import TABLE
from segue.core.model import Owner
from tests.database import database
from tests.integration.conftest import Program
from tests.integration.terminals import bytes_on_terminal
from tests.integration.test_escapes import EVIL, IN_TOML, obeyed

BYTES = os.fsdecode(b"\x9b2J\x9d0;t\x9c\xff")
"""The same for a terminal that takes single bytes; no UTF-8, as a name of a file may be."""
PLAIN = "turned"
"""A part of it that is harmless: it shows that the rest was there to be left out."""
SPEAKS = f"""
import json, sys
evil = {EVIL!r}
sys.stdin.read()
sys.stderr.write(evil + "\\n")
def say(**record): print(json.dumps(record))
say(type="session", id=evil)
say(type="error", message="refused " + evil) if len(sys.argv) > 1 else say(type="text", text=evil)
say(type="end")
"""
DECLARED = """
[agents.{name}]
label = "Label {toml}"
command = ["{python}", "{script}"{more}]
stdin = "prompt"
output = "jsonl"
session_id = {{ path = "$.id", when = {{ type = "session" }} }}
text = {{ path = "$.text", when = {{ type = "text" }} }}
error = {{ path = "$.message", when = {{ type = "error" }} }}
"""


class World:
    """Everything in it that somebody else could have named or written says the same."""

    def __init__(self, tmp_path: Path) -> None:
        self.root = tmp_path
        home, cwd = tmp_path / f"home{EVIL}", tmp_path / f"project{EVIL}"
        self.home, self.cwd, self.segue_home = home, cwd, home / f"segue{EVIL}"
        for folder in (home, cwd, self.segue_home):
            folder.mkdir(mode=0o700)
        env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "SEGUE_HOME": str(self.segue_home),
            "SEGUE_STORE_HOST": f"host{EVIL}",
            f"SEGUE_DEFAULT_MODEL{EVIL}": EVIL,
        }
        self.segue = Program(self.segue_home, cwd, env)
        script = tmp_path / f"agent{EVIL}.py"
        script.write_text(SPEAKS)
        place = {"python": sys.executable, "toml": IN_TOML, "script": f"{tmp_path}/agent{IN_TOML}.py"}
        self.segue.config(
            DECLARED.format(name="speaks", more="", **place)
            + DECLARED.format(name="fails", more=', "fail"', **place)
            + f'[agents.gone]\nlabel = "Gone {IN_TOML}"\ncommand = ["/nowhere/{IN_TOML}", "{{prompt}}"]\n'
            + f'[accounts.work]\nagent = "rehearsal"\nhome = "{tmp_path}/home{IN_TOML}/work"\n'
            + f'env = {{ X = "{IN_TOML}" }}\n'
            + f'[prices."{IN_TOML}"]\ninput = 1.0\noutput = 1.0\n'
        )
        (cwd / "segue.toml").write_text(
            f'[defaults]\ninstructions = "{IN_TOML}"\n'
            f'[accounts.theirs]\nagent = "claude"\nhome = "/{IN_TOML}"\n'
        )

    def __call__(self, *args: str) -> str:
        """What stands on the terminal: stdout and stderr. Whatever is asked is answered with no."""
        keys = ((0.5, b"n\n"), (1.5, b"n\n"), (3.0, b"\x04"))
        _, seen = bytes_on_terminal(self.segue, *args, keys=keys, columns=200)
        return seen.decode("utf-8", "surrogateescape")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("world"))
    run = world.segue
    for key, more in (("talk", ()), ("foreign", ()), ("busy", ()), ("poor", ("--account", "work"))):
        ran = run("run", key, f"[[say {EVIL}]] {EVIL}", "--agent", "rehearsal", "--json", *more)
        assert ran.code == 0, ran.stderr
    assert run("run", "speaks", f"hi {EVIL}", "--agent", "speaks", "--json").turn["text"] == EVIL
    assert run("run", "fails", f"hi {EVIL}", "--agent", "fails", "--json").code == 1
    tier = f'[[tier]]\nname = "{IN_TOML}"\nhuman = true\nquestion = "{IN_TOML}"\n'
    (world.cwd / "FLOW.toml").write_text(f'name = "{IN_TOML}"\n{tier}')
    (world.cwd / "export.json").write_text(run("export", "talk", "--json").stdout)
    _sessions(world)
    with database(world.segue_home / "segue.db") as db:
        _foreign(db)
    return world


def _sessions(world: World) -> None:
    """Native sessions: a sound one and a damaged one of each agent that keeps plain files."""
    sessions = next(world.home.rglob("sessions"))
    made = next(sessions.glob("*.jsonl"))
    copy = made.read_text().replace(made.stem, "abcdef12-1111-4222-8333-444455556666")
    call = {"type": "message", "id": EVIL, "kind": "tool_call", "role": "assistant", "name": EVIL}
    damaged = f'{copy}{msgspec.json.encode(call).decode()}\n{{"broken {EVIL}\n'
    (sessions / "abcdef12-1111-4222-8333-444455556666.jsonl").write_text(damaged)
    (sessions / f"named{EVIL}.jsonl").write_text(copy)
    (sessions / f"bytes{BYTES}.jsonl").write_text(copy)
    folder = world.home / ".claude" / "projects" / f"-project{EVIL}"
    folder.mkdir(parents=True)
    about = {"cwd": str(world.cwd), "gitBranch": EVIL, "version": EVIL}
    said = {"role": "user", "content": f"hi {EVIL}"}
    answered = {
        "role": "assistant",
        "model": EVIL,
        "content": [
            {"type": "text", "text": EVIL},
            {"type": "tool_use", "id": EVIL, "name": EVIL, "input": {"command": EVIL}},
        ],
    }
    for name in ("c1a0de00-1111-4222-8333-444455556666", f"{EVIL}"):
        lines: list[dict[str, Any]] = [
            {"type": "user", "uuid": "u1", "parentUuid": None, "message": said},
            {"type": "assistant", "uuid": EVIL, "parentUuid": "u1", "message": answered},
            {"type": EVIL, EVIL: EVIL},
            {"type": "custom-title", "customTitle": EVIL},
        ]
        file = folder / f"{name}.jsonl"
        file.write_bytes(
            b"".join(msgspec.json.encode({**line, "sessionId": name, **about}) + b"\n" for line in lines)
        )


def _foreign(db: sqlite3.Connection) -> None:
    """What somebody who shares the store could have written of ``foreign``; ``busy`` is held by another."""
    ids = dict(db.execute("SELECT key, id FROM conversations").fetchall())
    here = {"conversation": ids["foreign"], "evil": EVIL}
    for table, columns in (
        ("turns", ("account", "model", "cwd", "host")),
        ("sessions", ("account", "native_id", "host", "host_id", "home", "cwd")),
        ("kept", ("account", "native_id", "host", "host_id", "home", "cwd")),
    ):
        written = ", ".join(f"{column} = :evil" for column in columns)
        db.execute(f"UPDATE {table} SET {written} WHERE conversation = :conversation", here)
    db.execute(
        "UPDATE conversations SET model = :evil, role = :evil, title = :evil WHERE id = :conversation", here
    )
    said = db.execute("SELECT id, facts FROM messages WHERE conversation = :conversation", here).fetchall()
    for message, facts in said:
        sender, *_ = msgspec.json.decode(facts)
        by = msgspec.json.encode([sender, f"agent{EVIL}", EVIL, EVIL, [f"agent/{EVIL}/{EVIL}"], False])
        db.execute("UPDATE messages SET facts = ? WHERE id = ?", (by.decode(), message))
    ((told,),) = db.execute("SELECT told FROM turns WHERE conversation = :conversation", here).fetchall()
    turn = msgspec.json.decode(told)
    failure = {"kind": "model_error", "reason": EVIL, "message": EVIL, "retryable": False}
    turn |= {"model": EVIL, "account": EVIL, "role": EVIL, "session_id": EVIL, "notices": [EVIL]}
    turn |= {"failure": failure, "why": [{**each, "detail": EVIL} for each in turn["why"]]}
    values = {**here, "told": msgspec.json.encode(turn).decode()}
    db.execute("UPDATE turns SET told = :told, state = 'failed' WHERE conversation = :conversation", values)
    owner = Owner(host=EVIL, host_id="another", machine="another", boot_id="another", pid=1, start_time="1")
    held = {"name": f"conversation:{ids['busy']}", "owner": msgspec.json.encode(owner).decode()}
    db.execute(
        "INSERT INTO leases (name, token, generation, owner, taken_ms, renewed_ms)"
        " VALUES (:name, 't', 1, :owner, 1 << 52, 1 << 52)",
        held,
    )


SESSION, CLAUDE = "abcdef12", "c1a0de00"
LOOKING: dict[str, list[tuple[str, ...]]] = {
    "why": [
        ("why", "talk"),
        ("why", "foreign"),
        ("why", "talk", "--json"),
        ("why", "talk", "--agent", "gone"),
    ],
    "log": [("log", key, *more) for key in ("talk", "foreign", "fails") for more in ((), ("--full",))],
    "ls": [("ls",), ("ls", "--json")],
    "last": [("last", key) for key in ("talk", "foreign", "speaks", "fails")]
    + [("last", "foreign", "--json")],
    "export": [("export", "talk"), ("export", "foreign"), ("export", "foreign", "--json")],
    "queue": [("queue",), ("queue", EVIL)],
    "watch": [("watch", EVIL), ("watch", "talk")],
    "cancel": [("cancel", EVIL), ("cancel", "talk")],
    "answer": [("answer",), ("answer", EVIL, EVIL)],
    "chain": [("chain", "talk"), ("chain", "foreign"), ("chain", EVIL)],
    "review": [("review", EVIL, "--coder", EVIL, "--reviewer", EVIL)],
    "init": [("init", EVIL)],
    "serve": [("serve", EVIL)],
    "stop": [("stop", EVIL)],
    "status": [("status",), ("status", EVIL)],
    "agents": [("agents",), ("agents", "--json")],
    "account": [
        ("account", "ls"),
        ("account", "ls", "--json"),
        ("account", "show", EVIL),
        ("account", "add", EVIL, "--agent", EVIL),
        ("account", "add", "new", "--agent", "rehearsal", "--env", EVIL),
        ("account", "bind", EVIL, EVIL),
        ("account", "bind", "--remove", EVIL),
    ],
    "doctor": [("doctor",), ("doctor", "--json")],
    "sessions": [("sessions",), ("sessions", "--help")],
    "sessions ls": [("sessions", "ls"), ("sessions", "ls", "--all"), ("sessions", "ls", "--all", "--json")],
    "sessions show": [("sessions", "show", each, "--full") for each in (SESSION, CLAUDE, "named", "bytes")],
    "sessions search": [("sessions", "search", "owned"), ("sessions", "search", "hid", "--json")],
    "sessions check": [("sessions", "check", each) for each in (SESSION, CLAUDE, "named")],
    "sessions restore": [("sessions", "restore"), ("sessions", "restore", "--json")],
}
"""What only looks, and may be looked at side by side."""
DOING: dict[str, list[tuple[str, ...]]] = {
    "run": [
        ("run", "talk", f"[[say {EVIL}]]"),
        ("run", "talk", f"[[shell {EVIL}]] [[say {EVIL}]]", "--permission", "full"),
        ("run", "talk", f"[[ask {EVIL} | {EVIL} | b]] [[result]]"),
        ("run", "talk", f"[[error 400 {EVIL}]]", "--quiet"),
        ("run", "speaks", "hi", "--events"),
        ("run", "speaks", "hi", "--agent", "fails"),
        ("run", "speaks", "hi", "--agent", "gone"),
        ("run", "foreign", "hi"),
        ("run", "foreign", "hi", "--model", "m", "--role", "none", "--account", "none"),
        ("run", "busy", "hi", "--wait", "0.5"),
        ("run", "poor", "hi", "--agent", "speaks"),
        ("run", "new", "hi", "--agent", "rehearsal", "--adopt", CLAUDE),
    ],
    "retry": [("retry", "foreign"), ("retry", "fails")],
    "edit": [("edit", "talk", "#1", EVIL), ("edit", "busy", "#1", EVIL)],
    "undo": [("undo", "talk"), ("undo", "busy")],
    "fork": [("fork", "talk"), ("fork", "foreign")],
    "import": [("import", "export.json"), ("import", "export.json", "--key", "taken-in")],
    "truncate": [("truncate", "foreign", "#1")],
    "rm": [("rm", "foreign"), ("rm", "talk")],
    "sessions continue": [("sessions", "continue", SESSION, "hi"), ("sessions", "continue", "hi there")],
    "sessions repair": [("sessions", "repair", SESSION), ("sessions", "repair", CLAUDE)],
    "sessions prune": [("sessions", "prune", "--days", "0", "--all-sessions")],
    "rehearse": [
        (
            "rehearse",
            "--",
            sys.executable,
            "-m",
            "segue",
            "run",
            "k",
            f"[[say {EVIL}]]",
            "--agent",
            "rehearsal",
        ),
        ("rehearse", "--home", f"homes{EVIL}", "--", f"./{EVIL}"),
        ("rehearse", "--scenario", f"none{EVIL}.toml"),
    ],
    "trust": [("trust",), ("why", "talk"), ("trust", "--remove")],
    "completion": [("completion", EVIL)],
    "escalate": [("escalate", EVIL), ("escalate", "FLOW.toml", "--label", EVIL, "--key", "cycle")],
    "flow": [
        ("flow", "ls"),
        ("flow", "show", "cycle"),
        ("flow", "show", EVIL),
        ("answer",),
        ("flow", "cancel", "cycle"),
        ("flow", "ls", "--all"),
    ],
}
"""What changes something; in this order."""


def _asked_for(args: tuple[str, ...], seen: str) -> list[str]:
    """What is wrong with what stands on the terminal."""
    found = obeyed(seen) + re.findall("[\udc80-\udcff]", seen)
    crashed = ["a crash"] if "internal error" in seen or "Traceback" in seen else []
    return [f"{' '.join(args)!r}: {each!r}" for each in (*found, *crashed)] or (
        [] if seen.strip() else [f"{args}: nothing was said"]
    )


def test_every_command_is_tried() -> None:
    named = {*COMMANDS, *(f"sessions {name}" for name in TABLE)}
    assert {*LOOKING, *DOING} == named


def test_no_command_lets_anything_through(world: World) -> None:
    looking = [args for calls in LOOKING.values() for args in calls]
    with ThreadPoolExecutor(2) as two:
        seen = dict(zip(looking, two.map(lambda args: world(*args), looking), strict=True))
    seen |= {args: world(*args) for calls in DOING.values() for args in calls}
    assert [wrong for args, each in seen.items() for wrong in _asked_for(args, each)] == []
    silent = [
        name
        for name, calls in {**LOOKING, **DOING}.items()
        if name != "sessions" and not any(PLAIN in seen[args] for args in calls)
    ]
    assert silent == [], "nothing foreign came that far, so nothing is shown by it"


ARGUMENTS = (
    (BYTES,),
    (f"--{BYTES}",),
    *((name, f"x{BYTES}") for name in COMMANDS),
    *(("sessions", name, f"12345678{BYTES}") for name in TABLE),
    ("run", "k", f"hi {BYTES}", "--agent", "rehearsal"),
    ("run", "k", "hi", "--agent", "rehearsal", "--cwd", BYTES),
    ("run", "k", "hi", "--agent", "rehearsal", "--system-prompt-file", BYTES),
    ("rehearse", "--", f"./{BYTES}"),
    ("import", BYTES),
    ("trust", BYTES),
)


def test_what_is_no_text_at_all_gets_through_nowhere(world: World) -> None:
    def wrong(args: tuple[str, ...]) -> Iterator[str]:
        yield from _asked_for(args, world(*args))
        yield from _asked_for((*args, "--json"), world(*args, "--json")) if args[0] == "run" else ()

    with ThreadPoolExecutor(2) as two:
        assert [each for found in two.map(lambda args: list(wrong(args)), ARGUMENTS) for each in found] == []
