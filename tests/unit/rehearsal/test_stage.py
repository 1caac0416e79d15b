"""Pointing a CLI at the model: files that parse, variables under the home, dummy keys."""

import json
import tomllib
from pathlib import Path

import pytest

from segue.agents import registry
from segue.config.schema import Config
from segue.core.request import ModelAddress, Pointing
from segue.rehearsal.stage import stage

URL = "http://127.0.0.1:8399"
HOME = Path("/somewhere/home")
KEY = "the-models-own-key"


def point_at_model(agent: str, url: str, home: Path, *, key: str, retries: int | None = None) -> Pointing:
    pointing = registry.get(agent, Config()).rehearse(ModelAddress(url, key, retries), home)
    assert pointing is not None
    return pointing


@pytest.mark.parametrize(
    ("agent", "variable"),
    [
        ("claude", "CLAUDE_CONFIG_DIR"),
        ("codex", "CODEX_HOME"),
        ("gemini", "GEMINI_CLI_HOME"),
        ("vibe", "VIBE_HOME"),
    ],
)
def test_each_agent_lives_under_its_home(agent: str, variable: str) -> None:
    pointing = point_at_model(agent, URL, HOME, key=KEY)
    assert pointing.env[variable] == str(HOME)
    assert all(not path.is_absolute() for path in pointing.files)
    everything = "".join((*pointing.env.values(), *pointing.files.values()))
    assert URL in everything
    assert KEY in pointing.env.values()
    assert URL + "//" not in everything


def test_codex() -> None:
    config = tomllib.loads(point_at_model("codex", URL, HOME, key=KEY, retries=2).files[Path("config.toml")])
    provider = config["model_providers"][config["model_provider"]]
    assert provider["base_url"] == f"{URL}/v1"
    assert (provider["request_max_retries"], provider["stream_max_retries"]) == (2, 2)
    assert provider["env_key"] in point_at_model("codex", URL, HOME, key=KEY).env


def test_gemini() -> None:
    settings = json.loads(
        point_at_model("gemini", URL, HOME, key=KEY, retries=1).files[Path(".gemini/settings.json")]
    )
    assert settings["general"]["maxAttempts"] == 2
    assert settings["security"]["auth"]["selectedType"] == "gemini-api-key"


def test_vibe() -> None:
    config = tomllib.loads(point_at_model("vibe", URL, HOME, key=KEY, retries=2).files[Path("config.toml")])
    assert config["api_retry_max_elapsed_time"] == 4.0
    assert config["models"][0]["provider"] == config["providers"][0]["name"]


def test_claude() -> None:
    assert point_at_model("claude", URL, HOME, key=KEY, retries=3).env["CLAUDE_CODE_MAX_RETRIES"] == "3"
    assert "CLAUDE_CODE_MAX_RETRIES" not in point_at_model("claude", URL, HOME, key=KEY).env


def test_an_agent_that_nobody_can_point_at_a_model_is_left_out(tmp_path: Path) -> None:
    staged = stage(
        ModelAddress(URL, KEY), tmp_path, {"tiger": lambda model, home: None}, registry.variables()
    )
    assert staged.by_agent == {}
    assert not (tmp_path / "tiger").exists()


def test_files_are_written_under_the_home(tmp_path: Path) -> None:
    agents = {"gemini": registry.get("gemini", Config()).rehearse}
    stage(ModelAddress(URL + "/", KEY), tmp_path, agents, registry.variables())
    assert json.loads((tmp_path / "gemini/.gemini/settings.json").read_text())
    assert URL + "/" not in (tmp_path / "segue/config.toml").read_text()
