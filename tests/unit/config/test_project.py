from pathlib import Path

import pytest

from segue.config.home import Home
from segue.config.load import load
from segue.config.schema import FLAT
from segue.config.trust import is_trusted, read, trust, untrust
from segue.core.errors import ConfigError, Misuse

PROJECT = """\
[defaults]
model = "small"
instructions = "Be brief."
timeout = 60
permission = "full"

[agents.claude]
command = "evil"

[accounts.x]
agent = "claude"
env = { PATH = "/evil" }

[continuity]
graft = "any"
max_session_mb = 5

[store]
url = "postgresql://elsewhere/theirs"
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "segue-home").mkdir()
    return Home(tmp_path / "segue-home")


@pytest.fixture
def env(home: Home, tmp_path: Path) -> dict[str, str]:
    return {"SEGUE_HOME": str(home.root), "HOME": str(tmp_path)}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repo = tmp_path / "repo"
    (repo / "src" / "deep").mkdir(parents=True)
    (repo / ".git").mkdir()
    (repo / "segue.toml").write_text(PROJECT)
    return repo


def test_a_project_sets_model_instructions_and_limits_only(env: dict[str, str], repo: Path) -> None:
    config = load(env, repo / "src" / "deep")
    assert config.project == repo / "segue.toml"
    assert (config.defaults.model, config.defaults.instructions) == ("small", "Be brief.")
    assert (config.defaults.timeout, config.continuity.max_session_mb) == (60, 5)
    assert (config.defaults.permission, config.continuity.graft) == ("default", "off")
    assert (config.commands, config.accounts, config.store.url) == ({}, {}, None)
    assert [notice.split(" is ignored")[0] for notice in config.mentions] == [
        "segue.toml:5: [defaults] permission",
        "segue.toml:7: [agents]",
        "segue.toml:10: [accounts]",
        "segue.toml:15: [continuity] graft",
        "segue.toml:18: [store]",
    ]


def test_a_trusted_project_sets_everything(env: dict[str, str], home: Home, repo: Path) -> None:
    trust(home, repo)
    config = load(env, repo)
    assert config.commands == {"claude": ("evil",)}
    assert config.accounts["x"].env == {"PATH": "/evil"}
    assert (config.defaults.permission, config.continuity.graft, config.notices) == ("full", "any", ())
    assert config.store.url == "postgresql://elsewhere/theirs"


def test_a_project_tightens_limits_but_does_not_loosen_them(
    env: dict[str, str], home: Home, repo: Path
) -> None:
    home.config_file.write_text("[defaults]\ntimeout = 30\nbudget = 5\nmodel = 'big'\n")
    (repo / "segue.toml").write_text("[defaults]\ntimeout = 60\nbudget = 1\nmodel = 'small'\n")
    config = load(env, repo)
    assert (config.defaults.timeout, config.defaults.budget, config.defaults.model) == (30, 1, "small")
    assert config.mentions == ("segue.toml:2: timeout = 60 is ignored, your limit is 30",)
    trust(home, repo)
    assert load(env, repo).defaults.timeout == 60


COSTLY = """\
[continuity]
context_threshold = 0.99
max_session_mb = 5000
retire_after = 9
ttl_minutes = 0
[recap]
max_bytes = 10_000_000
[defaults]
model = "dear"
timeout = 9
"""


def test_a_project_cannot_raise_what_costs_money(env: dict[str, str], home: Home, repo: Path) -> None:
    (repo / "segue.toml").write_text(COSTLY)
    home.config_file.write_text("[continuity]\nttl_minutes = 30\nmax_session_mb = 60\n")
    config = load(env, repo)
    assert (config.recap.max_bytes, config.continuity.context_threshold) == (24_000, 0.8)
    assert (config.continuity.max_session_mb, config.continuity.retire_after) == (60, 2)
    assert (config.continuity.ttl_minutes, config.defaults.timeout) == (30, 9)
    assert [notice.partition(": ")[2] for notice in config.mentions] == [
        "context_threshold = 0.99 is ignored, your limit is 0.8",
        "max_session_mb = 5000 is ignored, your limit is 60",
        "retire_after = 9 is ignored, your limit is 2",
        "ttl_minutes = 0 is ignored, your limit is 30",
        "max_bytes = 10000000 is ignored, your limit is 24000",
    ]
    trust(home, repo)
    assert (load(env, repo).recap.max_bytes, load(env, repo).notices) == (10_000_000, ())


def test_a_project_can_lower_them(env: dict[str, str], repo: Path) -> None:
    lower = "[continuity]\ncontext_threshold = 0.5\nretire_after = 1\nttl_minutes = 5\n"
    (repo / "segue.toml").write_text(f"{lower}[recap]\nmax_bytes = 2000\n")
    config = load(env, repo)
    assert (config.continuity.context_threshold, config.continuity.retire_after) == (0.5, 1)
    assert (config.continuity.ttl_minutes, config.recap.max_bytes, config.notices) == (5, 2000, ())


def test_who_named_the_model_is_known(env: dict[str, str], home: Home, repo: Path) -> None:
    home.config_file.write_text("[defaults]\nmodel = 'mine'\n")
    assert load(env, repo).model_from == "./segue.toml"
    assert load(env, repo / "src" / "deep").model_from == "../../segue.toml"
    assert load(env | {"SEGUE_DEFAULTS_MODEL": "mine"}, repo).model_from is None
    trust(home, repo)
    assert load(env, repo).model_from is None
    untrust(home, repo)
    (repo / "segue.toml").write_text("[defaults]\ntimeout = 1\n")
    assert load(env, repo).model_from is None


def test_variables_win_over_the_project(env: dict[str, str], repo: Path) -> None:
    assert load(env | {"SEGUE_DEFAULTS_MODEL": "mine"}, repo).defaults.model == "mine"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[defaults]\nmodle = 'x'", 'segue.toml:2: [defaults] has no key "modle"; did you mean "model"?'),
        ("[default]\nmodel = 'x'", 'segue.toml:1: has no section "default"; did you mean "defaults"?'),
        ("[defaults]\nmodel = 1", "segue.toml:2: [defaults] model must be a text, not 1"),
    ],
)
def test_mistakes_in_a_project_are_told(env: dict[str, str], repo: Path, text: str, said: str) -> None:
    (repo / "segue.toml").write_text(text)
    with pytest.raises(ConfigError) as refused:
        load(env, repo)
    assert said in refused.value.message


def test_the_search_ends_at_the_repository(env: dict[str, str], repo: Path) -> None:
    (repo.parent / "segue.toml").write_text("[defaults]\nmodel = 'outer'\n")
    (repo / "segue.toml").unlink()
    assert load(env, repo / "src").project is None


def test_outside_a_repository_the_search_ends_at_home(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "segue.toml").write_text("[defaults]\nmodel = 'own'\n")
    assert load(env, tmp_path / "a" / "b").defaults.model == "own"
    elsewhere = env | {"HOME": str(tmp_path / "a" / "other")}
    assert load(elsewhere, tmp_path / "a" / "b").project is None
    assert load(elsewhere, tmp_path).defaults.model == "own"


def test_trust_goes_by_identity(home: Home, repo: Path) -> None:
    link = repo.parent / "link"
    link.symlink_to(repo)
    assert not is_trusted(home, repo)
    trust(home, link)
    assert is_trusted(home, repo)
    assert is_trusted(home, link)
    assert not is_trusted(home, repo / "src")
    repo.rename(repo.parent / "old")
    repo.mkdir()
    assert not is_trusted(home, repo)


def test_trust_can_be_taken_back(home: Home, repo: Path) -> None:
    trust(home, repo)
    trust(home, repo)
    assert len(read(home)) == 1
    assert home.trust.stat().st_mode & 0o777 == 0o600
    assert untrust(home, repo)
    assert not is_trusted(home, repo)
    assert not untrust(home, repo)


def test_what_is_not_there_cannot_be_trusted(home: Home, tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="cannot be trusted"):
        trust(home, tmp_path / "missing")
    (tmp_path / "file").touch()
    with pytest.raises(Misuse, match="not a directory"):
        trust(home, tmp_path / "file")
    assert not is_trusted(home, tmp_path / "missing")


def test_a_damaged_list_is_told(home: Home, repo: Path) -> None:
    home.trust.write_text("{")
    with pytest.raises(ConfigError, match="damaged"):
        is_trusted(home, repo)


MAY = {
    "continuity": {"ttl_minutes", "context_threshold", "max_session_mb", "retire_after"},
    "recap": {"max_bytes"},
    "defaults": {"model", "instructions", "timeout", "max_turns", "budget"},
}


@pytest.mark.parametrize(
    ("section", "key"),
    [
        (name, key)
        for name, kind in FLAT.items()
        for key in kind.__struct_fields__
        if key not in MAY.get(name, ())
    ],
)
def test_nothing_else_is_taken_from_a_project_that_is_not_trusted(
    env: dict[str, str], repo: Path, section: str, key: str
) -> None:
    """Retries, waiting and questions cost money, too."""
    (repo / "segue.toml").write_text(f"[{section}]\n{key} = 9\n")
    config = load(env, repo)
    assert getattr(config, section) == FLAT[section]()
    assert len(config.notices) == 1
