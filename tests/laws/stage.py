"""A home of Segue with three accounts of the rehearsal agent, whose starts are noted and can be held."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import psycopg

from segue import Segue
from segue.core.request import Posture
from segue.rehearsal.agent.store import new_id
from segue.system.processes import groups

T = TypeVar("T")
PATIENCE_S = float(os.environ.get("LAWS_PATIENCE_S") or 90)
ACCOUNTS = ("a", "b", "c")
SECRET = "xsecretx"
"""What is said under the first account of a door."""
VALUE = "value-of-the-account-7319"
"""A value of each account's environment."""
TOKEN = "token-of-the-account-5827"
"""Another one. Its name says that it is a secret, and agents may print it."""
PROGRAM = """#!/bin/sh
case " $* " in *" --version "*) exec {python} -P -m segue.rehearsal.agent "$@";; esac
name={root}/starts/$(date +%s%N)-$$
tr '\\0' '\\n' < /proc/$$/environ > "$name.env"
printf '%s\\n' "$PWD" "$@" > "$name.tmp"
mv "$name.tmp" "$name.argv"
case " $* " in *" --resume="*) held={root}/hold-again;; *) held={root}/hold-first;; esac
under={root}/hold-$(basename "$REHEARSAL_HOME")
while [ -e {root}/hold ] || [ -e "$held" ] || [ -e "$under" ]; do sleep 0.02; done
if [ -e {root}/prints ]; then echo "{{\\"type\\": \\"thinking\\", \\"text\\": \\"it is $LAW_TOKEN\\"}}"; fi
exec {python} -P -m segue.rehearsal.agent "$@"
"""
"""Notes how it was started, waits while it is held, and becomes the rehearsal agent."""


@dataclass(frozen=True)
class Started:
    """One start of the agent."""

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str

    @property
    def account(self) -> str:
        return Path(self.env["REHEARSAL_HOME"]).name

    @property
    def mark(self) -> str:
        """Begins with the name of the directory of its run."""
        return next(Path(self.env[name]).name for name in ("SEGUE_MARK", "SEGUE_RUN_ID") if name in self.env)

    def option(self, name: str) -> list[str]:
        return [each.partition("=")[2] for each in self.argv if each.startswith(f"--{name}=")]


