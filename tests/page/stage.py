"""A home full of conversations that look like real work, for pictures of the page.

Everything is done by the real program with the rehearsal agent, and with two declared agents that wrap it.
A scenario (``stage.toml``) says what they answer, so that the messages read like messages. Only the month of
earlier turns is written into the store directly: nobody can wait for it.
"""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.database import database
from tests.integration.conftest import Program
from tests.integration.server.conftest import Daemon

WRAPPER = """#!/bin/sh
[ "$1" = --version ] && echo {version} && exit
REHEARSAL_HOME={home} exec {python} -P -m segue.rehearsal.agent --permission edit "$@"
"""
WAIT_S = 60
DAYS = 30

DECLARED = """
[agents.{name}]
label = "{label}"
command = {command}
resume_command = {resume}
stdin = "prompt"
output = "jsonl"
version_args = ["--version"]
session_id = {{ path = "$.id", when = {{ type = "session" }} }}
text = {{ path = "$.text", when = {{ type = "end", ok = true }} }}
tool = {{ path = "$.name", when = {{ type = "tool_call" }} }}
error = {{ path = "$.error.message", when = {{ type = "end", ok = false }} }}
done = {{ type = "end", ok = true }}

[agents.{name}.usage]
input = "$.usage.input"
cache_read = "$.usage.cache_read"
cache_write = "$.usage.cache_write"
output = "$.usage.output"
cost_usd = "$.cost_usd"
when = {{ type = "end" }}
"""
CONFIG = """
[defaults]
agent = "rehearsal"

[prices."rehearsal-*"]
input = 1.0
output = 5.0
cache_read = 0.1
cache_write = 1.25
"""

SOURCE = """from datetime import UTC, datetime


def refresh(token: str, now: datetime | None = None) -> Session:
    claims = decode(token)
    if claims.exp + LEEWAY < (now or datetime.now(UTC)):
        raise TokenError("expired")
    return Session(claims.subject)
"""


def program(base: Program) -> Program:
    """The program, with agents and a scenario."""
    agents = "".join(
        DECLARED.format(
            name=name,
            label=label,
            command=json.dumps([_wrapped(base, name)]),
            resume=json.dumps([_wrapped(base, name), "--resume", "{session_id}"]),
        )
        for name, label in (("quill", "Quill"), ("nimbus", "Nimbus"))
    )
    base.config(CONFIG + agents)
    base.env["REHEARSAL_SCENARIO"] = str(Path(__file__).with_name("stage.toml"))
    base.env["REHEARSAL_HOME"] = str(base.home / "agent")
    (base.cwd / "refresh.py").write_text(SOURCE)
    return base


def _wrapped(base: Program, name: str) -> str:
    """A program of that name, which is the rehearsal agent under another version."""
    file = base.home / "bin" / name
    base.home.mkdir(exist_ok=True, mode=0o700)
    file.parent.mkdir(exist_ok=True)
    home = base.home / f"agent-{name}"
    file.write_text(WRAPPER.format(version=VERSIONS[name][1], python=sys.executable, home=home))
    file.chmod(0o755)
    return str(file)


def past(segue: Program) -> None:
    """What was done before somebody opens the page."""
    for key, (title, agent) in EARLIER.items():
        _ran(segue("run", key, title, "--agent", agent))
    _history(segue)
    _age(segue)
    key = "fix-auth"
    context = (SOURCE * 90).encode()
    first = "Expired refresh tokens are accepted. Find out why, and fix it."
    _ran(segue("run", key, first, "--permission", "edit", stdin=context))
    _ran(segue("run", key, "Also cover the refresh path with a test."))
    _ran(segue("run", key, "Review the change.", "--agent", "nimbus", "--role", "reviewer"))
    back = ("--agent", "rehearsal", "--role", "none")
    _ran(segue("run", key, "Make the leeway configurable per issuer.", *back))
    better = "Make the leeway configurable per issuer. 30 seconds stays the default."
    _ran(segue("edit", key, "#7", better, "--cut"))
    _ran(segue("retry", key, "#7", *back))
    _ran(segue("run", "start-up", "Where does the time go when it starts?", "--permission", "edit"))
    _ran(segue("run", "pr-481", "Why does CI skip the arm64 job?"), (0, 1, 75))


def present(daemon: Daemon) -> None:
    """What is going on while the page is open: a question, a running turn with a queue, a limit."""
    for key in [*EARLIER, "fix-auth", "start-up"]:
        if key not in UNREAD:
            daemon.ask("POST", f"/api/v1/conversations/{quote(key, safe='')}/read")
    asks = _queue(
        daemon,
        "checkout-worker",
        message="checkout-worker: queue lag is above 30 s. What happened?",
        answers=True,
        options={"permission": "edit"},
    )
    limited = _queue(daemon, "start-up", message="Cut the start-up time to 200 ms.", options={"park": True})
    running = _queue(daemon, "token-refresh", message="Add token refresh to the client.")
    _until(lambda: daemon.ask("GET", f"/api/v1/runs/{running}").json["state"] == "running")
    _queue(daemon, "token-refresh", message="Then update CHANGELOG.md and the page on tokens.")
    _queue(daemon, "token-refresh", message="Show me the diff before you commit.")
    _until(lambda: daemon.ask("GET", f"/api/v1/runs/{asks}").json["question"] is not None)
    _until(lambda: daemon.ask("GET", f"/api/v1/runs/{limited}").json["state"] in ("parked", "failed"))


