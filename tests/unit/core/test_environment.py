from __future__ import annotations

from typing import Any

import pytest

from segue.agents.registry import variables
from segue.core.environment import OURS, ChildEnvironment, login_hint, looks_secret
from segue.core.environment import child_environment as environment_of

KEYS = variables().keys

LONG = "v" * 24


def child_environment(parent: dict[str, str], **more: Any) -> ChildEnvironment:
    """With the variables of the agents that come with Segue."""
    return environment_of(parent, variables(), **more)


def test_the_six_keys_are_always_withheld() -> None:
    parent = {key: f"value-of-{key}" for key in KEYS} | {"PATH": "/bin", "EDITOR": "vi"}
    child = child_environment(parent)
    assert child.env == {"PATH": "/bin", "EDITOR": "vi"}
    assert child.withheld == KEYS
    assert set(child.secrets) == {f"value-of-{key}" for key in KEYS}
    assert KEYS == (
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "GOOGLE_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_CLOUD_API_KEY",
        "MISTRAL_API_KEY",
    )


def test_an_agent_withholds_keys_of_its_own() -> None:
    child = child_environment({"MYTOOL_LOGIN": "a-long-value"}, keys_withheld=["MYTOOL_LOGIN"])
    assert child.env == {}
    assert child.withheld == ("MYTOOL_LOGIN",)
    assert child.secrets == ("a-long-value",)


@pytest.mark.parametrize(
    "name",
    [
        "SEGUE_HOME",
        "SEGUE_CONTINUITY_GRAFT",
        "CLAUDECODE",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_SSE_PORT",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_CODE_CHILD_SESSION",
        "CLAUDE_CODE_SESSION_ATTENDED",
        "CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR",
        "CLAUDE_PID",
        "AI_AGENT",
        "CODEX_SANDBOX",
        "CODEX_SANDBOX_NETWORK_DISABLED",
        "CODEX_THREAD_ID",
        "CODEX_INTERNAL_ORIGINATOR_OVERRIDE",
        "GEMINI_CLI",
        "GEMINI_CLI_NO_RELAUNCH",
        "GEMINI_CLI_IDE_SERVER_PORT",
    ],
)
def test_marks_and_our_own_variables_do_not_reach_the_child(name: str) -> None:
    child = child_environment({name: "1", "LANG": "C"})
    assert child.env == {"LANG": "C"}
    assert child.withheld == ()
    assert child_environment({name: "1"}, pass_env=[name]).env == ({} if OURS in name else {name: "1"})


def test_an_account_sets_none_of_our_variables() -> None:
    assert child_environment({}, account_env={"SEGUE_MARK": "x", "SEGUE_HOME": "/", "A": "1"}).env == {
        "A": "1"
    }


@pytest.mark.parametrize(
    "name",
    [
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
        "CLAUDE_CONFIG_DIR",
        "CLAUDE_ENV_FILE",
        "CODEX_HOME",
        "CODEX_CA_CERTIFICATE",
        "GEMINI_CLI_SYSTEM_SETTINGS_PATH",
        "GEMINI_CLI_HOME",
        "VIBE_HOME",
        "VIBE_ACTIVE_MODEL",
        "ANTHROPIC_BASE_URL",
        "HTTPS_PROXY",
        "SEGUEWAY",
    ],
)
def test_configuration_of_the_agents_stays(name: str) -> None:
    assert not variables().is_mark(name)
    assert child_environment({name: "1"}).env == {name: "1"}


def test_an_account_sets_variables_and_lets_keys_through() -> None:
    parent = {"ANTHROPIC_API_KEY": "from-the-caller", "OPENAI_API_KEY": "another-key", "A": "1"}
    child = child_environment(
        parent, account_env={"A": "2", "B": "~/x"}, pass_env=["ANTHROPIC_API_KEY", "ABSENT"]
    )
    assert child.env == {"ANTHROPIC_API_KEY": "from-the-caller", "A": "2", "B": "~/x"}
    assert child.withheld == ("OPENAI_API_KEY",)


