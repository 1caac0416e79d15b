"""Files whose names or contents somebody else may have chosen: links, and what is not a regular file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from segue.core.errors import Misuse
from segue.system.named_files import LARGEST, follow, is_below, read_unlinked


def test_each_link_is_told_with_where_it_leads(tmp_path: Path) -> None:
    real = tmp_path / "real"
    (real / "deep").mkdir(parents=True)
    (real / "deep" / "task.md").write_text("hi")
    (tmp_path / "one").symlink_to("real/deep")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    (real / "deep" / "link.md").symlink_to("../deep/task.md")
    found = follow(tmp_path / "two" / ".." / "deep" / "link.md")
    assert (found.path, found.is_link) == (real / "deep" / "task.md", True)
    assert [(link.folder, link.name, link.target, link.is_file) for link in found.links] == [
        (tmp_path, "one", real / "deep", False),
        (tmp_path, "two", real / "deep", False),
        (real / "deep", "link.md", real / "deep" / "task.md", True),
    ]
    plain = follow(real / "deep" / "task.md")
    assert (plain.links, plain.is_link, read_unlinked(plain.path)) == ((), False, b"hi")
    assert is_below(plain.path, real)
    assert not is_below(tmp_path / "really", real)


def test_a_path_without_an_end_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    for n in range(50):
        (tmp_path / f"many{n}").symlink_to(f"many{n + 1}")
    for name in ("a", "a/x", "many0", "x" * 300, "x/" * 3000, "gone", "gone/../a", "nul\0nul"):
        with pytest.raises(OSError, match=r"(?i)link|long|no such|NUL"):
            follow(tmp_path / name)


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "file").write_text("hi")
    (tmp_path / "folder").mkdir()
    (tmp_path / "linked").symlink_to("folder")
    (tmp_path / "folder" / "inside").write_text("hi")
    for name, why in {
        "pipe": "it is not a regular file",
        "/dev/zero": "it is not a regular file",
        "folder": "it is a directory",
        "/": "it is a directory",
        "link": "there is a link on its path now",
        "linked/inside": "there is a link on its path now",
    }.items():
        with pytest.raises(Misuse, match=why):
            read_unlinked(tmp_path / name)


def test_a_file_is_never_read_beyond_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * LARGEST)
    assert len(read_unlinked(file)) == LARGEST
    os.truncate(file, 1 << 40)
    with pytest.raises(Misuse, match="it has more than 1 MB"):
        read_unlinked(file)


@pytest.mark.parametrize("part", ["folder", "file"])
def test_a_link_that_is_put_there_after_the_look_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """Between the look at the path and its opening, and between the look at the file and its opening."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "file").write_text("secret")
    looked = os.stat
    for moment in ("before", "while"):
        place = tmp_path / moment
        (place / "folder").mkdir(parents=True)
        (place / "folder" / "file").write_text("fine")
        found = follow(place / "folder" / "file")

        def swap(where: Path = place) -> None:
            target = where / "folder" if part == "folder" else where / "folder" / "file"
            target.rename(where / "old")
            target.symlink_to(tmp_path / "secret" / ("" if part == "folder" else "file"))

        if moment == "before":
            swap()
            with pytest.raises(Misuse, match="there is a link on its path now"):
                read_unlinked(found.path)
            continue

        def stat(*args: object, **named: object) -> os.stat_result:
            seen: os.stat_result = looked(*args, **named)  # type: ignore[arg-type]
            monkeypatch.setattr(os, "stat", looked)
            swap()
            return seen

        monkeypatch.setattr(os, "stat", stat)
        if part == "folder":  # it was opened before
            assert read_unlinked(found.path) == b"fine"
            continue
        with pytest.raises(Misuse, match="there is a link on its path now"):
            read_unlinked(found.path)