FLOW = """name = "shop"
environment = "checkout-worker runs in the cluster shop, in three replicas."

[[tier]]
name = "observe"
agent = "rehearsal"
full = "observe.md"
permission = "edit"

[[tier]]
name = "safe remediation"
agent = "rehearsal"
prompt = "repair.md"
full = "repair.md"
permission = "edit"

[[tier]]
name = "on call"
human = true
question = "Queue lag of checkout-worker is 41 minutes. May the image of 11:20 be deployed again?"
"""


def flows(daemon: Daemon) -> dict[str, str]:
    """A review that was approved, one that runs, and an escalation that waits for somebody."""
    root = daemon.segue.cwd.parent
    export = "def export(rows, target):\n    target.write_bytes(b''.join(encoded(rows)))\n"
    files = {
        "exports": {"export.py": export},
        "webhooks": {"deliver.py": "def deliver(message): ...\n"},
        "shop": {
            "FLOW.toml": FLOW,
            "observe.md": "Look, and change nothing.",
            "repair.md": "You may restart a worker.",
        },
    }
    for name, contents in files.items():
        (root / name).mkdir()
        for file, text in contents.items():
            (root / name / file).write_text(text)
        git = ["git", "-C", str(root / name), "-c", "user.name=a", "-c", "user.email=a@b.c"]
        for args in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "-m", "first"]):
            subprocess.run([*git, *args], check=True, env=daemon.segue.env)
    daemon.segue.trust(root / "shop")
    crew = {"coder": {"agent": "rehearsal", "permission": "edit"}, "reviewer": {"agent": "rehearsal"}}
    begun = {}
    done = {"task": "# Stream large exports\n\nNever hold a whole export in memory." + SOURCE * 60, **crew}
    done |= {"checks": ["python3 -m tokenize export.py"], "cwd": str(root / "exports")}
    begun["done"] = _flow(daemon, "reviews", done, "done")
    works = {"task": "# Retry webhooks within a budget\n\nPer receiver.", **crew}
    begun["works"] = _flow(daemon, "reviews", works | {"cwd": str(root / "webhooks")}, "running")
    shop = {"file": str(root / "shop" / "FLOW.toml"), "cwd": str(root / "shop")}
    begun["asks"] = _flow(daemon, "escalations", shop | {"label": "checkout-worker: queue lag"}, "needs_you")
    return begun


def _flow(daemon: Daemon, kind: str, body: dict[str, Any], state: str) -> str:
    answer = daemon.ask("POST", f"/api/v1/{kind}", body)
    assert answer.status == 202, answer.body
    flow = str(answer.json["flow"])
    _until(lambda: daemon.ask("GET", f"/api/v1/flows/{flow}").json["state"] == state)
    return flow


def end(daemon: Daemon) -> None:
    """End what is going on: an agent would outlive its daemon."""
    for flow in daemon.ask("GET", "/api/v1/flows").json:
        daemon.ask("POST", f"/api/v1/flows/{flow['flow']}/cancel")

    def ended() -> bool:
        left = daemon.ask("GET", "/api/v1/runs").json
        for run in left:
            waits = run["state"] in ("queued", "parked")
            method, path = ("DELETE", "queue/{}") if waits else ("POST", "runs/{}/cancel")
            daemon.ask(method, f"/api/v1/{path.format(run['run'])}")
        return not left

    _until(ended)


def _queue(daemon: Daemon, key: str, **body: Any) -> str:
    answer = daemon.ask("POST", f"/api/v1/conversations/{key}/runs", body)
    assert answer.status == 202, answer.body
    return str(answer.json["run"])


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.1)


def _ran(result: Any, codes: tuple[int, ...] = (0,)) -> None:
    assert result.code in codes, result.stderr


EARLIER = {
    "import/backfill": ("Backfill the 2023 invoices", "rehearsal"),
    "flaky/lease": ("test_lease_takeover is flaky", "rehearsal"),
    "release-0.4": ("Draft the 0.4 release notes", "quill"),
    "schema-notes": ("Notes on the invoice schema", "quill"),
    "deps/2026-w47": ("Weekly dependency bump", "nimbus"),
    "sse/resync": ("Resync after a missed event", "rehearsal"),
    "docs/quickstart-zh": ("Translate the quick start to Chinese", "quill"),
    "lint": ("Adopt the stricter lint rules", "nimbus"),
    "cache-keys": ("Explain the cache keys of the build", "rehearsal"),
    "oncall/week-46": ("Summarise the pages of week 46", "nimbus"),
    "perf/parser": ("Profile the parser on the large corpus", "rehearsal"),
}
UNREAD = {"sse/resync", "flaky/lease"}
VERSIONS = {"rehearsal": ("0.1.0", "0.1.1"), "quill": ("2.4.0", "2.5.1"), "nimbus": ("0.9.3", "0.9.3")}
HITS = {"rehearsal": 0.86, "quill": 0.78, "nimbus": 0.52}
WEIGHTS = {"resume": 66, "branch": 9, "replay": 13, "recap": 4, "fresh": 8}
DEARER = {"resume": 1.0, "branch": 1.25, "replay": 3.2, "recap": 2.6, "fresh": 2.1}


