"""Agents by name."""

import subprocess
import sys
from pathlib import Path

import pytest

from segue.agents import registry
from segue.agents.base import Agent
from segue.agents.declared.adapter import Declared
from segue.config.declared import DeclaredAgent
from segue.config.schema import Config, built_in_agents
from segue.core.errors import Misuse

CONFIG = Config(declared={"mytool": DeclaredAgent(command=("mytool",), stdin="prompt")})


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package that brings agents."""
    info = tmp_path / "thirdparty-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: thirdparty\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[segue.agents]\ngood = third_good\nobject = third_object:IT\nbroken = third_broken\n"
        "odd = third_odd:X\nalias = third_good\nclaude = third_broken\n"
    )
    make = (
        "from segue.agents.declared.adapter import Declared\n"
        "from segue.config.declared import DeclaredAgent\n"
    )
    made = 'Declared("{}", DeclaredAgent(command=("x",), stdin="prompt"))\n'
    (tmp_path / "third_good.py").write_text(f"{make}AGENT = {made.format('good')}")
    (tmp_path / "third_object.py").write_text(f"{make}IT = {made.format('object')}")
    (tmp_path / "third_broken.py").write_text("raise RuntimeError('two\\nlines')")
    (tmp_path / "third_odd.py").write_text("X = 3")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_the_built_in_names_are_those_the_configuration_knows() -> None:
    assert set(registry.BUILT_IN) == built_in_agents()


def test_a_built_in_agent() -> None:
    agent = registry.get("rehearsal", Config())
    assert isinstance(agent, Agent)
    assert agent.facts.name == "rehearsal"


def test_a_declared_agent() -> None:
    agent = registry.get("mytool", CONFIG)
    assert isinstance(agent, Declared)
    assert isinstance(agent, Agent)
    assert agent.facts.name == "mytool"


def test_an_unknown_name_gets_the_nearest_one_and_all() -> None:
    with pytest.raises(Misuse) as raised:
        registry.get("claud", CONFIG)
    said = str(raised.value)
    assert said.startswith('there is no agent "claud"; did you mean claude? Known: claude, codex, gemini,')
    assert "mytool" in said


def test_an_unknown_name_that_is_near_to_nothing() -> None:
    with pytest.raises(Misuse, match=r'^there is no agent "zzzz"\. Known: claude, '):
        registry.get("zzzz", Config())


@pytest.mark.parametrize("name", ["good", "object"])
def test_a_package_brings_an_agent(package: Path, name: str) -> None:
    assert registry.get(name, Config()).facts.name == name


def test_all_names_each_once_in_the_order_of_looking(package: Path) -> None:
    assert registry.names(CONFIG) == (
        *registry.BUILT_IN,
        "mytool",
        "alias",
        "broken",
        "good",
        "object",
        "odd",
    )


def test_a_package_cannot_take_the_place_of_a_built_in_agent(package: Path) -> None:
    assert type(registry.get("claude", Config())).__module__ == "segue.agents.claude.adapter"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("broken", "cannot be loaded (RuntimeError: two lines); update or uninstall it"),
        ("odd", "is not an agent adapter"),
        ("alias", 'calls itself "good"'),
    ],
)
def test_a_broken_package_is_one_clear_line(package: Path, name: str, says: str) -> None:
    with pytest.raises(Misuse) as raised:
        registry.get(name, Config())
    said = str(raised.value)
    assert said.startswith(f'the agent "{name}" of thirdparty (third_')
    assert says in said
    assert "\n" not in said


def test_a_built_in_agent_is_found_without_searching_packages() -> None:
    code = """
import sys
from segue.agents import registry
from segue.config.schema import Config
assert "segue.agents.rehearsal.adapter" not in sys.modules
registry.get("rehearsal", Config())
loaded = set(sys.modules)
assert "segue.agents.rehearsal.adapter" in loaded
heavy = {"importlib.metadata", "difflib", "segue.agents.claude.adapter", "segue.agents.declared.adapter"}
print(sorted(loaded & heavy))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
