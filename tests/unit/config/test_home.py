from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path

import pytest

from segue.config.home import Home, at_home, expand, home_of, user_home
from segue.core.errors import ConfigError

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the directories of Linux")


@pytest.mark.parametrize(
    ("named", "root"),
    [("/srv/segue", "/srv/segue"), ("~/s", "/home/x/s"), ("~", "/home/x"), ("rel", "/here/rel")],
)
def test_segue_home_holds_everything(named: str, root: str) -> None:
    home = home_of({"SEGUE_HOME": named, "HOME": "/home/x"}, Path("/here"))
    assert home.root == Path(root)
    assert home.config_file == Path(root) / "config.toml"


@LINUX
@pytest.mark.parametrize(
    ("env", "root", "config"),
    [
        ({}, "/home/x/.local/share/segue", "/home/x/.config/segue/config.toml"),
        ({"SEGUE_HOME": ""}, "/home/x/.local/share/segue", "/home/x/.config/segue/config.toml"),
        ({"XDG_DATA_HOME": "/d", "XDG_CONFIG_HOME": "/c"}, "/d/segue", "/c/segue/config.toml"),
        ({"XDG_DATA_HOME": "d"}, "/home/x/.local/share/segue", "/home/x/.config/segue/config.toml"),
    ],
)
def test_else_the_users_directories_do(env: dict[str, str], root: str, config: str) -> None:
    home = home_of({"HOME": "/home/x"} | env)
    assert (home.root, home.config_file) == (Path(root), Path(config))


def test_directories_are_made_on_demand_for_the_user_alone(tmp_path: Path) -> None:
    home = Home(tmp_path / "a" / "segue")
    assert not home.runs.exists()
    made = home.make(home.runs / "r1")
    assert made == home.runs / "r1"
    for directory in (home.root, home.runs, made):
        assert directory.stat().st_mode & 0o777 == 0o700
    assert home.make(made) == made
    assert {home.runs.parent, home.runners.parent, home.probes.parent, home.trust.parent} == {home.root}
    assert {home.store.parent, home.locks.parent} == {home.root}
    assert home.store.name == "segue.db"


def test_a_tilde_is_only_the_users_own(tmp_path: Path) -> None:
    assert expand("~other/x", {"HOME": "/home/x"}) == Path("~other/x")


@pytest.mark.parametrize("env", [{}, {"HOME": ""}, {"HOME": "."}, {"HOME": "~"}])
def test_without_a_home_that_can_be_relied_on_the_systems_counts(env: dict[str, str]) -> None:
    mine = pwd.getpwuid(os.getuid()).pw_dir
    assert user_home(env) == Path(mine)
    assert at_home(env) == {"HOME": mine}
    assert at_home({"HOME": "/home/x", "A": "b"}) == {"HOME": "/home/x", "A": "b"}


def test_where_nobody_knows_a_home_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without an entry, as containers have them."""

    def nobody(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert at_home({"A": "b"}) == {"A": "b"}
    with pytest.raises(ConfigError, match="set HOME"):
        home_of({})
    assert home_of({"SEGUE_HOME": "/srv/segue"}).root == Path("/srv/segue")
