"""Native sessions: listed, paged, indexed and searched, beside what others take for the same work.

The corpus is made once (``bench.corpus``, about 1.8 GB in the cache), the peers come from PyPI
(``bench.peers``). Libraries are measured against libraries, in processes of their own, in turn in one run.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import corpus, peers
from bench.measure import ROOT, Row, compile_bytecode

ROUNDS = 3
SDK_LIST = """
import time
from claude_agent_sdk import list_sessions
began = time.perf_counter()
count = len(list_sessions())
print(time.perf_counter() - began, count)
"""
SDK_PAGE = f"""
import resource, time
from claude_agent_sdk import get_session_messages
began = time.perf_counter()
count = len(get_session_messages("{corpus.HUGE_ID}", limit=100))
print(time.perf_counter() - began, count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def measure() -> list[Row]:
    programs = peers.programs()
    compile_bytecode()
    many, huge = corpus.homes()
    with tempfile.TemporaryDirectory(dir=many.parent, prefix="scratch-") as folder:
        scratch = Path(folder)
        rows = _listing(many, programs, scratch)
        rows += _page(huge, programs, scratch)
        rows += _search(many, programs, scratch)
    return rows


def _listing(many: Path, programs: Path, scratch: Path) -> list[Row]:
    theirs: list[float] = []
    ours: list[dict[str, float]] = []
    for _ in range(ROUNDS):
        taken, count = _sdk(SDK_LIST, many, programs, scratch)
        theirs.append(taken)
        ours.append(_ours("listing", many))
        if not count == ours[-1]["count"] == corpus.SESSIONS:
            raise RuntimeError(f"the SDK lists {count} sessions, we {ours[-1]['count']}")
    sdk = statistics.median(theirs)
    cold, warm = (statistics.median(each[name] for each in ours) for name in ("cold", "warm"))
    shell_cold, shell_warm = _from_the_shell(many, scratch)
    return [
        _ratio("list 5,000 sessions, cold / claude-agent-sdk", cold, sdk, 0.5),
        _ratio("list 5,000 sessions, warm / claude-agent-sdk", warm, sdk, 0.05),
        _ratio("segue sessions ls --all --json, cold / the SDK's call", shell_cold, sdk, 0.5),
        _ratio("segue sessions ls --all --json, warm / the SDK's call", shell_warm, sdk, 0.15),
    ]


def _from_the_shell(many: Path, scratch: Path) -> tuple[float, float]:
    """The whole command, with the start of Python in it: for the first time, and when all is remembered."""
    cold: list[float] = []
    warm: list[float] = []
    for number in range(ROUNDS):
        home = scratch / f"shell-{number}"
        cold.append(_ls(many, home))
        warm += [_ls(many, home) for _ in range(3)]
    return statistics.median(cold), statistics.median(warm)


def _ls(many: Path, home: Path) -> float:
    home.mkdir(exist_ok=True)
    env = {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "HOME": str(home),
        "SEGUE_HOME": str(home / "segue"),
        "CLAUDE_CONFIG_DIR": str(many),
    }
    argv = [sys.executable, "-m", "segue", "sessions", "ls", "--all", "--json"]
    began = time.perf_counter()
    done = subprocess.run(argv, cwd=home, env=env, capture_output=True, check=True, timeout=600)
    taken = time.perf_counter() - began
    if (count := len(json.loads(done.stdout))) != corpus.SESSIONS:
        raise RuntimeError(f"{count} sessions were listed")
    return taken


def _page(huge: Path, programs: Path, scratch: Path) -> list[Row]:
    sdk, _, memory = _sdk(SDK_PAGE, huge, programs, scratch)
    ours = _ours("page", huge)
    times = sdk / ours["seconds"]
    seen = f"{times:,.0f} × ({ours['seconds'] * 1000:.1f} ms / {sdk:.1f} s)"
    rss = ours["rss"]
    return [
        Row("newest page of 1 GB, faster than the SDK", seen, "≥ 200 ×", times >= 200),
        Row("its memory", f"{rss / 1e6:.0f} MB (the SDK {memory / 1e6:,.0f} MB)", "< 100 MB", rss < 100e6),
    ]


def _search(many: Path, programs: Path, scratch: Path) -> list[Row]:
    copy, database = scratch / "copy", scratch / "index.db"
    _linked(many, copy)
    ours = _ours("indexing", copy, database)
    found = _ours("searching", copy, database)
    env = {
        "CLAUDE_PROJECTS_DIR": str(many / "projects"),
        "AGENTSVIEW_DATA_DIR": str(scratch / "agentsview"),
        "AGENTSVIEW_NO_DAEMON": "1",
        "AGENTSVIEW_TELEMETRY_ENABLED": "false",
        "AGENTSVIEW_DISABLE_UPDATE_CHECK": "1",
    }
    _, theirs = peers.alone([str(programs / "agentsview"), "sync"], scratch / "home", env)
    build, share = ours["build"], ours["size"] / corpus.BYTES
    seen = f"{build:.1f} s, {theirs / build:.1f} × faster than agentsview ({theirs:.0f} s)"
    return [
        Row("build the search index over 780 MB", seen, "≤ 25 s", build <= 25 and build < theirs),
        Row("its size", f"{share:.1%} of the corpus ({ours['size'] / 1e6:.0f} MB)", "≤ 25 %", share <= 0.25),
        _seconds("nothing changed, index again", ours["again"], 0.3),
        _seconds("one session 10 KB longer, index again", ours["grown"], 0.3),
        Row(
            "search, p95 of 100 queries",
            f"{found['p95'] * 1000:.0f} ms (median {found['median'] * 1000:.0f} ms, "
            f"worst {found['worst'] * 1000:.0f} ms, {found['found']:.0f} found something)",
            "< 50 ms",
            found["p95"] < 0.050,
        ),
    ]


def _sdk(script: str, home: Path, programs: Path, scratch: Path) -> list[float]:
    argv = [str(programs / "python"), "-c", script]
    said, _ = peers.alone(argv, scratch / "home", {"CLAUDE_CONFIG_DIR": str(home)})
    return [float(word) for word in said.split()]


def _ours(*args: str | Path) -> dict[str, Any]:
    argv = [sys.executable, "-m", "bench.sessions_child", *map(str, args)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=1_800)
    if done.returncode != 0:
        raise RuntimeError(f"{args[0]}: {done.stderr[-500:]}")
    decoded: dict[str, Any] = json.loads(done.stdout)
    return decoded


def _linked(many: Path, copy: Path) -> None:
    """The same files under other names: nothing is copied until one is written."""
    for path in many.rglob("*.jsonl"):
        target = copy / path.relative_to(many)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(path, target)


def _ratio(what: str, ours: float, theirs: float, goal: float) -> Row:
    seen = f"{ours / theirs:.3f} × ({ours * 1000:.0f} ms / {theirs * 1000:.0f} ms)"
    return Row(what, seen, f"≤ {goal} ×", ours <= goal * theirs)


def _seconds(what: str, taken: float, goal: float) -> Row:
    return Row(what, f"{taken * 1000:.0f} ms", f"< {goal} s", taken < goal)
