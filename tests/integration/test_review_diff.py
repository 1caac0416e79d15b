"""A look at a working tree: all that has changed is seen, and nothing of the user's is touched."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from segue import Misuse
from segue.flows.review import diff
from segue.flows.review.diff import Base, Look, first_look, look


class Repository:
    def __init__(self, top: Path) -> None:
        self.top = top
        self.env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(top.parent),
            **{f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }

    def git(self, *args: str) -> str:
        command = ["git", "-C", str(self.top), *args]
        return subprocess.run(command, env=self.env, check=True, capture_output=True, text=True).stdout

    def write(self, name: str, data: str | bytes) -> None:
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)

    @property
    def home(self) -> Path:
        return self.top.parent / "looks"

    def first(self) -> Base:
        return first_look(self.top, self.home, self.env)

    def look(self, base: Base, since: str | None = None, **env: str) -> Look:
        return look(base, since or base.tree, self.top, self.home, {**self.env, **env})

    def changes(self, base: Base) -> str:
        return self.look(base).diff


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "tree")
    made.top.mkdir()
    made.git("init", "--quiet")
    made.write("kept.txt", "one\n")
    made.write("gone.txt", "two\n")
    made.write(".gitignore", "ignored/\n")
    made.git("add", "--all")
    made.git("commit", "--quiet", "-m", "first")
    return made


def test_a_look_sees_changed_new_and_deleted_files(repository: Repository) -> None:
    before = repository.first()
    assert repository.changes(before) == ""
    repository.write("kept.txt", "one\nmore\n")
    repository.write("new/file.py", "print()\n")
    repository.write("ignored/x", "x\n")
    (repository.top / "gone.txt").unlink()
    seen = repository.look(before)
    assert seen.tree != before.tree
    for part in ("+more", "+++ b/new/file.py", "+print()", "--- a/gone.txt", "-two"):
        assert part in seen.diff
    assert "ignored/x" not in seen.diff
    assert repository.look(before, seen.tree).diff == ""


def test_a_commit_is_no_change_of_the_tree(repository: Repository) -> None:
    repository.write("kept.txt", "three\n")
    before = repository.first()
    repository.git("commit", "--quiet", "--all", "-m", "second")
    assert repository.look(before) == Look(before.tree)


def test_the_index_the_stash_and_the_branches_stay_as_they_are(repository: Repository) -> None:
    repository.write("kept.txt", "stashed\n")
    repository.git("stash")
    repository.write("kept.txt", "staged\n")
    repository.git("add", "kept.txt")
    repository.write("kept.txt", "staged\nand not\n")
    repository.write("new.txt", "new\n")

    def state() -> tuple[bytes, ...]:
        index = (repository.top / ".git" / "index").read_bytes()
        told = (repository.git(*args) for args in (("status", "--short"), ("stash", "list"), ("show-ref",)))
        return (index, *(each.encode() for each in told))

    before = state()
    since = repository.git("rev-parse", "HEAD^{tree}").strip()
    assert "+and not" in repository.changes(Base(since))
    assert state() == before


def test_a_directory_below_stands_for_the_whole_tree(repository: Repository) -> None:
    before = repository.first()
    repository.write("below/x.txt", "x\n")
    repository.write("kept.txt", "changed\n")
    told = look(before, before.tree, repository.top / "below", repository.home, repository.env).diff
    assert "+changed" in told
    assert "b/below/x.txt" in told


def test_variables_of_a_hook_do_not_lead_elsewhere(repository: Repository, tmp_path: Path) -> None:
    env = {**repository.env, "GIT_DIR": str(tmp_path / "other"), "GIT_INDEX_FILE": str(tmp_path / "index")}
    assert first_look(repository.top, repository.home, env) == repository.first()
    assert not (tmp_path / "index").exists()


def test_a_tree_without_a_commit_can_be_looked_at(tmp_path: Path) -> None:
    empty = Repository(tmp_path / "empty")
    empty.top.mkdir()
    empty.git("init", "--quiet")
    before = empty.first()
    empty.write("a", "a\n")
    assert "+a" in empty.changes(before)


def test_a_worktree_has_an_index_of_its_own(repository: Repository, tmp_path: Path) -> None:
    repository.git("worktree", "add", "--quiet", str(tmp_path / "second"))
    second = Repository(tmp_path / "second")
    before = second.first()
    assert before.tree == repository.first().tree
    second.write("kept.txt", "changed\n")
    assert second.first().tree != before.tree
    assert repository.first().tree == before.tree


def test_binary_files_are_named_and_not_shown(repository: Repository) -> None:
    before = repository.first()
    repository.write("picture.png", b"\x89PNG\0\0" * 1000)
    assert "Binary files /dev/null and b/picture.png differ" in repository.changes(before)


def test_a_huge_diff_is_cut_and_says_so(repository: Repository) -> None:
    before = repository.first()
    repository.write("a-long.txt", "line\n" * 20_000)
    for n in range(40):
        repository.write(f"b-{n:02}.txt", f"{n}\n" * 2_000)
    told = repository.changes(before)
    assert len(told) < diff.MOST_BYTES + 2_000
    assert "more lines of the diff of this file are left out; read the file" in told
    assert "These files have changed, too; read them:" in told
    assert re.search(r"b-\d\d\.txt and \d+ more\)", told)
    assert told.count("+++ b/") > 5


def test_names_and_texts_in_any_encoding(repository: Repository) -> None:
    before = repository.first()
    repository.write("größe ü.txt", "gr\xfc\xdfe\n".encode("latin-1"))
    told = repository.changes(before)
    assert "größe ü.txt" in told
    assert "+gr\ufffd\ufffde" in told


def test_an_unreadable_tree_is_refused_with_the_reason(tmp_path: Path) -> None:
    plain = Repository(tmp_path / "plain")
    plain.top.mkdir()
    with pytest.raises(Misuse, match=r"is not in a git working tree; .*run git init there first"):
        plain.first()
    plain.git("init", "--quiet")
    with pytest.raises(Misuse, match="git is not installed"):
        first_look(plain.top, plain.home, {"PATH": str(tmp_path)})


def test_two_trees_can_be_compared_later(repository: Repository) -> None:
    before = repository.first()
    repository.write("kept.txt", "second\n")
    after = repository.look(before).tree
    repository.write("kept.txt", "third\n")
    told = diff.difference(before, before.tree, after, repository.top, repository.home, repository.env)
    assert told is not None
    assert "+second" in told
    assert "third" not in told
