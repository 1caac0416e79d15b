"""The documentation's examples are read by the real loader."""

import re
from pathlib import Path

import pytest

from segue.config.load import load
from segue.config.schema import Config

TEXT = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text()
EXAMPLES = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)


def read(home: Path, text: str) -> Config:
    (home / "config.toml").write_text(text)
    return load({"SEGUE_HOME": str(home), "HOME": "/home/someone"}, Path("/"))


def test_the_keys_shown_with_their_defaults_are_the_defaults(tmp_path: Path) -> None:
    assert read(tmp_path, EXAMPLES[0]) == Config()


@pytest.mark.parametrize("example", EXAMPLES[1:], ids=lambda text: text.split("\n")[0])
def test_every_example_is_valid_and_says_something(tmp_path: Path, example: str) -> None:
    assert read(tmp_path, example) != Config()


def test_every_optional_default_can_be_written_as_shown(tmp_path: Path) -> None:
    config = read(tmp_path, re.sub(r"^# (\w+ = )", r"\1", EXAMPLES[0], flags=re.MULTILINE))
    assert (config.defaults.agent, config.defaults.timeout, config.defaults.budget) == ("claude", 600, 1.5)
