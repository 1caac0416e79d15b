"""The Python of the documentation: all of it passes a strict type checker, and runs as it stands."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from segue import Conversations, Flows, NativeSessions, Options, Runs, Segue
from tests.integration.conftest import Program

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SNIPPETS = {
    f"{page.stem.lower()}-{number}": code
    for page in PAGES
    for number, code in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S), 1)
}
RUN_ELSEWHERE = ("recipes-", "api-", "review-")
"""The recipes and the review have tests of their own, which run them. The bot needs a daemon."""
ADAPTER = "from segue.agents.rehearsal.adapter import AGENT as AGENT\n"
SESSIONS = ROOT / "tests" / "fixtures" / "sessions" / "rehearsal"
PROMISED = re.compile(r"print\(.*\)\s+# (.+)$", re.M)


def test_the_pages_have_their_examples() -> None:
    pages = [name.rpartition("-")[0] for name in SNIPPETS]
    assert {page: pages.count(page) for page in pages} == {
        "readme": 1,
        "agents": 2,
        "api": 1,
        "flows": 1,
        "library": 12,
        "recipes": 1,
        "rehearsal": 2,
        "review": 1,
    }


def test_the_library_page_names_every_option_and_method() -> None:
    page = (ROOT / "docs" / "library.md").read_text()
    kinds = (Segue, NativeSessions, Conversations, Runs, Flows)
    methods = [name for kind in kinds for name in vars(kind) if not name.startswith("_")]
    for name in {*Options.__annotations__, *methods} - {"workspace", "service", "finish"}:
        assert re.search(rf"`[^`]*\b{name}\b[^`]*`", page), name


def test_all_examples_are_typed(tmp_path: Path) -> None:
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "__init__.py").touch()
    (tmp_path / "my_package" / "adapter.py").write_text(ADAPTER)
    files = [tmp_path / f"{name.replace('-', '_')}.py" for name in SNIPPETS]
    for file, code in zip(files, SNIPPETS.values(), strict=True):
        file.write_text(code)
    cache = ROOT / ".mypy_cache" / "docs"
    argv = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        f"--cache-dir={cache}",
        *map(str, files),
    ]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", [name for name in SNIPPETS if not name.startswith(RUN_ELSEWHERE)])
def test_an_example_does_what_its_comments_say(name: str, segue: Program) -> None:
    """With the rehearsal agent in place of a real one."""
    code = SNIPPETS[name].replace('agent="claude"', 'agent="rehearsal"')
    if "my_package" in code:
        code = recorded_adapter(segue, code)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=segue.cwd,
        env=segue.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    promises = [line for line in PROMISED.findall(code) if "…" not in line]
    assert promises or name in ("readme-1", "agents-1", "agents-2")
    for promise in promises:
        assert promise in printed, (promise, printed)


def test_the_bot_does_what_its_comments_say(segue: Program) -> None:
    code = SNIPPETS["api-1"].replace('"agent": "claude"', '"agent": "rehearsal"')
    assert segue("serve", "--background", "--idle-exit", "120").code == 0
    try:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            cwd=segue.cwd,
            env=segue.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        assert segue("stop").code == 0
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == PROMISED.findall(code)


def recorded_adapter(segue: Program, code: str) -> str:
    """A package with an adapter, and runs of its program, as the page about adapters wants them."""
    package, recorded = segue.cwd / "my_package", segue.cwd / "recorded"
    package.mkdir()
    recorded.mkdir()
    (package / "adapter.py").write_text(ADAPTER)
    program = [sys.executable, "-m", "segue.rehearsal.agent"]
    for file, argv in {
        "good.jsonl": ["hello"],
        "failed.jsonl": ["[[error 500]]"],
        "version.txt": ["--version"],
        "help.txt": ["--help"],
    }.items():
        ran = subprocess.run(
            [*program, *([] if file.endswith("jsonl") else argv)],
            input=argv[0].encode() if file.endswith("jsonl") else b"",
            capture_output=True,
            cwd=segue.cwd,
            env=segue.env,
            check=False,
        )
        (recorded / file).write_bytes(ran.stdout)
    shutil.copytree(SESSIONS, recorded / "homes" / "rehearsal")
    (tested,) = re.findall(r"def (test_\w+)", code)
    return f"{code}\n{tested}()\n"
