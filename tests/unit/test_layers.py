"""The house's rules: imports point downwards, the start is light, the public surface is guarded."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import segue
from segue.agents import registry

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
    "flows": {"turns", "runner", "store", "system", "core"},
    "accounts": {"turns", "sessions", "runner", "agents", "store", "config", "system", "core"},
    "app": {
        "client",
        "accounts",
        "flows",
        "turns",
        "sessions",
        "runner",
        "rehearsal",
        "agents",
        "store",
        "config",
        "system",
        "core",
    },
    "server": {"app", "config", "system", "core"},
    "cli": {"client", "app", "server", "config", "system", "core"},
}
STILL: dict[str, set[str]] = {}
"""What still points the wrong way. This list only gets shorter: an entry that is no longer true fails."""
HEAVY = (
    *("starlette", "uvicorn", "rich", "zstandard", "brotli", "psycopg", "dbos", "aiosql"),
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


NAMED = re.compile("|".join(name for name in registry.BUILT_IN if name != "rehearsal"), re.IGNORECASE)
NAMED_ELSEWHERE = {
    "core/prices.py",  # models
    # one of the protocols that the loopback model speaks
    *("rehearsal/cache.py", "rehearsal/server.py", "rehearsal/types.py", "rehearsal/wire/gemini.py"),
    "rehearsal/wire/responses.py",  # names of headers
}


def written(path: Path) -> set[str]:
    """The identifiers and texts of a file; what is only told (comments, docstrings) does not count."""
    tree = ast.parse(path.read_text())
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            found.add(node.value)
        for field in ("id", "attr", "name", "arg", "module"):
            found.add(str(getattr(node, field, None)))
    return found


def test_nobody_outside_of_its_folder_names_an_agent() -> None:
    files = [path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[0] != "agents"]
    files += SOURCE.glob("agents/*.py")
    named = {
        str(path.relative_to(SOURCE)): sorted(filter(NAMED.search, written(path)))
        for path in files
        if any(map(NAMED.search, written(path)))
    }
    assert named.pop("agents/registry.py") == sorted(
        text for item in registry.BUILT_IN.items() if "rehearsal" not in item for text in item
    )
    assert set(named) == NAMED_ELSEWHERE, named


@pytest.mark.parametrize("agent", registry.BUILT_IN)
def test_an_agent_knows_no_other_agent(agent: str) -> None:
    others = {f"segue.agents.{name}" for name in (*registry.BUILT_IN, "declared") if name != agent}
    for path in (SOURCE / "agents" / agent).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert not (node.module or "").startswith(tuple(others)), path


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


def test_a_turn_through_the_daemon_loads_little() -> None:
    """The time until the call is sent counts for every turn. Without ``site``, which loads what it likes."""
    heavy = ("typing", "socket", "selectors", "dataclasses", "asyncio", "click", "msgspec", "segue.app")
    modules = "segue.__main__, segue.cli.main, segue.cli.turn, segue.cli.turn_remote"
    code = f"import {modules}, sys\nprint(*(name for name in {heavy} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(SOURCE.parent)},
    )
    assert done.stdout.split() == []


def test_showing_a_turn_of_the_daemon_does_not_load_what_runs_turns() -> None:
    """It is loaded while the agent starts, and takes time away from it."""
    heavy = ("asyncio", "anyio", "sqlite3", "segue.app.engine", "segue.turns", "segue.store")
    code = (
        "from segue.cli.quick_start import load_msgspec\nload_msgspec()\n"
        "import segue.cli.render.remote_screen, sys\n"
        f"print(*(name for name in {heavy} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_version_alone_does_not_load_the_event_loop() -> None:
    heavy = ("asyncio", "msgspec", "segue.app")
    code = f"import segue.cli.main, sys\nprint(*(name for name in {heavy} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


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


def test_a_turn_loads_nothing_heavy_until_its_agent_starts(tmp_path: Path) -> None:
    """Looked at in a real turn, when its process is started."""
    probe = """
import sys
def started(event, args):
    if event in ("subprocess.Popen", "os.posix_spawn", "os.fork"):
        print(*sorted(sys.modules), file=sys.__stdout__, flush=True)
