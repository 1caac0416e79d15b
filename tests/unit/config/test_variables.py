from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from segue.config.load import load
from segue.core.errors import ConfigError


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "config.toml").write_text(
        "[continuity]\ngraft = 'any'\n[accounts.my-work]\nagent = 'claude'\nhome = '/x'\n"
    )
    return {"SEGUE_HOME": str(tmp_path), "HOME": "/home/someone"}


@pytest.mark.parametrize(
    ("name", "value", "section", "key", "wanted"),
    [
        ("SEGUE_CONTINUITY_GRAFT", "off", "continuity", "graft", "off"),
        ("SEGUE_CONTINUITY_GRAFT", "", "continuity", "graft", "any"),
        ("SEGUE_CONTINUITY_ENABLED", "off", "continuity", "enabled", False),
        ("SEGUE_CONTINUITY_ENABLED", "True", "continuity", "enabled", True),
        ("SEGUE_CONTINUITY_MODES", "resume, fresh", "continuity", "modes", ("resume", "fresh")),
        ("SEGUE_CONTINUITY_MODES", '["replay"]', "continuity", "modes", ("replay",)),
        ("SEGUE_CONTINUITY_MAX_SESSION_MB", "9", "continuity", "max_session_mb", 9),
        ("SEGUE_CONTINUITY_CONTEXT_THRESHOLD", "0.5", "continuity", "context_threshold", 0.5),
        ("SEGUE_DEFAULTS_TIMEOUT", "12", "defaults", "timeout", 12.0),
        ("SEGUE_DEFAULTS_MODEL", "7", "defaults", "model", "7"),
        ("SEGUE_STORE_URL", "postgresql://db/segue", "store", "url", "postgresql://db/segue"),
        ("SEGUE_STORE_URL", "", "store", "url", None),
        ("SEGUE_RECAP", "{ max_bytes = 2000 }", "recap", "max_bytes", 2000),
    ],
)
def test_a_variable_sets_a_key(
    env: dict[str, str], name: str, value: str, section: str, key: str, wanted: Any
) -> None:
    config = load(env | {name: value}, Path("/"))
    assert getattr(getattr(config, section), key) == wanted


def test_variables_reach_into_named_entries(env: dict[str, str]) -> None:
    config = load(
        env
        | {
            "SEGUE_ACCOUNTS_MY_WORK_HOME": "~/y",
            "SEGUE_ACCOUNTS_MY_WORK_PASS_ENV": "A,B",
            "SEGUE_ACCOUNTS_NEW_AGENT": "codex",
            "SEGUE_ACCOUNTS_NEW_ENV": '{ X = "1" }',
            "SEGUE_AGENTS_CLAUDE_COMMAND": "my-claude -x",
            "SEGUE_AGENTS_TOOL_COMMAND": '["tool", ["-m", "{model}"], "{prompt}"]',
            "SEGUE_PRICES": '{ "m-*" = { input = 1, output = 2 } }',
        },
        Path("/"),
    )
    assert config.accounts["my-work"].home == "/home/someone/y"
    assert config.accounts["my-work"].pass_env == ("A", "B")
    assert (config.accounts["new"].agent, config.accounts["new"].env) == ("codex", {"X": "1"})
    assert config.commands == {"claude": ("my-claude", "-x")}
    assert config.declared["tool"].command == ("tool", ("-m", "{model}"), "{prompt}")
    assert config.prices["m-*"].output == 2


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (
            "SEGUE_CONTINUITY_GRFT",
            "x",
            'SEGUE_CONTINUITY_GRFT: [continuity] has no key "grft"; did you mean "graft"?',
        ),
        ("SEGUE_CONTINUITY_GRAFT", "x", 'SEGUE_CONTINUITY_GRAFT: [continuity] graft must be "'),
        ("SEGUE_CONTINUITY_ENABLED", "maybe", "enabled must be true or false"),
        ("SEGUE_RETENTION_DAYS", "many", "SEGUE_RETENTION_DAYS: [retention] days must be a whole number"),
        (
            "SEGUE_ACCOUNTS_WORK_COLOUR",
            "x",
            'SEGUE_ACCOUNTS_WORK_COLOUR: [accounts] has no key "work_colour"',
        ),
        ("SEGUE_PRICES", "cheap", "SEGUE_PRICES: must be a TOML inline table"),
    ],
)
def test_a_wrong_variable_is_named(env: dict[str, str], name: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(env | {name: value}, Path("/"))
    assert said in refused.value.message


def test_a_wrong_key_of_the_file_is_still_the_files(env: dict[str, str]) -> None:
    (Path(env["SEGUE_HOME"]) / "config.toml").write_text("[continuity]\nretire_after = 'x'\n")
    with pytest.raises(ConfigError, match=r"^config\.toml:2: "):
        load(env | {"SEGUE_CONTINUITY_GRAFT": "off"}, Path("/"))


def test_other_variables_of_ours_are_left_alone(env: dict[str, str]) -> None:
    assert load(env | {"SEGUE_SEED": "1", "SEGUE_": "x"}, Path("/")).continuity.graft == "any"


def test_a_wrong_url_of_the_store_is_not_shown(env: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as refused:
        load(env | {"SEGUE_STORE_URL": "mysql://me:secret@db/x"}, Path("/"))
    assert refused.value.message == "SEGUE_STORE_URL: [store] url must begin with postgresql://"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("SEGUE_CONTINUTY_GRAFT", "SEGUE_CONTINUITY_GRAFT"),
        ("SEGUE_ACCOUNT_WORK_HOME", "SEGUE_ACCOUNTS_WORK_HOME"),
        ("SEGUE_DEFAULT_MODEL", "SEGUE_DEFAULTS_MODEL"),
        ("SEGUE_MODEL", "SEGUE_DEFAULTS_MODEL"),
        ("SEGUE_MAX_TURNS", "SEGUE_DEFAULTS_MAX_TURNS"),
        ("SEGUE_MAX_BYTES", "SEGUE_RECAP_MAX_BYTES"),
        ("SEGUE_HOMES", "SEGUE_HOME"),
    ],
)
def test_a_variable_that_was_meant_for_us_is_mentioned(env: dict[str, str], name: str, meant: str) -> None:
    config = load(env | {name: "x"}, Path("/"))
    assert config.mentions == (f"{name} has no effect; did you mean {meant}?",)
    assert config.remarks == config.misspelt


@pytest.mark.parametrize(
    "name",
    [
        *("SEGUE_HOME", "SEGUE_MARK", "SEGUE_DAEMON", "SEGUE_TEST_CACHE", "SEGUE_TEST_SEED", "SEGUE_SEED"),
        *("SEGUE_CONTINUITY_GRAFT", "SEGUE_WORKERS_OF_SOMEBODY_ELSE", "MY_SEGUE_MODEL", "SEGUE"),
    ],
)
def test_others_are_left_alone(env: dict[str, str], name: str) -> None:
    assert load({name: "", **env}, Path("/")).mentions == ()
