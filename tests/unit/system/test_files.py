"""What is written whole is there whole, or as it was before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from segue.system.files import place_new, whole_file, whole_tree, write_new, write_whole


def test_a_file_takes_the_place_of_an_older_one_and_is_private(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "file"
    write_whole(file, b"one")
    write_whole(file, b"two", durable=False)
    assert file.read_bytes() == b"two"
    assert file.stat().st_mode & 0o777 == 0o600
    assert os.listdir(file.parent) == ["file"]


def test_a_file_that_breaks_off_leaves_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_whole(file, b"old")
    with pytest.raises(TypeError), whole_file(file) as new:
        new.writelines([b"half", None])  # type: ignore[list-item]
    assert file.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_is_left_alone_if_something_speaks_against_it_at_the_last_moment(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_whole(file, b"old")
    with whole_file(file, unless=lambda: True) as new:
        new.write(b"new")
    assert file.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_two_writers_at_once_do_not_meet(tmp_path: Path) -> None:
    file = tmp_path / "file"
    with whole_file(file) as first, whole_file(file) as second:
        first.write(b"first")
        second.write(b"second")
    assert file.read_bytes() == b"first"


def test_a_tree_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    with pytest.raises(FileNotFoundError), whole_tree(tree) as part:
        (part / "half").write_bytes(Path(tmp_path, "missing").read_bytes())
    assert os.listdir(tmp_path) == []
    with whole_tree(tree) as part:
        (part / "below").mkdir()
        (part / "below" / "file").write_bytes(b"x")
    assert (tree / "below" / "file").read_bytes() == b"x"
    assert tree.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("durable", [True, False])
def test_what_is_durable_is_synced_before_it_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    seen: list[bool] = []
    file = tmp_path / "file"
    real = os.fsync

    def fsync(fd: int) -> None:
        seen.append(file.exists())
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    write_whole(file, b"x", durable=durable)
    assert seen == ([False, True] if durable else [])


def test_folders_are_made_for_this_user_alone(tmp_path: Path) -> None:
    write_whole(tmp_path / "a" / "b" / "file", b"x")
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "a", tmp_path / "a" / "b")} == {0o700}


@pytest.mark.parametrize("links", [True, False])
def test_the_first_of_several_writers_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    def no_links(part: Path, path: Path) -> None:
        raise PermissionError

    if not links:
        monkeypatch.setattr(os, "link", no_links)
    file = tmp_path / "file"
    write_new(file, b"first")
    write_new(file, b"second")
    assert file.read_bytes() == b"first"
    assert file.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["file"]
    part = tmp_path / "part"
    part.write_bytes(b"third")
    with pytest.raises(FileExistsError):
        place_new(part, file)
    assert file.read_bytes() == b"first"
