"""A review and an escalation on the rehearsal agent, to be killed: what a turn does is counted from outside.

Each turn has a mark, such as ``coder-2``. Its tool notes the mark in the file ``effects``, works for a
moment, and prints the answer. An agent that is told to go on looks up in its own session what it was doing.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from segue.turns.composer import GO_ON
from tests.chaos.scenes import Scene, Started
from tests.history import KeptFlow, Spell, Work
from tests.integration.test_review import APPROVE, reject

WORK = """
echo "$1" >> "$PLACE/effects"
sleep 0.1
case "$1" in coder-*) echo "$1" > code.txt;; esac
cat "$PLACE/answers/$1"
"""
GOES_ON = """
session=$(tr '\\0' '\\n' < /proc/$PPID/cmdline | sed -n 's/^--resume=//p')
mark=$(grep -o 'work [a-z]*-[0-9]*' "$REHEARSAL_HOME/sessions/$session.jsonl" | tail -n 1 | cut -d ' ' -f 2)
grep -qsx "$mark" "$PLACE/effects" || exec sh "$PLACE/work" "$mark"
case "$mark" in coder-*) echo "$mark" > code.txt;; esac
cat "$PLACE/answers/$mark"
"""
"""As a model would: it sees in its session what it was asked, and looks at what is done."""
UP = '```json\n{"escalate": true, "reason": "the disk is full", "failed_checks": ["web"]}\n```'
DONE = '```json\n{"escalate": false, "reason": "it works again"}\n```'
ANSWERS = {
    "coder-1": "did coder-1",
    "coder-2": "did coder-2",
    "reviewer-1": reject("f1").removeprefix("[[say ").removesuffix("]]"),
    "reviewer-2": APPROVE.removeprefix("[[say ").removesuffix("]]").replace("well done", "seen twice"),
    "tier-1": UP,
    "tier-2": UP.replace("the disk", "the other disk"),
    "tier-3": DONE,
}
MARKS = {
    "review": ("coder-1", "reviewer-1", "coder-2", "reviewer-2"),
    "escalate": ("tier-1", "tier-2", "tier-3"),
}
ENDS = {"review": ("approved", 2), "escalate": ("done", 3)}
TURN_OF = {mark: mark if "tier" in mark else mark.replace("-", "/") for mark in ANSWERS}
"""The step of each mark."""
ROUNDS = 5
SECOND = f"Round 2 of at most {ROUNDS}\\."
RULES = (
    (re.escape(GO_ON), "goes-on"),
    (rf"You review the changes[^#]*{SECOND}|{SECOND} The coder has worked", "reviewer-2"),
    ("You review the changes", "reviewer-1"),
    (rf"You write the code[^#]*{SECOND}|{SECOND} The reviewer has rejected", "coder-2"),
    ("You write the code", "coder-1"),
)


class FlowStage:
    """A scene with all that is needed for flows. ``url``: of the store, if it is PostgreSQL."""

    def __init__(self, scene: Scene, url: str | None = None) -> None:
        self.scene, self.url = scene, url
        self.place = scene.segue.cwd.parent / "stage"
        scene.segue.env |= {
            "PLACE": str(self.place),
            "REHEARSAL_SCENARIO": str(self.place / "scenario.json"),
            "SEGUE_KEEP_ENABLED": "false",
            **({"SEGUE_STORE_URL": url} if url else {}),
        }
        (self.place / "answers").mkdir(parents=True)
        for mark, answer in ANSWERS.items():
            (self.place / "answers" / mark).write_text(answer)
        for name, text in (("work", WORK), ("goes-on", GOES_ON)):
            (self.place / name).write_text(text)
        rules = [{"pattern": pattern, "do": self._do(name)} for pattern, name in RULES]
        (self.place / "scenario.json").write_bytes(msgspec.json.encode({"rule": rules}))

    def tree(self, name: str) -> Path:
        """A directory to work in: a git repository with a task, and with tiers."""
        tree = self.scene.segue.cwd / name
        tree.mkdir()
        subprocess.run(["git", "init", "--quiet", str(tree)], check=True, env=self.scene.segue.env)
        (tree / "TASK.md").write_text("Build it\n\nAs told.\n")
        text = 'environment = "The host has the number 77."\n'
        for n, mark in enumerate(MARKS["escalate"], 1):
            (tree / f"{n}.md").write_text(self._do(mark))
            keys = {"name": f"t{n}", "agent": "rehearsal", "prompt": f"{n}.md", "full": f"{n}.md"}
            lines = [f"{key} = {value!r}" for key, value in {**keys, "permission": "full"}.items()]
            text += "\n".join(["[[tier]]", *lines, ""])
        (tree / "FLOW.toml").write_text(text)
        self.scene.segue.trust(tree)
        return tree

    def words(self, kind: str, tree: Path, key: str) -> list[str]:
        """The command that starts a flow, or continues it: the same key is the same flow."""
        common = ["--cwd", str(tree), "--key", key, "--json"]
        if kind == "escalate":
            return ["escalate", str(tree / "FLOW.toml"), *common]
        roles = ["--coder", "rehearsal", "--reviewer", "rehearsal", "--rounds", str(ROUNDS)]
        may = ["--permission", "full", "--reviewer-permission", "full"]
        check = f"echo check-$(cat code.txt) >> {self.place}/effects"
        return ["review", str(tree / "TASK.md"), *roles, *may, "--check", check, *common]

    def start(self, *words: str, **env: str) -> Started:
        started = Started(self.scene.segue.start(*words, **env))
        self.scene._started.append(started)
        return started

    # what is there afterwards

    @property
    def effects(self) -> list[str]:
        """The marks of all turns whose tool ran, and ``check-MARK`` for each check."""
        file = self.place / "effects"
        return file.read_text().split() if file.exists() else []

    def clear(self) -> None:
        (self.place / "effects").unlink(missing_ok=True)
        for each in self.scene.agent_home.glob("sessions/*.jsonl"):
            each.unlink()

    def answers(self) -> list[str]:
        """The marks that the agents answered, by their own sessions; a copied message counts once."""
        found: dict[str, str] = {}
        for file in self.scene.agent_home.glob("sessions/*.jsonl"):
            for line in file.read_bytes().splitlines()[1:]:
                with contextlib.suppress(msgspec.DecodeError):  # a kill cuts off the last one
                    said = msgspec.json.decode(line)
                    if said["kind"] == "text" and said["role"] == "assistant":
                        found[said["id"]] = said["text"].strip()
        marks = {answer.strip(): mark for mark, answer in ANSWERS.items()}
        return [marks.get(text, text.removeprefix("answer-")) for text in found.values()]

    def shown(self, key: str) -> dict[str, Any] | None:
        done = self.scene.segue("flow", "show", key, "--json")
        return msgspec.json.decode(done.stdout) if done.code == 0 else None

    def look(self, sql: str, *values: str) -> list[tuple[Any, ...]]:
        """From the store, as somebody who only looks; nothing if it is away."""
        if self.url is None:
            return self.scene.rows(sql, *values)
        with contextlib.suppress(psycopg.Error), psycopg.connect(self.url, autocommit=True) as db:
            if db.execute("SELECT to_regclass('segue.flow_steps')").fetchone() == (None,):
                return []
            db.execute("SET search_path TO segue")
            return db.execute(sql.replace("?", "%s").encode(), values).fetchall()
        return []

    def finished(self, key: str) -> dict[str, str]:
        """The steps that are done, each with its run or its result."""
        rows = self.look(
            "SELECT s.key, COALESCE(s.run, s.result, s.artefact, '') FROM flow_steps AS s"
            " JOIN flows AS f ON f.id = s.flow WHERE f.key = ? AND s.state = 'done'",
            key,
        )
        return {str(name): str(value) for name, value in rows}

    def flow(self, key: str) -> KeptFlow | None:
        rows = self.look("SELECT ending FROM flows WHERE key = ?", key)
        return KeptFlow(key, rows[0][0], self.finished(key)) if rows else None

    def _do(self, name: str) -> str:
        command = f"sh {self.place}/work {name}" if name in ANSWERS else f"sh {self.place}/{name}"
        return f"[[shell exec {command}]] [[slow 0.1 4]] [[result]]"


class Witness:
    """Watches from outside which agent's processes live, and which native session each of them has."""

    def __init__(self, scene: Scene) -> None:
        self._wanted = f"REHEARSAL_HOME={scene.agent_home}".encode()
        self._strangers: set[str] = set()
        self._seen: dict[tuple[str, int], tuple[int, int]] = {}
        self._looks, self._over = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Witness:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def spells(self) -> list[Spell]:
        return [Spell(session, pid, *seen) for (session, pid), seen in list(self._seen.items())]

    def work(self, stage: FlowStage) -> Work:
        return Work(answers=stage.answers(), effects=stage.effects, spells=self.spells)

    def _watch(self) -> None:
        while not self._over.wait(0.01):
            self._looks += 1
            for session, pid in self._living():
                first = self._seen.get((session, pid), (self._looks, 0))[0]
                self._seen[session, pid] = (first, self._looks)

    def _living(self) -> Iterator[tuple[str, int]]:
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
        self._strangers &= set(pids)
        for pid in pids:
            if pid in self._strangers:
                continue
            try:
                if self._wanted not in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    self._strangers.add(pid)
                    continue
                command = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            except OSError:
                continue
            session = session_of(command)
            with contextlib.suppress(ProcessLookupError):
                # A child that it has just forked looks like itself, until it is another program.
                if session is not None and os.getpgid(int(pid)) == int(pid):
                    yield session, int(pid)


def session_of(command: list[str]) -> str | None:
    """The native session that an agent's process writes to; None: it is no agent."""
    if "segue.rehearsal.agent" not in command:
        return None
    options = dict(each.partition("=")[::2] for each in command)
    return options.get("--session-id") or (options.get("--resume") if "--fork" not in options else None)