sys.addaudithook(started)
sys.argv = ["segue", "run", sys.argv[1], "hi", "--agent", "claude", "--quiet", "--timeout", "20"]
from segue.__main__ import main
main()
"""
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\necho '2.1.0 (Claude Code)'\n")
    program.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path), "SEGUE_HOME": str(tmp_path / "segue")}
    turn = [sys.executable, "-c", probe]
    for key in ("first", "second"):  # the first time, the program is looked at
        ran = subprocess.run(
            [*turn, key], capture_output=True, text=True, env=env, cwd=tmp_path, stdin=subprocess.DEVNULL
        )
    (started,) = ran.stdout.splitlines()
    ours = [name for name in started.split() if name.split(".")[0] == "segue"]
    assert "segue.runner.launch" in ours
    late = {"asyncio", "anyio", "ssl", "logging", "inspect", "typing_extensions"}
    assert not late & set(started.split()), "they are loaded while the agent starts"


MOVES = {
    "sessions/copies/chunks.py": {"rename"},  # it moves files aside that are complete, and back
    "app/sync.py": {"rename"},  # of conversations
    "server/routes_conversations.py": {"rename"},
}
"""Where the name of a function means something else, or is meant."""
STILL_BY_HAND: dict[str, set[str]] = {
    "agents/codex/format.py": {"now"},
    "agents/codex/repair.py": {"now"},
}
"""What does not go through ``system`` yet. This list only gets shorter."""


def by_hand(path: Path) -> set[str]:
    """How a file looks at the clock, throws dice or puts files in their places without ``system``."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            if name in ("time_ns", "urandom", "uuid4", "token_hex", "fsync", "rename"):
                found.add(name)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            called = ast.unparse(node.func)
            if called in ("time.time", "datetime.now", "os.replace"):
                found.add(node.func.attr)
            ours = ast.unparse(node.func.value) in ("self", "super()")
            if (
                node.func.attr == "replace" and len(node.args) == 1 and not (ours or node.keywords)
            ):  # of a path
                found.add("replace")
    return found


def test_the_clock_the_dice_and_whole_files_are_had_from_system() -> None:
    for path in sorted(SOURCE.rglob("*.py")):
        name = str(path.relative_to(SOURCE))
        if path.parent != SOURCE / "system":
            assert by_hand(path) <= MOVES.get(name, set()) | STILL_BY_HAND.get(name, set()), name


def test_what_is_done_by_hand_gets_less() -> None:
    for name, still in STILL_BY_HAND.items():
        assert (SOURCE / name).exists(), name
        assert still <= by_hand(SOURCE / name), f"{name}: take it off the list"


def test_the_architecture_page_names_files_that_exist() -> None:
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text()
    named = re.findall(r"`([a-z_<>/]+(?:\.py|/))`", page)
    assert len(named) > 40
    for name in named:
        if "<command>" not in name and not name.startswith("tests/"):
            path = name.replace("<agent>", "claude")
            assert (SOURCE / path).exists() or list(SOURCE.rglob(path)), name


SAYS = ("_found", "say")
"""Functions whose arguments are texts for the user."""


def calls_git(path: Path) -> list[int]:
    """The lines where a file starts git: by its name as an argument or the first word of a command."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        given = node.args if isinstance(node, ast.Call) and ast.unparse(node.func) not in SAYS else []
        given = node.elts[:1] if isinstance(node, ast.List | ast.Tuple) else given
        for each in given:
            first = each.values[0] if isinstance(each, ast.JoinedStr) and each.values else each
            words = first.value if isinstance(first, ast.Constant) else None
            is_command = isinstance(words, str) and re.match(r"(\S*/)?git(?: |$)", words)
            if is_command and words != "git snapshot":  # the label of an entry in a transcript
                found.append(each.lineno)
    return found


def test_git_is_called_in_one_place() -> None:
    """Elsewhere it would run hooks and filters of the repository."""
    found = {str(path.relative_to(SOURCE)): calls_git(path) for path in SOURCE.rglob("*.py")}
    assert [name for name, lines in found.items() if lines] == ["system/git.py"]


@pytest.mark.parametrize(
    "code",
    [
        'run(["git", "status"])',
        'run(("git", *words))',
        'run("git status", shell=True)',
        'run(f"git -C {place} status", shell=True)',
        'argv = ["/usr/bin/git"]',
        'which("git")',
    ],
)
def test_a_call_of_git_is_found(code: str, tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(f"{code}\n")
    assert calls_git(tmp_path / "code.py") == [1]