def _age(segue: Program) -> None:
    """Let the conversations be some hours or days old."""
    with database(segue.home / "segue.db") as store:
        for number, key in enumerate(EARLIER):
            less = int(3_600_000 * 1.6 ** (number + 1))
            (id_,) = store.execute("SELECT id FROM conversations WHERE key = ?", (key,)).fetchone()
            store.execute(
                "UPDATE conversations SET created_ms = created_ms - ?, updated_ms = updated_ms - ?"
                " WHERE id = ?",
                (less, less, id_),
            )
            store.execute(
                "UPDATE messages SET created_ms = created_ms - ? WHERE conversation = ?", (less, id_)
            )
            store.execute(
                "UPDATE turns SET started_ms = started_ms - ?, ended_ms = ended_ms - ?"
                " WHERE conversation = ? AND id NOT LIKE '00%'",
                (less, less, id_),
            )


def _history(segue: Program) -> None:
    """A month of turns, as copies of the first turn of each conversation."""
    chance = random.Random(46)
    with database(segue.home / "segue.db") as store:
        store.row_factory = sqlite3.Row
        rows = [
            dict(row)
            for row in store.execute(
                "SELECT t.*, c.key AS key FROM turns t JOIN conversations c ON c.id = t.conversation"
            )
        ]
        today = datetime.now().replace(hour=9, minute=0, second=0, microsecond=0)
        number = 0
        for ago in range(DAYS - 1, -1, -1):
            day = today - timedelta(days=ago)
            busy = 2 if day.weekday() >= 5 else chance.randint(7, 21)
            for _ in range(busy):
                number += 1
                moment = day + timedelta(minutes=chance.randint(0, 560))
                if moment >= datetime.now():
                    moment = datetime.now() - timedelta(minutes=chance.randint(20, 200))
                row = chance.choices(rows, weights=[3 ** (4 - at % 4) for at in range(len(rows))])[0]
                _earlier(store, dict(row), number, moment, chance, old=ago > 11)


def _earlier(
    store: sqlite3.Connection,
    row: dict[str, Any],
    number: int,
    moment: datetime,
    chance: random.Random,
    *,
    old: bool,
) -> None:
    agent = row["agent"]
    mode = chance.choices(list(WEIGHTS), weights=list(WEIGHTS.values()))[0]
    fresh = int(chance.lognormvariate(9.2, 0.6) * DEARER[mode])
    share = HITS[agent] * chance.uniform(0.85, 1.1) * (0.75 if mode in ("replay", "recap", "fresh") else 1)
    read = int(fresh * min(0.95, share) / (1 - min(0.95, share)))
    output = int(chance.lognormvariate(6.6, 0.7))
    cost = (fresh * 3.6 + read * 0.3 + output * 15) / 1e6
    predicted = cost * chance.lognormvariate(-0.06, 0.22)
    saved = cost * chance.uniform(0.4, 1.5) if mode in ("resume", "branch") else None
    notices: list[str] = []
    if saved is not None and number % 67 == 0:
        saved = -cost * chance.uniform(0.3, 0.8)
        if number % 2:
            again = f"the prompt cache could not be used, so {fresh + read:,} tokens were paid"
            notices = [f"the model is another one than before: {again}"]
    told = json.loads(row["told"])
    usage = {"input": fresh // 20, "cache_read": read, "cache_write": fresh - fresh // 20, "output": output}
    version = VERSIONS[agent][0 if old else 1]
    told |= {
        "mode": mode,
        "usage": usage,
        "cost_usd": cost,
        "predicted_usd": predicted,
        "notices": notices,
        "notice_clauses": [[] for _ in notices],
        "agent_version": version,
    }
    told["saved"] |= {"usd": saved}
    started = int(moment.timestamp() * 1000)
    row |= {
        "id": f"00{number:024d}",
        "answer": None,
        "mode": mode,
        "told": json.dumps(told),
        "started_ms": started,
        "ended_ms": started + 40_000,
        "predicted_usd": predicted,
        "cost_usd": cost,
        "saved_usd": saved,
        "agent_version": version,
        **usage,
    }
    del row["key"]
    names = ", ".join(row)
    store.execute(f"INSERT INTO turns ({names}) VALUES ({', '.join('?' * len(row))})", tuple(row.values()))
