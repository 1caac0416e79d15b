"""The house's rules: imports point downwards, the start is light, the public surface is guarded."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import segue

SOURCE = Path(segue.__file__).parent
BELOW: dict[str, set[str]] = {
    "core": set(),
    "system": {"core"},
    "config": {"system", "core"},
    "rehearsal": {"system", "core"},
    "agents": {"config", "system", "core"},
    "testing": {"agents", "config", "system", "core"},
    "store": {"config", "system", "core"},
    "runner": {"agents", "config", "system", "core"},
    "sessions": {"runner", "rehearsal", "agents", "store", "config", "system", "core"},
    "turns": {"sessions", "runner", "agents", "store", "config", "system", "core"},
    "app": {"turns", "sessions", "runner", "rehearsal", "agents", "store", "config", "system", "core"},
    "cli": {"app", "config", "system", "core"},
}
STILL: dict[str, set[str]] = {
    "sessions/repair.py": {"turns"},
}
"""What still points the wrong way. This list only gets shorter: an entry that is no longer true fails."""
HEAVY = (
    *("starlette", "uvicorn", "rich", "zstandard", "psycopg", "dbos", "aiosql"),
    *("importlib.metadata", "hypothesis"),
)


def imported(path: Path) -> set[str]:
    """The packages of ours that a file imports, at the top or inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        found |= {name.split(".")[1] for name in names if name.startswith("segue.")}
    return found


@pytest.mark.parametrize("package", BELOW)
def test_imports_point_downwards(package: str) -> None:
    for path in sorted((SOURCE / package).rglob("*.py")):
        name = str(path.relative_to(SOURCE))
        assert imported(path) - BELOW[package] - {package} == STILL.get(name, set()), name


def test_every_package_has_its_place() -> None:
    packages = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert packages == set(BELOW)


@pytest.mark.parametrize("package", sorted(BELOW))
def test_no_module_reaches_into_anothers_private_names(package: str) -> None:
    for path in sorted((SOURCE / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("segue."):
                private = [alias.name for alias in node.names if alias.name.startswith("_")]
                assert not [name for name in private if not name.startswith("__")], f"{path}: {private}"


@pytest.mark.parametrize(
    "code",
    [
        "import segue",
        "from segue.cli.main import main; import sys; sys.argv = ['segue', '--version']\n"
        "try: main()\nexcept SystemExit: pass",
        "import segue.cli.run, segue.cli.turn_live, segue.turns.turn, segue.agents.claude.adapter",
        "import segue.rehearsal.agent.__main__",
    ],
)
def test_the_start_imports_nothing_heavy(code: str) -> None:
    probe = f"{code}\nimport sys\nprint('MODULES', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    modules = done.stdout.rpartition("MODULES")[2].split()
    assert not [name for name in modules if name in HEAVY or name.split(".")[0] in HEAVY]


def test_the_version_alone_does_not_load_the_event_loop() -> None:
    code = "import segue.cli.main, sys\nprint('asyncio' in sys.modules, 'msgspec' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_the_connection_to_the_database_is_the_stores_own() -> None:
    """``store`` is methods on ``Store``: nobody else sees the connection, and no function is given it."""
    for path in sorted(SOURCE.rglob("*.py")):
        tree, inside = ast.parse(path.read_text()), path.parent == SOURCE / "store"
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in ("db", "_db"):
                assert (inside, node.attr) == (True, "_db"), f"{path}:{node.lineno}"
        if not inside or path.name == "migrate.py":  # there is no store yet when it is migrated
            continue
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = [ast.unparse(arg.annotation) for arg in node.args.args if arg.annotation is not None]
                assert "Database" not in given, f"{path}: {node.name}"


def test_the_command_line_takes_only_public_names_from_the_root() -> None:
    for path in sorted((SOURCE / "cli").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "segue":
                assert {alias.name for alias in node.names} <= set(segue.__all__), path


LOADED = 112
"""How many modules of ours a turn may load before its process is started."""
AMBIENT = ("os.environ", "Path.cwd", "os.getcwd")
OWN_PROGRAMS = ("cli/", "__main__.py", "rehearsal/agent/__main__.py", "testing/conformance.py")


def test_environment_and_directory_are_carried_by_the_request() -> None:
    """Only the command line asks the process for them; and the library, once, when it is constructed."""
    for path in sorted(SOURCE.rglob("*.py")):
        name = str(path.relative_to(SOURCE))
        if name.startswith(OWN_PROGRAMS):
            continue
        allowed = _constructor(path) if name == "app/segue.py" else ()
        used = [
            node.lineno
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Attribute) and ast.unparse(node) in AMBIENT
        ]
        assert not [line for line in used if line not in allowed], name


def _constructor(path: Path) -> range:
    """The lines of ``Segue.__init__``."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            return range(node.lineno, (node.end_lineno or 0) + 1)
    raise AssertionError(path)


def test_a_turn_loads_few_modules_until_its_agent_starts(tmp_path: Path) -> None:
    """Each costs a look at the disk. Counted in a real turn, when its process is started."""
    probe = """
import sys
def started(event, args):
    if event in ("subprocess.Popen", "os.posix_spawn", "os.fork"):
        ours = sorted(name for name in sys.modules if name.split(".")[0] == "segue")
        print(len(ours), *ours, file=sys.__stdout__, flush=True)
sys.addaudithook(started)
sys.argv = ["segue", "run", "k", "hi", "--agent", "claude", "--quiet", "--timeout", "20"]
from segue.__main__ import main
main()
"""
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\necho '2.1.0 (Claude Code)'\n")
    program.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path), "SEGUE_HOME": str(tmp_path / "segue")}
    turn = [sys.executable, "-c", probe]
    for _ in range(2):  # the first time, the program is looked at
        ran = subprocess.run(
            turn, capture_output=True, text=True, env=env, cwd=tmp_path, stdin=subprocess.DEVNULL
        )
    (started,) = ran.stdout.splitlines()
    count, *modules = started.split()
    assert "segue.runner.launch" in modules
    assert int(count) <= LOADED, modules
