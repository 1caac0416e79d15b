"""Which links on a path that the user types are followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from segue.config.home import home_of
from segue.config.named_files import OutsideProject, read_inside, read_typed
from segue.config.trust import file_trust, is_covered, trust, trust_file, untrust
from segue.core.errors import Misuse


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A home with a repository, an unpacked archive and a private file; and a directory elsewhere."""
    for name in ("home/repo/.git", "home/repo/docs", "home/archive/docs", "home/.private", "data"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("home/repo/a.md", "home/repo/docs/b.md", "home/archive/a.md", "home/.private/key", "data/d"):
        (tmp_path / name).write_text(name)
    return tmp_path


def env_of(top: Path) -> dict[str, str]:
    return {"HOME": str(top / "home"), "SEGUE_HOME": str(top / "segue")}


@pytest.mark.parametrize("here", ["home", "home/repo", "home/archive", "data", "."])
@pytest.mark.parametrize(
    ("link", "to", "typed"),
    [
        ("home/repo/docs/link", "../a.md", "home/repo/docs/link"),
        ("home/repo/link", "docs", "home/repo/link/b.md"),
        ("home/archive/link", "a.md", "home/archive/link"),
        ("home/link", "../data/d", "home/link"),
        ("home/link", "../data", "home/link/d"),
        ("link", "home", "link/repo/a.md"),
        ("home/archive/none", "../.private/key", "home/.private/key"),
    ],
)
def test_links_of_the_user_and_inside_a_project_are_followed(
    top: Path, here: str, link: str, to: str, typed: str
) -> None:
    (top / link).symlink_to(to)
    found = read_typed(top / typed, env_of(top), top / here)
    assert (found.path, found.data) == ((top / typed).resolve(), (top / typed).read_bytes())
    assert found.is_link == (top / typed).is_symlink()


@pytest.mark.parametrize("here", ["home", "home/repo", "home/archive", "data", "."])
@pytest.mark.parametrize(
    ("link", "to", "typed"),
    [
        ("home/repo/link", "../.private/key", "home/repo/link"),
        ("home/repo/docs/link", "../../.private", "home/repo/docs/link/key"),
        ("home/archive/link", "../.private/key", "home/archive/link"),
        ("home/archive/docs/link", "../../.private", "home/archive/docs/link/key"),
        ("data/link", "../home/.private", "data/link/key"),
    ],
)
def test_a_link_out_of_a_project_is_followed_only_if_the_directory_is_trusted(
    top: Path, here: str, link: str, to: str, typed: str
) -> None:
    (top / link).symlink_to(to)
    env = env_of(top)
    with pytest.raises(Misuse, match=f"the link {top / link} leads out of ") as raised:
        read_typed(top / typed, env, top / here)
    root = raised.value.message.rpartition("segue trust ")[2]
    trust(home_of(env), Path(root))
    assert read_typed(top / typed, env, top / here).data == b"home/.private/key"


def test_what_the_administrator_has_linked_is_followed(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (top / "data" / "link").symlink_to("../home/.private")
    if os.getuid() == 0:
        monkeypatch.setattr(os, "getuid", lambda: 1000)
    else:
        seen = os.lstat
        of_root = [*seen(top / "data" / "link")]
        of_root[4] = 0
        mine = os.stat_result(of_root)
        monkeypatch.setattr(os, "lstat", lambda path: mine if str(path).endswith("link") else seen(path))
    assert read_typed(top / "data" / "link" / "key", env_of(top), top).data == b"home/.private/key"


def test_what_a_projects_file_names_is_below_its_root(top: Path) -> None:
    repo = top / "home" / "repo"
    (repo / "docs" / "in").symlink_to("../a.md")
    (repo / "docs" / "out").symlink_to("../../.private")
    for name in ("../a.md", "in", str(repo / "a.md")):
        assert read_inside(repo / "docs", name, repo) == b"home/repo/a.md"
    for name in ("../../.private/key", "out/key", str(top / "data" / "d")):
        with pytest.raises(OutsideProject):
            read_inside(repo / "docs", name, repo)
    with pytest.raises(OutsideProject):
        read_inside(repo / "docs", "../a.md", repo / "docs")


def test_a_directory_covers_what_is_in_it_up_to_the_root(top: Path) -> None:
    home, repo = home_of(env_of(top)), top / "home" / "repo"
    assert not is_covered(home, repo / "docs", repo)
    trust(home, top / "home")
    assert not is_covered(home, repo / "docs", repo), "that is above the root"
    trust(home, repo)
    assert is_covered(home, repo / "docs", repo)
    assert not is_covered(home, repo / "docs", repo / "docs")


def test_a_file_is_trusted_in_its_directory_with_its_contents(top: Path) -> None:
    home, repo = home_of(env_of(top)), top / "home" / "repo"
    file = repo / "a.md"
    assert file_trust(home, file, b"x") == "untrusted"
    trust_file(home, file, b"x")
    assert [file_trust(home, file, data) for data in (b"x", b"y")] == ["trusted", "changed"]
    assert file_trust(home, repo / "docs" / "b.md", b"x") == "untrusted"
    assert not is_covered(home, repo, repo), "the directory is not"
    trust_file(home, file, b"y")
    assert [file_trust(home, file, data) for data in (b"x", b"y")] == ["changed", "trusted"]
    assert not untrust(home, repo / "docs")
    assert untrust(home, repo)
    assert file_trust(home, file, b"y") == "untrusted"