class Stage:
    """``old``: the account under which the secret is said; ``new``: the account of the door's run."""

    def __init__(self, root: Path, *, old: str = "a", new: str = "a", url: str | None = None) -> None:
        self.root, self.old, self.new, self.url = root, old, new, url
        self.home, self.cwd = root / "segue-home", root / "project"
        self._known: dict[str, Started] = {}
        self.permission: Posture = "default"
        self.asks = "the word"
        """What an agent asks about."""
        self.deny: tuple[str, ...] = ()
        self.env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(root),
            "LANG": "C.UTF-8",
            "SEGUE_HOME": str(self.home),
            "SEGUE_KEEP_ENABLED": "false",
            **({"SEGUE_STORE_URL": url} if url else {}),
        }

    def build(self) -> Stage:
        for path in (self.home, self.cwd, self.root / "starts", *map(self.account, ACCOUNTS)):
            path.mkdir(mode=0o700)
        agent = self.root / "agent"
        agent.write_text(PROGRAM.format(python=sys.executable, root=self.root))
        agent.chmod(0o700)
        for each in ACCOUNTS:
            (self.account(each) / "login.json").write_bytes(msgspec.json.encode({"account": f"user-{each}"}))
            self.play(account=each)
        self.config()
        self.repository(self.cwd)
        return self

    def account(self, name: str) -> Path:
        """Its home."""
        return self.root / name

    def config(self, more: str = "", **each: str) -> None:
        """Write the user's configuration. ``each``: more keys of an account."""
        text = f'[agents.rehearsal]\ncommand = ["{self.root}/agent"]\n'
        text += f'[defaults]\nagent = "rehearsal"\naccount = "{self.old}"\n'
        for name in ACCOUNTS:
            env = f'LAW_VALUE = "{VALUE}", LAW_TOKEN = "{TOKEN}"'
            env += f', REHEARSAL_SCENARIO = "{self.account(name)}/scenario.json"'
            text += f'[accounts.{name}]\nagent = "rehearsal"\nhome = "{self.account(name)}"\n'
            text += f"env = {{ {env} }}\n{each.get(name, '')}\n"
        (self.home / "config.toml").write_text(text + more)

    def play(self, *rules: tuple[str, str], account: str | None = None) -> None:
        """What the agent does if a prompt has these words; under one account, or under all."""
        made = msgspec.json.encode({"rule": [{"text": text, "do": do} for text, do in rules]})
        for name in ACCOUNTS if account is None else (account,):
            file = self.account(name) / "scenario.json"
            file.with_suffix(".new").write_bytes(made)
            file.with_suffix(".new").rename(file)

    def repository(self, path: Path) -> Path:
        path.mkdir(exist_ok=True)
        (path / "start.txt").write_text("start\n")
        git = ["git", "-C", str(path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
        for words in ("init --quiet", "add --all", "commit --quiet -m first"):
            subprocess.run([*git, *words.split()], env=self.env, check=True, capture_output=True)
        return path

    def tree(self, key: str) -> Path:
        """A git repository for one flow."""
        path = self.root / f"tree-{key}"
        return path if path.exists() else self.repository(path)

    # --- in this process ---

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Segue]:
        async with asyncio.timeout(PATIENCE_S), Segue(env=self.env, cwd=self.cwd) as library:
            yield library

    def play_out(self, work: Callable[[Segue], Awaitable[T]]) -> T:
        async def go() -> T:
            async with self.opened() as library:
                return await work(library)

        return asyncio.run(go())

    # --- what the agent was started with and told ---

    @property
    def starts(self) -> list[Started]:
        return [self._started(file) for file in sorted((self.root / "starts").glob("*.argv"))]

    def _started(self, file: Path) -> Started:
        if file.name not in self._known:
            cwd, *argv = file.read_text().splitlines()
            lines = file.with_suffix(".env").read_text().splitlines()
            env = dict(line.partition("=")[::2] for line in lines if "=" in line)
            self._known[file.name] = Started(tuple(argv), env, cwd)
        return self._known[file.name]

    def hold(self, which: str = "hold") -> None:
        (self.root / which).touch()

    def release(self, which: str = "hold") -> None:
        (self.root / which).unlink(missing_ok=True)

    async def started(self, count: int) -> None:
        """Wait until the agent was started so often."""
        await until(lambda: len(self.starts) >= count, f"{count} starts")

    def lines(self, account: str) -> list[str]:
        """All that sessions under the account hold."""
        files = sorted(self.account(account).rglob("*.jsonl"))
        return [line for file in files for line in file.read_text().splitlines()]

    def knows(self, account: str, word: str = SECRET, after: int = 0) -> bool:
        """Whether a session under the account holds the word, in its lines after the first ``after``."""
        return any(word in line for line in self.lines(account)[after:])

    # --- what is stored ---

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        if self.url is not None:
            with psycopg.connect(self.url, autocommit=True) as db:
                db.execute("SET search_path TO segue")
                return db.execute(sql.replace("?", "%s").encode(), values).fetchall()
        path = self.home / "segue.db"
        if not path.exists():
            return []
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as db:
            return db.execute(sql, values).fetchall()

    def write(self, sql: str, *values: Any) -> None:
        with closing(sqlite3.connect(self.home / "segue.db", timeout=10)) as db, db:
            db.execute(sql, values)

    def states(self, door: str) -> list[str]:
        """Of the runs that came by this door."""
        return [row[0] for row in self.rows("SELECT state FROM turns WHERE door = ? ORDER BY id", door)]

    def started_by(self, run: str) -> list[Started]:
        """All starts of the agent for this run."""
        rows = self.rows("SELECT run_dir FROM attempts WHERE turn = ?", run)
        names = [path.rpartition("/")[2] for (path,) in rows]
        return [each for each in self.starts if any(each.mark.startswith(name) for name in names)]

    # --- other processes ---

    def outside(self, account: str, text: str) -> str:
        """A session that the agent begins without Segue. Returns its id."""
        session, home = new_id(), self.account(account)
        prompt = msgspec.json.encode({"type": "prompt", "text": text}) + b"\n"
        done = subprocess.run(
            [sys.executable, "-P", "-m", "segue.rehearsal.agent", "--input=jsonl", f"--session-id={session}"],
            input=prompt,
            cwd=self.cwd,
            env={**self.env, "REHEARSAL_HOME": str(home)},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return session

    def killed(self, door: str, key: str, moment: str, *, with_agents: bool = False) -> None:
        """Go through a door in another process, which ends itself with -9 at this moment. ``with_agents``:
        the agents, which are held or wait, end so, too."""
        words = [sys.executable, "-m", "tests.laws.program", str(self.root), self.old, self.new]
        done = subprocess.run(
            [*words, door, key, moment],
            env={**os.environ, **({"LAWS_URL": self.url} if self.url else {})},
            cwd=Path(__file__).parents[2],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == -signal.SIGKILL, (done.stdout[-2000:], done.stderr[-4000:])
        if with_agents:
            self.kill_agents()

    def agents(self) -> list[int]:
        """The living processes whose environment names the agent's home."""
        wanted = f"REHEARSAL_HOME={self.root}/".encode()
        return [pid for pid in groups() if any(each.startswith(wanted) for each in _environment(pid))]

    def kill_agents(self) -> None:
        """By their numbers."""
        while pids := self.agents():
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)

    def clear(self) -> None:
        """End what a test left behind."""
        self.kill_agents()
        shutil.rmtree(self.root, ignore_errors=True)


def _environment(pid: int) -> Iterator[bytes]:
    with suppress(OSError):
        yield from Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


def brief(told: Any) -> str:
    """What a caller is told, in short."""
    if isinstance(told, list | tuple):
        return "; ".join(map(brief, told))
    turn = getattr(told, "turn", None) or told
    failure = getattr(turn, "failure", None)
    said = [getattr(told, "state", ""), getattr(told, "end", ""), getattr(failure, "message", failure)]
    said += [getattr(turn, "text", ""), getattr(told, "carried", "")]
    if isinstance(result := getattr(told, "result", None), msgspec.Raw):
        said.append(bytes(result).decode())
    return " · ".join(str(each) for each in said if each)


async def until(holds: Callable[[], Any], what: str) -> Any:
    """Wait for a condition, patiently: the machine may be busy."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := await asyncio.to_thread(holds)):
        assert time.monotonic() < deadline, f"it never came to be: {what}"
        await asyncio.sleep(0.03)
    return found
