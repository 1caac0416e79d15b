from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from segue.config.load import load
from segue.config.schema import Account, Config
from segue.core.errors import ConfigError
from segue.core.situation import Policy
from segue.core.usage import Price

EXAMPLE = """\
[continuity]
enabled = true
modes = ["resume", "branch", "replay", "recap", "fresh"]
graft = "account"
history = "own"
ttl_minutes = 30
context_threshold = 1
max_session_mb = 10
retire_after = 3
on_model_change = "replay"

[recap]
max_bytes = 12000

[retention]
days = 0

[store]
url = "postgresql://me@db/segue"

[defaults]
agent = "claude"
permission = "read"
timeout = 90

[accounts.work]
agent = "claude"
home = "~/.claude-work"
env = { ANTHROPIC_BASE_URL = "http://127.0.0.1:8399" }
pass_env = ["ANTHROPIC_API_KEY"]

[agents.claude]
command = "my-claude --flag 'a b'"

[agents.codex]
command = ["codex-next"]

[agents.mytool]
command = "mytool {prompt}"

[agents.other]
command = ["other"]
stdin = "prompt"
output = "json"
text = { path = "$.text" }

[prices."my-*"]
input = 1
output = 2.5
dated = 2026-01-02
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "home").mkdir()
    return {"SEGUE_HOME": str(tmp_path / "home"), "HOME": "/home/someone"}


def write(env: dict[str, str], text: str | bytes) -> None:
    path = Path(env["SEGUE_HOME"]) / "config.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())


def refusal(env: dict[str, str], cwd: Path) -> str:
    with pytest.raises(ConfigError) as refused:
        load(env, cwd)
    assert "\n" not in refused.value.message
    return refused.value.message


def test_without_files_all_is_default(env: dict[str, str], tmp_path: Path) -> None:
    assert load(env, tmp_path) == Config()
    assert load({"HOME": str(tmp_path)}, tmp_path) == Config()


def test_the_whole_example_is_read(env: dict[str, str], tmp_path: Path) -> None:
    write(env, EXAMPLE)
    config = load(env, tmp_path)
    assert config.continuity == Policy(
        graft="account",
        history="own",
        ttl_minutes=30,
        context_threshold=1.0,
        max_session_mb=10,
        retire_after=3,
        on_model_change="replay",
    )
    assert (config.recap.max_bytes, config.retention.days) == (12000, 0)
    assert config.store.url == "postgresql://me@db/segue"
    assert (config.defaults.agent, config.defaults.permission, config.defaults.timeout) == (
        "claude",
        "read",
        90,
    )
    assert config.accounts == {
        "work": Account(
            agent="claude",
            home="/home/someone/.claude-work",
            env={"ANTHROPIC_BASE_URL": "http://127.0.0.1:8399"},
            pass_env=("ANTHROPIC_API_KEY",),
        )
    }
    assert config.commands == {"claude": ("my-claude", "--flag", "a b"), "codex": ("codex-next",)}
    assert set(config.declared) == {"mytool", "other"}
    assert config.declared["mytool"].command == ("mytool", "{prompt}")
    assert [where.path for where in config.declared["other"].text] == ["$.text"]
    assert config.prices == {"my-*": Price(1, 2.5, dated="2026-01-02")}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '\n[continuity]\ngrft = "off"',
            'config.toml:3: [continuity] has no key "grft"; did you mean "graft"?',
        ),
        ("[continuty]\na=1", 'config.toml:1: has no section "continuty"; did you mean "continuity"?'),
        ("[continuity]\nzzz = 1", "known: enabled, modes, graft"),
        (
            '# x\n[continuity]\ngraft = "maybe"',
            'config.toml:3: [continuity] graft must be "account" or "any" or "off", not "maybe"',
        ),
        (
            '[continuity]\nenabled = "yes"',
            'config.toml:2: [continuity] enabled must be true or false, not "yes"',
        ),
        (
            "[continuity]\n\nretire_after = 0",
            "config.toml:3: [continuity] retire_after must be a whole number of at least 1, not 0",
        ),
        ("[continuity]\ncontext_threshold = 1.5", "must be a number above 0 and of at most 1, not 1.5"),
        (
            '[continuity]\nmodes = ["resume",\n"fly"]',
            'config.toml:2: [continuity] modes must be a list, each "branch" or',
        ),
        ("[retention]\ndays = 1.5", "must be a whole number of at least 0, not 1.5"),
        ("[defaults]\ntimeout = -1", "timeout must be a number above 0, not -1"),
        ('[defaults]\npermission = "sudo"', '"default" or "edit" or "full" or "read", not "sudo"'),
        ("continuity = 1", "config.toml:1: continuity must be a table"),
        ("[accounts]\nwork = 1", "config.toml:2: accounts.work must be a table"),
        ("[accounts.work]\nhome = '/x'", "config.toml:1: [accounts.work] needs agent"),
        (
            "[accounts.work]\nagent='claude'\nhome = 'x/y'",
            "config.toml:3: [accounts.work] home must be absolute",
        ),
        (
            "[accounts.work]\nagent='claude'\nhoem = '/x'",
            'config.toml:3: [accounts.work] has no key "hoem"; did you mean "home"?',
        ),
        (
            "[accounts.work]\nagent='claude'\nenv = { A = 1 }",
            "config.toml:3: [accounts.work] env must be a table, each value a text",
        ),
        (
            "[accounts.work]\nagent='claude'\npass_env = ['A=B']",
            'has "A=B", which is not the name of a variable',
        ),
        ("[accounts.'a b']\nagent='claude'", 'config.toml:1: "a b" cannot be a name here'),
        ("[accounts.-x]\nagent='claude'", '"-x" cannot be a name here'),
        (
            "[agents.claude]\noutput = 'json'",
            'config.toml:2: [agents.claude] has no key "output"; claude is built in',
        ),
        ("[agents.claude]\ncommand = []", "config.toml:2: [agents.claude] command must be a program"),
        ('[agents.claude]\ncommand = "it\'s"', "config.toml:2: [agents.claude] command cannot be split"),
        (
            "[agents.my]\ncommand = 'my'\nstdin = 'promt'",
            'config.toml:3: [agents.my] stdin must be "none" or "prompt", not "promt"',
        ),
        (
            "[agents.my]\ncommand = 'my'\nlabel = 'My'",
            "config.toml:1: [agents.my] command does not get the prompt",
        ),
        (
            "[agents.my]\ncommand='my {prompt}'\noutput='json'\ntext = {path='$.a', wen=1}",
            'config.toml:4: [agents.my] text has no key "wen"',
        ),
        (
            "[agents.my]\ncommand='my {prompt}'\noutput='json'\ntext = {path='$.a b'}",
            "config.toml:4: [agents.my] text ",
        ),
        ("[prices.'x']\ninput = 1", "config.toml:1: [prices.x] needs output"),
        (
            "[prices.'x']\ninput = -1\noutput = 1",
            "config.toml:2: [prices.x] input must be a number of at least 0",
        ),
        ("[prices.'x']\ninput = 1\noutput = nan", "config.toml:3: [prices.x] output"),
        ("[recap]\nmax_bytes = ", "config.toml:2: is not TOML: invalid value"),
        ("a = 1\n[recap\n", "config.toml:2: is not TOML: expected ']'"),
        ("[recap]\nx = 1\n[recap]", "config.toml:3: is not TOML: cannot declare"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_with_its_place(
    env: dict[str, str], tmp_path: Path, text: str, said: str
) -> None:
    write(env, text)
    assert said in refusal(env, tmp_path)


def test_a_file_that_is_not_utf8_is_named_with_the_byte(env: dict[str, str], tmp_path: Path) -> None:
    write(env, b"[recap]\n# caf\xe9\n")
    assert refusal(env, tmp_path).startswith("config.toml:2: is not UTF-8 (byte 0xe9 at offset 13)")


@pytest.mark.parametrize("text", ["\ufeff[recap]\nmax_bytes = 2000\n", "[recap]\r\nmax_bytes = 2000\r\n"])
def test_files_of_other_editors_are_read(env: dict[str, str], tmp_path: Path, text: str) -> None:
    write(env, text)
    assert load(env, tmp_path).recap.max_bytes == 2000


def test_a_file_that_cannot_be_read_is_an_error(env: dict[str, str], tmp_path: Path) -> None:
    (Path(env["SEGUE_HOME"]) / "config.toml").mkdir()
    assert refusal(env, tmp_path).endswith("config.toml: Is a directory")


def test_reading_nothing_imports_no_parser(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from segue.config.load import load;"
        f"load({{'SEGUE_HOME': {str(tmp_path)!r}}}, Path('/'));"
        "print([m for m in ('tomllib', 'difflib', 'shlex', 'platformdirs') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env={})
    assert done.stdout.strip() == "[]"