def test_a_key_the_account_sets_itself_is_not_called_withheld() -> None:
    child = child_environment(
        {"OPENAI_API_KEY": "callers-key"}, account_env={"OPENAI_API_KEY": "accounts-key"}
    )
    assert child.env == {"OPENAI_API_KEY": "accounts-key"}
    assert child.withheld == ()
    assert set(child.secrets) == {"callers-key", "accounts-key"}


def test_an_empty_key_is_dropped_but_not_missed() -> None:
    child = child_environment({"OPENAI_API_KEY": ""})
    assert (child.env, child.withheld, child.secrets) == ({}, (), ())


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("MY_TOKEN", "12345678", True),
        ("MY_TOKEN", "1234567", False),
        ("DB_PASSWORD", "postgres", True),
        ("APIKEY", "abcdefgh", True),
        ("PROXY_AUTH_HEADER", "abcdefgh", True),
        ("PUBLIC_KEY", "abcdefgh", False),
        ("BASE_URL", "http://127.0.0.1:1", False),
        ("KEYBOARD", "abcdefgh", False),
    ],
)
def test_an_accounts_secrets_are_known_by_their_names(name: str, value: str, secret: bool) -> None:
    assert child_environment({}, account_env={name: value}).secrets == ((value,) if secret else ())
    assert child_environment({name: value}, pass_env=[name]).secrets == ((value,) if secret else ())


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("GITHUB_TOKEN", LONG, True),
        ("AWS_SECRET_ACCESS_KEY", LONG, True),
        ("CLAUDE_CODE_OAUTH_TOKEN", LONG, True),
        ("DB_PASSWORD", "postgres", False),
        ("SSH_AUTH_SOCK", "/tmp/ssh-abcdefgh/agent.1", False),
        ("GOOGLE_APPLICATION_KEY_FILE", "/a/very/long/path/key.json", False),
        ("SIGNING_PUBLIC_KEY", LONG, False),
    ],
)
def test_inherited_secrets_are_hidden_unless_they_may_be_words_or_paths(
    name: str, value: str, secret: bool
) -> None:
    child = child_environment({name: value})
    assert child.env == {name: value}
    assert child.secrets == ((value,) if secret else ())


def test_longer_secrets_come_first() -> None:
    child = child_environment({}, account_env={"A_KEY": "abcdefgh", "B_KEY": "abcdefgh-longer"})
    assert child.secrets == ("abcdefgh-longer", "abcdefgh")


def test_the_parent_is_not_changed() -> None:
    parent = {"OPENAI_API_KEY": "callers-key", "A": "1"}
    child_environment(parent, account_env={"A": "2"})
    assert parent == {"OPENAI_API_KEY": "callers-key", "A": "1"}


def test_looks_secret_reads_words_in_any_case() -> None:
    assert looks_secret("my_secret_value")
    assert not looks_secret("MONKEYS")


def test_the_hint_names_the_key_and_the_way() -> None:
    with_account = login_hint("Claude", ["ANTHROPIC_API_KEY"], "work", "claude")
    assert with_account is not None
    assert 'pass_env = ["ANTHROPIC_API_KEY"]' in with_account
    assert "[accounts.work]" in with_account
    without = login_hint("Codex", ("OPENAI_API_KEY", "CODEX_API_KEY"), None)
    assert without is not None
    assert 'agent = "codex"' in without
    assert 'pass_env = ["OPENAI_API_KEY", "CODEX_API_KEY"]' in without
    assert "--account NAME" in without
    assert "\n" not in without


def test_no_key_no_hint() -> None:
    assert login_hint("Claude", (), "work") is None


def test_the_key_of_a_rehearsal_is_the_agents_own_login() -> None:
    staged = {"REHEARSAL_API_KEY": LONG, "ANTHROPIC_API_KEY": LONG, "OPENAI_API_KEY": "a-real-one"}
    child = child_environment(staged)
    assert (child.env["ANTHROPIC_API_KEY"], child.withheld) == (LONG, ("OPENAI_API_KEY",))
    assert "OPENAI_API_KEY" not in child.env
    assert LONG in child.secrets
    nothing = child_environment({"REHEARSAL_API_KEY": "", "ANTHROPIC_API_KEY": ""})
    assert "ANTHROPIC_API_KEY" not in nothing.env
